"""Problems of the catalogue with precise truths for any data, and the tools that compute them.

Random comparisons hold |z| < 5; a test of m of them raises a false alarm with a probability below m · 6·10⁻⁷.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.integrate import solve_ivp
from scipy.special import ndtr, ndtri

import fbar
from fbar.problems import catalogue
from fbar.problems.models import counts, g_and_k, lotka_volterra, ma2, mg1, sir
from fbar.problems.models.filippi import RingPosterior
from fbar.problems.truths.importance import ImportancePosterior, on_unit_cube, t4_quantile
from fbar.problems.truths.ode import solve
from fbar.question.points import Points

CONTINUOUS = ["sir", "lotka-volterra", "g-and-k", "ma2", "mg1", "filippi"]
NAMES = [*CONTINUOUS, "poisson-or-geometric"]
QUICK = {"lotka-volterra": lotka_volterra.reference, "g-and-k": g_and_k.reference}


def columns(points):
    return np.column_stack([points[name] for name in points])


@lru_cache(maxsize=16)
def reference(name):
    """The reference of an observation, with a larger error where the wanted one takes seconds."""
    if name == "filippi":
        return RingPosterior(3.0)
    data = catalogue.load(name, 10).data
    return QUICK[name](data, error=5e-3) if name in QUICK else catalogue.recipe(name).reference(data)


# ------------------------------------------------------------ likelihoods in another way


def sir_likelihood(x, theta):
    share = np.exp(sir.log_infected(*theta.T))
    return stats.binom.logpmf(x, 1000, share).sum(axis=1)


def lotka_volterra_likelihood(x, theta):
    return stats.lognorm.logpdf(x, 0.1, scale=np.exp(lotka_volterra.log_states(theta))).sum(axis=1)


def g_and_k_likelihood(x, theta):
    """z by bisection of the quantile function itself, and the derivative of its product form."""
    low, high = np.full((len(theta), x.size), -9.0), np.full((len(theta), x.size), 9.0)
    for _ in range(56):
        middle = (low + high) / 2
        below = g_and_k.quantile(middle, theta) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    z = (low + high) / 2
    _, b, g, k = (theta[:, j, None] for j in range(4))
    t = np.tanh(g * z / 2)
    inner = (1 + 0.8 * t) * (1 + (2 * k + 1) * z**2) / (1 + z**2) + 0.4 * g * z * (1 - t**2)
    return (stats.norm.logpdf(z) - np.log(b * (1 + z**2) ** k * inner)).sum(axis=1)


def ma2_likelihood(x, theta):
    """From the covariance matrices themselves."""
    result = []
    for a, b in theta:
        rows = np.zeros((100, 102))
        for lag, weight in ((2, 1.0), (1, a), (0, b)):
            rows[np.arange(100), np.arange(100) + lag] = weight
        covariance = rows @ rows.T
        sign, log_det = np.linalg.slogdet(covariance)
        assert sign > 0
        result.append(-(x @ np.linalg.solve(covariance, x) + log_det + 100 * math.log(2 * math.pi)) / 2)
    return np.array(result)


LIKELIHOODS = {
    "sir": sir_likelihood,
    "lotka-volterra": lotka_volterra_likelihood,
    "g-and-k": g_and_k_likelihood,
    "ma2": ma2_likelihood,
    "mg1": mg1.log_likelihood,  # held against simulations below
    "filippi": lambda y, theta: stats.norm.logpdf(y, (theta[:, 0] - 2 * theta[:, 1]) ** 2 + (theta[:, 1] - 4) ** 2),
}
SIZES = {"sir": 10_000, "lotka-volterra": 6_000, "g-and-k": 3_000, "ma2": 800, "mg1": 20_000, "filippi": 50_000}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS)
def test_truth_and_density_agree_with_plain_importance_sampling(name):
    """From a Student t of all parameters, with the prior's own density and a likelihood computed in another way."""
    rng = np.random.default_rng(7)
    ref, recipe = reference(name), catalogue.recipe(name)
    data = 3.0 if name == "filippi" else catalogue.load(name, 10).data
    draws = columns(ref.sample(2000, rng))
    proposal = stats.multivariate_t(draws.mean(axis=0), 1.3 * np.cov(draws.T), df=5, seed=rng)
    theta = proposal.rvs(SIZES[name])
    points = Points(dict(zip(recipe.prior.names, theta.T, strict=True)))
    log_prior = recipe.prior.logpdf(points)
    log_w = np.full(len(theta), -np.inf)
    inside = np.isfinite(log_prior)
    log_w[inside] = log_prior[inside] + LIKELIHOODS[name](data, theta[inside])
    log_w -= proposal.logpdf(theta)

    w = np.exp(log_w - ref.log_evidence)  # the evidence, and with it the density's integral
    assert abs(w.mean() - 1) < 5 * w.std() / math.sqrt(w.size)
    assert w.sum() ** 2 / (w**2).sum() > 300
    density = np.exp(ref.log_density(points) - proposal.logpdf(theta))
    np.testing.assert_allclose(density, w, rtol=1e-5, atol=1e-12)
    for item in ref.truth().values():
        kind, parameter = item.name.split(":")
        f = points[parameter] ** (2 if kind == "second_moment" else 1)
        value = (w * f).sum() / w.sum()
        error = math.hypot(math.sqrt((w**2 * (f - value) ** 2).sum()) / w.sum(), item.standard_error)
        assert abs(value - item.value) < 5 * error, item
        square = (f - value) ** 2
        variance = (w * square).sum() / w.sum()
        error = math.sqrt((w**2 * (square - variance) ** 2).sum()) / w.sum()
        assert abs(item.deviation**2 - variance) < 5 * error, item


# ------------------------------------------------------------ the contract


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_truth_is_precise_and_complete(name):
    for observation in range(1, 11):
        problem = catalogue.load(name, observation)
        truth = problem.truth()
        wanted = {f"{kind}:{p}" for p in problem.prior.names if p != "model" for kind in ("mean", "second_moment")}
        if name == "poisson-or-geometric":
            wanted |= {"model_probability:poisson", "model_probability:geometric"}
        assert set(truth) == wanted
        for item in truth.values():
            assert item.standard_error <= 3e-4 * item.deviation, item
        assert truth.how
        theta, data = problem.recipe.draw(observation)
        np.testing.assert_allclose(problem.data, data, rtol=1e-6)
        assert problem.true_parameters is not None
        for parameter, value in problem.true_parameters.items():
            assert theta[parameter][0] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9))
        assert 0 <= problem.tolerances[1e-3] <= problem.tolerances[1e-2]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_draws_agree_with_the_truth(name):
    ref = counts.CountsPosterior(np.arange(20.0) % 4) if name == "poisson-or-geometric" else reference(name)
    draws = ref.sample(4000, np.random.default_rng(3))
    for item in ref.truth().values():
        kind, parameter = item.name.split(":")
        if kind == "model_probability":
            f, rows = (draws["model"] == parameter).astype(float), 4000
        else:
            there = draws.present(parameter)
            f, rows = draws[parameter][there] ** (2 if kind == "second_moment" else 1), 4000
        assert abs(f.mean() - item.value) < 5 * math.hypot(item.deviation / math.sqrt(rows), item.standard_error), item
    for parameter in draws:
        if parameter != "model":
            values = draws[parameter][draws.present(parameter)]
            assert np.unique(values).size > 0.95 * values.size  # continuous


@pytest.mark.parametrize("name", NAMES)
def test_data_of_a_wrong_length_are_refused(name):
    with pytest.raises(fbar.InputError, match=f"the data of {name} are") as caught:
        catalogue.load(name).with_observed([1.0, 2.0, 3.0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("sir", -1.0, "whole numbers from 0 to 1000; got -1"),
        ("sir", 0.5, "whole numbers from 0 to 1000; got 0.5"),
        ("sir", 1001.0, "whole numbers from 0 to 1000; got 1001"),
        ("lotka-volterra", 0.0, "greater than 0; got 0"),
        ("mg1", -2.0, "greater than 0; got -2"),
        ("poisson-or-geometric", 1.5, "whole numbers from 0 to 1e15; got 1.5"),
        ("ma2", math.nan, "finite"),
    ],
)
def test_data_that_the_simulator_cannot_give_are_refused(name, bad, message):
    data = np.ones(catalogue.recipe(name).shape)
    data[3] = bad
    with pytest.raises(fbar.InputError, match=message):
        catalogue.load(name).with_observed(data)


def test_g_and_k_is_defined_at_the_edges_of_its_prior():
    theta = np.array(
        [[a, b, g, k] for a in (1e-9, 10) for b in (1e-200, 1e-9, 10) for g in (1e-9, 10) for k in (0, 10)]
    )
    value = g_and_k.log_likelihood(np.linspace(-1e6, 1e6, 100), theta)
    assert not np.isnan(value).any()
    assert (value < -1000).all()


def test_repeated_values_are_no_data_of_g_and_k():
    with pytest.raises(fbar.InputError, match="got 1 distinct values"):
        catalogue.load("g-and-k").with_observed(np.ones(100))


@pytest.mark.parametrize("name", NAMES)
def test_the_prior_s_tails_are_simulated_without_a_warning(name):
    recipe = catalogue.recipe(name)
    ends = np.array([1e-14, 0.5, 1 - 1e-14])
    unit = np.array(np.meshgrid(*[ends] * recipe.prior.dimension)).reshape(recipe.prior.dimension, -1).T
    theta = recipe.prior.from_unit(unit)
    x = np.asarray(recipe.simulate(theta, np.random.default_rng(1)))
    assert x.shape == (theta.rows, *recipe.shape)
    assert np.isfinite(x).all()
    if recipe.summary is not None:
        assert np.isfinite(recipe.summary(x)).all()


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


# ------------------------------------------------------------ importance sampling of a density


@pytest.mark.slow
def test_several_modes_are_found_with_their_masses():
    """Two narrow normals far from one another and from the middle, with masses 1 : 3, in three dimensions."""
    centres, scales, masses = np.array([[2.0, -1.5, 0.5], [-1.5, 2.0, 1.0]]), (0.02, 0.1), (0.25, 0.75)

    def log_density(z):
        parts = [
            math.log(m) + stats.norm.logpdf(z, c, s).sum(axis=1)
            for m, c, s in zip(masses, centres, scales, strict=True)
        ]
        return np.logaddexp(*parts) - 3.0

    ref = ImportancePosterior(log_density, lambda z: z, lambda p: (columns(p), np.zeros(p.rows)), ("a", "b", "c"))
    assert ref.met
    assert abs(ref.log_evidence + 3.0) < 5 * ref.log_evidence_error < 1e-2
    left = ref.expect(fbar.probability("a < 0"))  # any other target
    assert abs(left[0][0] - 0.75) < 5 * left[1][0] < 1e-2
    for column, name in enumerate("abc"):
        first, second = ref.truth()[f"mean:{name}"], ref.truth()[f"second_moment:{name}"]
        mean = float(np.dot(masses, centres[:, column]))
        square = float(np.dot(masses, centres[:, column] ** 2 + np.array(scales) ** 2))
        assert abs(first.value - mean) < 5 * first.standard_error < 5 * 3e-4 * first.deviation
        assert abs(second.value - square) < 5 * second.standard_error
        assert first.deviation == pytest.approx(math.sqrt(square - mean**2), rel=1e-2)


@pytest.mark.slow
def test_a_curved_density_and_its_error():
    """A banana, b ~ N(a², 0.5²) with a ~ N(0, 1): E[b] = 1, E[b²] = 3.25; the error bars hold over seeds."""

    def log_density(z):
        return -(z[:, 0] ** 2) / 2 - 2 * (z[:, 1] - z[:, 0] ** 2) ** 2 - math.log(math.pi)

    z = []
    for seed in range(3):
        ref = ImportancePosterior(log_density, lambda z: z, None, ("a", "b"), error=3e-3, seed=seed)
        truth = ref.truth()
        z += [(truth[n].value - v) / truth[n].standard_error for n, v in (("mean:b", 1.0), ("second_moment:b", 3.25))]
        assert abs(ref.log_evidence) < 5 * ref.log_evidence_error
    assert np.abs(z).max() < 5


def test_a_density_on_the_unit_cube():
    def log_density(u):
        return stats.beta.logpdf(u, [3, 1.0], [2, 8.0]).sum(axis=1)

    ref = ImportancePosterior(on_unit_cube(log_density), ndtr, lambda p: (ndtri(columns(p)), None), ("a", "b"))
    for name, law in (("a", stats.beta(3, 2)), ("b", stats.beta(1, 8))):
        item = ref.truth()[f"mean:{name}"]
        assert abs(item.value - law.mean()) < 5 * item.standard_error < 5 * 3e-4 * item.deviation
        assert item.deviation == pytest.approx(law.std(), rel=1e-3)


def test_points_without_weight_do_not_spoil_the_moments():
    """θ = exp(20 z) overflows far out, where the density is cut off."""

    def log_density(z):
        return np.where(np.abs(z).max(axis=1) < 3, -(z**2).sum(axis=1) / 2, -np.inf)

    with np.errstate(over="ignore"):
        ref = ImportancePosterior(log_density, lambda z: np.exp(20 * z), None, ("a", "b"), dimension=2, error=0.1)
        truth = ref.truth()
    assert np.isfinite([truth["mean:a"].value, truth["mean:a"].deviation]).all()


def test_the_closed_quantile_function_of_t4():
    u = np.array([1e-12, 1e-4, 0.2, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(t4_quantile(u), stats.t(4).ppf(u), rtol=1e-6, atol=1e-7)


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
