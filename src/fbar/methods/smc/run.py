"""ABC-SMC: rounds of importance sampling at falling tolerances (section 1.2 and supplement S7 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import non_negative_number
from fbar.designs.proposals import Degenerate, FromPrior, Perturbed, as_perturbation
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.estimation.round import Origin, Round
from fbar.estimation.rounds import Rounds
from fbar.methods.forecasts import VarianceAfter
from fbar.methods.run import Run, Stage
from fbar.methods.smc import account
from fbar.methods.smc.descent import CentreWeights, Perturber, next_tolerance
from fbar.methods.smc.drawing import OutsidePrior, draw_inside
from fbar.methods.smc.measuring import Measuring
from fbar.methods.smc.present import PresentRound, acceptance_at
from fbar.methods.smc.schedules import Schedule
from fbar.methods.start import Start
from fbar.question.distances import PNorm
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.points import Points
from fbar.question.space import Proposal, Space
from fbar.question.targets import Target
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.smc.method import SMC

MOST_BLOCK = 4096

NO_LONGER_AT_DATA = (
    "the answer was about the posterior until the run was extended to a tolerance; now it is about ABC's posterior at "
    "that tolerance (result.at_data() is about the posterior)"
)


class SMCRun(Run):
    """ABC-SMC at work. ``rounds`` keeps every simulation, so that its posterior takes any tolerance and weighting."""

    def __init__(self, method: SMC, start: Start, *, centre_weights: CentreWeights | None = None) -> None:
        super().__init__(start)
        if start.trials is not None:
            raise InputError("SMC runs one trial at a time; leave out trials=")
        assert isinstance(method.schedule, Schedule)
        self.method, self.schedule = method, method.schedule
        if method.distance is not None and not self.problem.has_summaries:
            raise InputError("scales are learned from summaries, and this problem has none; leave out distance=")
        self.space = Space(self.problem.prior, method.coordinates)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        perturbation = as_perturbation(method.perturbation)
        self._perturber = Perturber(self.space, perturbation, method.jump, method.centres, centre_weights)
        keeps = self.at_data or method.distance is not None or centre_weights is not None
        self.store = Rounds(self.problem, self.space, needs_summaries=keeps)
        self._measuring = Measuring(self.problem, method.distance)
        wanted = method.accepted if method.simulations is None else method.simulations
        self.block_size = start.block_size or self._default_block(max(1, min(wanted // 8, MOST_BLOCK)))
        self._extra = 0
        self._stuck = False  # no simulation came closer, so the tolerance stays
        self._was_at_data = False
        pilot = method.distance is not None  # scales are learned from a round that accepts all
        self._open(FromPrior(self.space), math.inf if pilot else self.schedule.first())

    # ------------------------------------------------------------ state

    @property
    def simulations(self) -> int:
        return self.store.simulations

    @property
    def surplus(self) -> int:
        """Simulations behind the acceptances that ended rounds: kept, counted, not used."""
        return sum(round.surplus for round in self.store.rounds)

    @property
    def rounds(self) -> list[Round]:
        return self.store.rounds

    @property
    def tolerance(self) -> float:
        """That of the last complete round (of the first one, while it runs)."""
        complete = [round.tolerance for round in self.rounds if round.complete]
        return complete[-1] if complete else self.rounds[0].tolerance

    @property
    def present_tolerance(self) -> float:
        return self.tolerance

    @property
    def has_final_tolerance(self) -> bool:
        """An answer at the data needs none."""
        return self.at_data or self.schedule.last is not None

    @property
    def final_tolerance(self) -> float | None:
        return self.schedule.last

    @property
    def at_final_tolerance(self) -> bool:
        return self.at_data or self._at_last_tolerance

    @property
    def _at_last_tolerance(self) -> bool:
        last = self.schedule.last
        return last is not None and any(round.complete and round.tolerance <= last for round in self.rounds)

    @property
    def measure(self) -> PNorm | None:
        """The distance of the present round, where its scales are learned."""
        return self._measuring.measure

    @property
    def _open_ended(self) -> bool:
        return self.method.simulations is None and self._left() > 0

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, proposal: Proposal, tolerance: float, origin: Origin | None = None) -> None:
        method, before = self.method, self.store.simulations
        record = self.store.open(self.round, proposal, tolerance, self.measure, origin)
        wanted = method.accepted if method.simulations is None else method.simulations
        if self._extra:  # rounds at the last tolerance grow with what there is, so that few are needed
            at = acceptance_at(tolerance, method.kernel)
            extra = self.rounds[-self._extra : -1]
            there = sum(float(r.weights(at).sum()) if method.simulations is None else r.used for r in extra)
            wanted = max(wanted, int(there) // 4)
        self._present = self._at_work(record, before, wanted)

    def _at_work(self, record: Round, before: int, wanted: int) -> PresentRound:
        counted = self.method.simulations is not None
        return PresentRound(
            record, self.method.kernel, before=before, wanted=wanted, counted=counted, block_size=self.block_size
        )

    def _left(self) -> float:
        """Simulations of the budget that no block of this round has taken yet."""
        return self._present.left(self._most, self._asked)

    def _blocks(self) -> int:
        return self._asked if self._left() <= 0 else self._present.blocks(self._asked, self._absorbed)

    def _block(self, block: int) -> Batch:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        size = self._present.block_simulations(block, self._most)
        drawn = draw_inside(self._present.record.proposal, self.space, rng, size)
        self._present.asked(block, drawn)
        points = drawn.points.with_derived(self.problem.derived)
        if self.problem.p_star is not None:
            cells = drawn.particles.x[:, 0].astype(np.int64)
            return Batch(self.round, block, points, np.ones(cells.size, dtype=np.int64), self.seeds, cells)
        return Batch(self.round, block, points, None, self.seeds)

    def ask(self, limit: int | None = None, *, extra_blocks: int = 0, enough: int | None = None) -> list[Batch]:
        try:
            return super().ask(limit, extra_blocks=extra_blocks, enough=enough)
        except OutsidePrior as error:
            what = "the prior gives its own draws zero density" if self.round == 0 else "the prior has no mass at"
            why = f"{what} any of {error.draws} proposals of round {self.round + 1}"
            if self.round == 0:
                raise InputError(f"{why}; check the prior's logpdf against its sampling") from None
            self._warn(why)
            return []

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        self._apply(self.measure)
        found = self._measuring.block(outcomes, self._present.record.tolerance)
        self._present.absorb(batch.key, found)
        self.seen = self.seen + found.seen

    def _all_failed(self) -> None:
        self.store.all_failed()
        self._present.accepted = 0.0

    def _round_over(self) -> bool:
        if self._present.record.stopped or self._present.hopeless(self.method.least_rate):
            return True
        return super()._round_over()

    # ------------------------------------------------------------ learning

    def _end(self, why: str) -> None:
        self._ended = why
        self.store.rounds = self.store.begun
        if self._short and not self.at_data:
            self.warnings.append(self._short)

    @property
    def _short(self) -> str:
        """What there is to say of a run that has not come to its tolerance, or to none; or nothing."""
        last, at = self.schedule.last, self.tolerance
        if self._at_last_tolerance or (last is None and at < math.inf) or not self.problem.has_summaries:
            return ""
        none = last is None or math.isinf(last)
        missed = "no tolerance was reached" if none else f"the requested tolerance {last:g} was not reached"
        if at == math.inf:
            first = "the run did not get beyond its first round, which accepts everything, so this is the prior"
            return f"{missed}: {first}"
        return f"{missed}: the estimates are those at the tolerance {at:.4g}, of a wider posterior"

    def _end_round(self) -> None:
        present, record = self._present, self._present.record
        record.complete = present.full
        if not record.complete and self.store.simulations >= self._most:
            to = "" if math.isinf(record.tolerance) else f", on the way to tolerance {record.tolerance:.4g}"
            self._end("budget spent" if self.at_data else f"budget spent in round {self.round}{to}")
            return
        if not record.complete:
            rate = present.accepted / record.simulations
            why = f"round {self.round} accepted {present.accepted:.4g} of {record.simulations:,} simulations"
            self._warn(
                f"{why} at tolerance {record.tolerance:.4g}, below the least rate {self.method.least_rate:g}"
                if rate < self.method.least_rate
                else f"{why} at tolerance {record.tolerance:.4g}, too few to go on"
            )
            return
        try:
            self._advance()
        except Degenerate as error:
            self._warn(f"round {self.round}: {error}")

    def _warn(self, why: str) -> None:
        self.warnings.append(f"the run ended early (its simulations are kept): {why}")
        self._end("ended early")

    def _apply(self, measure: PNorm | None) -> None:
        self.seen = self._measuring.apply(measure, self.store.everything, self.seen)

    def _advance(self) -> None:
        """Plan the next round, or end the run."""
        record, accepted = self._present.record, self._present.weights
        if self.store.simulations >= self._most:
            self._end("budget spent")
            return
        at_last = self._stuck or (self.schedule.last is not None and record.tolerance <= self.schedule.last)
        if at_last and self.budget is None and self.limit is None:
            self._end(f"tolerance {record.tolerance:.4g} reached")
            return
        if at_last and self._extra:  # the proposal is good enough: keep it
            self._extra += 1
            self._open(record.proposal, record.tolerance)
            return
        if at_last:
            self._extra = 1
            self._open_next(record.tolerance, accepted)
            return
        if self._measuring.learn(record, self.store.everything):
            self._apply(self.measure)
        tolerance = self._next_tolerance(accepted)
        if tolerance is None:
            if self.budget is None and self.limit is None:
                self._end(f"no simulation came closer than {record.tolerance:.4g}")
                return
            tolerance, self._stuck = record.tolerance, True
        self._open_next(tolerance, accepted)

    def _next_tolerance(self, accepted: FloatArray) -> float | None:
        record = self._present.record

        def same_tolerance() -> Proposal:
            return self._proposed(record.tolerance, accepted)[0]

        found = next_tolerance(self.schedule, self.round, record, accepted, self.measure, same_tolerance)
        # A smooth acceptance kernel has no tolerance 0.
        return None if found == 0 and self.method.kernel != "uniform" else found

    def _proposed(self, tolerance: float, accepted: FloatArray) -> tuple[Perturbed, IntArray]:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1)
        return self._perturber.propose(self._present.record, accepted, tolerance, rng)

    def _open_next(self, tolerance: float, accepted: FloatArray) -> None:
        """Begin a round whose proposal perturbs the accepted particles of the present one."""
        record = self._present.record
        proposal, places = self._proposed(tolerance, accepted)
        self._open(proposal, tolerance, Origin(record.number, record.first + places, proposal))

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        proposal = self._present.record.proposal
        if not isinstance(proposal, Perturbed):
            return None
        return {"tolerance": np.array(self._present.record.tolerance), **proposal.arrays()}

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        record = self._present.record
        before = record.proposal
        assert isinstance(before, Perturbed)
        self._present.move_to(float(state["tolerance"]))
        if before.is_made_of(state):  # rounds that share a proposal go on sharing it
            return
        restored = before.restored(state)
        self.store.restore(record, restored, restored)

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        if tolerance is not None:
            self._was_at_data = self._was_at_data or self.at_data
            self.at_data = False  # from here on ABC's posterior, at the tolerance that it ends at
            self.schedule, self._stuck = self.schedule.down_to(tolerance), False
        was_open, self._ended = not self._ended, ""
        self.warnings.clear()  # of the end that this goes beyond
        if was_open and tolerance is None:
            return
        complete = [round for round in self.rounds if round.complete]
        if not complete:
            self._open(self._present.record.proposal, self._present.record.tolerance)
            return
        if was_open:  # planned, and not asked for
            self.store.rounds.pop()
        if self.rounds[-1].complete:
            self._present = self._at_work(self.rounds[-1], self.store.simulations, 0)
            self._extra = 0 if tolerance is not None else self._extra
            self._advance()
        else:
            self._open(self._present.record.proposal, self._present.record.tolerance)

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        """The posterior at the last complete round's tolerance, from the particles of all rounds; or at the data."""
        if self.at_data:
            return self.posterior_at_data()
        found = self.reweighted(self.method.weights)
        if self._was_at_data:
            found.remark = "; ".join(text for text in (NO_LONGER_AT_DATA, found.remark) if text)
        return found

    def posterior_at(self, tolerance: float) -> Posterior:
        return self.reweighted(self.method.weights, tolerance)

    def reweighted(self, weights: str, tolerance: float | None = None) -> Posterior:
        """The posterior with other weights of the rounds, such as ``"last"``; at any tolerance."""
        if not self.store.begun:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        at = self.tolerance if tolerance is None else non_negative_number(tolerance, "tolerance")
        self._apply(next((round.measure for round in reversed(self.rounds) if round.complete), None))
        acceptance = acceptance_at(at, self.method.kernel)
        posterior = self.store.posterior(acceptance, weights, self.seen)
        if tolerance is None and self._short:
            posterior.doubts = (self._short,)
            if at == math.inf:
                posterior.about = "the prior, as no tolerance was reached"
                return posterior
        first = self.rounds[0].weights(acceptance)  # of draws from the prior
        return self._described(posterior, at, float(first.mean()) if first.size else 0.0)

    def stages(self) -> list[Stage]:
        return account.stages(self.store)

    def simulated_points(self, most: int) -> Points | None:
        return account.simulated_points(self.store, most)

    def variance_after(self, posterior: Posterior, target: Target) -> VarianceAfter:
        found = account.variance_after(self.store, self._present.record.proposal, posterior, target)
        return super().variance_after(posterior, target) if found is None else found

    def _drawn_from(self) -> Rounds:
        return self.store

    def _posterior_tolerance(self) -> float:
        self._require_tolerance()
        return self.tolerance

    @property
    def learned_distance(self) -> PNorm | None:
        return self._measuring.applied

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.store.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.store.everything.summaries.flat(rows, size)

    def _curve_tolerances(self) -> list[float]:
        if self.method.distance is not None and self.method.distance.each_round:
            raise InputError("each round's tolerance is in its own scales; give tolerances= in those of the last round")
        return sorted({r.tolerance for r in self.rounds if r.complete and r.tolerance < math.inf}, reverse=True)
