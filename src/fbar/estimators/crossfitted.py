"""Posteriors from draws whose proposals learnt from other draws alone (cross-fitting).

A proposal that was fitted to the very draws that it weighs is higher at their places than elsewhere: mixture weights
over one's own past proposals (AMIS; Cornuet, Marin, Mira & Robert 2012) are biased and overconfident from about five
dimensions. So draws come in groups, and the proposals of a group learn from the other groups. Within group a

    w_i = p(θ_i) / Σ_r (n_ar/n_a) q_ar(θ_i),

the mixture of its own proposals over all rounds r (balance heuristic), evaluated for accepted draws alone. To first
order the error of f̂ = Σ w a f / Σ w a is the sum of z = w a ψ / Σ w a, independent given the proposals:

    V̂ = Σ_{a,r} n/(n−1) [Σ z² − (Σ z)²/n],    n = n_ar, the rejected counted.

What the groups still share shows in the jackknife over them, V_JK = (K−1)/K Σ_a (f̂_−a − mean)²: it is far above V̂ when
proposals miss a part of the posterior, and then a reason for doubt, as are weights without a variance, see `tail_index`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.acceptance import Acceptance, accepted
from fbar.checks import FloatArray, IntArray
from fbar.errors import NoPosterior
from fbar.estimate import ErrorBars
from fbar.estimators.draws import DrawErrors, Draws
from fbar.outcomes import Seen
from fbar.posterior import Posterior
from fbar.problem import Problem
from fbar.proposals import Particles, Proposal, Space

HEAVY = 0.7
"""A tail index of the terms z above which an error bar is not to be trusted (Vehtari et al. 2024)."""


@dataclass(frozen=True, eq=False)
class Piece:
    """The simulations of one block: their round, their group, and whether they are one set of evenly spread points."""

    round: int
    group: int
    particles: Particles
    distance: FloatArray
    recorded: Mapping[str, npt.NDArray[Any]]
    summaries: npt.NDArray[Any] | None
    cost: FloatArray | None
    even: bool


@dataclass(eq=False)
class Crossfitted:
    """Every simulation of a run, in groups. ``proposals[r][a]`` is what group a draws from in round r."""

    problem: Problem
    space: Space
    groups: int
    pieces: list[Piece] = field(default_factory=list)
    proposals: list[Sequence[Proposal]] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        for name in ("particles", "distance", "group", "round"):
            self.__dict__.pop(name, None)

    @property
    def simulations(self) -> int:
        return sum(len(piece.distance) for piece in self.pieces)

    @cached_property
    def particles(self) -> Particles:
        return Particles.concatenate([piece.particles for piece in self.pieces])

    @cached_property
    def distance(self) -> FloatArray:
        """NaN where a simulation failed."""
        return np.concatenate([piece.distance for piece in self.pieces])

    @cached_property
    def group(self) -> IntArray:
        return self._each([piece.group for piece in self.pieces])

    @cached_property
    def round(self) -> IntArray:
        return self._each([piece.round for piece in self.pieces])

    def _each(self, values: Sequence[int]) -> IntArray:
        return np.repeat(np.array(values, dtype=np.int64), [len(piece.distance) for piece in self.pieces])

    def recorded(self, rows: IntArray) -> dict[str, npt.NDArray[Any]]:
        names = dict.fromkeys(name for piece in self.pieces for name in piece.recorded)
        # A block whose simulations all failed has none; its rows are never among those that are asked for.
        parts = {n: [p.recorded.get(n, np.full(len(p.distance), np.nan)) for p in self.pieces] for n in names}
        return {name: np.concatenate(part)[rows] for name, part in parts.items()}

    def counts(self) -> IntArray:
        """n_ar, shape (rounds, groups)."""
        found = np.zeros((len(self.proposals), self.groups), dtype=np.int64)
        for piece in self.pieces:
            found[piece.round, piece.group] += len(piece.distance)
        return found

    def log_weights(self, rows: IntArray) -> FloatArray:
        """log p/q̄ with q̄ the mixture of the proposals of a simulation's own group."""
        counts, result = self.counts(), np.empty(rows.size)
        of = self.group[rows]
        for a in range(self.groups):
            mine = np.flatnonzero(of == a)
            if not mine.size:
                continue
            particles = self.particles.take(rows[mine])
            stages: dict[int, tuple[Proposal, int]] = {}
            for r, proposals in enumerate(self.proposals):
                if counts[r, a]:
                    before = stages.get(id(proposals[a]), (proposals[a], 0))[1]
                    stages[id(proposals[a])] = (proposals[a], before + int(counts[r, a]))
            log_q = np.full(mine.size, -np.inf)
            for proposal, draws in stages.values():
                np.logaddexp(log_q, math.log(draws) + proposal.log_density(particles), out=log_q)
            result[mine] = self.space.log_prior(particles) - log_q + math.log(counts[:, a].sum())
        return result

    def draws(self, acceptance: Acceptance, seen: Seen) -> Draws:
        """The accepted simulations."""
        weight = accepted(acceptance, self.distance) if self.pieces else np.zeros(0)
        rows = np.flatnonzero(weight)
        if not rows.size:
            told = f" ({seen})" if str(seen) else ""
            raise NoPosterior(
                f"none of {self.simulations} simulations was accepted at the tolerance {acceptance.tolerance:g}{told}; "
                "look at a larger tolerance, or raise the budget"
            )
        points = self.space.points(self.particles.take(rows)).with_derived(self.problem.derived)
        points = points.with_columns(self.recorded(rows))
        stratum = self.round[rows] * self.groups + self.group[rows]
        sizes, cluster = self.counts().ravel(), None
        if any(piece.even for piece in self.pieces):
            # Evenly spread points are one cluster a block, all others a cluster each.
            even = np.array([piece.even for piece in self.pieces])
            block = self._each(list(range(len(self.pieces))))[rows]
            cluster = np.where(even[block], len(self.distance) + block, rows)
            for piece in self.pieces:
                if piece.even:
                    sizes[piece.round * self.groups + piece.group] += 1 - len(piece.distance)
        return Draws(
            self.problem,
            points,
            weight[rows],
            self.log_weights(rows),
            self.simulations,
            "independent",
            sizes,
            stratum,
            cluster,
            seen,
            rows,
        )

    def posterior(self, acceptance: Acceptance, seen: Seen) -> Posterior:
        draws = self.draws(acceptance, seen)
        w = draws.weight * np.exp(draws.log_w - draws.log_w.max())
        weights = w / w.sum()
        errors = CrossfittedErrors(draws, weights, self.group[draws.row], self.groups)
        return Posterior(draws.points, weights, errors, draws.simulations, float(draws.weight.sum()))


@dataclass(frozen=True, eq=False)
class CrossfittedErrors(DrawErrors):
    """Error bars with a look at the groups and at the tail of the weights."""

    group: IntArray
    groups: int

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        bars = super().error_bars(influence)
        z = self.weights[:, None] * influence
        variance = np.diagonal(bars.covariance)
        jackknife = self._jackknife(influence)
        apart = jackknife > F_LIMIT * variance
        heavy = np.array([tail_index(np.abs(column)) > HEAVY for column in z.T])
        doubts = (
            *bars.doubts,
            (apart, "the groups of simulations disagree by more than the error bar explains; raise the budget"),
            (heavy, "a few accepted simulations have weights far above the others, so the error may be larger than it says"),
        )
        return ErrorBars(bars.covariance, bars.df, doubts)

    def _jackknife(self, influence: FloatArray) -> FloatArray:
        """(K−1)/K Σ_a (f̂_−a − mean)², to first order in ψ."""
        top = np.zeros((self.groups, influence.shape[1]))
        np.add.at(top, self.group, self.weights[:, None] * influence)
        share = np.bincount(self.group, weights=self.weights, minlength=self.groups)
        without = (top.sum(axis=0) - top) / np.maximum(1 - share, 1e-300)[:, None]
        return np.asarray((self.groups - 1) / self.groups * ((without - without.mean(axis=0)) ** 2).sum(axis=0))


F_LIMIT = 6.0


def tail_index(values: FloatArray) -> float:
    """The shape k of a generalised Pareto distribution fitted to the largest of positive values; −∞ for too few.

    A sum of terms whose tail has k > ½ has no variance. The fit is that of Zhang & Stephens (2009) to the largest
    min(n/5, 3√n), with a weak prior of ten observations at ½ (Vehtari, Simpson, Gelman, Yao & Gabry 2024).
    """
    values = values[values > 0]
    n = values.size
    size = int(min(n / 5, 3 * math.sqrt(n)))
    if size < 5:
        return -math.inf
    tail = np.sort(values)[-size - 1 :]
    x = tail[1:] - tail[0]
    if not x[-1] > 0:
        return -math.inf
    quarter = x[int(size / 4 + 0.5) - 1]
    if not quarter > 0:
        return -math.inf
    grid = 30 + int(math.sqrt(size))
    b = 1 / x[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter)
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = size * (np.log(-b / k) - k - 1)
    weight = np.exp(profile - profile.max())
    best = float((b * weight).sum() / weight.sum())
    shape = float(np.log1p(-best * x).mean())
    return (size * shape + 10 * 0.5) / (size + 10)
