"""Two fidelities of a simulator, and multifidelity ABC: a = ã + 1{U < η} (a* − ã)/η."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.worth.multifidelity import (
    ACCEPTED_CHEAP,
    ACCEPTED_REAL,
    COST_CHEAP,
    COST_REAL,
    ETA,
    MultifidelityValuation,
    Shares,
    U,
    shares_of,
)
from fbar.methods.worth.valuation import DrawsSoFar, Replicates
from fbar.question.simulators.fidelities import CHEAP, FIDELITY, REAL, SEED
from fbar.question.worth import UNSIGNED
from fbar.running import repeat
from fbar.testing import MethodConformance, finish

REAL_P, CHEAP_P = np.array([0.3, 0.05, 0.2, 0.6]), np.array([0.4, 0.04, 0.2, 0.5])


def events(probabilities):
    """1 with a probability that depends on θ, by the shared random numbers."""

    def simulate(theta, rng, noise):
        return (noise.uniform(1)[:, 0] < probabilities[theta["theta"].astype(int) - 1]).astype(int)

    return simulate


def events_problem(**options):
    """Four values of θ; the posterior is proportional to REAL_P."""
    pair = fbar.Fidelities(events(REAL_P), events(CHEAP_P), shares_noise=True, cheap_cost=1.0)
    truth = {"mean:theta": float(REAL_P @ np.arange(1, 5) / REAL_P.sum())}
    return fbar.Problem(fbar.Finite(theta=[1.0, 2.0, 3.0, 4.0]), pair, 1, cost=20.0, truth=truth, **options)


def real_normal(theta, rng, noise):
    return theta["theta"] + noise.normal(1)[:, 0]


def cheap_normal(theta, rng, noise):
    return 0.95 * theta["theta"] + 0.05 + noise.normal(1)[:, 0]


def normal_problem(**options):
    pair = fbar.Fidelities(real_normal, cheap_normal, shares_noise=True, cheap_cost=1.0)
    return fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, 1.0, **{"cost": 50.0, **options})


def infer(problem, targets=None, budget=1000, method=None, **options):
    wanted = [fbar.mean("theta")] if targets is None else targets
    chosen = fbar.Multifidelity(0.5) if method is None else method
    return fbar.infer(problem, wanted, budget=budget, method=chosen, seed=1, progress=False, **options)


class TestMultifidelity(MethodConformance):
    method = fbar.Multifidelity(groups=2)
    budget = 300
    runs = 60
    answers_after = 150

    @property
    def problem(self):
        return events_problem()

    known = problem


# ---------------------------------------------------------------- what a draw is worth


def waves(rng, n, near=0.3, far=0.1):
    """Distances 0 and 1 of n draws at one θ, where both simulators accept 0.3, only one of them 0.1 and 0.05."""
    u = rng.random(n)
    cheap, real = u < 0.4, (u < 0.3) | (u > 0.95)

    def wave(accepted, hidden):
        distance = np.where(accepted, 0.0, 1.0)[:, None]
        return Replicates(distance[:, :, None], distance, distance > 2, {}, {}, np.ones(accepted.size), hidden)

    first = wave(cheap, {U: rng.random(n)})
    continues = np.flatnonzero(first.hidden[U] < np.where(cheap, near, far))
    stops = np.setdiff1d(np.arange(n), continues)
    return first.take(stops), (first.take(continues), wave(real, {}).take(continues)), real


def test_a_is_unbiased_for_fixed_continuation_probabilities():
    """Within four standard errors: a false alarm in 16,000. So is the number of at least 0 for samples."""
    n, method = 200_000, fbar.Multifidelity(0.5, continue_if_near=0.3, continue_if_far=0.1)
    valuation = MultifidelityValuation(method, 0.5, False, "")
    stopped, both, _ = waves(np.random.default_rng(1), n)
    parts = [valuation.value([stopped]), valuation.value(both)]
    assert all(part.complete.all() for part in parts)
    a = np.concatenate([part.sign * np.exp(part.log_size) for part in parts])
    unsigned = np.concatenate([part.kept[UNSIGNED] for part in parts])
    assert a.min() == pytest.approx(1 - 1 / 0.3)
    assert a.max() == pytest.approx(10)
    assert unsigned.min() == 0
    for found in (a, unsigned):
        assert abs(found.mean() - 0.35) < 4 * found.std() / math.sqrt(n)
    assert abs(a.mean() - 0.4) > 4 * a.std() / math.sqrt(n)  # what the cheap simulator alone would give
    # E[a²] = V₀ + p_fp/η₁ + p_fn/η₂
    assert (a**2).mean() == pytest.approx(0.3 - 0.1 + 0.1 / 0.3 + 0.05 / 0.1, rel=0.05)
    assert a.var() < unsigned.var()


def test_draws_that_continue_are_not_complete_before_the_real_simulation():
    valuation = MultifidelityValuation(fbar.Multifidelity(0.5), 0.5, False, "")
    stopped, (first, _), _ = waves(np.random.default_rng(2), 100)
    assert not valuation.value([first]).complete.any()  # η = 1 at first
    assert not valuation.value([stopped]).complete.any()


def test_failed_simulations_count_as_rejected():
    valuation = MultifidelityValuation(fbar.Multifidelity(0.5, continue_if_far=0.5), 0.5, False, "")
    one = np.zeros((1, 1))
    failed = np.ones((1, 1), dtype=bool)
    cheap = Replicates(one[:, :, None], one, failed, {}, {}, None, {U: np.array([0.2])})
    good, bad = (Replicates(one[:, :, None], one, lost, {}, {}, None) for lost in (~failed, failed))
    assert np.exp(valuation.value([cheap, good]).log_size) == pytest.approx([2.0])  # ã = 0, a* = 1, η₂ = 0.5
    assert np.exp(valuation.value([cheap, bad]).log_size) == pytest.approx([0.0])


# ---------------------------------------------------------------- continuation probabilities


def test_the_best_continuation_probabilities_are_those_of_prescott_and_baker():
    shares = Shares(0.3, 0.02, 0.01, cost_cheap=1.0, cost_near=32.0, cost_far=68.0)
    near, far = shares.best()
    assert near == pytest.approx(math.sqrt(0.02 * 1 / (32 * 0.28)))
    assert far == pytest.approx(math.sqrt(0.01 * 1 / (68 * 0.28)))


@pytest.mark.parametrize(
    "shares",
    [
        Shares(0.3, 0.02, 0.01, 1.0, 32.0, 68.0),
        Shares(0.3, 0.2, 0.01, 10.0, 2.0, 68.0),  # η₁ = 1
        Shares(0.1, 0.2, 0.05, 1.0, 3.0, 9.0),  # V₀ < 0
        Shares(0.1, 0.0, 0.1, 5.0, 3.0, 9.0),
        Shares(0.3, 0.1, 0.2, 100.0, 1.0, 2.0),  # the cheap one is not cheap
    ],
)
def test_no_other_continuation_probabilities_are_better(shares):
    grid = np.geomspace(0.01, 1.0, 60)
    least = min(shares.inefficiency(near, far) for near in grid for far in grid)
    assert shares.inefficiency(*shares.best()) <= least * (1 + 1e-9)
    assert shares.best(near=0.5)[0] == 0.5
    assert shares.inefficiency(*shares.best(near=0.5)) <= min(shares.inefficiency(0.5, far) for far in grid) + 1e-9


def test_shares_are_learned_from_draws_whatever_their_continuation():
    """Known shares and costs: the learned probabilities are within a tenth of the best ones, with 100,000 draws."""
    rng, n = np.random.default_rng(3), 100_000
    u = rng.random(n)
    cheap, real = u < 0.25, (u < 0.2) | (u > 0.98)
    eta = np.where(cheap, 0.5, 0.2)
    ran = rng.random(n) < eta
    kept = {
        ACCEPTED_CHEAP: cheap * 1.0,
        ACCEPTED_REAL: np.where(ran, real, np.nan),
        ETA: eta,
        COST_CHEAP: np.full(n, 2.0),
        COST_REAL: np.where(ran, np.where(cheap, 30.0, 10.0), np.nan),
    }
    found = shares_of(DrawsSoFar(kept, n // 2, lambda rows: np.ones(rows.size)))
    truth = Shares(0.2, 0.05, 0.02, 2.0, 30 * 0.25, 10 * 0.75)
    assert found is not None
    assert found.best() == pytest.approx(truth.best(), rel=0.1)
    few = {name: values[:20] for name, values in kept.items()}
    assert shares_of(DrawsSoFar(few, 0, lambda rows: np.ones(rows.size))) is None


def test_a_run_learns_to_do_without_most_real_simulations():
    result = infer(normal_problem(), budget=3000)
    run = result.run
    cheap, real = (run.valuation.simulations[name] for name in (CHEAP, REAL))
    assert real < 0.4 * cheap
    assert run.valuation.near < 1
    assert run.valuation.far < run.valuation.near
    assert cheap + real == run.simulations <= 3000
    assert run.spent_cost == pytest.approx(cheap + 50 * real)
    assert f"{cheap:,} cheap and {real:,} real simulations" in str(result)
    assert "ABC's posterior at tolerance 0.5" in str(result)


def test_given_continuation_probabilities_are_kept():
    run = fbar.Multifidelity(0.5, continue_if_near=0.7, continue_if_far=0.2).start(
        normal_problem(), fbar.mean("theta"), 1, 600
    )
    finish(run)
    assert (run.valuation.near, run.valuation.far) == (0.7, 0.2)


# ---------------------------------------------------------------- the pair of simulators


def test_shared_random_numbers_depend_on_the_seed_of_the_row_only():
    theta = fbar.Points({"theta": np.zeros(5)})
    seeds = np.arange(100, 105)
    pair = fbar.Fidelities(real_normal, cheap_normal, shares_noise=True)
    rng = np.random.default_rng(1)
    cheap = pair.output(theta.with_columns({FIDELITY: np.full(5, CHEAP), SEED: seeds}), rng)["x"]
    some = theta.take([4, 1]).with_columns({FIDELITY: np.full(2, REAL), SEED: seeds[[4, 1]]})
    assert pair.output(some, rng)["x"] == pytest.approx(cheap[[4, 1]] - 0.05)
    noise = fbar.RowNoise(np.arange(4000))
    x = noise.normal(3)
    assert abs(x.mean()) < 4 / math.sqrt(x.size)
    assert abs(np.corrcoef(x.T) - np.eye(3)).max() < 4.5 / math.sqrt(4000)
    assert not np.isin(noise.normal(3), x).any()


def test_shared_random_numbers_do_not_make_a_simulator_look_deterministic(monkeypatch):
    monkeypatch.setattr(repeat, "CHEAP", 100.0)  # on a busy machine too
    assert not any("deterministic" in remark for remark in infer(normal_problem()).remarks)

    def fixed(theta, rng, noise):
        return theta["theta"]

    pair = fbar.Fidelities(fixed, fixed, shares_noise=True, cheap_cost=1.0)
    without_noise = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, 1.0, cost=50.0)
    assert any("deterministic" in remark for remark in infer(without_noise).remarks)


def test_simulators_of_one_parameter_set_share_the_generator_of_a_draw():
    real = fbar.each(lambda theta, rng: theta["theta"] + rng.normal())
    cheap = fbar.each(lambda theta, rng: 2 * theta["theta"] + rng.normal())
    pair = fbar.Fidelities(real, cheap, shares_noise=True)
    theta, rng = fbar.Points({"theta": [0.0, 0.0]}), np.random.default_rng(1)
    first = pair.single(theta.with_columns({FIDELITY: np.full(2, CHEAP), SEED: np.array([7, 8])}))
    second = pair.single(theta.take([1]).with_columns({FIDELITY: np.full(1, REAL), SEED: np.array([8])}))
    assert first(1, rng) == second(0, rng) != first(0, rng)


def test_other_methods_run_the_real_simulator():
    def simulate(theta, rng):
        return theta["theta"] + rng.normal(size=theta.rows)

    def never(theta, rng):
        raise AssertionError("the cheap simulator ran")

    prior = fbar.Prior(theta=stats.norm(0, 1))
    found = [
        infer(fbar.Problem(prior, simulator, 1.0), method=fbar.Rejection(tolerance=0.5), budget=400).estimates[0].value
        for simulator in (simulate, fbar.Fidelities(simulate, never))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["measured", "measured of one", "returned"])
def test_the_costs_of_both_simulators_are_known(kind):
    def slow(theta, rng):
        return {"x": rng.normal(size=theta.rows), "cost": np.full(theta.rows, 9.0)}

    def fast(theta, rng):
        return {"x": rng.normal(size=theta.rows), "cost": np.full(theta.rows, 2.0)}

    def plain(theta, rng):
        return rng.normal(size=theta.rows)

    one = fbar.each(lambda theta, rng: rng.normal())
    pair = {"measured": (plain, plain), "measured of one": (one, one), "returned": (slow, fast)}[kind]
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        fbar.Fidelities(*pair),
        0.0,
        cost="returned" if kind == "returned" else None,
    )
    run = fbar.Multifidelity(1.0, continue_if_near=0.5, continue_if_far=0.5, groups=2).start(
        problem, fbar.mean("theta"), 1, 200
    )
    finish(run)
    ran = run.valuation.simulations
    if kind == "returned":
        assert run.spent_cost == pytest.approx(2 * ran[CHEAP] + 9 * ran[REAL])
    else:
        assert 0 < run.spent_cost < 60


def test_a_recorded_run_is_extended(tmp_path):
    first = infer(events_problem(), method="multifidelity", budget=400, run=tmp_path / "r")
    more = fbar.extend(tmp_path / "r", events_problem(), budget=1500, progress=False)
    assert more.run.simulations > 1400
    assert more.estimates[0].standard_error < first.estimates[0].standard_error
    assert more.run.spent_cost == sum(
        cost * more.run.valuation.simulations[name] for name, cost in ((CHEAP, 1), (REAL, 20))
    )


# ---------------------------------------------------------------- weights of both signs


def test_what_is_made_of_weights_of_both_signs():
    wanted = [fbar.mean("theta"), fbar.quantile("theta", 0.5), fbar.probability("theta > 0"), fbar.variance("theta")]
    result = infer(normal_problem(), wanted, budget=4000)
    posterior = result.posterior
    assert posterior.weights.min() < 0
    assert posterior.weights.sum() == pytest.approx(1)
    mean, median, above, variance = result.estimates
    assert abs(median.value - mean.value) < 4 * math.hypot(mean.standard_error, median.standard_error)
    assert 0 <= above.value <= 1
    assert variance.value > 0
    pictured = posterior.pictured
    assert pictured.weights.min() > 0
    sample = result.sample(60)
    assert abs(sample["theta"].mean() - 0.45) < 0.4
    with pytest.raises(fbar.InputError, match="needs a density, which weights of both signs do not give"):
        posterior.expect(fbar.hdi("theta", 0.9))


def test_weights_whose_sum_is_negative_have_no_posterior():
    """The cheap simulator accepts all, the real one nothing: every a that is corrected is negative."""
    pair = fbar.Fidelities(lambda t, rng: np.full(t.rows, 9.0), lambda t, rng: np.zeros(t.rows), cheap_cost=1.0)
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, 0.0, cost=5.0)
    method = fbar.Multifidelity(1.0, continue_if_near=0.5, continue_if_far=0.5)
    runs = [method.start(problem, fbar.mean("theta"), seed, 100) for seed in range(8)]
    refused = 0
    for run in runs:
        try:
            finish(run)
        except fbar.NoPosterior as error:
            refused += "are of both signs and do not sum to a positive number" in str(error)
    assert 0 < refused < 8  # the expectation of the sum is 0


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"continue_if_far": 0}, "continue_if_far must be greater than 0: the real simulator would never correct"),
        ({"continue_if_near": 0.0}, "continue_if_near must be greater than 0"),
        ({"continue_if_near": 1.5}, "continue_if_near must be a probability"),
        ({"cheap_tolerance": -1}, "cheap_tolerance must be a number of at least 0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(fbar.InputError, match=message):
        fbar.Multifidelity(1.0, **settings)


def test_what_a_problem_lacks_is_named():
    plain = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: t["theta"], 1.0)
    with pytest.raises(fbar.InputError, match="a cheap simulator beside the real one"):
        infer(plain)
    with pytest.raises(fbar.InputError, match="needs a tolerance"):
        infer(normal_problem(), method=fbar.Multifidelity())
    without = fbar.Fidelities(real_normal, cheap_normal, shares_noise=True)
    with pytest.raises(fbar.InputError, match="cheap_cost"):
        infer(fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), without, 1.0, cost=3.0))


def test_pairs_that_do_not_fit_are_refused():
    one = fbar.each(lambda theta, rng: rng.normal())
    with pytest.raises(fbar.InputError, match="must both be vectorised or both be of one parameter set"):
        fbar.Fidelities(one, cheap_normal, shares_noise=True)
    with pytest.raises(fbar.InputError, match="cheap must be a function"):
        fbar.Fidelities(one, 3)
    with pytest.raises(fbar.InputError, match="cheap_cost must be a positive number"):
        fbar.Fidelities(one, one, cheap_cost=-1.0)
    pair = fbar.Fidelities(real_normal, lambda theta, rng: theta["theta"], shares_noise=True)
    with pytest.raises(fbar.InputError, match=r"the cheap simulator: simulate is called with 3 arguments"):
        fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, 1.0)
    with pytest.raises(fbar.InputError, match="cannot be called 'simulator'"):
        fbar.Problem(fbar.Prior(simulator=stats.norm(0, 1)), fbar.Fidelities(one, one), 1.0)


@pytest.mark.parametrize("cheap", ["another shape", "fails"])
def test_a_cheap_simulator_that_cannot_be_used_is_named(cheap):
    def wrong(theta, rng):
        if cheap == "fails":
            raise ValueError("no such model")
        return np.zeros((theta.rows, 3))

    pair = fbar.Fidelities(lambda theta, rng: np.zeros((theta.rows, 2)), wrong)
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, [0.0, 0.0])
    if cheap == "another shape":
        with pytest.raises(fbar.FbarError, match=r"the cheap simulator: .*shape \(3,\)"):
            infer(problem)
        return
    result = infer(problem, budget=300)  # what the cheap one cannot decide, the real one does
    assert "the cheap simulator: ValueError: no such model" in str(result)
