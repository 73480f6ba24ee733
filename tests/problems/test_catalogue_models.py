"""Models of the catalogue one by one: differential equations, the queue, model choice, the ring, the moving average.

Random comparisons hold |z| < 5; a test of m of them raises a false alarm with a probability below m · 6·10⁻⁷.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.integrate import solve_ivp

import fbar
from catalogue_references import columns
from fbar.problems import catalogue
from fbar.problems.models import counts, lotka_volterra, ma2, mg1, sir
from fbar.problems.models.filippi import RingPosterior
from fbar.problems.truths.ode import solve
from fbar.question.points import Points

pytestmark = pytest.mark.arithmetic

# ------------------------------------------------------------ differential equations


def test_batches_of_differential_equations_agree_with_scipy():
    rng = np.random.default_rng(2)
    theta = np.exp(lotka_volterra.LOG_MEDIAN + 0.5 * np.clip(1.5 * rng.standard_normal((12, 4)), -3, 3))
    ours = lotka_volterra.log_states(theta)
    times = lotka_volterra.TIMES
    for row, (alpha, beta, gamma, delta) in enumerate(theta):
        scipy = solve_ivp(
            lambda _, s, a=alpha, b=beta, c=gamma, d=delta: [a * s[0] - b * s[0] * s[1], d * s[0] * s[1] - c * s[1]],
            (0, times[-1]), [30.0, 1.0], t_eval=times, rtol=1e-12, atol=1e-25, method="DOP853",
        )  # fmt: skip
        np.testing.assert_allclose(np.exp(ours[row]), scipy.y.ravel(), rtol=1e-6)
    theta = np.exp(sir.LOG_MEDIAN + 1.5 * sir.LOG_SD * rng.standard_normal((12, 2)))
    ours = sir.log_infected(*theta.T)
    for row, (beta, gamma) in enumerate(theta):
        scipy = solve_ivp(
            lambda _, s, b=beta, c=gamma: [-b * s[0] * s[1] / 1e6, b * s[0] * s[1] / 1e6 - c * s[1]],
            (0, 153), [1e6 - 1, 1.0], t_eval=sir.TIMES, rtol=1e-12, atol=1e-20, method="DOP853",
        )  # fmt: skip
        np.testing.assert_allclose(np.exp(ours[row]), scipy.y[1] / 1e6, rtol=1e-6)


def test_a_row_does_not_depend_on_its_batch():
    parameters = np.array([[1.0, 3.0, 0.2, 9.0], [2.0, 1.0, 0.1, 4.0]])

    def rate(state, theta):
        return np.stack([theta[0] * np.cos(state[1]), -theta[1] * state[1]])

    times = np.array([0.0, 1.0, 2.5])
    whole = solve(rate, np.array([0.0, 1.0]), parameters, times)
    for row in range(4):
        alone = solve(rate, np.array([0.0, 1.0]), parameters[:, [row]], times)
        np.testing.assert_allclose(whole[row], alone[0], rtol=1e-13)
    np.testing.assert_allclose(whole[:, :, 1], np.exp(-parameters[1][:, None] * times), rtol=1e-8, atol=1e-10)


def test_the_simulators_of_the_benchmark_have_their_noise():
    rng = np.random.default_rng(4)
    one = Points({"beta": np.full(4000, 0.5), "gamma": np.full(4000, 0.15)})
    x = sir.simulate(one, rng)
    share = np.exp(sir.log_infected(np.array([0.5]), np.array([0.15])))[0]
    z = (x.mean(axis=0) - 1000 * share) / np.sqrt(1000 * share * (1 - share) / 4000)
    assert np.abs(z[1:]).max() < 5
    one = Points(
        {name: np.full(2000, value) for name, value in zip(lotka_volterra.NAMES, (0.7, 0.1, 0.9, 0.1), strict=True)}
    )
    z = (np.log(lotka_volterra.simulate(one, rng)) - lotka_volterra.log_states(columns(one)[:1])) / 0.1
    assert np.abs(z.mean(axis=0)).max() * math.sqrt(2000) < 5
    assert np.abs(z.var(axis=0) - 1).max() * math.sqrt(1000) < 5
    np.testing.assert_allclose(lotka_volterra.log_states(columns(one)[:1])[0, [0, 10]], np.log([30, 1]))


@pytest.mark.slow
@pytest.mark.parametrize("x", [[0] * 10, [1000] * 10])
def test_sir_has_a_truth_for_any_counts(x):
    ref = sir.reference(np.array(x, dtype=float))
    for item in ref.truth().values():
        assert item.standard_error < 3e-4 * item.deviation, item
        assert 0 < item.value < 1e9


# ------------------------------------------------------------ the queue


def test_the_queue_s_likelihood_is_a_boundary_crossing_probability():
    """Against arrivals that are drawn: the share of them that the data allow."""
    rng = np.random.default_rng(5)
    v = np.cumsum(rng.standard_exponential((400_000, 4)), axis=1)
    for _ in range(12):
        theta1 = rng.uniform(0, 2)
        theta2, theta3 = theta1 + rng.uniform(0.5, 4), rng.uniform(0.1, 0.33)
        y = theta1 + rng.exponential(3, 4) + 0.05
        x = np.cumsum(y)
        service = x - np.maximum(v / theta3, np.concatenate([[0.0], x[:-1]]))
        share = ((service >= theta1) & (service <= theta2)).all(axis=1).mean()
        exact = math.exp(mg1.log_likelihood(y, np.array([[theta1, theta2, theta3]]))[0]) * (theta2 - theta1) ** 4
        assert abs(share - exact) < 5 * math.sqrt(max(exact, 1e-5) / len(v)), (y, theta1, theta2, theta3)


def test_the_queue_s_likelihood_belongs_to_its_simulator():
    """E[L(y|θ′)/L(y|θ)] = 1 and E[Σy L(y|θ′)/L(y|θ)] = E′[Σy], for y simulated at θ with the wider services."""
    rng = np.random.default_rng(6)
    wide, narrow = np.array([[1.0, 4.0, 0.2]]), np.array([[1.2, 3.8, 0.22]])
    rows = 1000

    def simulated(theta):
        return mg1.simulate(Points({n: np.full(rows, v) for n, v in zip(mg1.NAMES, theta[0], strict=True)}), rng, 5)

    y = simulated(wide)
    ratio = np.exp([float(mg1.log_likelihood(row, narrow)[0] - mg1.log_likelihood(row, wide)[0]) for row in y])
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(rows)
    total, other = y.sum(axis=1) * ratio, simulated(narrow).sum(axis=1)
    assert abs(total.mean() - other.mean()) < 5 * math.hypot(total.std(), other.std()) / math.sqrt(rows)


def test_the_queue_s_likelihood_is_zero_below_the_shortest_service():
    assert mg1.log_likelihood(np.array([1.0, 2.0]), np.array([[1.5, 3.0, 0.2]]))[0] == -np.inf


def test_the_queue_has_a_truth_for_slow_departures():
    ref = mg1.reference(np.full(20, 1e7) + np.arange(20))
    rate = ref.truth()["mean:theta3"]
    assert rate.value == pytest.approx(21 / 2e8, rel=1e-3)  # Gamma(n + 1) of the arrivals, all of them idle
    assert rate.standard_error < 3e-4 * rate.deviation


# ------------------------------------------------------------ model choice


def test_the_evidences_of_the_counts_are_their_integrals():
    x = np.array([0, 1, 1, 3, 0, 2, 2, 5, 1, 0, 1, 1, 0, 4, 1, 2, 0, 1, 3, 1.0])
    ref = counts.CountsPosterior(x)
    poisson = integrate.quad(lambda r: math.exp(stats.poisson.logpmf(x, r).sum() - r), 0, 20, epsabs=0, limit=200)[0]
    geometric = integrate.quad(lambda p: math.exp(stats.geom.logpmf(x + 1, p).sum()), 1e-9, 1 - 1e-9, epsabs=0)[0]
    assert ref.log_evidences["poisson"] == pytest.approx(math.log(poisson), abs=1e-7)
    assert ref.log_evidences["geometric"] == pytest.approx(math.log(geometric), abs=1e-7)
    truth = ref.truth()
    assert truth["model_probability:poisson"].value == pytest.approx(poisson / (poisson + geometric), rel=1e-7)


def test_the_counts_truth_agrees_with_draws_of_the_prior():
    """The draws whose counts are the data exactly, by weights: every simulation has a likelihood of its own."""
    recipe, rng = catalogue.recipe("poisson-or-geometric"), np.random.default_rng(8)
    x = np.array([0, 1, 1, 0, 0, 2, 0, 1, 1, 0, 1, 1, 0, 0, 1, 2, 0, 1, 0, 1.0])
    theta = recipe.prior.sample(200_000, rng=rng)
    poisson = theta["model"] == "poisson"
    rate, p = np.where(poisson, theta["rate"], 1.0), np.where(poisson, 0.5, theta["p"])
    log_factorials = np.log([math.factorial(int(v)) for v in x]).sum()
    log_w = np.where(
        poisson,
        x.sum() * np.log(rate) - 20 * rate - log_factorials,
        20 * np.log(p) + x.sum() * np.log1p(-p),
    )
    w = np.exp(log_w - log_w.max())
    truth = counts.CountsPosterior(x).truth()
    for name, f, given in (
        ("model_probability:poisson", poisson.astype(float), np.ones(len(w), bool)),
        ("mean:rate", rate, poisson),
        ("second_moment:p", p**2, ~poisson),
    ):
        v, g = w[given], f[given]
        value = (v * g).sum() / v.sum()
        error = math.sqrt((v**2 * (g - value) ** 2).sum()) / v.sum()
        assert abs(value - truth[name].value) < 5 * error, name


def test_the_deviation_of_a_conditional_mean_is_that_of_its_influence():
    ref = counts.CountsPosterior(np.arange(20.0) % 4)
    draws = ref.sample(200_000, np.random.default_rng(1))
    even = np.full(draws.rows, 1 / draws.rows)
    for target in (fbar.mean("rate"), fbar.second_moment("p"), fbar.model_probability("poisson")):
        spread = math.sqrt((even * target.influence(draws, even)[:, 0] ** 2).sum())
        assert ref.truth()[target.name].deviation == pytest.approx(spread, rel=0.05), target.name


def test_the_simulators_of_the_counts_have_their_means():
    rng = np.random.default_rng(9)
    theta = counts.MODELS["geometric"].simulate(Points({"p": np.full(20_000, 0.3)}), rng)
    assert abs(theta.mean() - 0.7 / 0.3) < 5 * math.sqrt(0.7) / 0.3 / math.sqrt(theta.size)
    assert theta.min() == 0


# ------------------------------------------------------------ the ring


@pytest.mark.parametrize(("y", "tolerance"), [(0.0, 1.0), (9.0, 0.0), (400.0, 30.0), (5000.0, 100.0), (-20.0, 2.0)])
def test_the_ring_s_truth_agrees_with_a_grid(y, tolerance):
    """Moments under the kernel, from a fine lattice of the prior's square around the ring."""
    low, high = (-50.0, 50.0) if y >= 50 else (-17.0, 25.0)
    edge = low + (high - low) * (np.arange(1000) + 0.5) / 1000
    t1, t2 = (a.ravel() for a in np.meshgrid(edge, edge if y >= 50 else edge / 2))
    points = Points({"theta1": t1, "theta2": t2})
    ref = RingPosterior(y, tolerance)
    w = np.exp(ref.log_density(points))
    for item in ref.truth().values():
        kind, parameter = item.name.split(":")
        f = points[parameter] ** (2 if kind == "second_moment" else 1)
        value = (w * f).sum() / w.sum()
        assert value == pytest.approx(item.value, abs=0.02 * item.deviation), item
        assert item.standard_error < 1e-9 * item.deviation


def test_the_paper_s_function_and_the_recipe_tell_the_same():
    for tolerance in (0.3, 1.0, 5.0):
        paper = fbar.problems.filippi(tolerance).truth()
        ours = catalogue.load("filippi").with_observed(0.0).truth_at(tolerance)
        for name in ("theta1", "theta2"):
            mean, second = ours[f"mean:{name}"].value, ours[f"second_moment:{name}"].value
            assert mean == pytest.approx(paper[f"mean:{name}"].value, rel=1e-9)
            assert second - mean**2 == pytest.approx(paper[f"variance:{name}"].value, rel=1e-8)


def test_tolerances_have_truths_where_they_can_be_computed():
    problem = catalogue.load("filippi", 2)
    for tolerance in problem.tolerances.values():
        assert problem.truth_at(tolerance) is not None
    assert catalogue.load("sir").truth_at(1.0) is None


# ------------------------------------------------------------ the moving average


def test_the_prior_of_the_moving_average_is_uniform_on_its_triangle():
    prior = catalogue.recipe("ma2").prior
    theta = columns(prior.sample(20_000, rng=np.random.default_rng(1)))
    assert (theta[:, 0] + theta[:, 1] > -1).all()
    assert (theta[:, 0] - theta[:, 1] < 1).all()
    assert (np.abs(theta[:, 1]) < 1).all()
    # The triangle's centre of gravity is (0, 1/3), its variances are 2/3 and 2/9.
    z = (theta.mean(axis=0) - [0, 1 / 3]) / np.sqrt(np.array([2 / 3, 2 / 9]) / 20_000)
    assert np.abs(z).max() < 5
    points = Points({"theta1": theta[:5, 0], "theta2": theta[:5, 1]})
    np.testing.assert_allclose(np.exp(prior.logpdf(points)), 0.25)
    assert ma2.AREA == 4.0
