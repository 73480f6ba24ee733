"""The doubly robust estimator: right whatever its regression, and its variance is that of the formula."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.smooth import fit_smooth
from fbar.ledger.settings import describe
from fbar.methods.restored import restored
from fbar.problems import filippi, nested_models, ramp, two_sided_exponential
from fbar.testing import MethodConformance

RAMP = ramp()
HALF = fbar.probability("theta < 0.5")
COUNTS = fbar.Problem.bernoulli(fbar.Prior(n=stats.poisson(3)), lambda t: np.exp(-t["n"]))
FINITE = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0]), [0.2, 0.5])


@dataclass(frozen=True)
class Given:
    """An L̂ that is given instead of learned."""

    function: object
    width: float = 0.1

    def __call__(self, unit, w):
        return self.function(unit)


@dataclass(frozen=True)
class Oracle(fbar.DoublyRobust):
    def regression(self, unit, weight, w):
        return Given(lambda u: u[:, 0])


@dataclass(frozen=True)
class Wrong(fbar.DoublyRobust):
    def regression(self, unit, weight, w):
        return Given(lambda u: np.full(len(u), 0.5))


@dataclass(frozen=True)
class Nothing(fbar.DoublyRobust):
    def regression(self, unit, weight, w):
        return Given(lambda u: np.zeros(len(u)))


class TestOnTheRamp(MethodConformance):
    method = fbar.Importance("prior", estimator=fbar.DoublyRobust(2, 0.1))
    budget = 500

    @property
    def problem(self):
        return fbar.Problem(
            fbar.Prior(theta=stats.uniform(0, 1)),
            lambda t, rng: (rng.random(t.rows) < t["theta"]).astype(float),
            observed=1.0,
        )

    @property
    def known(self):
        return RAMP


def drawn(problem, target, q, budget, seed, tolerance=0.0):
    method = fbar.Importance(q, estimator=fbar.DoublyRobust(), rounds=1, tolerance=tolerance)
    run = method.start(problem, target, seed, budget)
    fbar.drive(run, history=False)
    return run.draws()


def trials(problem, target, q, estimators, *, budget, runs, tolerance=0.0):
    """Errors, V̂ and whether the interval covers, for each estimator: shape (estimators, runs, 3)."""
    truth = float(problem.truth(target)[0])
    result = np.empty((len(estimators), runs, 3))
    for seed in range(runs):
        draws = drawn(problem, target, q, budget, seed, tolerance)
        for k, estimator in enumerate(estimators):
            e = estimator(draws).expect(target)
            low, high = e.interval()
            result[k, seed] = e.value - truth, e.variance, low <= truth <= high
    return result


def agree(rows, *, slack=0.1):
    """No bias, coverage of 95% and V̂ = MSE, each within five errors."""
    error, variance, held = rows.T
    n = len(rows)
    assert abs(error.mean()) < 5 * error.std() / np.sqrt(n)
    assert held.mean() > 0.95 - 5 * np.sqrt(0.95 * 0.05 / n)
    relative = (error**2).std() / (error**2).mean() / np.sqrt(n)
    assert abs(np.log(variance.mean() / (error**2).mean())) < 5 * relative + slack


@pytest.mark.slow
def test_on_figure_4_it_reaches_what_stratifying_leaves():
    """E[ψ² θ(1−θ)]/Z² = 0.2083 is left of E[ψ² θ]/Z² = 0.375 (N times the variance)."""
    grid = (np.arange(100_000) + 0.5) / 100_000
    psi2 = np.where(grid < 0.5, 0.75, 0.25) ** 2
    least, plain = 4 * np.mean(psi2 * grid * (1 - grid)), 4 * np.mean(psi2 * grid)
    rows = trials(RAMP, HALF, "prior", [fbar.WeightedAverage(), fbar.DoublyRobust()], budget=1000, runs=150)
    for part in rows:
        agree(part)
    assert 1000 * rows[0, :, 1].mean() == pytest.approx(plain, rel=0.03)
    assert 1000 * rows[1, :, 1].mean() == pytest.approx(least, rel=0.05)
    assert abs(np.log(1000 * (rows[1, :, 0] ** 2).mean() / least)) < 5 * np.sqrt(2 / 150)


@pytest.mark.slow
@pytest.mark.parametrize("target", [HALF, fbar.mean("theta"), fbar.variance("theta"), fbar.quantile("theta", 0.5)])
def test_with_the_true_acceptance_probability_the_variance_is_the_formula(target):
    """V = E_p[ψ² θ(1−θ)]/(N Z²), in closed form from the posterior 2θ and ψ."""
    theta = (np.arange(200_000) + 0.5) / 200_000
    points = fbar.Points({"theta": theta})
    psi = target.influence(points, theta / theta.sum())[:, 0]
    least = 4 * np.mean(psi**2 * theta * (1 - theta))
    rows = trials(RAMP, target, "prior", [Oracle()], budget=1000, runs=400)[0]
    agree(rows)
    assert 1000 * rows[:, 1].mean() == pytest.approx(least, rel=0.05)


@pytest.mark.slow
def test_a_wrong_regression_costs_precision_and_not_truth():
    """L̂ = ½ everywhere leaves E[ψ² (θ(1−θ) + (θ−½)²)]/Z² − (E[ψ (θ−½)]/Z)²."""
    grid = (np.arange(100_000) + 0.5) / 100_000
    psi = np.where(grid < 0.5, 0.75, -0.25)
    left = 4 * (np.mean(psi**2 * (grid * (1 - grid) + (grid - 0.5) ** 2)) - np.mean(psi * (grid - 0.5)) ** 2)
    rows = trials(RAMP, HALF, "prior", [Wrong()], budget=1000, runs=400)[0]
    agree(rows)
    assert 1000 * rows[:, 1].mean() == pytest.approx(left, rel=0.05)


def test_a_fold_learns_nothing_from_its_own_draws():
    learned = []

    @dataclass(frozen=True)
    class Watched(fbar.DoublyRobust):
        def regression(self, unit, weight, w):
            learned.append(unit[:, 0])
            return super().regression(unit, weight, w)

    draws = drawn(RAMP, HALF, "prior", 1000, 1)
    Watched(4)(draws)
    theta = draws.points["theta"]
    for fold, seen in enumerate(learned):
        assert np.array_equal(seen, theta[np.arange(1000) % 4 != fold])


def test_without_a_regression_it_is_the_weighted_average():
    q = fbar.Prior(theta=stats.beta(1.5, 1))
    draws = drawn(RAMP, HALF, q, 2000, 3)
    for target in (HALF, fbar.variance("theta"), fbar.quantile("theta", 0.3)):
        a, b = fbar.WeightedAverage()(draws).expect(target), Nothing()(draws).expect(target)
        # A quantile between two points is a fraction of a point away from the step's.
        assert abs(a.value - b.value) < (1e-12 if target.smooth else 0.1 * a.standard_error)
        # The slope dQ/dF is read off intervals of different width.
        assert a.standard_error == pytest.approx(b.standard_error, rel=0.01 if target.smooth else 0.05)


@pytest.mark.slow
def test_on_figure_3_with_the_targeted_design():
    """p* is small almost everywhere: it may gain little, and must not lose."""
    problem, target = two_sided_exponential(), fbar.mean("theta")
    q = fbar.designs.targeted(problem, target)
    rows = trials(problem, target, q, [fbar.WeightedAverage(), fbar.DoublyRobust()], budget=1000, runs=60)
    agree(rows[1], slack=0.2)
    assert (rows[1, :, 0] ** 2).mean() < 1.2 * (rows[0, :, 0] ** 2).mean()


@pytest.mark.slow
def test_in_two_dimensions():
    problem, target = filippi(4.0), fbar.mean("theta1")
    q = fbar.designs.targeted(problem, target, tolerance=4.0)
    both = [fbar.WeightedAverage(), fbar.DoublyRobust(2)]
    rows = trials(problem, target, q, both, budget=600, runs=40, tolerance=4.0)
    agree(rows[1], slack=0.2)
    assert rows[1, :, 1].mean() < 0.8 * rows[0, :, 1].mean()


@pytest.mark.parametrize("dimension", [2, 4])
def test_priors_given_by_their_transform_and_kernels_of_acceptance(dimension):
    """θ ~ U(0, 1)^D, y ~ N(Σθ/D, 0.3²) weighed by a Gaussian kernel: the mean of θ1 is ½ by symmetry."""
    names = [f"theta{j + 1}" for j in range(dimension)]
    problem = fbar.Problem(
        fbar.UnitTransform(lambda u: dict(zip(names, u.T, strict=True)), names),
        lambda t, rng: sum(t[n] for n in names) / dimension + 0.3 * rng.standard_normal(t.rows),
        observed=0.5,
    )
    method = fbar.Importance("prior", estimator=fbar.DoublyRobust(), tolerance=0.3, kernel="gaussian")
    estimate = fbar.infer(problem, fbar.mean("theta1"), method=method, budget=1500, seed=4)["mean:theta1"]
    assert abs(estimate.value - 0.5) < 5 * estimate.standard_error < 0.06
    assert estimate.trusted


def test_several_targets_are_answered_together():
    draws = drawn(RAMP, HALF, "prior", 2000, 1)
    posterior = fbar.DoublyRobust()(draws)
    above = fbar.probability("theta >= 0.5")
    estimates = posterior.expect([HALF, above, fbar.mean("theta"), fbar.variance("theta")])
    total = estimates.combine(lambda a, b: a + b, HALF.name, above.name)
    assert total.value == pytest.approx(1, abs=1e-9)
    assert total.standard_error < 1e-6
    assert posterior.weights.min() > 0
    assert posterior.weights.sum() == pytest.approx(1)


def test_the_jump_of_a_function_that_is_not_known_to_jump_is_in_the_error_bar():
    """Two grids disagree about a jump that neither was split at; with the split both agree."""
    draws = drawn(RAMP, HALF, "prior", 2000, 1)
    hidden = fbar.expectation(lambda t: (t["theta"] < 0.4321) * 1.0, name="hidden")
    a = fbar.DoublyRobust()(draws).expect(hidden)
    b = fbar.DoublyRobust()(draws).expect(fbar.probability("theta < 0.4321"))
    assert 0 < abs(a.value - b.value) < b.standard_error
    assert a.standard_error == pytest.approx(b.standard_error, rel=0.3)


def test_draws_beyond_the_prior_count_as_draws_and_have_no_weight():
    q = fbar.Prior(theta=stats.uniform(-0.5, 2))
    problem = fbar.Problem(
        RAMP.prior, lambda t, rng: (rng.random(t.rows) < np.abs(t["theta"])).astype(float), observed=1.0
    )
    for estimator in (fbar.DoublyRobust(), fbar.KernelRegression(0.05)):
        method = fbar.Importance(q, estimator=estimator)
        targets = [fbar.mean("theta"), fbar.probability("theta > 0.95")]
        result = fbar.infer(problem, targets, method=method, budget=4000, seed=2)
        for target, truth in zip(targets, (2 / 3, 1 - 0.95**2), strict=True):
            estimate = result[target.name]
            assert abs(estimate.value - truth) < 5 * estimate.standard_error
            assert estimate.standard_error < 0.02
            assert estimate.trusted
        draws = result.run.draws()
        assert np.array_equal(np.isneginf(draws.log_w), (draws.points["theta"] < 0) | (draws.points["theta"] > 1))


@pytest.mark.slow
def test_a_run_extended_to_a_smaller_tolerance_keeps_its_rejected_draws():
    """Without them every simulation of the first leg would look accepted."""
    problem = fbar.Problem(
        fbar.Prior(mu=stats.uniform(-1, 2)), lambda t, rng: t["mu"] + 0.3 * rng.standard_normal(t.rows), observed=0.5
    )
    for estimator in (fbar.DoublyRobust(), fbar.KernelRegression(0.05)):
        run = fbar.Importance(estimator=estimator, tolerance=1.0).start(problem, fbar.mean("mu"), 1, 2000)
        fbar.drive(run)
        before = run.posterior_at(0.1).expect(fbar.mean("mu")).value
        run.extend(budget=4000, tolerance=0.1)
        fbar.drive(run)
        draws = run.draws()
        assert draws.weight.size == draws.simulations == 4000
        assert abs(run.posterior().expect(fbar.mean("mu")).value - before) < 0.1


def test_what_it_warns_of():
    shifted = type("Shifted", (), {})
    q = fbar.Prior(theta=stats.uniform(0, 1))
    for name in ("names", "dimension", "from_unit", "to_unit", "sample"):
        setattr(shifted, name, property(lambda self, n=name: getattr(q, n)))
    shifted.logpdf = lambda self, points: q.logpdf(points) + 0.5
    method = fbar.Importance(shifted(), estimator=fbar.DoublyRobust())
    wrong = fbar.infer(RAMP, HALF, method=method, budget=2000, seed=1)[HALF.name]
    assert not wrong.trusted
    assert any("is q normalised?" in text for text in wrong.warnings)
    rare = fbar.Problem.bernoulli(RAMP.prior, lambda t: 0.02 * t["theta"])
    method = fbar.Importance("prior", estimator=fbar.DoublyRobust())
    few = fbar.infer(rare, fbar.mean("theta"), method=method, budget=500, seed=1)["mean:theta"]
    assert not few.trusted
    assert any("fewer than 10" in text for text in few.warnings)


@pytest.mark.parametrize(
    ("problem", "change", "message"),
    [
        (COUNTS, {}, "smooths over continuous parameters"),
        (FINITE, {}, "not finite"),
        (nested_models(), {}, "smooths over continuous parameters"),
        (RAMP, {"scheme": "stratified"}, "is for independent draws"),
        (RAMP, {"budget": 49}, "5 folds need at least 50 draws; got 49"),
    ],
)
def test_what_it_refuses(problem, change, message):
    budget = change.get("budget", 1000)
    method = fbar.Importance("prior", change.get("scheme", "independent"), fbar.DoublyRobust())
    target = fbar.mean(problem.prior.names[-1])
    with pytest.raises(fbar.InputError, match=message) as caught:
        fbar.infer(problem, target, method=method, budget=budget)
    assert "\n" not in str(caught.value)


def test_settings():
    with pytest.raises(fbar.InputError, match="at least 2 folds"):
        fbar.DoublyRobust(1)
    with pytest.raises(fbar.InputError, match="unit coordinates"):
        fbar.DoublyRobust(bandwidth=3.0)
    method = fbar.Importance("prior", estimator=fbar.DoublyRobust(4, 0.1))
    assert restored(describe(method)) == method


def test_the_regression_finds_a_smooth_function_and_fades_where_it_has_no_draws():
    rng = np.random.default_rng(1)
    u = 0.5 * rng.random((4000, 2))
    p = 0.2 + 0.5 * u[:, 0] + 0.5 * u[:, 1]
    fit = fit_smooth(u, (rng.random(4000) < p).astype(float), np.full(4000, 0.25), None)
    at = np.array([[0.1, 0.2], [0.25, 0.25], [0.4, 0.3]])
    assert np.abs(fit(at, np.full(3, 0.25)) - (0.2 + 0.5 * at.sum(axis=1))).max() < 0.1
    assert fit(np.array([[0.95, 0.95]]), np.ones(1))[0] < 1e-3
    thin = np.array([0.25, 1e6, np.inf])
    assert np.all(np.diff(fit(np.full((3, 2), 0.25), thin)) < 0), "where draws weigh much it does not leak"
