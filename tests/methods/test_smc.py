"""ABC-SMC: its proposals, its rounds, its weights and error bars, and what it does when things go wrong."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals import FromPrior, Perturbed, as_perturbation
from fbar.designs.proposals.kernels import Degenerate, Population
from fbar.engine import simulate
from fbar.errors import InputError, NoPosterior
from fbar.estimation.rounds import WEIGHTINGS
from fbar.methods.smc.schedules import AcceptanceRateSchedule, QuantileSchedule, Tolerances
from fbar.problems import filippi
from fbar.question.acceptance import Acceptance
from fbar.question.space import Particles, Space
from fbar.running import drive
from fbar.testing import MethodConformance
from fbar.weights import weighted_quantiles

KERNELS = ("uniform", "normal", "local-normal", "olcm")
MEAN = fbar.mean("theta1")
SCHEDULE = (160, 40, 10, 3, 1)


def run(method, problem, targets=MEAN, seed=1, **options):
    started = method.start(problem, targets, seed, **options)
    drive(started, history=False)
    return started


@pytest.fixture(scope="module")
def finished():
    return run(fbar.SMC(SCHEDULE, accepted=300), filippi())


# ---------------------------------------------------------------- proposals and their densities


def mixed_prior():
    return fbar.ModelChoice(
        {
            "small": fbar.Prior(a=stats.norm(0, 1)),
            "large": fbar.Prior(a=stats.norm(1, 2), k=stats.poisson(3), colour=fbar.Categorical(["red", "blue"])),
            "none": None,
        },
        [0.5, 0.3, 0.2],
    )


SPACES = {
    "one": (fbar.Prior(a=stats.norm(0, 1)), "theta"),
    "two": (fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 3)), "theta"),
    "normal": (fbar.Prior(a=stats.gamma(2), b=stats.uniform(0, 1)), "normal"),
    "mixed": (mixed_prior(), "theta"),
    "mixed-normal": (mixed_prior(), "normal"),
    "finite": (fbar.Finite(theta=[1, 2, 3], probabilities=[0.2, 0.3, 0.5]), "theta"),
}


def proposal(space, kernel, *, jump=0.3, most=None, size=60, seed=0):
    rng = np.random.default_rng(seed)
    particles = space.draw(rng, size)
    return Perturbed(
        space,
        particles,
        rng.random(size),
        rng.random(size),
        perturbation=as_perturbation(kernel),
        next_tolerance=0.5,
        jump=jump,
        most=most,
        rng=rng,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("space", SPACES)
def test_a_proposals_density_is_that_of_its_draws(space, kernel):
    """E_q[g/q] = ∫ g over q's support; g is the prior on a box well inside it. 24 tests at |z| < 5."""
    prior, coordinates = SPACES[space]
    given = Space(prior, coordinates)
    q = proposal(given, kernel)
    rng = np.random.default_rng(7)
    draws = q.draw(rng, 40_000)

    def box(x):
        if space == "finite":
            return np.ones(len(x), dtype=bool)
        # Of a mixed space the continuous coordinate; models without it lie at 0.
        return (np.abs(x[:, :1] if "mixed" in space else x) < 0.8).all(axis=1)

    inside, log_g = box(draws.x), given.log_prior(draws)
    weight = np.where(inside, np.exp(log_g - q.log_density(draws)), 0.0)
    expected = box(given.draw(rng, 400_000).x).mean()
    error = math.hypot(weight.std() / 200, math.sqrt(expected * (1 - expected) / 400_000))
    assert error < 0.05
    assert abs(weight.mean() - expected) < 5 * error


def test_points_of_a_mixed_space_are_those_of_its_prior():
    prior = mixed_prior()
    space = Space(prior, "theta")
    particles = space.draw(np.random.default_rng(1), 500)
    points = space.points(particles)
    assert set(points["model"]) == {"small", "large", "none"}
    assert np.allclose(space.log_prior(particles), prior.logpdf(points))
    large = points["model"] == "large"
    assert set(points["colour"][large]) == {"red", "blue"}
    assert np.array_equal(points.present("k"), large)


def test_every_particles_kernel_density_by_hand():
    space = Space(fbar.Prior(a=stats.uniform(0, 1), b=stats.uniform(0, 1)))
    rng = np.random.default_rng(3)
    x, w, far = rng.random((40, 2)), rng.random(40), rng.random(40)
    w /= w.sum()
    at = rng.random((5, 2))
    mean = w @ x
    whole = (w[:, None] * (x - mean)).T @ (x - mean)

    def local(j, k=10):
        scaled = x / np.sqrt(np.diag(whole))
        near = np.argsort(((scaled - scaled[j]) ** 2).sum(axis=1))[:k]
        v = w[near] / w[near].sum()
        centred = x[near] - v @ x[near]
        return (v[:, None] * centred).T @ centred

    def olcm(j):
        v = np.where(far <= 0.4, w, 0.0)
        v /= v.sum()
        return (v[:, None] * (x - x[j])).T @ (x - x[j])

    half = 0.5 * (x.max(axis=0) - x.min(axis=0))
    kernels = {
        fbar.NormalKernel(): lambda j, t: stats.multivariate_normal(x[j], 2 * whole).pdf(t),
        fbar.LocalNormalKernel(10): lambda j, t: stats.multivariate_normal(x[j], local(j)).pdf(t),
        fbar.OptimalLocalKernel(): lambda j, t: stats.multivariate_normal(x[j], olcm(j)).pdf(t),
        fbar.UniformKernel(): lambda j, t: float((np.abs(t - x[j]) <= half).all()) / (4 * half.prod()),
    }
    for kernel, density in kernels.items():
        q = Perturbed(
            space, Particles(np.zeros(40, dtype=np.int64), x), w, far,
            perturbation=kernel, next_tolerance=0.4, jump=0.0,
        )  # fmt: skip
        expected = [sum(w[j] * density(j, t) for j in range(40)) for t in at]
        found = q.log_density(Particles(np.zeros(5, dtype=np.int64), at))
        assert np.allclose(np.exp(found), expected, rtol=1e-12), kernel


def test_resampled_centres_have_an_exact_density():
    """With centres= the proposal is another one, and its density is its own."""
    space = Space(fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1)))
    q = proposal(space, "normal", most=20, size=500)
    assert len(q.components[0].centres) == 20
    draws = q.draw(np.random.default_rng(1), 100_000)
    weight = np.exp(space.log_prior(draws) - q.log_density(draws))
    assert abs(weight.mean() - 1) < 5 * weight.std() / math.sqrt(100_000) < 0.1


def test_compiled_and_plain_sums_agree_to_the_last_bit():
    from fbar.designs.proposals import sums

    rng = np.random.default_rng(0)
    compiled = {name: sums.compiled(name) for name in ("normal", "box")}
    assert all(compiled.values()), "numba is part of the tests' environment"
    for d in (1, 2, 3, 6):
        n, m = 1100, 130
        x = rng.normal(size=(d, n)) * 3
        centres, factors = rng.normal(size=(m, d)), rng.random(m)
        whitening = np.tril(rng.normal(size=(m, d, d))) * 4
        for white in (whitening, whitening[:1]):
            first, second = np.zeros(n), np.zeros(n)
            compiled["normal"](x, centres, white, factors, first)
            sums.normal_numpy(x, centres, white, factors, second)
            assert np.array_equal(first, second)
            y = np.einsum("jab,ijb->ija", np.broadcast_to(white, whitening.shape), x.T[:, None] - centres)
            assert np.allclose(first, (factors * np.exp(-(y**2).sum(axis=2))).sum(axis=1), rtol=1e-11, atol=1e-300)
        first, second = np.zeros(n), np.zeros(n)
        compiled["box"](x, centres, np.full(d, 1.5), factors, first)
        sums.box_numpy(x, centres, np.full(d, 1.5), factors, second)
        assert np.array_equal(first, second)


def test_threads_change_no_bit(monkeypatch):
    from fbar.designs.proposals import sums

    rng = np.random.default_rng(0)
    arguments = rng.normal(size=(900, 2)), rng.normal(size=(50, 2)), np.eye(2)[None], rng.random(50)
    one = sums.normal_sums(*arguments)
    monkeypatch.setattr(sums, "THREADED", 1000)
    assert np.array_equal(one, sums.normal_sums(*arguments))


# ---------------------------------------------------------------- rounds


def test_a_round_ends_at_its_kth_acceptance_by_index(finished):
    for round in finished.rounds:
        accepted = round.weights(Acceptance(round.tolerance))
        assert accepted.sum() == 300
        assert accepted[-1] == 1  # the last that counts is the one that ended it
        assert round.surplus == round.simulations - round.used < finished.block_size
        assert len(round.distance) == round.simulations  # the surplus is kept
        assert round.draws >= round.used
    assert finished.simulations == sum(round.simulations for round in finished.rounds)
    assert finished.surplus > 0
    assert finished.ended == "tolerance 1 reached"


@pytest.mark.slow
def test_the_rate_of_a_round_without_its_last_acceptance_is_unbiased():
    """E[(k−1)/(n−1)] is the acceptance rate, E[k/n] is not: 2000 rounds at k = 3 tell them apart by 10 errors."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), lambda t, rng: (rng.random(t.rows) > 0.2).astype(float), observed=0.0
    )
    method = fbar.SMC((0.5,), accepted=3)
    rounds = [run(method, problem, fbar.mean("a"), seed).rounds[0] for seed in range(2000)]
    unbiased = np.array([(3 - 1) / (round.draws - 1) for round in rounds])
    naive = np.array([3 / round.draws for round in rounds])
    error = unbiased.std() / math.sqrt(2000)
    assert abs(unbiased.mean() - 0.2) < 5 * error
    assert naive.mean() - 0.2 > 10 * error


def test_blocks_asked_ahead_change_nothing():
    method, problem = fbar.SMC(SCHEDULE, accepted=80), filippi()
    reference = run(method, problem)
    ahead = method.start(problem, MEAN, 1)
    rng = np.random.default_rng(0)
    waiting = []
    while not ahead.finished:
        waiting += ahead.ask(extra_blocks=3)
        batch = waiting.pop(int(rng.integers(len(waiting))))
        ahead.tell((batch, simulate(problem, batch)))
    for batch in waiting:  # blocks behind the end of a round are taken, and not used
        ahead.tell((batch, simulate(problem, batch)))
    assert ahead.simulations == reference.simulations
    assert ahead.posterior().expect(MEAN).value == reference.posterior().expect(MEAN).value


def test_proposals_outside_the_support_cost_nothing_and_are_counted():
    """Perturbed particles leave U(0, 1) at its edge, where the posterior lies."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 1)), lambda t, rng: t["a"] + 0.01 * rng.standard_normal(t.rows), observed=0.0
    )
    done = run(fbar.SMC((0.5, 0.1, 0.03), accepted=200, perturbation="normal"), problem, fbar.mean("a"))
    last = done.rounds[-1]
    assert last.draws > 1.1 * last.used
    assert (done.posterior().points["a"] >= 0).all()
    truth = _edge_truth(0.03)
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - truth) < 5 * estimate.standard_error < 0.005


def _edge_truth(epsilon):
    a = np.linspace(0, 1, 200_001)
    p = stats.norm.cdf((epsilon - a) / 0.01) - stats.norm.cdf((-epsilon - a) / 0.01)
    return float((a * p).sum() / p.sum())


def test_a_budget_is_spent_at_the_last_tolerance_from_one_kept_proposal():
    done = run(fbar.SMC(SCHEDULE, accepted=200), filippi(), budget=20_000)
    assert done.simulations == 20_000
    assert done.ended.startswith("budget spent")
    extra = [round for round in done.rounds if round.tolerance == 1]
    assert len(extra) > 2
    assert len({id(round.proposal) for round in extra[1:]}) == 1
    assert done.rounds[-1].draws > 0


def test_a_precision_ends_a_run():
    result = fbar.infer(
        filippi(), MEAN, method=fbar.SMC(SCHEDULE, accepted=200), precision={"mean:theta1": 0.05}, seed=1
    )
    assert result["mean:theta1"].standard_error <= 0.05
    assert result.stopped_by != "budget spent"
    assert abs(result["mean:theta1"].value - 8) < 5 * 0.05


def test_rounds_of_a_number_of_simulations():
    done = run(fbar.SMC(SCHEDULE, simulations=3000), filippi())
    assert [round.simulations for round in done.rounds] == [3000] * 5
    assert not any(round.stopped for round in done.rounds)
    estimate = done.posterior().expect(MEAN)
    assert abs(estimate.value - 8) < 5 * estimate.standard_error


# ---------------------------------------------------------------- weights over all rounds


def by_hand(done, tolerance, weighting):
    """The weights of all accepted particles, from the definitions and nothing that is remembered."""
    parts = []
    rounds = done.rounds
    for r, round in enumerate(rounds):
        used = slice(0, round.used - (1 if weighting == "mixture" and round.stopped else 0))
        rows = np.flatnonzero(round.distance[used] <= tolerance)
        own = np.exp(round.log_prior[rows] - round.proposal.log_density(round.particles.take(rows)))
        if weighting == "mixture":
            total = np.zeros(rows.size)
            for s, other in enumerate(rounds):
                q = np.exp(other.proposal.log_density(round.particles.take(rows)))
                if s == r + 1:  # without the particle itself
                    centres, w = other.proposal.components[0].centres, other.proposal.components[0].weights
                    height = np.exp(other.proposal.components[0].components.log_height())
                    for i, row in enumerate(rows):
                        found = np.flatnonzero((centres == round.particles.x[row]).all(axis=1))
                        if found.size == 0:  # rejected in its own round
                            continue
                        (j,) = found
                        q[i] = (q[i] - w[j] * height[j]) / (1 - w[j])
                total += (other.draws - other.stopped) * q
            parts.append(np.exp(round.log_prior[rows]) / total)
        elif weighting == "ess":
            parts.append(own / own.sum() * own.sum() ** 2 / (own**2).sum() if rows.size else own)
        else:
            parts.append(own if r == len(rounds) - 1 else own[:0])
    weights = np.concatenate(parts)
    return weights / weights.sum()


@pytest.mark.parametrize("weighting", ["mixture", "ess", "last"])
@pytest.mark.parametrize("tolerance", [1, 3, 20])
def test_weights_are_what_the_definitions_say(finished, tolerance, weighting):
    """Where a round's tolerance is below the one looked at, its rejected simulations count too."""
    found = finished.reweighted(weighting, tolerance).weights
    assert np.allclose(found, by_hand(finished, tolerance, weighting), rtol=1e-9)


def test_looking_at_tolerances_in_any_order_gives_the_same(finished):
    fresh = run(fbar.SMC(SCHEDULE, accepted=300), filippi())
    for tolerance in (10, 1, 3, 10):
        a, b = fresh.posterior_at(tolerance), finished.posterior_at(tolerance)
        assert np.allclose(a.weights, b.weights, rtol=1e-12)
    prefix = fresh.store.upto(3).posterior(Acceptance(10), "mixture", fresh.seen)
    alone = run(fbar.SMC(SCHEDULE[:3], accepted=300), filippi()).posterior()
    assert np.allclose(prefix.weights, alone.weights, rtol=1e-12)
    assert np.allclose(fresh.posterior_at(10).weights, finished.posterior_at(10).weights, rtol=1e-12)


def test_the_curve_against_the_tolerance(finished):
    curve = finished.curve([MEAN, fbar.variance("theta1")])
    assert [tolerance for tolerance, _ in curve] == list(map(float, SCHEDULE))
    variance = [estimates["variance:theta1"].value for _, estimates in curve]
    assert variance == sorted(variance, reverse=True)
    assert all(estimates["mean:theta1"].standard_error > 0 for _, estimates in curve)


def test_estimates_of_all_weightings_against_the_truth():
    """Filippi's problem at ε = 1, the truth by quadrature: |z| < 5 for 4 weightings × 3 targets × 5 runs."""
    problem = filippi(1.0)
    asked = [MEAN, fbar.mean("theta2"), fbar.covariance("theta1", "theta2")]
    for seed in range(5):
        done = run(fbar.SMC(SCHEDULE, accepted=300), problem, asked, seed)
        for weighting in WEIGHTINGS:
            for target, estimate in zip(asked, done.reweighted(weighting).expect(asked), strict=True):
                z = (estimate.value - problem.truth(target)[0]) / estimate.standard_error
                assert abs(z) < 5, (weighting, target.name, z)


@pytest.mark.slow
def test_coverage_of_the_default_weights():
    """100 runs; 95% intervals that cover 92% or more miss over 21 times with a probability of 10⁻⁵."""
    problem = filippi(1.0)
    asked = [MEAN, fbar.variance("theta2")]
    misses = np.zeros(2)
    for seed in range(100):
        estimates = run(fbar.SMC((160, 20, 4, 1), accepted=200), problem, asked, seed).posterior().expect(asked)
        for i, (target, estimate) in enumerate(zip(asked, estimates, strict=True)):
            low, high = estimate.interval(0.95)
            misses[i] += not low <= problem.truth(target)[0] <= high
    assert (misses <= 21).all(), misses


def test_self_influence_is_flagged_in_five_dimensions():
    """Few particles with local kernels: each weighs in the density that weighs it."""
    names = [f"t{i}" for i in range(5)]
    problem = fbar.Problem(
        fbar.Prior({name: stats.norm() for name in names}),
        lambda t, rng: np.stack([t[n] for n in names], axis=1) + 0.5 * rng.standard_normal((t.rows, 5)),
        observed=np.zeros(5),
    )
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.8), accepted=200, perturbation=fbar.LocalNormalKernel(20))
    estimate = run(method, problem, fbar.second_moment("t0")).posterior().expect(fbar.second_moment("t0"))
    assert not estimate.trusted
    assert any("influence their own weights" in text for text in estimate.warnings)


# ---------------------------------------------------------------- discrete and mixed parameters, kernels of acceptance


def test_finite_parameters():
    problem = fbar.Problem.tabulated(
        fbar.Finite(theta=[1.0, 2.0, 3.0], probabilities=[0.6, 0.3, 0.1]), [0.02, 0.1, 0.4]
    )
    target = fbar.mean("theta")
    for seed in range(5):
        estimate = run(fbar.SMC((0.5, 0.1), accepted=400), problem, target, seed).posterior().expect(target)
        assert abs(estimate.value - problem.truth(target)[0]) < 5 * estimate.standard_error < 0.5


def test_model_choice_with_parameters_of_their_own():
    """y ~ N(a, 1) against y ~ N(a + b, 1) at y* = 2: P(M|x*) and E[b|x*, M = 2] by quadrature at ε = 0.2."""
    models = {
        1: fbar.Model(lambda t, rng: t["a"] + rng.standard_normal(t.rows), fbar.Prior(a=stats.norm(0, 1))),
        2: fbar.Model(
            lambda t, rng: t["a"] + t["b"] + rng.standard_normal(t.rows),
            fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 2)),
        ),
    }
    problem = fbar.Problem.models(models, observed=2.0, probabilities=[0.4, 0.6])
    y = np.linspace(1.8, 2.2, 2001)
    one, two = stats.norm.pdf(y, 0, math.sqrt(2)).mean() * 0.4, stats.norm.pdf(y, 0, math.sqrt(6)).mean() * 0.6
    density = stats.norm.pdf(y, 0, math.sqrt(6))
    b = float((4 / 6 * y * density).sum() / density.sum())
    asked = [fbar.model_probability(1), fbar.mean("b")]
    for kernel in KERNELS:
        done = run(fbar.SMC((2, 0.5, 0.2), accepted=500, perturbation=kernel), problem, asked, 3)
        for estimate, truth in zip(done.posterior().expect(asked), (one / (one + two), b), strict=True):
            assert abs(estimate.value - truth) < 5 * estimate.standard_error < 1, (kernel, estimate)


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_acceptance_kernels(kernel):
    """θ ~ N(0, 1), y ~ N(θ, 0.5²), y* = 1: the ABC posterior's mean by quadrature."""
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] + 0.5 * rng.standard_normal(t.rows), observed=1.0
    )
    y = np.linspace(-6, 8, 20_001)
    u = np.abs(y - 1) / 0.4
    weight = np.maximum(0, 1 - u**2) if kernel == "epanechnikov" else np.exp(-(u**2) / 2)
    density = stats.norm.pdf(y, 0, math.sqrt(1.25)) * weight
    truth = float((y / 1.25 * density).sum() / density.sum())
    for seed in range(4):
        done = run(fbar.SMC((2, 1, 0.4), accepted=400, kernel=kernel), problem, fbar.mean("a"), seed)
        estimate = done.posterior().expect(fbar.mean("a"))
        assert abs(estimate.value - truth) < 5 * estimate.standard_error < 0.3


def test_normal_coordinates_need_no_density_of_the_prior():
    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0] ** 2}, ["a"])
    problem = fbar.Problem(prior, lambda t, rng: t["a"] + 0.1 * rng.standard_normal(t.rows), observed=0.5)
    method = fbar.SMC((0.3, 0.1), accepted=500, coordinates="normal")
    u = (np.arange(100_000) + 0.5) / 100_000
    a = u**2
    p = stats.norm.cdf((0.6 - a) / 0.1) - stats.norm.cdf((0.4 - a) / 0.1)
    estimate = run(method, problem, fbar.mean("a")).posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - (a * p).sum() / p.sum()) < 5 * estimate.standard_error < 0.05
    assert all(round.draws == round.used for round in run(method, problem, fbar.mean("a")).rounds)


def test_recorded_outputs_and_derived_parameters_reach_targets():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: {"x": t["a"] + 0.5 * rng.standard_normal(t.rows), "peak": t["a"] ** 2},
        observed=1.0,
        derived={"double": lambda t: 2 * t["a"]},
        records=["peak"],
    )
    asked = [fbar.mean("double"), fbar.mean("a"), fbar.mean("peak"), fbar.second_moment("a")]
    found = run(fbar.SMC((1, 0.5), accepted=200), problem, asked).posterior().expect(asked)
    assert math.isclose(found[0].value, 2 * found[1].value)
    assert math.isclose(found[2].value, found[3].value)


# ---------------------------------------------------------------- schedules and distances


def test_quantiles_of_the_accepted_distances():
    assert weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 0.5) == 2.0
    done = run(fbar.SMC(QuantileSchedule(0.5, tolerance=5.0), accepted=200), filippi())
    tolerances = [round.tolerance for round in done.rounds]
    assert tolerances[0] == math.inf
    assert tolerances[-1] == 5.0
    assert all(after < before for before, after in pairwise(tolerances))
    second, first = done.rounds[1], done.rounds[0]
    assert second.tolerance == np.sort(first.distance[: first.used])[99]


def test_a_schedule_by_acceptance_rate_has_about_that_rate():
    done = run(fbar.SMC(AcceptanceRateSchedule(0.4, tolerance=3.0), accepted=400), filippi())
    rates = [400 / round.used for round in done.rounds[2:-1]]
    assert len(rates) > 3
    assert all(0.25 < rate < 0.6 for rate in rates), rates


def test_distances_that_are_often_equal_do_not_stop_the_descent():
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    done = run(fbar.SMC(QuantileSchedule(0.9, tolerance=0.0), accepted=300), problem, fbar.mean("a"))
    assert done.tolerance == 0
    a = np.linspace(0, 20, 20_001)
    p = stats.poisson.pmf(4, a)
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - (a * p).sum() / p.sum()) < 5 * estimate.standard_error


def two_scales():
    """A summary that tells θ, and one a thousand times wider that tells nothing."""
    return fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: np.stack([t["a"] + 0.2 * rng.standard_normal(t.rows), 1000 * rng.standard_normal(t.rows)], 1),
        observed=np.array([1.0, 0.0]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("each_round", [False, True])
def test_scales_are_learned(each_round):
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.3), accepted=500, distance=fbar.Scaled(each_round=each_round))
    done = run(method, two_scales(), fbar.mean("a"))
    scales = done.measure.scales
    assert 600 < scales[1] < 750  # 1000 × 0.6745, from some hundreds of draws
    assert scales[0] < (0.5 if each_round else 0.8)
    assert all(round.distance.size == round.simulations for round in done.rounds)
    observed = done.problem.observed
    for round in (done.rounds[0], done.rounds[-1]):
        summaries = done.store.everything.summaries.take(round.rows)
        assert np.allclose(round.distance, done.measure(summaries, observed))
    estimate = done.posterior().expect(fbar.mean("a"))
    assert abs(estimate.value - 1 / 1.04) < 0.1  # the tolerance's own bias is below 0.05


def test_p_norms():
    x, y = np.array([[1.0, 4.0], [3.0, 0.0]]), np.zeros(2)
    assert fbar.PNorm(1)(x, y).tolist() == [5.0, 3.0]
    assert fbar.PNorm(math.inf)(x, y).tolist() == [4.0, 3.0]
    assert np.allclose(fbar.PNorm(2, [1.0, 2.0])(x, y), [math.sqrt(5), 3.0])
    assert fbar.PNorm(2, [1.0, np.inf])(x, y).tolist() == [1.0, 3.0]
    learned = fbar.Scaled().learn(np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 0.0], [4.0, 5.0, 0.0], [4.0, 5.0, 3.0]]))
    assert learned.scales[0] == 1.0
    assert learned.scales[1] == math.inf  # never varied
    assert learned.scales[2] == pytest.approx(np.std([0, 0, 0, 3]))  # over half are equal
    with pytest.raises(InputError, match="at least 1"):
        fbar.PNorm(0.5)
    with pytest.raises(InputError, match="positive"):
        fbar.PNorm(2, [0.0, 1.0])


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schedule": (3, 5)}, "5 follows 3, so the tolerance rises"),
        ({"schedule": (3, 3)}, "3 follows 3, so the tolerance repeats"),
        ({"schedule": ()}, "at least one tolerance"),
        ({"schedule": (3, -1)}, "each tolerance must be a number of at least 0"),
        ({"schedule": "quantile"}, "falling tolerances in a list"),
        ({"accepted": 1}, "at least 2"),
        ({"perturbation": "normel"}, "did you mean 'normal'"),
        ({"perturbation": 3}, "perturbation must be one of"),
        ({"weights": "mixtur"}, "did you mean 'mixture'"),
        ({"kernel": "box"}, "unknown acceptance kernel"),
        ({"jump": 1.5}, "jump must be a probability"),
        ({"coordinates": "unit"}, "unknown coordinates"),
        ({"distance": "mad"}, "fbar.Scaled"),
        ({"schedule": (2, 1), "distance": fbar.Scaled(each_round=True)}, "no fixed tolerances"),
        ({"schedule": (2, 0), "kernel": "gaussian"}, "above 0"),
        ({"schedule": QuantileSchedule}, "falling tolerances in a list"),
    ],
)
def test_settings_are_checked(settings, text):
    with pytest.raises(InputError, match=text):
        fbar.SMC(**settings).start(filippi(), MEAN, 1)


def test_an_endless_schedule_needs_a_budget():
    with pytest.raises(InputError, match="nothing ends this run"):
        fbar.infer(filippi(), MEAN, method=fbar.SMC())
    result = fbar.infer(filippi(), MEAN, method=fbar.SMC(accepted=200), budget=5000, seed=1)
    assert result.simulations == 5000
    assert abs(result["mean:theta1"].value - 8) < 5 * result["mean:theta1"].standard_error


@pytest.mark.slow
def test_a_round_that_would_never_finish_ends_the_run_and_keeps_the_rest():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: 1 + np.abs(t["a"] + rng.standard_normal(t.rows)), observed=0.0
    )
    result = fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((3, 1.5, 0.5), accepted=100), seed=1)
    assert "below the least rate 0.0001" in str(result)
    assert "warning: the run ended early (its simulations are kept): round 3 accepted 0 of" in str(result)
    assert result.run.tolerance == 1.5
    assert result["mean:a"].standard_error < 0.3
    assert 60_000 < result.run.rounds[-1].simulations < 80_000


def test_a_budget_that_ends_within_a_round():
    done = run(fbar.SMC(SCHEDULE, accepted=300), filippi(), budget=7000)
    assert done.simulations == 7000
    assert "budget spent in round" in done.ended
    assert done.tolerance > done.rounds[-1].tolerance
    assert abs(done.posterior().expect(MEAN).value - 8) < 5 * done.posterior().expect(MEAN).standard_error


def test_no_acceptance_at_all_is_an_error_that_says_how_far_it_was():
    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: 100 + t["a"], observed=0.0)
    with pytest.raises(NoPosterior, match="the closest came within 9"):
        fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((3, 1)), budget=2000)


def test_too_few_distinct_particles():
    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1), c=stats.norm(0, 1)),
        lambda t, rng: t["a"] + rng.standard_normal(t.rows),
        observed=0.0,
    )
    result = fbar.infer(
        problem, fbar.mean("a"), method=fbar.SMC((2, 1, 0.5), accepted=3, perturbation="normal"), seed=1
    )
    assert "3 distinct particles do not span 3 dimensions" in str(result)
    assert result.run.tolerance == 2
    with pytest.raises(Degenerate, match="do not span"):
        fbar.NormalKernel().fit(Population(np.ones((9, 2)), np.full(9, 1 / 9), np.ones(9)), np.arange(9), 1.0)
    with pytest.raises(Degenerate, match="no width"):
        fbar.UniformKernel().fit(Population(np.ones((9, 2)), np.full(9, 1 / 9), np.ones(9)), np.arange(9), 1.0)


def test_flat_neighbourhoods_borrow_from_the_population():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    x[:20] = x[0] + np.outer(np.linspace(0, 1e-3, 20), [1, 1])  # twenty on a line
    population = Population(x, np.full(60, 1 / 60), np.ones(60))
    components = fbar.LocalNormalKernel(10).fit(population, np.arange(60), 1.0)
    assert np.isfinite(components.log_mixture(x, population.weights, slice(None))).all()


def test_distances_that_are_not_numbers_are_rejected_and_counted():
    def distance(summaries, observed):
        d = np.abs(summaries - observed)
        return np.where(summaries > 1.5, np.nan, d)

    problem = fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)),
        lambda t, rng: t["a"] + 0.5 * rng.standard_normal(t.rows),
        observed=1.0,
        distance=distance,
    )
    for method in (fbar.SMC((2, 0.6), accepted=300), fbar.SMC(QuantileSchedule(0.5, tolerance=0.6), accepted=300)):
        result = fbar.infer(problem, fbar.mean("a"), method=method, seed=1)
        assert "gave a result that is not finite" in str(result)
        assert all(np.isnan(round.distance).any() for round in result.run.rounds)
        y = np.linspace(0.4, 1.5, 4001)
        density = stats.norm.pdf(y, 0, math.sqrt(1.25))
        truth = float((y / 1.25 * density).sum() / density.sum())
        assert abs(result["mean:a"].value - truth) < 5 * result["mean:a"].standard_error


def test_a_prior_without_mass_at_its_own_draws():
    calls = []

    def logpdf(t):
        calls.append(t.rows)
        return np.full(t.rows, 0.0 if len(calls) == 1 else -np.inf)  # it is looked at when the prior is made

    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=logpdf)
    problem = fbar.Problem(prior, lambda t, rng: t["a"], observed=0.5)
    with pytest.raises(InputError, match="check the prior's logpdf"):
        run(fbar.SMC((1, 0.5), accepted=50), problem, fbar.mean("a"))


def test_a_prior_without_mass_at_all_proposals_keeps_what_there_is():
    calls = {"n": 0}

    def logpdf(t):
        calls["n"] += 1
        return np.where(calls["n"] <= 40, np.zeros(t.rows), -np.inf)  # the mass is gone after the first round

    prior = fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=logpdf)
    problem = fbar.Problem(prior, lambda t, rng: t["a"], observed=0.5)
    done = fbar.SMC((0.4, 0.2, 0.1, 0.01), accepted=80).start(problem, fbar.mean("a"), 1)
    drive(done)
    assert "the prior has no mass at any of" in done.warnings[0]
    assert done.posterior_at(0.4).expect(fbar.mean("a")).standard_error > 0


def test_failures_are_rejected_and_not_redrawn():
    """Simulations that raise for a third of the time: rejected, counted, the estimate unharmed."""

    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 1 / 3:
            raise RuntimeError("diverged")
        return theta["a"] + 0.5 * rng.standard_normal()

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=1.0)
    result = fbar.infer(problem, fbar.mean("a"), method=fbar.SMC((1, 0.4), accepted=300), seed=1)
    y = np.linspace(0.6, 1.4, 4001)
    density = stats.norm.pdf(y, 0, math.sqrt(1.25))
    truth = float((y / 1.25 * density).sum() / density.sum())
    assert abs(result["mean:a"].value - truth) < 5 * result["mean:a"].standard_error
    assert "raised an exception (RuntimeError: diverged)" in str(result)


def test_lists_of_tolerances():
    schedule = Tolerances((3.0, 1.0))
    assert schedule.next(1, 3.0, np.array([]), np.array([])) == 1.0
    assert schedule.next(2, 1.0, np.array([]), np.array([])) is None
    assert schedule.next(0, math.inf, np.array([]), np.array([])) == 3.0


def test_the_prior_is_the_first_proposal():
    space = Space(fbar.Prior(a=stats.norm(0, 1)))
    particles = FromPrior(space).draw(np.random.default_rng(0), 10)
    assert np.array_equal(FromPrior(space).log_density(particles), stats.norm.logpdf(particles.x[:, 0]))


# ---------------------------------------------------------------- the rules of every method


class TestSMC(MethodConformance):
    method = fbar.SMC((0.5, 0.1), accepted=120)


class TestSMCBySimulations(MethodConformance):
    method = fbar.SMC((0.5, 0.1), simulations=500, weights="ess")


class TestSMCOnContinuousParameters(MethodConformance):
    method = fbar.SMC(QuantileSchedule(0.25, tolerance=1.0), accepted=100)
    target = fbar.mean("theta1")
    budget = 3500

    @property
    def problem(self):
        return filippi()

    known = problem


# ---------------------------------------------------------------- what a review found


def gaussian(noise=0.5):
    return fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] + noise * rng.standard_normal(t.rows), observed=1.0
    )


def test_a_precision_waits_for_the_last_tolerance():
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=0.1), accepted=300)
    result = fbar.infer(gaussian(), fbar.mean("a"), method=method, precision={"mean:a": 0.05}, seed=1)
    assert result.run.tolerance == 0.1
    assert abs(result["mean:a"].value - 0.8) < 5 * 0.05
    falling = fbar.SMC().start(gaussian(), fbar.mean("a"), 1, limit=1000, at_data=False)
    with pytest.raises(InputError, match="keeps falling"):
        fbar.StandardError("mean:a", 0.05).check(falling)


def test_asking_ahead_ends_with_the_budget():
    started = fbar.SMC((2, 1, 0.4), accepted=80).start(gaussian(), fbar.mean("a"), 1, 300)
    while not started.finished:
        batches = started.ask(extra_blocks=2)
        assert sum(batch.simulations for batch in batches) <= 300
        started.tell(*((batch, simulate(started.problem, batch)) for batch in batches))
    assert started.simulations == 300


@pytest.mark.slow
def test_a_rate_out_of_reach_does_not_creep():
    method = fbar.SMC(AcceptanceRateSchedule(0.3, tolerance=0.02), accepted=100)
    done = run(method, gaussian(1.0), fbar.mean("a"))
    assert done.tolerance == 0.02
    assert len(done.rounds) < 60


def test_scales_of_each_round_on_counts_come_to_an_end():
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    method = fbar.SMC(QuantileSchedule(0.9, tolerance=0.0), accepted=200, distance=fbar.Scaled(each_round=True))
    done = run(method, problem, fbar.mean("a"))
    assert len(done.rounds) < 60
    assert done.posterior().expect(fbar.mean("a")).value == pytest.approx(5, abs=1)
    with pytest.raises(InputError, match="in its own scales"):
        done.curve()


def test_steps_are_not_perturbed_as_if_they_were_continuous():
    steps = fbar.UnitTransform(lambda u: {"k": np.floor(10 * u[:, 0])}, ["k"], logpdf=lambda t: np.zeros(t.rows))
    problem = fbar.Problem(steps, lambda t, rng: t["k"] + rng.standard_normal(t.rows), observed=5.0)
    with pytest.raises(InputError, match="takes the same values again and again"):
        fbar.SMC((2, 1)).start(problem, fbar.mean("k"), 1)
    done = run(fbar.SMC((2, 1), accepted=500, coordinates="normal"), problem, fbar.mean("k"))
    k = np.arange(10)
    p = stats.norm.cdf(6 - k) - stats.norm.cdf(4 - k)
    estimate = done.posterior().expect(fbar.mean("k"))
    assert abs(estimate.value - (k * p).sum() / p.sum()) < 5 * estimate.standard_error
    assert set(done.posterior().points["k"]) <= set(range(10))


def test_the_last_weighting_joins_the_rounds_of_a_kept_proposal():
    done = run(fbar.SMC((2, 0.5, 0.2), accepted=100), gaussian(), fbar.mean("a"), budget=12_000)
    kept = [round for round in done.rounds if round.proposal is done.rounds[-1].proposal]
    assert len(kept) > 2
    assert done.reweighted("last").accepted == sum(round.weights(Acceptance(0.2)).sum() for round in kept)


def test_a_round_cut_by_the_budget_is_not_complete():
    done = run(fbar.SMC((2, 0.5), simulations=1000, weights="last"), gaussian(), fbar.mean("a"), budget=1030)
    assert [round.complete for round in done.rounds] == [True, False]
    assert done.tolerance == 2
    assert done.posterior().accepted > 500


def test_conditional_priors():
    """gamma ~ U(0, beta): a perturbed beta below 0 leaves gamma's distribution undefined, and has no mass."""
    prior = fbar.Prior(beta=stats.uniform(0, 2), gamma=lambda t: stats.uniform(0, t["beta"]))
    problem = fbar.Problem(
        prior, lambda t, rng: t["beta"] + t["gamma"] + 0.2 * rng.standard_normal(t.rows), observed=0.3
    )
    done = run(fbar.SMC((1, 0.3, 0.1), accepted=400), problem, fbar.mean("beta"))
    reference = fbar.infer(problem, fbar.mean("beta"), method=fbar.Rejection(tolerance=0.1), budget=400_000, seed=2)
    estimate = done.posterior().expect(fbar.mean("beta"))
    error = math.hypot(estimate.standard_error, reference["mean:beta"].standard_error)
    assert abs(estimate.value - reference["mean:beta"].value) < 5 * error < 0.2
    assert any(round.draws > round.used for round in done.rounds)


def test_a_block_whose_simulations_all_fail_has_no_recorded_outputs():
    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 0.6:
            raise RuntimeError("diverged")
        return {"x": theta["a"] + 0.5 * rng.standard_normal(), "peak": theta["a"] ** 2}

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=1.0, records=["peak"])
    asked = [fbar.mean("peak"), fbar.second_moment("a")]
    peak, second = run(fbar.SMC((1, 0.5), accepted=16), problem, asked).posterior().expect(asked)
    assert math.isclose(peak.value, second.value)


def test_a_table_in_normal_coordinates_and_scales_without_summaries():
    table = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.0]), [0.02, 0.1, 0.4])
    target = fbar.mean("theta")
    estimate = run(fbar.SMC((0.5, 0.1), accepted=300, coordinates="normal"), table, target).posterior().expect(target)
    assert abs(estimate.value - table.truth(target)[0]) < 5 * estimate.standard_error
    with pytest.raises(InputError, match="this problem has none"):
        fbar.SMC(distance=fbar.Scaled()).start(table, target, 1)


def test_a_smooth_kernel_never_gets_tolerance_0():
    with pytest.raises(InputError, match="above 0"):
        fbar.SMC(QuantileSchedule(0.5, tolerance=0.0), kernel="gaussian")
    problem = fbar.Problem(
        fbar.Prior(a=stats.uniform(0, 20)), lambda t, rng: rng.poisson(t["a"]).astype(float), observed=4.0
    )
    done = run(fbar.SMC(accepted=200, kernel="epanechnikov"), problem, fbar.mean("a"), budget=8000)
    assert done.tolerance > 0
    assert done.simulations == 8000
    assert len({id(round.proposal) for round in done.rounds}) < len(done.rounds)  # kept, once nothing comes closer


def test_the_only_acceptance_is_not_lost():
    """Rounds of two acceptances: at the closest distance the mixture has nothing left but a round-ending one."""
    done = run(fbar.SMC((2, 1), accepted=2), gaussian(), fbar.mean("a"))
    closest = min(float(round.distance[: round.used].min()) for round in done.rounds)
    assert done.posterior_at(closest).accepted >= 1


def test_outcomes_of_another_number_are_refused_and_can_be_told_again():
    started = fbar.SMC((2, 1), accepted=40).start(gaussian(), fbar.mean("a"), 1)
    batch = started.ask()[0]
    with pytest.raises(InputError, match="got 3 outcomes"):
        started.tell((batch, started.problem.outcomes(np.zeros(3), 3)))
    started.tell((batch, simulate(started.problem, batch)))


def test_resampled_and_mixed_particles_know_their_own_share_of_the_density():
    """q without a particle, from `own_share`, against a proposal that is built without it, other weights kept."""
    space = Space(mixed_prior(), "theta")
    q = proposal(space, "normal", size=80)
    rng = np.random.default_rng(0)
    particles = space.draw(rng, 80)
    assert np.array_equal(particles.x, space.draw(np.random.default_rng(0), 80).x)
    log_part, weight = q.own_share(80)
    log_q = q.log_density(particles)
    for m, moved in enumerate(q.components):
        if moved is None:
            continue
        rows = q.centre_rows[m]
        for place, row in enumerate(rows[:5]):
            others = np.delete(np.arange(rows.size), place)
            inner = moved.components.log_mixture(
                moved.centres[place : place + 1, ~moved.part.discrete], moved.weights, others
            )
            if not moved.part.discrete.any():
                without = q.shares[m] * np.exp(inner[0])
                assert math.isclose(np.exp(log_q[row]) - np.exp(log_part[row]), without, rel_tol=1e-9)
            assert math.isclose(weight[row], moved.weights[place])
    many = proposal(Space(fbar.Prior(a=stats.norm(0, 1))), "normal", size=30, most=200)
    assert many.own_share(30)[1].sum() == pytest.approx(1)
    few = proposal(Space(fbar.Prior(a=stats.norm(0, 1))), "normal", size=300, most=20)
    assert few.own_share(300)[1].sum() == pytest.approx(1)


def test_acceptance_kernels_reach_the_posterior(finished):
    smooth = fbar.SMC((2, 1, 0.4), accepted=200, kernel="gaussian")
    done = run(smooth, gaussian(), fbar.mean("a"))
    weights = np.concatenate([round.weights(Acceptance(0.4, "gaussian")) for round in done.rounds])
    assert done.reweighted("ess").accepted == pytest.approx(weights.sum())


def test_failures_do_not_enter_a_pilot():
    @fbar.each
    def fragile(theta, rng):
        if rng.random() < 0.3:
            raise RuntimeError("diverged")
        return np.array([theta["a"] + 0.5 * rng.standard_normal(), 50 * rng.standard_normal()])

    problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), fragile, observed=np.array([1.0, 0.0]))
    method = fbar.SMC(QuantileSchedule(0.5, tolerance=1.0), accepted=150, distance=fbar.Scaled())
    done = run(method, problem, fbar.mean("a"))
    first = done.rounds[0]
    assert np.isnan(first.distance).sum() > 20
    assert np.isfinite(first.distance[: first.used]).sum() == 150
    assert 25 < done.measure.scales[1] < 45  # 50 × 0.6745; failed rows, which are zeros, would make it smaller
