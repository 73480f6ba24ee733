"""From simulations to a proposal: the design with the smallest error, fitted to the accepted draws.

For independent draws the least error of Σ_j c_j E[ψ_j]² is at q ∝ p √m2 g, with m2(θ) = E[a²|θ] and g² = Σ_j c_j ψ_j²
(per second: divided by √c(θ), the cost of a simulation there); see `fbar.methods.aiming.aim` for g.

Accepted draws of weight w = p/q̄ are draws from p m1; so a mixture is fitted to them with the weights ω = w a² g/√m2.
In one and two dimensions m2 is the mean of a² over a draw's nearest neighbours among *all* other simulations: with the
draw itself among them, m2 would be overestimated where acceptance is rare, and the tails missed. In three or more,
where neighbours are far, it is left out and the mixture is made wider instead (√m2 is wider than m2). Where a is an
estimate of the likelihood itself and not noisy, m2 is a². A proposal that is too wide costs little and one that is too
narrow costs much, so both are widened. The exact variance over the best possible one, for Gaussian p*, mean and second
moment: 1.2 in one dimension (two-sided exponential p*), 1.35 and 1.5 in two, 1.4 and 1.75 in three, 1.75 and 2.1 in
five, 2.1 and 3 in eight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals import Learned
from fbar.designs.proposals.learned import Part, Table
from fbar.designs.proposals.student import fit
from fbar.estimation.crossfitted import Crossfitted
from fbar.methods.aiming.aim import Aim
from fbar.question.space import Particles, Space
from fbar.question.worth import Worth
from fbar.weights import effective_size, relative, systematic

NEIGHBOURS_UPTO = 2
"""Dimensions up to which nearest neighbours tell the acceptance probability."""

INFLATION, INFLATION_IN_ONE = 2.5, 4.0
"""What covariances are multiplied by, in several dimensions and in one: twice what is best for the variance itself,
where the best is flat, so that the tails of z are lighter and the estimate of the variance is steadier."""

FEW, FEW_SHARE = 5, 0.2
"""Models with fewer acceptances than that share at least this part of the simulations: too little is known of them."""

MOST_AVERAGED = 4000
"""Draws whose neighbours are averaged over, about at most: of more, each takes the mean of the nearest of these."""

PROBED = 300
"""Draws of a model that tell its acceptance probability where neighbours are not used for the fit."""

DRAWS_PER_PARAMETER = 8
"""Effective draws for each parameter, and one more, below which the aim is followed in part only."""

FITTED = 1500
"""Draws that a mixture is fitted to, at most: more are resampled."""


@dataclass(frozen=True, eq=False)
class FittedProposal:
    """A proposal, and the share of the variance that evenly spread draws from it could remove."""

    proposal: Learned
    removable: float


def learn(
    store: Crossfitted,
    group: int | None,
    worth: Worth,
    aim: Aim | None,
    defence: float,
    rng: np.random.Generator,
) -> FittedProposal:
    """Fit a proposal for a group to the simulations of the others: for the aim, or without one to ABC's posterior.

    Where the store needs costs, the proposal is the best one for what simulations cost, not for their number.
    """
    space = store.space
    hit, a = store.everything.accepted(worth, without=group)
    particles = store.take(hit)
    log_w = store.log_weights(hit)
    w = relative(log_w)
    weights = w * a
    if not weights.sum() > 0:  # of both signs
        weights = np.abs(weights)
    weights /= weights.sum()
    omega = np.abs(weights)
    removable = 0.0
    if aim is not None:
        base = w * np.abs(a) / np.sqrt(_costs(store, group, hit))
        if worth.noisy:
            m2 = _second_moments(store, group, worth, hit, weights, rng)
            base *= np.abs(a) / np.sqrt(m2)
        points = store.points(hit)
        g = aim.g(points, weights, base)
        omega = _with_enough_draws(base * g, base, space.dimension)
        square = (weights * g) ** 2
        if worth.noisy and space.dimension <= NEIGHBOURS_UPTO:
            # m1²/m2 is the share that θ explains; for an indicator both are the acceptance probability
            removable = float((square * m2).sum() / square.sum())
    shares = np.zeros(len(space.parts))
    parts: list[Part] = [None] * len(space.parts)
    for m, own in space.split(particles):
        shares[m] = omega[own].sum()
        d = space.dimensions[m]
        if d == 0 or not shares[m] > 0:
            continue
        x, weight = particles.x[own, :d], omega[own]
        if size := space.parts[m].values:
            parts[m] = Table(np.bincount(x[:, 0].astype(np.int64), weights=weight, minlength=size) / weight.sum())
            continue
        if own.size < 2:
            continue
        x, weight = _resampled(x, weight, rng)
        inflation = 1.0 if aim is None else INFLATION_IN_ONE if d == 1 else INFLATION
        parts[m] = fit(x, weight, rng, inflation=inflation)
    return FittedProposal(Learned(space, _with_a_chance(shares, space, particles), tuple(parts), defence), removable)


def _with_a_chance(shares: FloatArray, space: Space, particles: Particles) -> FloatArray:
    """Shares that sum to 1, with some for models of which little is known yet.

    Left to the defence alone, a model that is accepted rarely would hardly be found by a small budget, and proposals be
    kept that do without it.
    """
    shares = shares / shares.sum()
    few = np.where(np.bincount(particles.model, minlength=len(shares)) < FEW, space.shares, 0.0)
    return (1 - FEW_SHARE) * shares + FEW_SHARE * few / few.sum() if few.any() else shares


def _with_enough_draws(omega: FloatArray, base: FloatArray, dimension: int) -> FloatArray:
    """ω, or where few draws carry it, in part ω without g: a rare event that was seen once says little of its place.

    A fit to these few would be as wide as the prior, and rounds be lost before the event is seen again.
    """
    part = max(0.0, 1 - effective_size(omega) / (DRAWS_PER_PARAMETER * (dimension + 1)))
    return np.asarray((1 - part) * omega + part * base * (omega.sum() / base.sum()))


def _resampled(x: FloatArray, weight: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    if len(x) <= FITTED:
        return x, weight
    return x[systematic(weight, FITTED, rng)], np.ones(FITTED)


def _costs(store: Crossfitted, group: int | None, accepted_rows: IntArray) -> FloatArray:
    """c(θ) at the accepted simulations, by a regression of log cost on coordinates and their squares in each model.

    The mean of log cost is not that of cost; they differ by a factor that is the same for all if the scatter is.
    """
    result = np.ones(accepted_rows.size)
    if not store.needs_costs:
        return result
    rows = store.others(group)
    cost, hit = store.everything.cost.take(rows), np.searchsorted(rows, accepted_rows)
    known = np.flatnonzero(np.isfinite(cost) & (cost > 0))
    everything = store.take(rows)
    for m, _ in store.space.split(everything):
        mine, own = np.flatnonzero(everything.model[hit] == m), known[everything.model[known] == m]
        d = store.space.dimensions[m]
        if not mine.size or own.size == 0:
            continue
        log_cost = np.log(cost[own])
        if own.size <= 4 * (2 * d + 1) or d == 0:
            result[mine] = np.exp(log_cost.mean())
            continue

        def features(of: IntArray, d: int = d) -> FloatArray:
            x = everything.x[of, :d]
            return np.concatenate([np.ones((len(of), 1)), x, x**2], axis=1)

        a = features(own)
        beta = np.linalg.solve(a.T @ a + 1e-3 * np.eye(a.shape[1]), a.T @ log_cost)
        found = features(hit[mine]) @ beta
        result[mine] = np.exp(np.clip(found, log_cost.min(), log_cost.max()))
    return result


def _second_moments(
    store: Crossfitted,
    group: int | None,
    worth: Worth,
    accepted_rows: IntArray,
    weights: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """E[a²|θ] at the accepted simulations, from their nearest neighbours among all others.

    In three dimensions and more one number for each model, so that models get their shares.
    """
    space, result = store.space, np.ones(accepted_rows.size)
    if len(space.parts) == 1 and space.dimension > NEIGHBOURS_UPTO:
        return result
    rows = store.others(group)
    hit, a = np.searchsorted(rows, accepted_rows), store.everything.worth(worth, rows)
    everything = store.take(rows)
    for m, own in space.split(everything):
        mine = np.flatnonzero(everything.model[hit] == m)
        d = space.dimensions[m]
        if not mine.size:
            continue
        square = a[own] ** 2
        if d == 0 or mine.size == 1:
            result[mine] = square.mean()
            continue
        if space.parts[m].discrete.any():
            result[mine] = _in_cells(everything.x[own, 0], square, everything.x[hit[mine], 0])
            continue
        x, at = everything.x[own, :d], everything.x[hit[mine], :d]
        if d <= NEIGHBOURS_UPTO:
            result[mine] = _near(x, square, at, a[hit[mine]] ** 2)
            continue
        some = rng.choice(mine.size, min(mine.size, PROBED), replace=False)
        root = 1 / np.sqrt(_near(x, square, at[some], a[hit[mine[some]]] ** 2))
        result[mine] = (np.average(root, weights=np.abs(weights[mine[some]]))) ** -2
    return result


def _in_cells(codes: FloatArray, square: FloatArray, at: FloatArray) -> FloatArray:
    """The mean of a² over all simulations of the same value: simulations that are equal have no nearest neighbours."""
    cells = codes.astype(np.int64)
    sums, counts = np.bincount(cells, weights=square), np.bincount(cells)
    mine = at.astype(np.int64)
    return np.asarray(sums[mine] / counts[mine])


def _near(x: FloatArray, square: FloatArray, at: FloatArray, own: FloatArray) -> FloatArray:
    """The mean of a² over the neighbours of points among x, themselves left out; never quite zero."""
    from scipy.spatial import cKDTree

    spread = at.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    k = int(min(len(x) - 1, max(4, 2 * np.sqrt(len(at)))))
    if x.shape[1] == 1:
        return np.asarray((sums_of_nearest(x[:, 0], square, at[:, 0], k + 1) - own + 0.25) / (k + 0.5))
    every = -(-len(at) // MOST_AVERAGED)
    some = at[::every] / scale
    _, near = cKDTree(x / scale).query(some, k=k + 1)
    found = np.asarray((square[near].sum(axis=1) - own[::every] + 0.25) / (k + 0.5))
    return found if every == 1 else np.asarray(found[cKDTree(some).query(at / scale)[1]])


def sums_of_nearest(x: FloatArray, values: FloatArray, at: FloatArray, k: int) -> FloatArray:
    """The sum of the values of the k of x that are nearest to each of some places: k that follow one another in order.

    >>> sums_of_nearest(np.array([3.0, 0.0, 1.0]), np.array([4.0, 1.0, 2.0]), np.array([0.2, 2.5]), 2).tolist()
    [3.0, 6.0]
    """
    order = np.argsort(x, kind="stable")
    ordered, sums = x[order], np.concatenate([[0.0], np.cumsum(values[order])])
    low = np.zeros(len(at), dtype=np.int64)
    high = np.full(len(at), len(x) - k)
    while (low < high).any():  # the first of k is farther than the one behind the last: further on
        middle = (low + high) // 2
        farther = at - ordered[middle] > ordered[np.minimum(middle + k, len(x) - 1)] - at
        going = low < high
        low, high = np.where(going & farther, middle + 1, low), np.where(going & ~farther, middle, high)
    return np.asarray(sums[low + k] - sums[low])
