"""A targeted run that answers at the data: every round is drawn from the posterior that the rounds before have shown.

The first round comes from the prior. After each round the posterior at the data is estimated for every group from the
simulations of the others (`fbar.estimation.at_data`), and a mixture is fitted to its sample: the design that has least
variance for the residuals of the regression near the data is about the posterior itself, widened. It is the wider the
larger the estimate's own error is, so that a first guess that is far off does no harm; a share of the prior stays in.
Rounds double what is there, up to the budget; where a stopping rule ends the run they add half of it.

Where there are too few simulations for a regression, the nearest ones take the place of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals import FromPrior, Learned
from fbar.designs.proposals.learned import Part
from fbar.designs.proposals.student import fit
from fbar.errors import NoPosterior
from fbar.estimation.at_data.choice import Step
from fbar.estimation.at_data.local import local
from fbar.estimation.at_data.moving import move
from fbar.estimation.at_data.prepared import Prepared
from fbar.methods.aiming.aim import Aim
from fbar.methods.run import Stage
from fbar.methods.start import Start
from fbar.methods.targeted.rounds import LEAST_ROUND, TargetedRounds
from fbar.methods.total_error import GROWTH
from fbar.question.space import Particles, Proposal
from fbar.seeds import Purpose
from fbar.weights import systematic

if TYPE_CHECKING:
    from fbar.methods.targeted.method import Targeted

FIRST, FIRST_PER_DIMENSION, FIRST_SHARE = 200, 20, 0.1
"""Simulations of the first round: at least so many, so many for each dimension, and this share of the budget."""

FIRST_OPEN = 1000
"""Simulations of the first round where no budget is given, at least."""

INFLATION = 3.0
"""What covariances are multiplied by, for an estimate without error."""

LEARNED_ROUNDS = 3
"""Rounds after which errors fall steadily, so that they can be forecast."""

MOST_ERROR = 2.0
"""The largest error, in posterior variances, that a proposal is widened by."""

NEAREST = 8
"""One of so many simulations, the nearest, where no regression can be fitted yet."""

LEARNED_FROM = 7_000
"""Simulations that a proposal is learned from, at most; they are spread evenly over all of them."""

FITTED = 1500
"""Draws that a mixture is fitted to, at most: more are resampled."""


class TargetedAtDataRun(TargetedRounds):
    """A targeted run at work that answers at the data."""

    def __init__(self, method: Targeted, start: Start, aim: Aim) -> None:
        super().__init__(method, start)
        self.aim = aim
        self._first_round()

    def _first_round(self) -> None:
        d = self.space.dimension
        size = max(FIRST if self.budget is not None else FIRST_OPEN, FIRST_PER_DIMENSION * d)
        if self.budget is not None:
            size = max(size, int(FIRST_SHARE * self.budget))
        if self._most < math.inf:
            size = int(min(size, max(self._most // 4, 1)))
        prior: list[Proposal] = [FromPrior(self.space)] * self.method.groups
        self._open(prior, size, math.inf)

    @property
    def at_final_tolerance(self) -> bool:
        return True

    @property
    def learning(self) -> bool:
        return not self.finished and self.round < LEARNED_ROUNDS

    @property
    def reading_growth(self) -> float:
        return GROWTH

    def stages(self) -> list[Stage]:
        found = []
        for number, proposals in enumerate(self.store.proposals[: self.store.rounds]):
            learned = not isinstance(proposals[0], FromPrior)
            first, end = self.store.of_round(number)
            words = "from the posterior estimated so far, widened" if learned else "from the prior"
            found.append(Stage(words, end - first))
        return found

    # ------------------------------------------------------------ learning

    def _end_round(self) -> None:
        if self.simulations >= self._most:
            self._ended = "budget spent"
        else:
            self._advance()

    def _advance(self) -> None:
        """Plan the next round: as many simulations again, or half as many where a stopping rule is waiting."""
        proposals = self._fitted_proposals()
        self._open(proposals, max(LEAST_ROUND, self.simulations // (2 if self.budget is None else 1)), math.inf)

    def _fitted_proposals(self) -> list[Proposal]:
        """The proposals of the groups, each from the simulations of the others.

        They share the scale of the summaries, which is free of θ, and the order, region and bandwidth of the regression
        with its error: a choice among a few that hardly depends on any one simulation.
        """
        try:
            prepared = self.estimator_at_data.prepared(self.all_simulations())
        except NoPosterior:
            return [FromPrior(self.space)] * self.method.groups
        prepared = self.estimator_at_data.in_coordinates(prepared)
        try:
            step = self._provisional_from(prepared).step
        except NoPosterior:
            step = None
        others = [np.flatnonzero(prepared.fold != a) for a in range(self.method.groups)]
        parts = [prepared.take(rows[:: -(-rows.size // LEARNED_FROM)]) for rows in others]
        return [self._fitted(a, part, step) for a, part in enumerate(parts)]

    def _fitted(self, group: int, prepared: Prepared, like: Step | None) -> Proposal:
        """The proposal of a group from what was prepared of the others' simulations, by a regression like a step's."""
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1 - group)
        moved = None if like is None else move(prepared, like.moved.share, like.moved.order)
        weights = None if like is None or moved is None else local(moved, like.share)
        if like is None or moved is None or weights is None:
            at = np.argsort(prepared.radius, kind="stable")[: max(len(prepared) // NEAREST, 2)]
            v, omega, widened = prepared.v[at], prepared.w[at], INFLATION * (1 + MOST_ERROR)
        else:
            at, omega = moved.rows[weights.at], weights.omega
            v, widened = moved.v[weights.at], INFLATION * (1 + min(like.error, MOST_ERROR))
        return self._mixture(self.store.take(prepared.rows[at]), v, omega, widened, prepared.moving, rng)

    def _mixture(
        self,
        particles: Particles,
        v: FloatArray,
        weights: FloatArray,
        inflation: float,
        moving: tuple[int, ...],
        rng: np.random.Generator,
    ) -> Learned:
        """A mixture for every model, fitted to draws whose coordinates ``moving`` have moved to ``v``."""
        shares = np.zeros(len(self.space.parts))
        parts: list[Part] = [None] * len(self.space.parts)
        offset = 0 if len(self.space.parts) == 1 else 1  # a choice of models has the first coordinate of the cube
        x = particles.x.copy()
        for k, column in enumerate(moving):
            x[:, column - offset] = v[:, k]
        for m, own in self.space.split(particles):
            shares[m] = weights[own].sum()
            d = self.space.dimensions[m]
            if d == 0 or own.size < 2 or not shares[m] > 0 or self.space.parts[m].values:
                continue
            xs, ws = _resampled(x[own, :d], weights[own], rng)
            parts[m] = fit(xs, ws, rng, inflation=inflation)
        shares = shares / shares.sum()
        return Learned(self.space, shares, tuple(parts), self.defence)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or not all(isinstance(q, Learned) for q in self.store.proposals[-1]):
            return None
        found: dict[str, npt.NDArray[Any]] = {"simulations": np.array(self._plan.simulations, dtype=np.int64)}
        for a, proposal in enumerate(self.store.proposals[-1]):
            assert isinstance(proposal, Learned)
            found |= {f"{a}/{name}": array for name, array in proposal.arrays().items()}
        return found

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.store.proposals[-1] = [
            Learned.of(
                {name.partition("/")[2]: array for name, array in state.items() if name.startswith(f"{a}/")},
                self.space,
                self.defence,
            )
            for a in range(self.method.groups)
        ]
        self._plan = self._planned(int(state["simulations"]), False)

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            self._refuse_tolerance(tolerance)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.aim = Aim.of(self.targets, self.method.goal, self.method.importance)
        self._ended = ""
        self.warnings.clear()
        if len(self.store.proposals) > self.round:  # planned, and not asked for
            self.store.proposals.pop()
            self._reached.pop()
        if self.simulations:
            self._advance()
        else:
            self._first_round()


def _resampled(x: FloatArray, weights: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    if len(x) <= FITTED:
        return x, weights
    rows: IntArray = systematic(weights, FITTED, rng)
    return x[rows], np.ones(FITTED)
