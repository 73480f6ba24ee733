"""Single formulas of the methods against independent arithmetic: what an average over trials would hardly notice."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.cells import ActualCounts, Cells, ExpectedCounts, InverseCounts
from fbar.methods.finite.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Failure, Tally
from fbar.seeds import Purpose

pytestmark = pytest.mark.arithmetic

PRIOR = np.array([0.2, 0.5, 0.3])
F = np.array([1.0, 2.0, 4.0])
TARGET = fbar.mean("theta")


def tabulated(**options):
    return fbar.Problem.tabulated(fbar.Finite(theta=F, probabilities=PRIOR), [0.3, 0.05, 0.2], **options)


def cells(n, hits):
    return Cells(fbar.Points({"theta": F}), PRIOR, *(np.asarray(a, float) for a in (n, hits, hits)))


def after_one_round(method, n, hits, **options):
    """A run whose first round is replaced by given counts, about to plan its second."""
    run = method.start(tabulated(**options), TARGET, 1, 1000)
    (batch,) = run.ask()
    object.__setattr__(batch, "repeats", np.asarray(n))
    hits = np.asarray(hits, float)
    run.tell((batch, Tally(hits, hits)))
    return run


def test_the_beta_rule():
    n, hits, cost = np.array([10, 40, 12]), np.array([3, 0, 5]), np.array([1.0, 4.0, 1.0])
    run = after_one_round(AdaptiveAllocation(), n, hits, cost=cost)
    a, b = hits + 0.5, n - hits + 2.0
    posteriors = [stats.beta(x, y) for x, y in zip(a, b, strict=True)]
    m, v = np.array([p.mean() for p in posteriors]), np.array([p.var() for p in posteriors])
    e = m - np.array([p.moment(2) for p in posteriors])  # E[p(1−p)]
    w = PRIOR * m / (PRIOR @ m)
    deviation = F - w @ F
    v_f = (PRIOR**2 * v * deviation**2).sum() / (PRIOR @ m) ** 2
    expected = PRIOR * np.sqrt(e * (deviation**2 + v_f) / cost)
    assert np.allclose(run.shares(), expected / expected.sum())


def test_the_papers_rule_with_its_pseudo_counts_floor_and_cost():
    n, hits, cost = np.array([10, 40, 12]), np.array([3, 0, 5]), np.array([1.0, 4.0, 1.0])
    run = after_one_round(AdaptiveAllocation("plug-in"), n, hits, cost=cost)
    p = (hits + 0.01) / (n + 0.02)
    w = PRIOR * p / (PRIOR @ p)
    raw = PRIOR * np.sqrt(p * (1 - p) / cost) * np.abs(F - w @ F)
    floored = raw / raw.sum() + 1 / math.sqrt(62 + 1)
    assert np.allclose(run.shares(), floored / floored.sum())


def test_the_adaptive_posterior_draws_from_the_floored_estimate_by_the_design_seed():
    n, hits = np.array([10, 40, 12]), np.array([3, 0, 5])
    run = after_one_round(AdaptivePosterior(), n, hits)
    p = (hits + 0.01) / (n + 0.02)
    q = PRIOR * p / (PRIOR @ p) + 1 / math.sqrt(63)
    size = 1000 * 2 // 16 - 1000 // 16
    expected = run.seeds.generator(Purpose.DESIGN, 1, 0).multinomial(size, q / q.sum())
    assert np.array_equal(run.plan, expected)


def test_variances_cell_by_cell():
    n, hits = np.array([100.0, 400.0, 120.0]), np.array([30.0, 20.0, 24.0])
    p = hits / n
    z = PRIOR @ p
    deviation = F - (PRIOR * p) @ F / z
    plain = ActualCounts()(cells(n, hits)).expect(TARGET)
    assert plain.variance == pytest.approx((PRIOR**2 * p * (1 - p) / (n - 1) * deviation**2).sum() / z**2)
    paper = ActualCounts(plug_in=True)(cells(n, hits)).expect(TARGET)
    assert paper.variance == pytest.approx((PRIOR**2 * p * (1 - p) / n * deviation**2).sum() / z**2)
    q = np.array([0.3, 0.5, 0.2])
    w, total = PRIOR / q, n.sum()
    weights = w * hits / (w @ hits)
    deviation = F - weights @ F
    expected = total / (total - 1) * (hits * w**2 * deviation**2).sum() / (w @ hits) ** 2
    assert ExpectedCounts(q)(cells(n, hits)).expect(TARGET).variance == pytest.approx(expected)


def test_inverse_sampling_is_unbiased_for_p_and_its_variance():
    """(R−1)/(n−1) and p̂(1−p̂)/(n−2) over negative binomial n, at |z| < 5."""
    rng = np.random.default_rng(1)
    required, p, trials = 12, 0.3, 400_000
    n = required + rng.negative_binomial(required, p, size=(trials, 1))
    hits = np.full((trials, 1), float(required))
    data = Cells(fbar.Points({"theta": [1.0]}), np.ones(1), n.astype(float), hits, hits)
    errors = InverseCounts(required)(data).errors
    p_hat = (required - 1) / (n - 1)
    assert abs(p_hat.mean() - p) < 5 * p_hat.std() / np.sqrt(trials)
    variance = errors.plain * p_hat**2  # the estimator's g_i is var/Ẑ²
    excess = (p_hat - p) ** 2 - variance
    assert abs(excess.mean()) < 5 * excess.std() / np.sqrt(trials)


def test_degrees_of_freedom():
    """2V̂² over Σ part²·(1−2p)²/(n p(1−p)), and at most the acceptances less one."""
    n, hits = np.array([100.0, 400.0, 120.0]), np.array([30.0, 20.0, 24.0])
    p = hits / n
    z = PRIOR @ p
    part = PRIOR**2 * p * (1 - p) / (n - 1) * (F - (PRIOR * p) @ F / z) ** 2 / z**2
    expected = 2 * part.sum() ** 2 / (part**2 * (1 - 2 * p) ** 2 / (n * p * (1 - p))).sum()
    assert ActualCounts()(cells(n, hits)).expect(TARGET).df == pytest.approx(min(expected, hits.sum() - 1))


def test_effective_sample_size():
    n, hits = np.array([100.0, 400.0, 120.0]), np.array([30.0, 20.0, 24.0])
    single = np.repeat(PRIOR / n, hits.astype(int))
    assert ActualCounts()(cells(n, hits)).ess == pytest.approx(single.sum() ** 2 / (single**2).sum())
    rejection = fbar.infer(tabulated(), TARGET, method=fbar.Rejection(), budget=5000, seed=1)
    assert rejection.posterior.ess == pytest.approx(rejection.accepted)


def test_acceptance_kernels():
    d = np.array([0.0, 0.5, 1.0, 2.0])
    assert Acceptance(1.0)(d).tolist() == [1, 1, 1, 0]
    assert Acceptance(1.0, "epanechnikov")(d).tolist() == [1, 0.75, 0, 0]
    assert np.allclose(Acceptance(1.0, "gaussian")(d), np.exp([0, -0.125, -0.5, -2]))


class _Fixed:
    """A run that has seen given counts, as stopping rules look at it."""

    at_final_tolerance = True
    at_data = False

    def __init__(self, n, hits, target):
        self.targets = (target,)
        self._cells = cells(n, hits)

    def posterior(self):
        return ActualCounts()(self._cells)


def test_a_precision_is_not_believed_too_early():
    """49 accepted, 10 on one side of a probability, or an untrusted error bar: the run goes on."""
    mean, half = TARGET, fbar.probability("theta > 3")
    assert fbar.StandardError(mean.name, 10.0).holds(_Fixed([500, 500, 500], [20, 20, 20], mean))
    assert not fbar.StandardError(mean.name, 10.0).holds(_Fixed([500, 500, 500], [17, 16, 16], mean))
    assert fbar.StandardError(half.name, 10.0).holds(_Fixed([500, 500, 500], [40, 40, 60], half))
    assert not fbar.StandardError(half.name, 10.0).holds(_Fixed([500, 500, 500], [80, 80, 6], half))
    assert not fbar.StandardError(mean.name, 10.0).holds(_Fixed([500, 1, 500], [100, 0, 100], mean))
    assert not fbar.StandardError(mean.name, 1e-9).holds(_Fixed([500, 500, 500], [20, 20, 20], mean))


def test_a_variance_at_its_stationary_point_has_a_second_order_error():
    """Two values equally likely: ψ of the variance vanishes, the error is −δ² and its spread 2V²."""
    even = Cells(fbar.Points({"theta": [0.0, 1.0]}), np.full(2, 0.5), *(np.full(2, x) for x in (1000.0, 300.0, 300.0)))
    posterior = ActualCounts()(even)
    v = posterior.expect(fbar.mean("theta")).variance
    assert posterior.expect(fbar.variance("theta")).standard_error == pytest.approx(math.sqrt(2) * v)


def test_a_constant_target_is_known_without_error():
    for target, value in ((fbar.probability("theta > 100"), 0.0), (fbar.expectation(lambda t: np.ones(t.rows)), 1.0)):
        for method in (fbar.AdaptiveAllocation(), fbar.AdaptiveAllocation("plug-in"), fbar.Allocation("min-mse")):
            result = fbar.infer(tabulated(), target, method=method, budget=1000, seed=1)
            assert result.simulations == 1000
            assert result[target.name].value == value
    single = fbar.Problem.tabulated(fbar.Finite(theta=[2.0]), [0.5])
    assert fbar.infer(single, TARGET, budget=100, seed=1)["mean:theta"].value == 2


def test_the_oracle_allocation_uses_the_influence_function():
    """For the variance of θ the optimum is that of ψ = (θ−μ)² − σ², not that of θ."""
    problem, target = tabulated(), fbar.variance("theta")
    w = PRIOR * problem.p_star
    w /= w.sum()
    psi = (F - w @ F) ** 2
    psi -= w @ psi
    raw = PRIOR * np.sqrt(problem.p_star * (1 - problem.p_star)) * np.abs(psi)
    run = fbar.Allocation("min-mse", floor=0, rounds=1).start(problem, target, 1, 10**6)
    assert np.allclose(run.plan / 10**6, raw / raw.sum(), atol=1e-5)


def test_part_of_a_round_of_independent_draws_is_a_sample_like_the_whole():
    """Blocks draw for themselves: after 35 of 40 blocks the estimate is within its error bar."""
    problem = fbar.Problem(
        fbar.Finite(theta=[1.0, 2.0, 3.0, 4.0]), lambda t, rng: (rng.random(t.rows) < 0.3).astype(float), observed=1.0
    )
    run = fbar.Rejection(rounds=1).start(problem, TARGET, 1, 4000, block_size=100)
    for batch in run.ask()[:35]:
        run.tell((batch, fbar.simulate(problem, batch)))
    estimate = run.posterior().expect(TARGET)
    assert abs(estimate.value - 2.5) < 5 * estimate.standard_error


@pytest.mark.slow
def test_failures_of_single_rows_are_not_drawn_again():
    """θ = 1 fails with probability 0.2, at random: P(θ = 1) is 0.8/1.8, whatever the size of the blocks."""

    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] == 1 and rng.random() < 0.2:
            raise RuntimeError("unlucky")
        return 2.0

    problem = fbar.Problem(fbar.Finite(theta=[1.0, 2.0]), simulate, observed=2.0)
    target = fbar.probability("theta == 1")
    for block_size in (1, 8, 1024):
        result = fbar.infer(problem, target, method=fbar.Rejection(), budget=6000, seed=3, block_size=block_size)
        n = result.run.counts[0]
        assert abs(result.run.seen.counts[Failure.EXCEPTION] - 0.2 * n) < 5 * math.sqrt(0.2 * n)
        assert abs(result[target.name].value - 0.8 / 1.8) < 5 * math.sqrt(0.25 / 5400)


def test_a_value_that_always_fails_does_not_end_the_run():
    @fbar.each
    def simulate(theta, rng):
        return 1 / (theta["theta"] - 2) * 0 + rng.poisson(theta["theta"])

    problem = fbar.Problem(fbar.Finite(theta=[1.0, 2.0, 3.0]), simulate, observed=2)
    result = fbar.infer(problem, TARGET, budget=6000, seed=1, block_size=16)
    assert result.run.hits[1] == 0
    assert result.run.seen.counts[Failure.EXCEPTION] == result.run.counts[1] > 100


def test_outputs_that_are_mappings_none_or_labels():
    @fbar.each
    def simulate(theta, rng):
        x = rng.poisson(theta["theta"])
        return None if x > 8 else {"x": float(x), "double": 2 * x}

    problem = fbar.Problem(fbar.Finite(theta=[1.0, 4.0]), simulate, observed=3.0, records=["double"])
    result = fbar.infer(problem, TARGET, budget=8000, seed=1)
    p = stats.poisson([1, 4]).pmf(3)
    assert abs(result["mean:theta"].value - p @ [1, 4] / p.sum()) < 5 * result["mean:theta"].standard_error
    assert result.run.seen.counts[Failure.EXCEPTION] > 0
    coin = fbar.Problem(
        fbar.Finite(theta=[0.2, 0.8]),
        lambda t, rng: np.where(rng.random(t.rows) < t["theta"], "heads", "tails"),
        observed="heads",
    )
    estimate = fbar.infer(coin, TARGET, budget=4000, seed=1)["mean:theta"]
    assert abs(estimate.value - 0.68) < 5 * estimate.standard_error
    with pytest.raises(fbar.InputError, match="a tolerance of 1 needs a distance="):
        fbar.infer(coin, TARGET, method=fbar.Rejection(tolerance=1), budget=100)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p: fbar.infer(p, TARGET, method=fbar.Rejection, budget=10),
            "method must be a method such as fbar.Rejection()",
        ),
        (lambda p: fbar.infer(None, TARGET, budget=10), "problem must be an fbar.Problem"),
        (lambda p: fbar.infer(p, 3, budget=10), "a target is made by"),
        (lambda p: fbar.infer(p, TARGET, precision=0.01), "precision must name its targets"),
        (lambda p: fbar.infer(p, TARGET, budget=1e30), "must be at most 2**53"),
        (lambda p: fbar.infer(p, TARGET, method=fbar.Allocation(counts=["a", 1, 2])), "counts must be numbers"),
        (lambda p: fbar.infer(p, TARGET, method=fbar.Allocation(counts=[np.nan, 1, 2]), budget=3), "whole numbers"),
        (lambda p: fbar.infer(p, TARGET, method=fbar.Allocation(floor="a"), budget=30), "floor must be a whole number"),
        (lambda p: fbar.infer(p, fbar.probability("theta > 'a'"), budget=10), "cannot be evaluated"),
        (
            lambda p: fbar.infer(p, fbar.expectation(lambda t: t["theta"].nothing), budget=10),
            "failed: ",
        ),
        (lambda p: fbar.infer(p, fbar.model_probability("x", name="theta"), budget=10), "there is no theta 'x'"),
        (
            lambda p: fbar.infer(p, fbar.probabilities({"theta": [99.0]}), budget=10),
            "is not a value of the parameter space",
        ),
        (lambda p: fbar.infer(p, fbar.quantile("theta", 0.5), budget=10), "not defined on a finite parameter space"),
        (lambda p: fbar.probability("theta > 1 & theta < 3").check(fbar.Points({"theta": F})), "write 'and'"),
        (lambda p: fbar.Budget(3) | 3, "a stopping rule is made by"),
        (lambda p: fbar.Rejection().start(p, TARGET, 1, 10).tell("x"), "tell takes pairs (batch, outcomes)"),
        (lambda p: fbar.Problem(p.prior, lambda t, r: t["theta"], observed={}), "observed is empty"),
        (lambda p: fbar.Problem(p.prior, lambda t, r: t["theta"], observed=np.nan), "are not finite"),
        (lambda p: fbar.Problem(p.prior, lambda t, r: t["theta"], observed=1, summary=3), "summary must be a function"),
        (lambda p: fbar.Problem(p.prior, lambda t, r: t["theta"], observed=1, derived={"R": 3}), "must be a function"),
        (
            lambda p: fbar.infer(
                fbar.Problem(p.prior, lambda t, r: t["theta"], observed=1.0, accept=lambda x, o: x == o),
                TARGET,
                method=fbar.Rejection(tolerance=3),
                budget=10,
            ),
            "a tolerance has no effect",
        ),
    ],
)
def test_more_bad_input_in_one_line(call, message):
    with pytest.raises(fbar.InputError) as caught:
        call(tabulated())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_says_why_it_ended():
    problem = tabulated()
    done = fbar.infer(problem, TARGET, method=fbar.InverseBinomial(20), seed=1)
    assert "every value has its hits" in str(done)
    short = fbar.infer(problem, TARGET, precision={"mean:theta": 1e-4}, budget=500, seed=1)
    assert "stopping rule not met" in str(short)
    never = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: t["theta"], observed=0.5)
    with pytest.raises(fbar.NoPosterior, match="simulations were rejected"):
        fbar.infer(never, TARGET, method="rejection", tolerance=0, precision={"mean:theta": 0.01}, seed=1)
    with pytest.raises(fbar.NoPosterior, match="simulations was accepted at the tolerance 0"):
        fbar.infer(never, TARGET, tolerance=0, precision={"mean:theta": 0.01}, seed=1)


def test_allocation_towards_a_precision_grows():
    result = fbar.infer(tabulated(), TARGET, method=fbar.Allocation(), precision={"mean:theta": 0.05}, seed=1)
    assert result.simulations < 40_000
    assert result["mean:theta"].standard_error <= 0.05
