"""Designs and schemes: densities against the formulas, draws against the densities."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.stats import qmc

import fbar
from fbar.designs import optimal
from fbar.designs.boxes import Partition
from fbar.designs.schemes import Independent, Sobol, Stratified, strata
from fbar.paper.four_designs import asymptotic_variance
from fbar.problems import filippi, nested_models, ramp, two_sided_exponential

pytestmark = pytest.mark.arithmetic

LAPLACE, RAMP, MODELS = two_sided_exponential(), ramp(), nested_models()


def pdf(design, x, name="theta"):
    return np.exp(design.logpdf(fbar.Points({name: np.atleast_1d(x)})))


@pytest.mark.slow
def test_one_dimensional_designs_are_their_formulas():
    x = np.array([-8.0, -1.0, 0.3, 5.0])
    target = fbar.mean("theta")
    assert np.allclose(pdf(optimal.posterior(LAPLACE), x), np.exp(-np.abs(x)) / 2, rtol=1e-8)
    assert np.allclose(pdf(optimal.max_ess(LAPLACE), x), np.exp(-np.abs(x) / 2) / 4, rtol=1e-7)
    assert np.allclose(pdf(optimal.targeted(LAPLACE, target), x), np.abs(x) * np.exp(-np.abs(x) / 2) / 8, rtol=1e-6)
    half = fbar.probability("theta < 0.5")

    def raw(t):
        return np.sqrt(t * (1 - t)) * np.where(t < 0.5, 0.75, 0.25)

    total = quad(raw, 0, 0.5)[0] + quad(raw, 0.5, 1)[0]
    t = np.array([0.1, 0.49, 0.51, 0.9])
    assert np.allclose(pdf(optimal.stratified(RAMP, half), t), raw(t) / total, rtol=1e-6)


@pytest.mark.slow
def test_several_targets_use_the_closed_form():
    """q ∝ p √p* √Σ c_j ψ_j² with c_j = 1/Var(ψ_j), on the ramp whose posterior is Beta(2, 1)."""
    pair = [fbar.mean("theta"), fbar.probability("theta < 0.5")]

    def raw(t):
        return np.sqrt(t) * np.sqrt(18 * (t - 2 / 3) ** 2 + ((t < 0.5) - 0.25) ** 2 / (3 / 16))

    total = quad(raw, 0, 0.5)[0] + quad(raw, 0.5, 1)[0]
    t = np.array([0.05, 0.3, 0.7, 0.99])
    assert np.allclose(pdf(optimal.targeted(RAMP, pair), t), raw(t) / total, rtol=1e-5)
    wanted = optimal.targeted(RAMP, pair, tolerances=[1.0, 1e-6])
    assert np.allclose(pdf(wanted, t), pdf(optimal.targeted(RAMP, pair[1]), t), rtol=1e-4)


@pytest.mark.slow
def test_model_shares_are_the_derived_ones():
    """∫√p* is √(4π) for each parameter: shares 1 : √(4π)/25, times |ψ| for the targeted design."""
    c, f_bar = np.sqrt(4 * np.pi) / 25, float(MODELS.truth(fbar.model_probability(1))[0])
    assert optimal.max_ess(MODELS).probabilities[0] == pytest.approx(1 / (1 + c), rel=1e-6)
    targeted = optimal.targeted(MODELS, fbar.model_probability(1))
    assert targeted.probabilities[0] == pytest.approx((1 - f_bar) / (1 - f_bar + c * f_bar), rel=1e-6)
    assert optimal.posterior(MODELS).probabilities[0] == pytest.approx(f_bar, rel=1e-9)
    point = fbar.Points({"model": [2], "theta1": [0.5], "theta2": [-1.0]})
    expected = targeted.probabilities[1] * np.prod(stats.norm(0, np.sqrt(2)).pdf([0.5, -1.0]))
    assert np.exp(targeted.logpdf(point))[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "target", "tolerance"),
    [(filippi(), fbar.mean("theta1"), 1.0), (MODELS, fbar.mean("theta2"), 0.0)],
    ids=["filippi", "models"],
)
def test_designs_in_several_dimensions_know_their_density_exactly(problem, target, tolerance):
    """Weights p/q of draws have mean one, at |z| < 5, and the weighted draws find the truth."""
    design = optimal.targeted(problem, target, tolerance=tolerance)
    points = design.sample(200_000, rng=np.random.default_rng(1))
    w = np.exp(optimal.log_weights(problem.prior, design, points))
    assert abs(w.mean() - 1) < 5 * w.std() / np.sqrt(len(w))
    assert abs(np.mean(w * (points[problem.prior.names[1]] > 2)) - _prior_mass(problem)) < 5 * w.std() / np.sqrt(len(w))


def _prior_mass(problem):
    name = problem.prior.names[1]
    points = problem.prior.from_unit(qmc.Sobol(problem.prior.dimension, rng=np.random.default_rng(0)).random(2**16))
    return np.mean(points[name] > 2)


@pytest.mark.slow
def test_a_partition_is_normalised_and_close_to_what_is_wanted():
    prior = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1))

    def banana(t):
        return np.exp(-((t["b"] - t["a"] ** 2) ** 2) / 0.02)

    design = Partition(prior, banana)
    u = qmc.Sobol(2, rng=np.random.default_rng(1)).random(2**17)
    relative = np.exp(design.tree.log_relative(u))
    assert relative.mean() == pytest.approx(1.0, abs=0.01)
    assert relative.min() > 0.04, "a share of the prior is left everywhere"
    points = design.sample(50_000, rng=np.random.default_rng(2))
    ratio = banana(points) * np.exp(-design.log_relative(points))
    ess = ratio.sum() ** 2 / (ratio**2).sum() / 50_000
    plain = banana(prior.from_unit(u))
    assert ess > 0.45
    assert ess > 5 * plain.sum() ** 2 / (plain**2).sum() / len(plain)


@pytest.mark.slow
def test_a_design_on_a_transform_without_a_density():
    prior = fbar.UnitTransform(lambda u: {"x": u[:, 0] ** 2, "y": u[:, 0] * u[:, 1]}, ["x", "y"])
    problem = fbar.Problem.bernoulli(prior, lambda t: np.exp(-20 * (t["x"] - 0.5) ** 2) * t["y"])
    u = qmc.Sobol(2, rng=np.random.default_rng(3)).random(2**17)
    points = prior.from_unit(u)
    p = problem.acceptance_probability(points)
    truth = (p * points["x"]).sum() / p.sum()
    result = fbar.infer(problem, fbar.mean("x"), method=fbar.Importance("targeted"), budget=40_000, seed=4)
    estimate = result["mean:x"]
    assert abs(estimate.value - truth) < 5 * estimate.standard_error
    assert (
        estimate.standard_error
        < 0.95 * fbar.infer(problem, fbar.mean("x"), budget=40_000, seed=4)["mean:x"].standard_error
    )


def test_defensive_mixtures_bound_the_weights():
    q = fbar.designs.defensive(optimal.posterior(LAPLACE), LAPLACE.prior, 0.1)
    points = q.sample(20_000, rng=np.random.default_rng(5))
    w = np.exp(optimal.log_weights(LAPLACE.prior, q, points))
    assert w.max() <= 10 * (1 + 1e-9)
    assert abs(w.mean() - 1) < 5 * w.std() / np.sqrt(len(w))
    direct = LAPLACE.prior.logpdf(points) - q.logpdf(points)
    assert np.allclose(np.log(w), direct)


@pytest.mark.parametrize("number", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_strata_fill_the_cube_with_equal_boxes(number, dimension):
    low, width = strata(number, dimension)
    assert np.allclose(width.prod(axis=1), 1 / number)
    u = np.random.default_rng(6).random((300, dimension))
    inside = ((u[:, None] >= low) & (u[:, None] < low + width)).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()


@pytest.mark.parametrize(("per_stratum", "n"), [(1, 100), (2, 100), (3, 100), (1, 7), (2, 7)])
def test_every_stratum_gets_its_draws(per_stratum, n):
    scheme = Stratified(per_stratum)
    sizes = scheme.sizes(n, 16)
    rng = np.random.default_rng(7)
    unit = np.concatenate([scheme.unit(b, sizes, 1, rng) for b in range(len(sizes))])
    number = max(1, n // per_stratum)
    counts = np.histogram(unit[:, 0], bins=number, range=(0, 1))[0]
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1
    groups = [scheme.groups(b, sizes) for b in range(len(sizes))]
    stratum = np.concatenate([g.stratum for g in groups])
    assert np.array_equal(np.bincount(stratum), scheme.stratum_sizes(n))
    assert scheme.stratum_sizes(n).min() >= 2
    if n % number:
        factor = np.concatenate([g.factor for g in groups])
        assert factor.sum() == pytest.approx(n)


def test_sobol_scrambles_differ_and_fill_evenly():
    scheme = Sobol(8)
    sizes = scheme.sizes(1024, 4096)
    parts = [scheme.unit(b, sizes, 2, np.random.default_rng(b)) for b in range(8)]
    assert all(np.histogram(part[:, 0], bins=64, range=(0, 1))[0].tolist() == [2] * 64 for part in parts)
    assert len({part[0, 0] for part in parts}) == 8


def test_schemes_that_could_have_no_error_bar_are_refused():
    one = fbar.Importance("prior", Stratified(1))
    with pytest.raises(fbar.InputError, match="a single stratum with one draw has no error bar"):
        one.start(RAMP, fbar.mean("theta"), 1, 1)
    with pytest.raises(fbar.InputError, match="at least 2 replicates"):
        Sobol(1)
    with pytest.raises(fbar.InputError, match="16 scrambles need a budget of at least 16"):
        fbar.Importance("prior", "sobol").start(RAMP, fbar.mean("theta"), 1, 10)
    with pytest.raises(fbar.InputError, match="unknown scheme 'latin'"):
        fbar.Importance("prior", "latin").start(RAMP, fbar.mean("theta"), 1, 10)
    assert isinstance(Independent(), fbar.Independent)


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (fbar.Prior(theta=stats.uniform(0, 0.5)), "of the prior's mass is, so the answer would miss it"),
        (fbar.Prior(other=stats.uniform(0, 1)), "they must be the same"),
        ("posterior", "acceptance probability that the problem does not know"),
        ("postrior", "did you mean 'posterior'?"),
        ([0.5, 0.5], "q must be a distribution of theta"),
    ],
)
def test_designs_that_cannot_serve_are_refused_before_any_simulation(q, message):
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: pytest.fail("a simulation ran"), observed=1.0
    )
    with pytest.raises(fbar.InputError) as caught:
        fbar.infer(problem, fbar.mean("theta"), method=fbar.Importance(q), budget=100)
    assert message in str(caught.value)


def test_the_asymptotic_variance_of_figure_3_is_its_closed_form():
    """prior: E_post[θ²]/(N Z) with Z = 1/50; posterior: E_prior[θ²]/(N Z) (section S5.1)."""
    target = fbar.mean("theta")
    z = (2 - np.exp(-40) - np.exp(-60)) / 100
    assert asymptotic_variance(LAPLACE, target, LAPLACE.prior) == pytest.approx(2 / z, rel=1e-6)
    second = (60**3 + 40**3) / 300
    assert asymptotic_variance(LAPLACE, target, optimal.posterior(LAPLACE)) == pytest.approx(second / z, rel=1e-3)
    # The optimum is (∫ p √p* |θ|)²/Z².
    assert asymptotic_variance(LAPLACE, target, optimal.targeted(LAPLACE, target)) == pytest.approx(
        (0.08 / z) ** 2, rel=1e-4
    )
