"""Population methods as published: the rules of methods, their algorithms by hand, and what they do with bad input."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals import NormalKernel, Perturbed
from fbar.designs.proposals.kernels import Degenerate
from fbar.errors import InputError, NoPosterior
from fbar.methods.populations.lineages import LineageErrors
from fbar.methods.populations.moves import RandomWalk
from fbar.methods.populations.replica_population import ReplicaPopulation
from fbar.methods.registry import find
from fbar.question.space import Particles, Space
from fbar.running import drive
from fbar.testing import MethodConformance, finish
from fbar.weights import effective_size

THETA = fbar.mean("theta")
SPREAD = fbar.second_moment("theta")


def gaussian():
    """θ ~ N(0, 1), y ~ N(θ, ½²), y* = 0."""
    return fbar.Problem(
        fbar.Prior(theta=stats.norm()),
        lambda theta, rng: theta["theta"] + 0.5 * rng.standard_normal(theta.rows),
        observed=0.0,
    )


def run(method, problem=None, targets=(THETA, SPREAD), seed=1, **options):
    started = method.start(gaussian() if problem is None else problem, list(targets), seed, **options)
    drive(started, history=False)
    return started


def models():
    return fbar.ModelChoice(
        {
            "one": fbar.Prior(a=stats.norm(0, 1)),
            "two": fbar.Prior(a=stats.norm(1, 2), k=stats.poisson(3), colour=fbar.Categorical(["red", "blue"])),
            "none": None,
        },
        [0.5, 0.3, 0.2],
    )


# ---------------------------------------------------------------- the rules of fbar.testing


class Conformance(MethodConformance):
    """With fewer simulations in the hundred runs that test the error bars."""

    def test_estimates_lie_within_their_error_bars_of_the_truth(self):
        self.budget = 600
        super().test_estimates_lie_within_their_error_bars_of_the_truth()


class TestPMC(Conformance):
    method = fbar.PMC(accepted=100)


class TestAdaptiveWeights(Conformance):
    method = fbar.AdaptiveWeights(accepted=100)


class TestReplicaSMC(Conformance):
    method = fbar.ReplicaSMC(particles=120)


class TestReplicaSMCWithReplicas(Conformance):
    """On θ ~ U(0, 1), accepted with probability θ."""

    method = fbar.ReplicaSMC(particles=40, replicas=4)

    @property
    def problem(self):
        def simulate(theta, rng):
            return (rng.random(theta.rows) < theta["theta"]).astype(float)

        return fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)

    @property
    def known(self):
        return fbar.problems.load("ramp")


# ---------------------------------------------------------------- the last population


def test_pmc_is_smc_with_the_last_round_and_a_normal_kernel():
    tolerances = (2.0, 0.5)
    found = run(fbar.PMC(tolerances, 60)).posterior()
    same = run(fbar.SMC(tolerances, 60, perturbation=NormalKernel(componentwise=True), weights="last")).posterior()
    assert np.array_equal(found.points["theta"], same.points["theta"])
    assert np.array_equal(found.weights, same.weights)
    assert found.about == "ABC's posterior at tolerance 0.5"


def test_pmc_weights_by_hand():
    """w ∝ p(θ)/Σ_j w_j φ((θ − θ_j)/τ), τ² twice the variance of the population before."""
    finished = run(fbar.PMC((2.0, 0.5), 40))
    first, last = finished.rounds
    before = first.particles.x[: first.used, 0]
    before = before[first.distance[: first.used] <= 2.0]
    theta = finished.posterior().points["theta"]
    tau = np.sqrt(2 * before.var())
    w = stats.norm.pdf(theta) / stats.norm.pdf(theta[:, None], before, tau).mean(axis=1)
    assert np.allclose(finished.posterior().weights, w / w.sum())
    assert last.tolerance == 0.5


def test_a_componentwise_kernel_has_no_correlation():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]])
    space = Space(fbar.Prior(a=stats.norm(0, 5), b=stats.norm(0, 5)))
    particles, equal = Particles(np.zeros(50, dtype=np.int64), x), np.full(50, 0.02)
    kernel = NormalKernel(componentwise=True)
    q = Perturbed(space, particles, equal, np.zeros(50), perturbation=kernel, next_tolerance=1.0, jump=0.0)
    at = rng.standard_normal((3, 2))
    scale = np.sqrt(2 * x.var(axis=0))
    expected = stats.norm.pdf(at[:, None], x, scale).prod(axis=2).mean(axis=1)
    assert np.allclose(np.exp(q.log_density(Particles(np.zeros(3, dtype=np.int64), at))), expected)
    flat = Particles(np.zeros(50, dtype=np.int64), x * [1.0, 0.0])
    with pytest.raises(Degenerate, match="do not differ in every coordinate"):
        Perturbed(space, flat, equal, np.zeros(50), perturbation=kernel, next_tolerance=1.0, jump=0.0)


def test_adaptive_weights_by_hand():
    """w ∝ p(θ)/Σ_j v_j φ((θ − θ_j)/τ) with v ∝ φ(s_j/h), h = σ_s N^{−1/6}: the first weights are equal."""
    finished = run(fbar.AdaptiveWeights((2.0, 0.5), 40))
    first = finished.rounds[0]
    rows = np.flatnonzero(first.distance[: first.used] <= 2.0)
    before, s = first.particles.x[rows, 0], first.summaries(rows, 1)[:, 0]
    v = stats.norm.pdf(s / (s.std() * 40 ** (-1 / 6)))
    theta = finished.posterior().points["theta"]
    density = stats.norm.pdf(theta[:, None], before, np.sqrt(2 * before.var())) @ (v / v.sum())
    w = stats.norm.pdf(theta) / density
    assert np.allclose(finished.posterior().weights, w / w.sum())


def test_adaptive_weights_of_summaries_that_never_differ_are_the_weights():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm()),
        lambda theta, rng: np.stack([theta["theta"], np.zeros(theta.rows)], axis=1),
        observed=np.zeros(2),
    )
    finished = run(fbar.AdaptiveWeights((2.0, 1.0), 30), problem)
    assert np.isfinite(finished.posterior().weights).all()


@pytest.mark.parametrize("method", [fbar.PMC, fbar.AdaptiveWeights])
def test_without_a_tolerance_the_last_population_comes_as_near_as_the_budget_allows(method):
    result = fbar.infer(gaussian(), THETA, method=method(accepted=100), budget=2000, seed=1)
    assert 0 < result.run.tolerance < 0.5
    assert "ABC's posterior at tolerance" in result.posterior.about


@pytest.mark.parametrize("method", [fbar.PMC(accepted=200), fbar.AdaptiveWeights(accepted=200), fbar.ReplicaSMC(50)])
def test_models_and_discrete_parameters(method):
    """P(model) from data that every model can make; within 5 standard errors."""
    chance = {"one": 0.2, "two": 0.6, "none": 0.4}

    def simulate(theta, rng):
        return (rng.random(theta.rows) < np.vectorize(chance.get)(theta["model"])).astype(float)

    problem = fbar.Problem(models(), simulate, observed=1.0)
    target = fbar.model_probability("two")
    found = run(method.at_tolerance(0.0), problem, [target], budget=2500).posterior().expect(target)
    truth = 0.18 / (0.1 + 0.18 + 0.08)
    assert abs(found.value - truth) < 5 * found.standard_error < 0.4


# ---------------------------------------------------------------- replicas: tolerances and weights


def population(distance, weights=None, tolerance=np.inf):
    distance = np.asarray(distance, dtype=float)
    w = np.full(len(distance), 1 / len(distance)) if weights is None else np.asarray(weights)
    return ReplicaPopulation(np.arange(len(distance)), distance, w, tolerance)


def test_the_tolerance_keeps_a_share_of_the_effective_sample_size():
    given = population(np.random.default_rng(0).random((1000, 1)))
    tolerance = given.next_tolerance(0.9, 0.0)
    lowered = given.lowered(tolerance)
    assert lowered.alive.size == 900
    assert lowered.ess == pytest.approx(0.9 * given.ess)
    assert lowered.lowered(0.5).tolerance == 0.5


def test_weights_follow_the_replicas_within_the_tolerance():
    given = population([[0.1, 0.2], [0.1, 0.9], [0.8, 0.9]], [0.2, 0.4, 0.4], 1.0)
    lowered = given.lowered(0.5)
    assert np.allclose(lowered.weights, [0.5, 0.5, 0.0])
    with_five = population(np.random.default_rng(1).random((400, 5)))
    tolerance = with_five.next_tolerance(0.9, 0.0)
    assert with_five.lowered(tolerance).ess == pytest.approx(0.9 * 400, rel=0.01)


def test_equal_distances_do_not_stop_the_descent():
    given = population([[0.0], [1.0], [2.0], [2.0], [2.0], [2.0]])
    assert given.next_tolerance(0.9, 0.0) == 2.0
    assert given.lowered(2.0).next_tolerance(0.9, 0.0) == 1.0
    assert given.lowered(2.0).next_tolerance(0.9, 1.5) == 1.5
    assert given.lowered(0.0).next_tolerance(0.9, 0.0) is None


def test_failed_replicas_never_count():
    given = ReplicaPopulation.of(np.arange(3), np.array([[np.nan, 1.0], [np.inf, np.nan], [0.5, 0.2]]), np.inf)
    assert np.allclose(given.weights, [1 / 3, 0.0, 2 / 3])
    assert given.next_tolerance(0.5, 0.0) == 0.2


def test_resampled_particles_have_equal_weights():
    given = population(np.arange(4.0)[:, None], [0.5, 0.5, 0.0, 0.0]).resampled(np.random.default_rng(0))
    assert given.at.tolist() == [0, 0, 1, 1]
    assert effective_size(given.weights) == pytest.approx(4)


# ---------------------------------------------------------------- moves


def test_moves_leave_the_prior_invariant():
    """A Metropolis–Hastings move with a constant likelihood keeps draws from the prior: means within 5 errors."""
    prior = models()
    space, rng = Space(prior), np.random.default_rng(2)
    before = space.draw(rng, 4000)
    fitted = RandomWalk.of(space, before, np.full(4000, 1 / 4000), 2.0, 0.3)
    moved = fitted.move(rng)
    log_ratio = moved.log_prior - space.log_prior(before) + moved.log_reverse
    hit = np.log(rng.random(4000)) < log_ratio
    assert 0.2 < hit.mean() < 0.95
    after = Particles(
        np.where(hit, moved.particles.model, before.model), np.where(hit[:, None], moved.particles.x, before.x)
    )
    points = space.points(after)
    for name, share in (("one", 0.5), ("two", 0.3), ("none", 0.2)):
        assert abs((points["model"] == name).mean() - share) < 5 * np.sqrt(share * (1 - share) / 4000)
    a = points["a"][points["model"] == "two"]
    k = points["k"][points["model"] == "two"].astype(float)
    assert abs(a.mean() - 1) < 5 * 2 / np.sqrt(a.size)
    assert abs(k.mean() - 3) < 5 * np.sqrt(3 / k.size)


def test_the_density_of_moves_is_that_of_draws():
    """E_q[p/q] = 1 where q is positive wherever p is; within 5 standard errors."""
    space, rng = Space(models()), np.random.default_rng(3)
    particles = space.draw(rng, 300)
    fitted = RandomWalk.of(space, particles, rng.random(300), 2.0, 0.3)
    draws = fitted.draw(rng, 20_000)
    w = np.exp(space.log_prior(draws) - fitted.log_density(draws))
    assert abs(w.mean() - 1) < 5 * w.std() / np.sqrt(w.size) < 0.1


# ---------------------------------------------------------------- runs with replicas


@pytest.mark.parametrize("replicas", [1, 3])
def test_estimates_at_the_tolerance_are_those_of_abc(replicas):
    """θ given |y| ≤ 0.3, by its variance ½²/1¼ + E[y²]/1¼²; within 5 standard errors."""
    finished = run(fbar.ReplicaSMC(1000, replicas, 0.3))
    assert finished.ended == "tolerance 0.3 reached"
    assert finished.tolerance == 0.3
    inside = stats.truncnorm(-0.3 / np.sqrt(1.25), 0.3 / np.sqrt(1.25), scale=np.sqrt(1.25)).var()
    for target, truth in ((THETA, 0.0), (SPREAD, 0.2 + inside / 1.25**2)):
        found = finished.posterior().expect(target)
        assert found.trusted
        assert abs(found.value - truth) < 5 * found.standard_error < 0.2


def test_the_error_is_the_variance_between_lineages():
    finished = run(fbar.ReplicaSMC(300, 2, 0.5))
    posterior = finished.posterior()
    psi = posterior.points["theta"] - posterior.value(THETA)
    eve = posterior.draws.cluster
    zeta = np.bincount(eve, posterior.weights * psi, minlength=300)
    assert posterior.expect(THETA).standard_error == pytest.approx(np.sqrt(300 / 299 * (zeta**2).sum()))
    assert isinstance(posterior.errors, LineageErrors)
    assert posterior.errors.lineages <= len(np.unique(eve)) <= 300
    assert posterior.ess <= len(np.unique(posterior.points["theta"]))


def test_a_smaller_tolerance_reweighs_the_particles():
    finished = run(fbar.ReplicaSMC(400, 4, 0.6))
    nearer = finished.posterior_at(0.3)
    assert nearer.about == "ABC's posterior at tolerance 0.3"
    rows = nearer.draws.row
    assert (finished.store.everything.distance.take(rows) <= 0.3).all()
    assert nearer.points.rows < finished.posterior().points.rows
    with pytest.raises(InputError, match=r"cannot be raised to 0\.9"):
        finished.posterior_at(0.9)


def test_with_a_budget_the_answer_is_the_average_over_the_moves():
    short, long = (run(fbar.ReplicaSMC(200, 1, 0.5), budget=budget) for budget in (6000, 24_000))
    assert (short.simulations, long.simulations) == (6000, 24_000)
    assert short.ended == "budget spent"
    error = [each.posterior().expect(SPREAD).standard_error for each in (short, long)]
    assert error[1] < 0.75 * error[0]


def test_without_a_tolerance_the_moves_end_the_descent():
    finished = run(fbar.ReplicaSMC(300, least_rate=0.2))
    assert finished.rates[-1] < 0.2 <= min(finished.rates[:-1])
    assert "of the moves were accepted" in finished.ended
    assert finished.at_final_tolerance


def test_a_run_can_be_extended_to_a_smaller_tolerance():
    finished = run(fbar.ReplicaSMC(200, 1, 1.0))
    finished.extend(tolerance=0.4)
    drive(finished, history=False)
    assert finished.tolerance == 0.4
    assert finished.posterior().about == "ABC's posterior at tolerance 0.4"
    with pytest.raises(InputError, match="already at the tolerance"):
        finished.extend(tolerance=2.0)


def test_rounds_are_restored_from_their_states():
    problem, method = gaussian(), fbar.ReplicaSMC(60, 2, 0.5)
    first, second = (method.start(problem, THETA, 1, 4000) for _ in range(2))
    while batches := first.ask():
        state = first.round_state()
        if state is not None:
            changed = {name: array * (1 + 1e-13) if name == "walk/0:factor" else array for name, array in state.items()}
            second.restore_round(changed)
            second.restore_round(state)
        assert all(
            np.array_equal(a.points["theta"], b.points["theta"]) for a, b in zip(batches, second.ask(), strict=True)
        )
        answers = [(batch, fbar.simulate(problem, batch)) for batch in batches]
        first.tell(*answers)
        second.tell(*answers)
    assert np.array_equal(first.posterior().weights, second.posterior().weights)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    left = [None]

    def simulate(theta, rng):
        if left[0] is not None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return theta["theta"] + 0.5 * rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(theta=stats.norm()), simulate, observed=0.0)
    options = {"method": fbar.ReplicaSMC(60, 2, 0.4), "budget": 3000, "seed": 3, "progress": False}
    whole = fbar.infer(problem, THETA, **options)
    left[0] = 8
    with pytest.raises(KeyboardInterrupt):
        fbar.infer(problem, THETA, **options, run=tmp_path / "run")
    left[0] = None
    resumed = fbar.infer(problem, THETA, **options, run=tmp_path / "run")
    assert resumed.run.replayed > 0
    assert resumed.estimates[0].value == whole.estimates[0].value
    assert resumed.estimates[0].standard_error == whole.estimates[0].standard_error


def test_all_simulations_have_the_weights_of_the_mixture_of_moves():
    """Σ w f/Σ w over all simulations is the prior's mean of f."""
    finished = run(fbar.ReplicaSMC(400, 2, 0.5))
    everything = finished.all_simulations().take()
    assert len(everything) == finished.simulations
    w = everything.weights
    assert abs((w * everything.points["theta"] ** 2).sum() / w.sum() - 1) < 0.25
    assert np.array_equal(everything.structure.cluster, np.arange(len(w)) // 2)


@pytest.mark.parametrize("name", ["smc", "smc-last", "pmc", "adaptive-weights", "smc-replicas"])
def test_studies_run_populations_down_to_their_tolerance(name):
    assert find(name).make().has_tolerance
    method = find(name).make().at_tolerance(0.5)
    assert method.final_tolerance == 0.5
    assert method.ends_by_itself


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"particles": 1}, "particles must be at least 2; got 1"),
        ({"replicas": 0}, "replicas"),
        ({"tolerance": -1}, "tolerance"),
        ({"survival": 1.0}, "survival must be a number from 0.01 to 0.999; got 1.0"),
        ({"resample_below": 2}, "resample_below"),
        ({"coordinates": "polar"}, "coordinates"),
        ({"jump": 2}, "jump"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(InputError, match=message):
        fbar.ReplicaSMC(**settings)


@pytest.mark.parametrize("method", [fbar.PMC, fbar.AdaptiveWeights])
def test_settings_of_the_last_population(method):
    with pytest.raises(InputError, match="tolerances must fall"):
        method([1.0, 2.0])
    with pytest.raises(InputError, match="accepted must be at least 2"):
        method(accepted=1)
    with pytest.raises(InputError, match="nothing ends this run"):
        fbar.infer(gaussian(), THETA, method=method())


def test_a_budget_below_the_first_particles():
    with pytest.raises(InputError, match="100 particles with 5 replicas need 500 simulations before the first move"):
        fbar.ReplicaSMC(100, 5).start(gaussian(), THETA, 1, 499)
    with pytest.raises(InputError, match="leave out trials="):
        fbar.ReplicaSMC().start(gaussian(), THETA, 1, 5000, trials=2)


def test_a_tolerance_that_is_not_reached_is_flagged():
    finished = run(fbar.ReplicaSMC(200, 1, 1e-4), budget=1000)
    found = finished.posterior().expect(THETA)
    assert not found.trusted
    assert any("the requested tolerance 0.0001 was not reached" in warning for warning in found.warnings)
    nothing = run(fbar.ReplicaSMC(200, 1, 1e-4), budget=200).posterior()
    assert nothing.about == "the prior, as no tolerance was reached"


def test_particles_that_never_move_are_flagged():
    """A simulator without noise at a tolerance far below the prior: the population collapses onto few lineages."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 100), b=stats.norm(0, 100), c=stats.norm(0, 100)),
        lambda theta, rng: np.stack([theta["a"], theta["b"], theta["c"]], axis=1),
        observed=np.zeros(3),
    )
    finished = run(fbar.ReplicaSMC(40, 1, 1e-9), problem, [fbar.mean("a")], budget=1500)
    assert not finished.posterior().expect(fbar.mean("a")).trusted


def test_simulations_that_all_fail():
    problem = fbar.Problem(fbar.Prior(theta=stats.norm()), lambda theta, rng: np.full(theta.rows, np.nan), observed=0.0)
    started = fbar.ReplicaSMC(30, 2).start(problem, THETA, 1, 500)
    with pytest.raises(NoPosterior):
        finish(started)
    assert "no simulation could be compared with the data" in started.warnings[0]


def test_adaptive_weights_need_numbers():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm()),
        lambda theta, rng: np.where(theta["theta"] > 0, "up", "down"),
        observed="up",
    )
    with pytest.raises(InputError, match="those of this problem are labels; use method='pmc'"):
        fbar.AdaptiveWeights().start(problem, THETA, 1, 1000)
