"""Posteriors from draws whose proposals learned only from other draws (cross-fitting).

A proposal that was fitted to the same draws that it weights is higher at these draws than elsewhere: mixture weights
over one's own past proposals (AMIS; Cornuet, Marin, Mira & Robert 2012) are biased and overconfident from about five
dimensions. So draws come in groups, and the proposals of a group learn from the other groups. Within group a

    w_i = p(θ_i) / Σ_r (n_ar/n_a) q_ar(θ_i),

the mixture of its own proposals over all rounds r (balance heuristic), evaluated only at accepted draws. To first
order the error of f̂ = Σ w a f / Σ w a is the sum of z = w a ψ / Σ w a, independent given the proposals:

    V̂ = Σ_{a,r} n/(n−1) [Σ z² − (Σ z)²/n],    n = n_ar, the rejected counted.

The largest single z² is added once more. Where the variance comes from draws of rare acceptance and large weight, V̂ is
right on average but too small most of the time, since the next such draw is larger than those seen so far: a draw
beyond the largest of n is expected with probability 1/(n+1). In a study where V̂ by itself had intervals of 89 to 93%,
this gave 94 to 96%; where no draw stands out it changes nothing. What the groups still have in common shows in the
jackknife over them, V_JK = (K−1)/K Σ_a (f̂_−a − mean)²: it is far above V̂ when proposals miss a part of the posterior,
and the estimate is then unreliable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import chdtri

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.errors import NoPosterior
from fbar.estimation.coordinates import Coordinates
from fbar.estimation.doubts import all_rejected, none_within
from fbar.estimation.draws import DrawErrors, Draws
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.kept import PART
from fbar.estimation.mixture import Component, Mixture, components
from fbar.estimation.posterior import Posterior
from fbar.estimation.signed import SignedPosterior
from fbar.estimation.simulations import Structure
from fbar.estimation.store import Entry, Store
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Seen
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.space import Particles, Proposal, Space
from fbar.question.targets.quantiles import Inversion
from fbar.question.worth import UNSIGNED, Worth
from fbar.weights import normalised, relative

DISAGREEMENT_BY_CHANCE = 1 / 2500
"""How often chance lets the groups' jackknife raise a doubt: its variance over the error bar's has an F
distribution with K − 1 and many degrees of freedom."""


Draw = Callable[[int, int, int, bool], Particles]


class Crossfitted:
    """Every simulation of a run in a `Store`, in groups, with the proposals that they came from.

    ``proposals[r][a]`` is what group a draws from in round r. ``draw`` gives a block's particles again: its round, its
    number in it, its size and whether they are evenly spread.
    """

    def __init__(
        self,
        problem: Problem,
        space: Space,
        groups: int,
        draw: Draw | None = None,
        *,
        needs_costs: bool = False,
        needs_summaries: bool = False,
    ) -> None:
        self.problem, self.space, self.groups, self._draw = problem, space, groups, draw
        self.needs_costs = needs_costs
        """Whether proposals are learned for what simulations cost, and not for their number."""
        self.proposals: list[Sequence[Proposal]] = []
        several = len(space.parts) > 1
        again = None if draw is None else self._drawn_again
        self.everything: Store[Particles] = Store(
            Coordinates(space.dimension, several, again), needs_costs=needs_costs, needs_summaries=needs_summaries
        )
        self._counts: list[IntArray] = []
        self._mixtures = self._new_mixtures()

    def _new_mixtures(self) -> list[Mixture]:
        """For every group the mixture of its proposals, with nothing remembered yet."""
        log_prior = partial(self._in_parts, function=self.space.log_prior)
        return [Mixture(partial(self._density_of, a), log_prior, carried=True) for a in range(self.groups)]

    def copy(self) -> Crossfitted:
        """The same simulations, with a separate memory: densities in batches of other sizes round otherwise."""
        made = copy(self)
        made._mixtures = [mixture.copy() for mixture in self._mixtures]
        return made

    @property
    def simulations(self) -> int:
        return self.everything.simulations

    def add(self, entry: Entry[Particles]) -> None:
        """Take a block."""
        while len(self._counts) <= entry.round:
            self._counts.append(np.zeros(self.groups, dtype=np.int64))
        self._counts[entry.round][entry.group] += len(entry.distance)
        self.everything.add(entry)

    # ------------------------------------------------------------ rounds and groups

    def counts(self) -> IntArray:
        """n_ar, shape (rounds, groups)."""
        found = np.zeros((len(self.proposals), self.groups), dtype=np.int64)
        for r, counted in enumerate(self._counts):
            found[r] = counted
        return found

    @property
    def rounds(self) -> int:
        """Rounds of which some simulations are there."""
        return len(self._counts)

    def of_round(self, round: int) -> tuple[int, int]:
        """The first simulation of a round, and the first one after it."""
        sizes = [int(counted.sum()) for counted in self._counts]
        return sum(sizes[:round]), sum(sizes[: round + 1])

    def others(self, group: int | None) -> IntArray:
        """The simulations of all groups but one, or of all."""
        if group is None:
            return np.arange(self.simulations)
        blocks = self.everything.blocks
        return np.flatnonzero(np.repeat(blocks[:, 1] != group, blocks[:, 2]))

    # ------------------------------------------------------------ simulations

    def take(self, rows: IntArray) -> Particles:
        return self.everything.theta.take(rows)

    def points(self, rows: IntArray) -> Points:
        """θ of simulations, with what they recorded."""
        return self.theta_of(rows).with_columns(self.everything.recorded(rows))

    def _drawn_again(self, rows: IntArray) -> Particles:
        """The particles of some simulations, in order, from their seeds."""
        assert self._draw is not None
        found = []
        for round, number, size, even, places in self.everything.in_blocks(rows):
            found.append(self._draw(round, number, size, even).take(places))
        return Particles.concatenate(found)

    def log_density(self, proposal: Proposal, rows: IntArray) -> FloatArray:
        return self._in_parts(rows, proposal.log_density)

    def _in_parts(self, rows: IntArray, function: Callable[[Particles], FloatArray]) -> FloatArray:
        """A function of simulations, of so few at a time that what it makes on the way is small."""
        result = np.empty(rows.size)
        for start in range(0, rows.size, PART):
            mine = slice(start, start + PART)
            result[mine] = function(self.take(rows[mine]))
        return result

    # ------------------------------------------------------------ weights

    def _density_of(self, group: int, number: int, rows: IntArray) -> FloatArray:
        return self.log_density(self.proposals[number][group], rows)

    def made_in(self, group: int) -> list[int]:
        """For every round, the round that made the group's proposal: an earlier one where it is used again."""
        found: list[int] = []
        for r, proposals in enumerate(self.proposals):
            again = r > 0 and proposals[group] is self.proposals[r - 1][group]
            found.append(found[-1] if again else r)
        return found

    def components(self, group: int) -> list[Component]:
        """The proposals that a group has drawn from, with its draws from each."""
        counts = self.counts()[:, group].tolist()
        return components(list(zip(self.made_in(group), counts, strict=True)))

    def log_weights(self, rows: IntArray) -> FloatArray:
        """log p/q̄ with q̄ the mixture of the proposals of a simulation's own group."""
        return self._weighed(rows, self._mixtures)

    def _weighed(self, rows: IntArray, mixtures: Sequence[Mixture]) -> FloatArray:
        result, of = np.empty(rows.size), self.everything.group_of(rows)
        for a, mixture in enumerate(mixtures):
            mine = np.flatnonzero(of == a)
            if mine.size:
                result[mine] = mixture.log_weights(rows[mine], self.components(a))
        return result

    # ------------------------------------------------------------ the view of every simulation

    def theta_of(self, rows: IntArray) -> Points:
        """θ of simulations."""
        return self.space.points(self.take(rows)).with_derived(self.problem.derived)

    def log_weights_of(self, rows: IntArray) -> FloatArray:
        """The same as `log_weights`, of any number of simulations, and nothing of it is remembered."""
        return self._weighed(rows, self._new_mixtures())

    def structure_of(self, rows: IntArray) -> Structure:
        stratum, cluster, sizes = self.structure(rows)
        return Structure("independent", stratum, cluster, sizes, np.ones(rows.size, dtype=bool))

    def draws(self, worth: Worth, seen: Seen) -> Draws:
        """The simulations that are worth something."""
        rows, weight = self.everything.accepted(worth)
        if not rows.size:
            tolerance = worth.tolerance if isinstance(worth, Acceptance) else math.inf
            if not self.problem.has_summaries or tolerance == math.inf:
                raise all_rejected(self.simulations, seen, tolerance=False)
            raise none_within(self.simulations, tolerance, seen)
        stratum, cluster, sizes = self.structure(rows)
        log_w = self.log_weights(rows)
        return Draws(
            self.problem,
            self.points(rows),
            weight,
            log_w,
            self.simulations,
            "independent",
            sizes,
            stratum,
            cluster,
            seen,
            rows,
        )

    def structure(self, rows: IntArray) -> tuple[IntArray, IntArray | None, IntArray]:
        """Strata and clusters of simulations, and the number of clusters in every stratum.

        A stratum is a group in a round. Evenly spread points are one cluster a block, all others a cluster each.
        """
        blocks, block = self.everything.blocks, self.everything.block_of(rows)
        stratum = blocks[block, 0] * self.groups + blocks[block, 1]
        sizes, even = self.counts().ravel(), blocks[:, 3] > 0
        if not even.any():
            return stratum, None, sizes
        cluster = np.where(even[block], self.simulations + block, rows)
        round, group, size = blocks[even, :3].T
        np.add.at(sizes, round * self.groups + group, 1 - size)
        return stratum, cluster, sizes

    def posterior(self, worth: Worth, seen: Seen, simulations: int | None = None) -> Posterior:
        """From all draws; ``simulations`` is their number where a draw took several."""
        draws = self.draws(worth, seen)
        if not relative(draws.log_w, draws.weight).sum() > 0:
            raise NoPosterior(
                f"the weights of {draws.simulations} draws are of both signs and do not sum to a positive number, so "
                "there is no posterior; raise the budget"
            )
        weights = normalised(draws.log_w, draws.weight)
        assert draws.row is not None
        errors = CrossfittedErrors(draws, weights, self.everything.group_of(draws.row), self.groups)
        ran = draws.simulations if simulations is None else simulations
        found = Posterior(draws.points, weights, errors, ran, float(draws.weight.sum()))
        if not (weights < 0).any():
            return found
        column = self.everything.further.get(UNSIGNED)
        return SignedPosterior(found, None if column is None else relative(draws.log_w, column.take(draws.row)))


@dataclass(frozen=True, eq=False)
class CrossfittedErrors(DrawErrors):
    """Error bars with a look at the groups, and with room for a simulation that was not seen yet."""

    group: IntArray
    groups: int
    one_carries = 0.8
    """Higher than elsewhere: a large z² that was seen is in the error bar twice, and intervals of such runs held more
    often than others."""

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        bars = super().error_bars(influence)
        limit = float(chdtri(self.groups - 1, DISAGREEMENT_BY_CHANCE)) / (self.groups - 1)
        apart = self._jackknife(influence) > limit * np.diagonal(bars.covariance)
        text = (
            "the groups of simulations disagree by more than the error bar explains; check that every simulation of a "
            "batch has its own random numbers (rng.normal(size=theta.rows), not rng.normal()); if so, raise the budget"
        )
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (apart, text)))

    def inversion(self, below: BoolArray, given: BoolArray | None, variance: float, df: float) -> Inversion:
        """What was not seen is in the variance already."""
        return Inversion(variance, super().inversion(below, given, variance, df).df)

    def known_share(self, influence: FloatArray) -> FloatArray:
        """The part of the variances that is there without the addition for what was not seen."""
        total = np.diagonal(super().error_bars(influence).covariance)
        unseen = self._unseen(self.contributions(influence))
        return np.where(total > 0, 1 - unseen / np.where(total > 0, total, 1.0), 1.0)

    def _unseen(self, z: FloatArray) -> FloatArray:
        """The largest z² among single draws, once more."""
        cluster = self.draws.cluster
        single = z if cluster is None else z[cluster < self.draws.simulations]
        return np.asarray((single**2).max(axis=0, initial=0.0))

    def _jackknife(self, influence: FloatArray) -> FloatArray:
        """(K−1)/K Σ_a (f̂_−a − mean)², to first order in ψ."""
        top = np.zeros((self.groups, influence.shape[1]))
        np.add.at(top, self.group, self.weights[:, None] * influence)
        share = np.bincount(self.group, weights=self.weights, minlength=self.groups)
        without = (top.sum(axis=0) - top) / np.maximum(1 - share, 1e-300)[:, None]
        return np.asarray((self.groups - 1) / self.groups * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
