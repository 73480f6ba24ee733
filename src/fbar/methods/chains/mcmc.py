"""ABC-MCMC (Marjoram et al. 2003) with adaptive proposal and tolerance, and post-correction (Vihola & Franks 2020).

A chain proposes θ′ from a walk, simulates once, and accepts it if the distance Δ′ is at most δ, with the probability
min(1, p(θ′)/p(θ)): its states have the distribution p(θ) P(Δ ≤ δ|θ) / Z. With their distances one run serves all
tolerances ε ≤ δ: states with Δ > ε are left out (the weight of another kernel is K(Δ/ε)), see
`fbar.estimation.chains`. A large δ lets chains move, a small one leaves more states within ε; the chains' acceptance
rate is near its best compromise at 0.1, so that is what δ is tuned to in the burn-in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.checks import (
    choice,
    counted,
    non_negative_number,
    number,
    positive_integer,
    positive_number,
    shown,
    store_number,
)
from fbar.errors import InputError, NoPosterior
from fbar.estimation.chains import States
from fbar.estimation.posterior import Posterior
from fbar.estimation.store import Entry, Store, failures, numbers
from fbar.methods.chains.run import ChainRun, Phase
from fbar.methods.chains.tolerance import FallingTolerance
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Outcomes, Tally, require_simulated
from fbar.question.problem import Problem
from fbar.question.space import Particles, Space

KEPT_STATES = 100
"""Accepted simulations that are left at the tolerance that is chosen, where none is given, at least."""

KEPT_SHARE = 0.5
"""The same as a share of the states at the chains' own tolerance."""


@register("mcmc", "ABC-MCMC: chains at a tolerance that is learned, and their states within smaller ones")
@dataclass(frozen=True)
class MCMC(Method):
    """ABC-MCMC with adaptive proposal and tolerance, and post-correction.

    Chains start from the best of a pilot of draws from the prior, which takes a tenth of the budget. In the burn-in, a
    third of what follows, they learn the covariance of their steps and the tolerance at which they accept a tenth of
    their proposals. Their states then serve all smaller tolerances.

    Parameters
    ----------
    tolerance
        The tolerance of ABC's posterior. Chains run at it, or at a larger one if they would move too rarely. None: the
        one that leaves half of the chains' states, and at least 100.
    kernel
        The acceptance kernel of the posterior, ``"uniform"`` or ``"epanechnikov"``, see `Acceptance`.
    chains
        How many there are; by default a fifth of the square root of the budget, from 4 to 256.
    acceptance_rate
        The share of proposals accepted that the chains' tolerance is tuned to.
    chain_tolerance
        The chains' tolerance, where it is not to be learned: at least ``tolerance``.
    jump
        The probability with which a chain proposes a new draw from the prior and not a step: 0.3 by default where there
        are several models, and otherwise 0. A finite space has nothing else.
    """

    tolerance: float | None = None
    kernel: str = "uniform"
    chains: int | None = None
    acceptance_rate: float = 0.1
    chain_tolerance: float | None = None
    jump: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
        choice(self.kernel, ("uniform", "epanechnikov"), "acceptance kernel of chains")
        Acceptance(self.tolerance or 1.0, self.kernel)
        if self.chains is not None and positive_integer(self.chains, "chains") > 100_000:
            raise InputError(f"there can be at most 100,000 chains; got {shown(self.chains)}")
        if not 0 < positive_number(self.acceptance_rate, "acceptance_rate") < 1:
            raise InputError(f"acceptance_rate must lie between 0 and 1; got {shown(self.acceptance_rate)}")
        store_number(self, "acceptance_rate", float(self.acceptance_rate))
        if self.chain_tolerance is not None:
            at = non_negative_number(self.chain_tolerance, "chain_tolerance")
            store_number(self, "chain_tolerance", at)
            if self.tolerance is not None and at < self.tolerance:
                raise InputError(
                    f"chain_tolerance {at:g} is below the tolerance {self.tolerance:g}; chains serve only smaller "
                    "tolerances than their own"
                )
        if self.jump is not None:
            if not 0 <= number(self.jump, "jump") <= 1:
                raise InputError(f"jump must be a probability; got {shown(self.jump)}")
            store_number(self, "jump", float(self.jump))

    @property
    def chooses_tolerance(self) -> bool:
        return self.tolerance is None

    def for_problem(self, problem: Problem) -> Self:
        """Without a tolerance, a finite space and data that match or do not are compared exactly."""
        exact = self.tolerance is None and (problem.is_finite or not problem.has_summaries)
        return self.at_tolerance(0.0) if exact else self

    def begin(self, start: Start) -> MCMCRun:
        return MCMCRun(self.for_problem(start.problem), start)


class MCMCRun(ChainRun):
    """ABC-MCMC at work. ``chain_tolerance`` is δ, as far as it is learned."""

    def __init__(self, method: MCMC, start: Start) -> None:
        self.method, self._wanted = method, method.tolerance
        space = Space(start.problem.prior, "normal")
        super().__init__(start, space, chains=method.chains, jump=method.jump)
        if method.tolerance is not None:
            self.problem.check_acceptance(Acceptance(method.tolerance, method.kernel))
        self.everything: Store[Particles] = Store(self.visited, most=self._most)
        self._falling: FallingTolerance | None = None
        self.chain_tolerance = math.inf

    # ------------------------------------------------------------ distances and acceptance

    def _scored(self, batch: Batch, outcomes: Outcomes, particles: Particles) -> FloatArray:
        if isinstance(outcomes, Tally):
            distance = np.where(outcomes.weight > 0, 0.0, np.inf)
            self.everything.add(Entry(self.round, 0, particles, distance, {}, None))
            self.seen = self.seen + outcomes.seen
            return distance
        outcomes = require_simulated(outcomes)
        distance, seen = self.problem.distances(outcomes, self._least)
        self.everything.add(
            Entry(
                self.round,
                0,
                particles,
                distance,
                outcomes.columns,
                numbers(outcomes.summaries),
                outcomes.cost,
                failures(outcomes, distance),
            )
        )
        self.seen = self.seen + seen
        return distance

    @property
    def _least(self) -> float:
        """The tolerance below which chains need not go."""
        return 0.0 if self._wanted is None else self._wanted

    def _starts(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        finite = np.flatnonzero(np.isfinite(scores))
        if not finite.size:
            return finite
        order = finite[np.argsort(scores[finite], kind="stable")]
        chains = self.plan.chains
        given = self.method.chain_tolerance
        first = float(scores[order[min(chains, order.size) - 1]])
        self.chain_tolerance = max(first, self._least) if given is None else given
        if given is None:
            self._falling = FallingTolerance(first, self._least, self.method.acceptance_rate)
        near = order[scores[order] <= max(self.chain_tolerance, first)]
        if near.size < chains:
            return np.asarray(near[np.arange(chains) % near.size])
        return rng.permutation(near)[:chains]

    def _likelihood_ratio(self, proposed: FloatArray, current: FloatArray) -> FloatArray:
        """0 or −∞; a chain that is still outside the tolerance also goes wherever it comes closer to the data."""
        delta = self.chain_tolerance
        inside = proposed <= delta
        if self.phase is Phase.BURN_IN:
            arrives = inside & ~(current <= delta)
            inside |= (proposed < current) & ~(current <= delta)
            return np.where(arrives, np.inf, np.where(inside, 0.0, -np.inf))
        return np.where(inside, 0.0, -np.inf)

    def _adapt(self, scores: FloatArray, log_ratio: FloatArray, last: bool) -> None:
        if self._falling is None:
            return
        self._falling.add(scores, log_ratio)
        if last:
            self._falling.settle()
        else:
            self._falling.move()
        self.chain_tolerance = self._falling.tolerance

    def _outside(self, scores: FloatArray) -> BoolArray:
        return np.asarray(~(scores <= self.chain_tolerance))

    def _all_failed(self) -> None:
        self.everything.all_failed()
        super()._all_failed()

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        found = super().round_state()
        return None if found is None else {**found, "tolerance": np.array(self.chain_tolerance)}

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.chain_tolerance = float(state["tolerance"])
        if self._falling is not None:
            self._falling.tolerance = self.chain_tolerance
        super().restore_round(state)

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            if self.phase is Phase.SAMPLING:
                self._require_within(tolerance)
            self._wanted = tolerance
        super()._extend(tolerance)

    # ------------------------------------------------------------ what comes out

    @property
    def chooses_tolerance(self) -> bool:
        return self._wanted is None

    @property
    def final_tolerance(self) -> float | None:
        return self._wanted

    def posterior(self) -> Posterior:
        return self.posterior_at(self._posterior_tolerance())

    def posterior_at(self, tolerance: float) -> Posterior:
        at = non_negative_number(tolerance, "tolerance")
        self._require_within(at)
        visited = self.states()
        rows, inverse = np.unique(visited, return_inverse=True)
        acceptance = Acceptance(at, self.method.kernel if 0 < at < math.inf else "uniform")
        weight = accepted(acceptance, np.asarray(self._scores.take(rows)))
        inside = weight > 0
        if not inside.any():
            raise NoPosterior(
                f"none of the states of {counted(self.plan.chains, 'chain')} is within the tolerance {at:g} (they ran "
                f"at {self.chain_tolerance:.4g}); use a larger tolerance, or raise the budget"
            )
        number = np.where(inside, np.cumsum(inside) - 1, -1)
        rows, weight = rows[inside], weight[inside]
        states = States(number[inverse].reshape(visited.shape), weight)
        points = self.theta_of(rows).with_columns(self.everything.recorded(rows))
        posterior = self.average(rows, states, points)
        return self._described(posterior, at, self._prior_share(acceptance))

    def _prior_share(self, acceptance: Acceptance) -> float:
        """The share of the pilot that is accepted."""
        pilot = np.asarray(self._scores.take(np.arange(self.plan.pilot)))
        return float(accepted(acceptance, pilot).mean())

    def _posterior_tolerance(self) -> float:
        if self._wanted is not None:
            return self._wanted
        if self.phase is Phase.PILOT:
            return math.inf
        distance = np.sort(np.asarray(self._scores.take(np.unique(self.states()))))
        distance = distance[distance <= self.chain_tolerance]
        kept = max(KEPT_STATES, math.ceil(KEPT_SHARE * distance.size))
        return self.chain_tolerance if distance.size <= kept else float(distance[kept - 1])

    def _require_within(self, tolerance: float) -> None:
        """Refuse a tolerance above that of the chains."""
        if self.phase is Phase.SAMPLING and tolerance > self.chain_tolerance:
            raise InputError(
                f"the chains ran at the tolerance {self.chain_tolerance:.4g}, so there is no posterior at the larger "
                f"{tolerance:g}; choose a smaller one, or start another run with that tolerance"
            )

    @property
    def present_tolerance(self) -> float | None:
        return self.chain_tolerance if 0 < self.chain_tolerance < math.inf else None

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.everything.summaries.flat(rows, size)
