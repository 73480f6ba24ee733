"""Simulations where they reduce the error of what is asked (section 2 of the paper, for p* that is not known).

Proposals follow ABC's posterior at falling tolerances down to the requested one. There they follow the design with the
smallest error, q ∝ p √E[a²|θ] g, g² = Σ_j c_j ψ_j² (the optimum for independent draws of section S5.1, for several
targets), which is learned in rounds that double the number of acceptances, and then fixed. See
`fbar.methods.targeted.phases` for the phases, `fbar.methods.aiming.learning` for the fit, and
`fbar.estimation.crossfitted` for the groups, which ensure that proposals do not weight the draws that they were fitted
to.

The size of every round is planned before it begins: no acceptance ends one, so draws are independent given the past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import IntArray
from fbar.designs.proposals import FromPrior, Learned
from fbar.errors import InputError, NoPosterior
from fbar.methods.aiming.aim import Aim
from fbar.methods.aiming.learning import FittedProposal, learn
from fbar.methods.aiming.plan import SCRAMBLES
from fbar.methods.start import Start
from fbar.methods.targeted.phases import (
    LEARNING,
    SAMPLING,
    Descent,
    Learning,
    Phase,
    RecordedRound,
    Sampling,
    name_of,
    state_as_now,
)
from fbar.methods.targeted.rounds import LEAST_ROUND, TargetedRounds
from fbar.methods.targeted.tolerance import low_enough
from fbar.question.acceptance import Acceptance
from fbar.question.space import Proposal
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.targeted.method import Targeted

WITHIN_TOLERANCE, WITHIN_PER_DIMENSION = 200, 20
"""How many simulations a falling tolerance keeps within it, or for each dimension if that is more; fewer where the
budget is small."""

LEARNED_FROM = 1000
"""Acceptances at the wanted tolerance after which proposals are kept."""

LEARNED_FROM_MODEL = 30
"""Acceptances of every model that is accepted at all, before proposals are kept."""

WORTH_SPREADING = 0.2
"""The least share of the variance that evenly spread points could remove for which they are used."""

LEAST_SCRAMBLE = 16
"""Points of a scramble, at least."""


class TargetedRun(TargetedRounds):
    """A targeted run at work, phase by phase."""

    def __init__(self, method: Targeted, start: Start, aim: Aim) -> None:
        super().__init__(method, start)
        self.aim = aim
        self._chooses = method.named_tolerance is None and self.problem.has_summaries and self._most < math.inf
        self._phase: Phase = self._first_phase()
        self._within = max(WITHIN_TOLERANCE, WITHIN_PER_DIMENSION * self.space.dimension)
        if self._chooses:  # the bias of a tolerance is weighed against the error of the whole budget
            self._within = int(max(self._within, self._most // 50))
        if self._most < math.inf:
            self._within = int(min(self._within, max(8, self._most // 16)))
        self._first_round()

    def _first_phase(self) -> Phase:
        """Where simulations only match or do not, there is no tolerance to come down to."""
        return Descent() if self.problem.has_summaries else Learning()

    def _first_round(self) -> None:
        prior: list[Proposal] = [FromPrior(self.space)] * self.method.groups
        self._open(prior, 2 * self._within, math.inf)

    # ------------------------------------------------------------ state

    @property
    def at_final_tolerance(self) -> bool:
        return not isinstance(self._phase, Descent)

    @property
    def final_tolerance(self) -> float | None:
        open_yet = self._chooses and not self.at_final_tolerance
        return None if open_yet or not self.problem.has_summaries else self.wanted.tolerance

    @property
    def chooses_tolerance(self) -> bool:
        return self._chooses

    @property
    def learning(self) -> bool:
        return not isinstance(self._phase, Sampling) and not self.finished

    # ------------------------------------------------------------ learning

    def _end_round(self) -> None:
        if self.simulations >= self._most:
            self._end()
        else:
            self._advance()

    def _end(self) -> None:
        self._ended = "budget spent"
        if self._chooses and isinstance(self._phase, Descent):
            self._choose(self._closest())
            self.warnings.append(
                "the budget ended before a tolerance was found whose bias is small compared with the error bar: at "
                f"{self.wanted.tolerance:.4g} it may be larger; raise the budget, or use fewer summaries"
            )
        if self._chooses and self.seen.closest >= 0.999 * self.wanted.tolerance > 0:
            self.warnings.append(
                f"no simulation came closer to the data than {self.seen.closest:.4g}, the tolerance that was "
                "chosen; check that the simulator can produce such data"
            )
        if isinstance(self._phase, Descent) and self._came_down([self._closer(a) for a in self._groups]):
            self._phase = Learning()  # the last round has come close enough
        if isinstance(self._phase, Descent):
            far = self._reached[-1]
            where = f"had reached the tolerance {far:.4g}" if far < math.inf else "were still those of the prior"
            self.warnings.append(
                f"the budget ended while simulations were still coming closer to the data: proposals {where}, not "
                f"the requested {self.wanted.tolerance:g}; extend the run, or look at a larger tolerance"
            )

    @property
    def _groups(self) -> range:
        return range(self.method.groups)

    def _advance(self) -> None:
        """Plan the next round."""
        if isinstance(self._phase, Descent):
            self._descend(self._phase)
        elif isinstance(self._phase, Learning):
            self._learn()
        else:
            self._sample(self._phase)

    def _descend(self, phase: Descent) -> None:
        """A round at a lower tolerance, or on to learning."""
        tolerances = [self._closer(a) for a in self._groups]
        widest = max(tolerances)
        if self._chooses and self.round > 1:
            # Twice in a row, since the bias is known with an error.
            self._phase = phase = Descent(phase.low_enough + 1 if self._fine_enough(widest) else 0)
            if phase.low_enough == 2:
                self._choose(widest)
        if self._came_down(tolerances):
            self._phase = Learning()
            self._learn()
        elif widest == math.inf:  # nothing but failures among the others of some group
            self._repeat()
        else:
            proposals = [self._fitted(a, Acceptance(tolerances[a]), None).proposal for a in self._groups]
            # Rounds grow, so that they are few where even the best proposal comes close rarely.
            self._open(proposals, max(2 * self._within, self.simulations // 2), widest)

    def _came_down(self, tolerances: Sequence[float]) -> bool:
        """Whether all groups have come to the wanted tolerance."""
        return all(tolerance <= self.wanted.tolerance for tolerance in tolerances)

    def _learn(self) -> None:
        """A round from proposals for the targets, or on to sampling."""
        hit = self.store.everything.accepted(self.wanted)[0]
        there = hit.size
        of_group = np.bincount(self.store.everything.group_of(hit), minlength=self.method.groups)
        if there < 2 * self.method.groups or there - of_group.max() < 2:  # nothing to learn from yet
            self._repeat()
            return
        fitted = [self._fitted(a, self.wanted, self.aim) for a in self._groups]
        proposals = [one.proposal for one in fitted]
        if there >= LEARNED_FROM and (self._models_known(hit) or 2 * self.simulations > self._most):
            evenly = float(np.mean([one.removable for one in fitted])) > WORTH_SPREADING
            self._phase = Sampling(proposals, evenly)
            self._sample(self._phase)
            return
        first, last = self.store.of_round(self.round - 1)
        rate = max((hit >= first).sum() / (last - first), there / self.simulations)
        size = min(max(LEAST_ROUND, there / rate), self.simulations)
        self._open(proposals, size, self.wanted.tolerance)

    def _models_known(self, hit: IntArray) -> bool:
        """Whether every model that was accepted at all was accepted often enough for a proposal of its own."""
        hits = np.bincount(self.store.take(hit).model)
        return bool((hits[hits > 0] >= LEARNED_FROM_MODEL).all())

    def _repeat(self) -> None:
        """As many simulations again, from the same proposals."""
        self._open(list(self.store.proposals[-1]), self.simulations, self._reached[-1])

    def _sample(self, phase: Sampling) -> None:
        """The rest of the budget with the proposals that are there; without one, rounds that grow."""
        left, at = self._most - self.simulations, self.wanted.tolerance
        size = left if self.budget is not None else min(left, max(LEAST_ROUND, self.simulations // 4))
        # Points are best spread evenly in powers of two, one for each scramble; the rest is left for later rounds.
        each = 2 ** int(math.log2(max(size / SCRAMBLES, 1)))
        evenly = phase.evenly and each >= LEAST_SCRAMBLE
        self._open(phase.proposals, each * SCRAMBLES if evenly else size, at, evenly=evenly)

    def _closer(self, group: int) -> float:
        """The tolerance that enough of the other groups' simulations are within, not below the wanted one."""
        others = self.simulations - int(self.store.counts()[:, group].sum())
        return max(self.wanted.tolerance, self.store.everything.nearest(min(self._within, others // 4), without=group))

    def _closest(self) -> float:
        return self.store.everything.nearest(min(self._within, self.simulations // 4))

    def _fitted(self, group: int, acceptance: Acceptance, aim: Aim | None) -> FittedProposal:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1 - group)
        return learn(self.store, group, acceptance, aim, self.defence, rng)

    # ------------------------------------------------------------ a tolerance from the budget

    def _choose(self, tolerance: float) -> None:
        self.wanted = self._acceptance_at(tolerance)
        self._phase = Learning()

    def _fine_enough(self, tolerance: float) -> bool:
        """Whether the tolerance is low enough for the budget, by the rule of `fbar.methods.targeted.tolerance`."""
        if tolerance == 0:
            return True
        try:
            near, far = self.posterior_at(tolerance), self.posterior_at(2 * tolerance)
        except NoPosterior:
            return False
        first, last = self.store.of_round(self.round - 1)
        rate = self.store.everything.within(tolerance, first, last) / (last - first)
        return low_enough(near, far, self.targets, (self._most - self.simulations) * rate)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or not all(isinstance(q, Learned) for q in self.store.proposals[-1]):
            return None
        found = RecordedRound(
            self._plan.simulations,
            self._plan.evenly,
            name_of(self._phase),
            isinstance(self._phase, Sampling) and self._phase.evenly,
            self.wanted.tolerance,
            self._reached[-1],
        ).arrays()
        for a, proposal in enumerate(self.store.proposals[-1]):
            assert isinstance(proposal, Learned)
            found |= {f"{a}/{name}": array for name, array in proposal.arrays().items()}
        return found

    def state_as_now(self, state: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        return state_as_now(state)

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        recorded = RecordedRound.of(state)
        if not self._has_proposals(state):
            self.store.proposals[-1] = [Learned.of(_of_group(state, a), self.space, self.defence) for a in self._groups]
        self.wanted, self._reached[-1] = self._acceptance_at(recorded.wanted), recorded.reached
        self._plan = self._planned(recorded.simulations, recorded.evenly)
        if recorded.phase == SAMPLING:
            self._phase = Sampling(list(self.store.proposals[-1]), recorded.sampling_evenly)
        elif recorded.phase == LEARNING:
            self._phase = Learning()
        elif not isinstance(self._phase, Descent):
            self._phase = Descent()

    def _has_proposals(self, state: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether its proposals are the recorded ones: those that rounds share go on being shared."""
        computed = self.round_state()
        if computed is None or set(computed) != set(state):
            return False
        return all(np.array_equal(computed[name], array) for name, array in state.items() if "/" in name)

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        aim = Aim.of(self.targets, self.method.goal, self.method.importance)
        if tolerance is not None and tolerance != self.wanted.tolerance:
            if self.at_final_tolerance and tolerance > self.wanted.tolerance:
                raise InputError(
                    f"the run is already at the tolerance {self.wanted.tolerance:g}; for a larger one use "
                    f"result.at({tolerance:g}), or fbar show RUN --at {tolerance:g}"
                )
            self.wanted = self._acceptance_at(tolerance)
            self.problem.check_acceptance(self.wanted)
            self._phase, self._chooses = self._first_phase(), False
        others = [t.name for t in aim.targets] != [t.name for t in self.aim.targets]
        if others and isinstance(self._phase, Sampling):
            self._phase = Learning()
        self.aim, self._ended = aim, ""
        self.warnings.clear()  # of the end that this goes beyond
        if len(self.store.proposals) > self.round:  # planned, and not asked for
            self.store.proposals.pop()
            self._reached.pop()
        if self.simulations:
            self._advance()
        else:
            self._first_round()


def _of_group(state: Mapping[str, npt.NDArray[Any]], group: int) -> dict[str, npt.NDArray[Any]]:
    return {name.partition("/")[2]: array for name, array in state.items() if name.startswith(f"{group}/")}
