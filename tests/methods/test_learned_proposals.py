"""Proposals that are learned: mixtures of Student's t for each model, with the prior as a defence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals import Learned
from fbar.designs.proposals.learned import Table
from fbar.designs.proposals.student import DF, StudentMixture, fit, widened
from fbar.methods.aiming.learning import sums_of_nearest
from fbar.question.space import Particles, Space

pytestmark = pytest.mark.arithmetic


def factors(*covariances):
    return np.linalg.cholesky(np.array(covariances, dtype=float))


ONE = StudentMixture(np.array([0.3, 0.7]), np.array([[-2.0], [1.0]]), factors([[0.25]], [[1.5]]))
TWO = StudentMixture(
    np.array([0.4, 0.6]), np.array([[-1.0, 0.5], [1.5, 0.0]]), factors([[0.5, 0.3], [0.3, 0.4]], [[1, -0.5], [-0.5, 2]])
)


def one_cdf(x):
    return 0.3 * stats.t.cdf(x, DF, -2, 0.5) + 0.7 * stats.t.cdf(x, DF, 1, math.sqrt(1.5))


def test_the_density_of_a_mixture_is_that_of_its_parts_and_integrates_to_one():
    x = np.linspace(-400, 400, 200_001)
    density = np.exp(ONE.log_density(x[:, None]))
    assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-7)
    parts = 0.3 * stats.t.pdf(x, DF, -2, 0.5) + 0.7 * stats.t.pdf(x, DF, 1, math.sqrt(1.5))
    assert np.allclose(density, parts, rtol=1e-12)
    side = np.sinh(np.linspace(-6, 6, 601))  # to ±200, finer in the middle
    slope = np.cosh(np.linspace(-6, 6, 601))
    grid = np.stack([g.ravel() for g in np.meshgrid(side, side, indexing="ij")], axis=1)
    value = np.exp(TWO.log_density(grid)).reshape(601, 601)
    assert (value * slope[:, None] * slope).sum() * (12 / 600) ** 2 == pytest.approx(1, abs=1e-5)
    whole = sum(
        w * stats.multivariate_t(m, f @ f.T, DF).pdf(grid[::1000])
        for w, m, f in zip(TWO.weights, TWO.means, TWO.factors, strict=True)
    )
    assert np.allclose(np.exp(TWO.log_density(grid[::1000])), whole, rtol=1e-10)


@pytest.mark.parametrize("how", ["draw", "from_unit"])
def test_draws_of_a_mixture_have_its_density(how):
    """In one dimension Kolmogorov and Smirnov's test, in two the distances of each component: a false alarm in 10⁴."""
    rng, n = np.random.default_rng(3), 20_000

    def drawn(mixture):
        return mixture.draw(rng, n) if how == "draw" else mixture.from_unit(rng.random((n, mixture.unit_dimension)))

    assert stats.kstest(drawn(ONE)[:, 0], one_cdf).pvalue > 1e-4
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.6, -0.8]]):

        def cdf(t, direction=direction):
            return sum(
                w * stats.t.cdf(t, DF, m @ direction, math.sqrt(direction @ f @ f.T @ direction))
                for w, m, f in zip(TWO.weights, TWO.means, TWO.factors, strict=True)
            )

        assert stats.kstest(drawn(TWO) @ direction, cdf).pvalue > 1e-4
    # The tails of t5 in two dimensions: square distances over 2 are F(2, 5) for one component alone.
    alone = StudentMixture(np.ones(1), TWO.means[:1], TWO.factors[:1])
    square = alone.square_distances(drawn(alone))[0]
    assert stats.kstest(square / 2, stats.f(2, DF).cdf).pvalue > 1e-4


def test_em_finds_two_components():
    """From 1,500 points: E log(known/found) is the loss of the fit, 23 parameters over 2n at most, and twice that."""
    known = StudentMixture(np.array([0.3, 0.7]), np.array([[-3.0], [2.0]]), factors([[0.25]], [[1.0]]))
    rng = np.random.default_rng(5)
    x = np.linspace(-40, 40, 80_001)[:, None]
    true = known.log_density(x)
    found = fit(known.draw(rng, 1500), np.ones(1500), rng)
    assert np.trapezoid(np.exp(true) * (true - found.log_density(x)), x[:, 0]) < 23 / 1500
    # The same from points all over the place, by their weights.
    spread = StudentMixture(np.ones(1), np.zeros((1, 1)), factors([[9.0]]))
    points = spread.draw(rng, 6000)
    weights = np.exp(known.log_density(points) - spread.log_density(points))
    found = fit(points, weights, rng)
    assert np.trapezoid(np.exp(true) * (true - found.log_density(x)), x[:, 0]) < 23 / 1500
    weighted = fit(np.linspace(-1, 1, 400)[:, None], np.linspace(0, 1, 400), rng, most=1)
    assert weighted.means[0, 0] == pytest.approx(1 / 3, abs=0.1)


def test_few_points_are_shrunk_to_the_prior():
    lonely = fit(np.array([[1.0, 2.0], [1.1, 2.0]]), np.array([1.0, 1e-9]), np.random.default_rng(1))
    covariance = lonely.factors[0] @ lonely.factors[0].T * DF / (DF - 2)
    assert np.linalg.eigvalsh(covariance).min() > 0.8


@pytest.mark.parametrize("c", [1.0, 2.5, 4.0])
def test_a_normal_is_widened_by_the_closed_form(c):
    """p^(1−1/c) N(μ, s²)^(1/c) with p = N(0, 1): a normal of precision 1 − 1/c + 1/(c s²) and mean μ/(c s²) over it."""
    mean, s2 = 1.7, 0.04
    mixture = StudentMixture(np.ones(1), np.array([[mean]]), factors([[s2 * (DF - 2) / DF]]))
    wide = widened(mixture, c)
    precision = 1 - 1 / c + 1 / (c * s2)
    assert wide.means[0, 0] == pytest.approx(mean / (c * s2) / precision, rel=1e-9)
    assert wide.factors[0, 0, 0] ** 2 * DF / (DF - 2) == pytest.approx(1 / precision, rel=1e-9)
    prior = StudentMixture(np.ones(1), np.zeros((1, 1)), factors([[(DF - 2) / DF]]))
    assert widened(prior, c).factors[0, 0, 0] == pytest.approx(prior.factors[0, 0, 0])


def test_tables_draw_their_probabilities():
    table = Table(np.array([0.1, 0.0, 0.6, 0.3]))
    drawn = table.draw(np.random.default_rng(1), 20_000)[:, 0].astype(int)
    counts = np.bincount(drawn, minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]], 20_000 * np.array([0.1, 0.6, 0.3])).pvalue > 1e-4
    assert np.exp(table.log_density(np.array([[2.0], [1.0]]))).tolist() == [pytest.approx(0.6), 0]
    assert table.from_unit(np.array([[0.05], [0.1], [0.69], [0.71]]))[:, 0].tolist() == [0, 2, 2, 3]


CHOICE = fbar.ModelChoice(
    {
        "one": fbar.Prior(a=stats.norm(0, 1)),
        "two": fbar.Prior(a=stats.norm(0, 1), b=stats.uniform(0, 1)),
        "cells": fbar.Finite(k=[0.0, 1.0, 5.0], probabilities=[0.5, 0.25, 0.25]),
        "none": None,
    },
    [0.4, 0.3, 0.2, 0.1],
)


def learned(defence=0.15):
    shares = np.array([0.1, 0.5, 0.3, 0.1])
    return Learned(Space(CHOICE, "normal"), shares, (ONE, TWO, Table(np.array([0.2, 0.0, 0.8])), None), defence)


def test_a_learned_density_sums_to_one_over_its_models():
    q, space = learned(), Space(CHOICE, "normal")

    def density(model, x):
        wide = np.zeros((len(x), 2))
        wide[:, : x.shape[1]] = x
        return np.exp(q.log_density(Particles(np.full(len(x), model), wide)))

    line = np.linspace(-60, 60, 24_001)
    first = np.trapezoid(density(0, line[:, None]), line)
    side, slope = np.sinh(np.linspace(-6, 6, 401)), np.cosh(np.linspace(-6, 6, 401))
    grid = np.stack([g.ravel() for g in np.meshgrid(side, side, indexing="ij")], axis=1)
    second = (density(1, grid).reshape(401, 401) * slope[:, None] * slope).sum() * (12 / 400) ** 2
    third = density(2, np.array([[0.0], [1.0], [2.0]])).sum()
    fourth = density(3, np.zeros((1, 0)))[0]
    assert [first, second, third, fourth] == pytest.approx(0.85 * q.shares + 0.15 * space.shares, abs=1e-4)


@pytest.mark.parametrize("how", ["draw", "from_unit"])
def test_learned_draws_agree_with_their_density(how):
    """E_q[p/q] = 1 and E_q[1_m p/q] = p_m: weights and draws have to be of the same q."""
    q, space, n = learned(), Space(CHOICE, "normal"), 40_000
    rng = np.random.default_rng(9)
    particles = q.draw(rng, n) if how == "draw" else q.from_unit(rng.random((n, q.unit_dimension)))
    w = np.exp(space.log_prior(particles) - q.log_density(particles))
    assert w.max() <= 1 / q.defence * (1 + 1e-12)
    tests = {"all": np.ones(n), "square": (particles.model == 1) * particles.x[:, 1] ** 2}
    tests |= {m: particles.model == m for m in range(4)} | {"right": (particles.model == 0) & (particles.x[:, 0] > 1)}
    expected = {"all": 1, "square": 0.3, "right": 0.4 * stats.norm.sf(1)} | dict(enumerate(space.shares))
    for name, f in tests.items():
        values = w * f
        assert abs(values.mean() - expected[name]) < 4.5 * values.std() / math.sqrt(n), name


def test_a_proposal_comes_back_from_its_arrays_bit_for_bit():
    q = learned()
    again = Learned.of(q.arrays(), q.space, q.defence)
    ours, theirs = (one.draw(np.random.default_rng(4), 500) for one in (q, again))
    assert np.array_equal(ours.x, theirs.x)
    assert np.array_equal(q.log_density(ours), again.log_density(ours))
    assert again.parts[3] is None


@pytest.mark.parametrize(("number", "k"), [(50, 7), (200, 200), (10, 1)])
def test_sums_over_the_nearest_in_one_dimension(number, k):
    rng = np.random.default_rng(1)
    x, values = rng.normal(size=number), rng.integers(0, 3, number) * 1.0
    at = np.concatenate([x[:5], rng.normal(scale=2, size=20)])
    nearest = np.argsort(np.abs(at[:, None] - x), axis=1)[:, :k]
    assert (sums_of_nearest(x, values, at, k) == values[nearest].sum(axis=1)).all()
