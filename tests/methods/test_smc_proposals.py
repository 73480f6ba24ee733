"""ABC-SMC's proposals: their draws, their densities, and the sums of kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals import FromPrior, Perturbed, as_perturbation
from fbar.designs.proposals.kernels import Population
from fbar.errors import InputError
from fbar.question.space import Particles, Space
from smc_runs import KERNELS, run

pytestmark = pytest.mark.arithmetic


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


def test_flat_neighbourhoods_borrow_from_the_population():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    x[:20] = x[0] + np.outer(np.linspace(0, 1e-3, 20), [1, 1])  # twenty on a line
    population = Population(x, np.full(60, 1 / 60), np.ones(60))
    components = fbar.LocalNormalKernel(10).fit(population, np.arange(60), 1.0)
    assert np.isfinite(components.log_mixture(x, population.weights, slice(None))).all()


def test_the_prior_is_the_first_proposal():
    space = Space(fbar.Prior(a=stats.norm(0, 1)))
    particles = FromPrior(space).draw(np.random.default_rng(0), 10)
    assert np.array_equal(FromPrior(space).log_density(particles), stats.norm.logpdf(particles.x[:, 0]))


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
