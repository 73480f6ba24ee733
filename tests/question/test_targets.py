"""Targets: values, and influence functions against finite differences of the functional."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from fbar.testing import influence_by_differences

POINTS = fbar.Points(
    {"a": [0.5, 1.0, 3.0, -2.0], "b": [1.0, 0.0, 2.0, 2.0], "model": ["x", "y", "x", "y"]},
    derived={"sum": lambda t: t["a"] + t["b"]},
)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
TARGETS = [
    fbar.mean("a"),
    fbar.mean("sum"),
    fbar.second_moment("b"),
    fbar.variance("a"),
    fbar.covariance("a", "b"),
    fbar.probability("a > 0.7 and b < 1.5"),
    fbar.probability(lambda t: t["a"] > t["b"], name="larger"),
    fbar.probability_between("a", -3, 1),
    fbar.model_probability("x"),
    fbar.expectation(lambda t: np.exp(t["a"])),
    fbar.expectation(lambda t: np.stack([t["a"], t["b"] ** 2], axis=1), vector=True, name="pair"),
    fbar.probabilities({"a": [0.5, 1.0, 3.0, -2.0]}),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_influence_is_the_derivative_towards_a_point_mass(target):
    """ψ(θ_i) = d/dt T((1−t)p + t δ_i) at t = 0, and it has posterior mean zero."""
    psi = target.influence(POINTS, WEIGHTS)
    assert psi.shape == (4, target.value(POINTS, WEIGHTS).size)
    assert np.allclose(psi, influence_by_differences(target, POINTS, WEIGHTS), atol=1e-6)
    assert np.allclose(WEIGHTS @ psi, 0)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_trials_come_first(target):
    weights = np.stack([WEIGHTS, WEIGHTS[::-1]])
    assert np.allclose(target.value(POINTS, weights), [target.value(POINTS, w) for w in weights])
    assert np.allclose(target.influence(POINTS, weights), [target.influence(POINTS, w) for w in weights])


def test_what_does_not_differ_has_no_influence():
    rng = np.random.default_rng(1)
    points = fbar.Points({"a": rng.uniform(1, 2, 1000)})
    target = fbar.probability("a > 0.5")
    for _ in range(20):
        weights = rng.exponential(size=1000)
        weights /= weights.sum()
        assert target.value(points, weights) == 1
        assert not target.influence(points, weights).any()


def test_values():
    assert np.isclose(fbar.mean("a").value(POINTS, WEIGHTS)[0], WEIGHTS @ POINTS["a"])
    assert np.isclose(fbar.variance("a").value(POINTS, WEIGHTS)[0], np.cov(POINTS["a"], aweights=WEIGHTS, ddof=0))
    expected = np.cov(POINTS["a"], POINTS["b"], aweights=WEIGHTS, ddof=0)[0, 1]
    assert np.isclose(fbar.covariance("a", "b").value(POINTS, WEIGHTS)[0], expected)
    assert np.isclose(fbar.probability("-1 < a <= 1").value(POINTS, WEIGHTS)[0], 0.3)
    assert np.isclose(fbar.model_probability("x").value(POINTS, WEIGHTS)[0], 0.4)
    assert np.allclose(fbar.probabilities({"model": ["x", "y"]}).value(POINTS, WEIGHTS), [0.4, 0.6])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fbar.mean("model").check(POINTS), "holds labels"),
        (lambda: fbar.mean("c").check(POINTS), "there is no parameter 'c'; known: a, b, model, sum"),
        (
            lambda: fbar.expectation(lambda t: 1 / t["b"], name="inverse").check(POINTS),
            "'inverse' is not defined at a=1.0",
        ),
        (lambda: fbar.probability("a + b").check(POINTS), "must be true or false"),
        (lambda: fbar.expectation(lambda t: np.ones((4, 2))).check(POINTS), "one value for each of 4 points"),
        (lambda: fbar.probability("__import__('os')"), "uses the function __import__, which is not allowed"),
        (lambda: fbar.expectation("a.exp()"), "uses Call, which is not allowed"),
        (lambda: fbar.probability("a.b > 1"), "uses Attribute, which is not allowed"),
        (lambda: fbar.probability("a >"), "cannot read the expression"),
        (lambda: fbar.probability_between("a", 2, 1), "needs low < high"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_targets_are_refused_in_one_line(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_have_quantiles_and_no_density():
    """An error bar in terms of a density would mean nothing where the distribution has steps."""
    prior = fbar.Prior(n=stats.randint(0, 21), beta=stats.uniform(0, 1))
    problem = fbar.Problem(prior, lambda t, rng: rng.binomial(t["n"], t["beta"]), observed=5)
    with pytest.raises(InputError, match=r"whole numbers; use fbar\.probability"):
        fbar.infer(problem, fbar.density_at("n", 3), method="rejection", budget=2000, seed=1)
    found = fbar.infer(problem, fbar.quantile("n", 0.9), method="rejection", budget=9000, seed=1)["quantile:n,0.9"]
    n = np.arange(5, 21)  # ∫ C(n, 5) β⁵ (1−β)ⁿ⁻⁵ dβ = 1/(n+1)
    exact = n[np.searchsorted(np.cumsum(1 / (n + 1)), 0.9 * (1 / (n + 1)).sum())]
    assert found.interval()[0] <= exact <= found.interval()[1]
    assert found.value == int(found.value)
    assert "this variable takes only" in found.warnings[0]
