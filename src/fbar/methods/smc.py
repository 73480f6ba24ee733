"""ABC-SMC: rounds of importance sampling at falling tolerances (section 1.2 and supplement S7 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import (
    FloatArray,
    IntArray,
    choice,
    non_negative_number,
    number,
    positive_integer,
    settle,
    shown,
)
from fbar.designs.proposals import (
    Degenerate,
    FromPrior,
    Particles,
    Perturbation,
    Perturbed,
    Proposal,
    Space,
    as_perturbation,
)
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.estimation.rounds import WEIGHTINGS, MixtureErrors, Piece, Round, Rounds
from fbar.methods.base import Method, Run, Stage, Start
from fbar.methods.forecasts import Ahead, draws_ahead
from fbar.methods.other_tolerances import few_numbers
from fbar.methods.schedules import QuantileSchedule, Schedule, Tolerances, as_schedule
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.distances import PNorm, Scaled
from fbar.question.outcomes import Batch, Outcomes, Seen, Tally, require_simulated
from fbar.question.points import Points
from fbar.question.targets import Target, as_targets
from fbar.seeds import Purpose

MOST_BLOCK = 4096
MOST_NUMBERS = 20_000_000
"""Numbers in the summaries that a run keeps for regression adjustment, 160 MB."""

BARREN = 100_000
"""How many draws outside the prior's support, and none inside, end a run."""


@dataclass(frozen=True)
class SMC(Method):
    """ABC-SMC with the particles of all rounds.

    The first round draws from the prior, each later one perturbs the accepted particles of the round before, at a
    lower tolerance. Without a budget the run ends with its last tolerance; with one it goes on there, from one more
    proposal that is then kept, until the budget is spent or a stopping rule holds.

    Parameters
    ----------
    schedule
        Falling tolerances, ``[160, 40, 10, 1]``, or a rule that chooses them: `QuantileSchedule`,
        `AcceptanceRateSchedule`, each with the tolerance it ends at.
    accepted
        Acceptances that end a round (the sum of their weights, for a kernel), by index: the order in which
        simulations finish has no effect.
    simulations
        In place of ``accepted``: simulations in a round.
    perturbation
        ``"olcm"``, ``"local-normal"``, ``"normal"``, ``"uniform"`` or one with settings, such as
        ``LocalNormalKernel(neighbours=30)``. Local kernels accept more; in five dimensions and more they are too
        narrow for their own good (``benchmarks/coverage_smc.csv``).
    weights
        How the particles of all rounds are weighted: ``"mixture"``, ``"ess"`` (the paper's),
        ``"inverse-variance"`` or ``"last"`` (the last round alone), see `fbar.estimation.rounds`.
    kernel
        The acceptance kernel, see `Acceptance`.
    distance
        `Scaled` to learn the scales of the summaries; the problem's own distance by default.
    coordinates
        Where particles are perturbed: ``"theta"``, or ``"normal"`` where no proposal leaves the prior's support.
    jump
        The probability with which a discrete parameter or the model is drawn anew from the prior.
    centres
        With more accepted particles than this, so many are resampled as centres of the next proposal: the cost of
        densities then grows in proportion to the number of particles, not to its square.
    least_rate
        A round whose acceptance rate is lower than this, beyond doubt, ends the run.
    """

    schedule: Schedule | Sequence[float] = field(default_factory=QuantileSchedule)
    accepted: int = 1000
    simulations: int | None = None
    perturbation: str | Perturbation = "olcm"
    weights: str = "mixture"
    kernel: str = "uniform"
    distance: Scaled | None = None
    coordinates: str = "theta"
    jump: float = 0.2
    centres: int | None = None
    least_rate: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.schedule))
        if positive_integer(self.accepted, "accepted") < 2:
            raise InputError("accepted must be at least 2 particles a round; got 1")
        if self.simulations is not None:
            positive_integer(self.simulations, "simulations")
        as_perturbation(self.perturbation)
        choice(self.weights, WEIGHTINGS, "weights")
        Acceptance(1.0, self.kernel)
        if self.distance is not None and not isinstance(self.distance, Scaled):
            raise InputError(
                "distance must be fbar.Scaled(...), which learns scales; give a distance of your own to the Problem; "
                f"got {shown(self.distance)}"
            )
        if self.distance is not None and self.distance.each_round and isinstance(self.schedule, Tolerances):
            raise InputError(
                "scales that change each round have no fixed tolerances; use fbar.QuantileSchedule(...) as schedule, "
                "or fbar.Scaled(each_round=False)"
            )
        if not 0 <= number(self.jump, "jump") <= 1:
            raise InputError(f"jump must be a probability; got {shown(self.jump)}")
        settle(self, "jump", float(self.jump))
        if self.centres is not None:
            positive_integer(self.centres, "centres")
        settle(self, "least_rate", non_negative_number(self.least_rate, "least_rate"))
        assert isinstance(self.schedule, Schedule)
        if self.kernel != "uniform" and self.schedule.last == 0:
            raise InputError(f"the {self.kernel} acceptance kernel needs tolerances above 0; got 0")

    @property
    def ends_by_itself(self) -> bool:
        assert isinstance(self.schedule, Schedule)
        return self.schedule.last is not None

    @property
    def final_tolerance(self) -> float | None:
        assert isinstance(self.schedule, Schedule)
        return self.schedule.last

    def _begin(self, start: Start) -> SMCRun:
        return SMCRun(self, start)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A block's particles, from asking to telling."""

    particles: Particles
    points: Points
    log_prior: FloatArray
    position: Any
    draws: int


class SMCRun(Run):
    """ABC-SMC at work. ``rounds`` keeps every simulation; `posterior` takes any tolerance and weighting."""

    def __init__(self, method: SMC, start: Start) -> None:
        super().__init__(start)
        if start.trials is not None:
            raise InputError("SMC runs its trials one by one; leave trials= out")
        assert isinstance(method.schedule, Schedule)
        self.method, self.schedule = method, method.schedule
        self.perturbation = as_perturbation(method.perturbation)
        if method.distance is not None and not self.problem.has_summaries:
            raise InputError("scales are learnt from summaries, and this problem has none; leave distance= out")
        self.space = Space(self.problem.prior, method.coordinates)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.store = Rounds(self.problem, self.space)
        self.measure: PNorm | None = None
        self._measured: PNorm | None = None
        wanted = method.accepted if method.simulations is None else method.simulations
        self.block_size = start.block_size or self._default_block(max(1, min(wanted // 8, MOST_BLOCK)))
        self._ended = ""
        self._extra = 0
        self._numbers = 0  # of the summaries so far
        self._stuck = False  # no simulation came closer, so the tolerance stays
        self._proposals: list[Proposal] = []  # all that were made: their sources are known by identity
        pilot = method.distance is not None  # scales are learnt from a round that accepts all
        self._open(FromPrior(self.space), math.inf if pilot else self.schedule.first())

    # ------------------------------------------------------------ state

    @property
    def finished(self) -> bool:
        return bool(self._ended)

    @property
    def ended(self) -> str:
        return self._ended

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
    def settles(self) -> bool:
        return self.schedule.last is not None

    @property
    def wanted_tolerance(self) -> float | None:
        return self.schedule.last

    @property
    def settled(self) -> bool:
        last = self.schedule.last
        return last is not None and any(round.complete and round.tolerance <= last for round in self.rounds)

    @property
    def _open_ended(self) -> bool:
        return self.method.simulations is None and self._left() > 0

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, proposal: Proposal, tolerance: float) -> None:
        self._present = Round(self.round, proposal, tolerance, self.measure)
        self._acceptance = Acceptance(tolerance, self.method.kernel if tolerance < math.inf else "uniform")
        self._accepted = 0.0
        self._before = self.store.simulations
        self._drawn: dict[int, _Drawn] = {}
        self._ends: list[int] = []  # simulations of the round up to and with each block
        self.store.rounds.append(self._present)
        self._wanted = self.method.accepted if self.method.simulations is None else self.method.simulations
        if self._extra:  # rounds at the last tolerance grow with what there is, so that few are needed
            extra = self.rounds[-self._extra : -1]
            there = sum(self._kept(r) if self.method.simulations is None else r.used for r in extra)
            self._wanted = max(self._wanted, int(there) // 4)

    def _kept(self, round: Round) -> float:
        return float(round.weights(self._acceptance).sum())

    def _left(self) -> float:
        """Simulations of the budget that no block of this round has taken yet."""
        return self._most - self._before - self._taken(self._asked)

    def _taken(self, blocks: int) -> int:
        """Simulations in the first blocks of the round."""
        return self._ends[blocks - 1] if blocks else 0

    def _blocks(self) -> int:
        if self._left() <= 0:
            return self._asked
        if self.method.simulations is not None:
            left = self._wanted - self._taken(self._asked)
            return self._asked + (left > 0)
        missing = self._wanted - self._accepted
        # A block holds at most block_size acceptances, so that these are needed for sure.
        return self._absorbed + max(0, math.ceil((missing - 1e-9) / self.block_size))

    def _block(self, block: int) -> Batch:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        before = self._taken(block)
        most = min(self.block_size, self._most - self._before - before)
        if self.method.simulations is not None:
            most = min(most, self._wanted - before)
        drawn = self._draw(rng, int(most))
        self._drawn[block] = drawn
        self._ends[block:] = [before + len(drawn.particles)]
        points = drawn.points.with_derived(self.problem.derived)
        if self.problem.p_star is not None:
            cells = drawn.particles.x[:, 0].astype(np.int64)
            return Batch(self.round, block, points, np.ones(cells.size, dtype=np.int64), self.seeds, cells)
        return Batch(self.round, block, points, None, self.seeds)

    def _draw(self, rng: np.random.Generator, size: int) -> _Drawn:
        """``size`` draws, or as many times that as give one inside the prior's support."""
        draws = 0
        while draws < max(BARREN, 200 * size):
            particles = self._present.proposal.draw(rng, size)
            points = self.space.points(particles)
            log_prior = self.space.log_prior(particles, points)
            inside = np.flatnonzero(log_prior > -np.inf)
            if inside.size == size:
                return _Drawn(particles, points, log_prior, inside + draws, draws + size)
            if inside.size:
                points = points.take(inside)
                return _Drawn(particles.take(inside), points, log_prior[inside], inside + draws, draws + size)
            draws += size
        what = "the prior gives its own draws no density" if self.round == 0 else "the prior has no mass at"
        raise _Barren(f"{what} any of {draws} proposals of round {self.round + 1}")

    def ask(self, limit: int | None = None, *, ahead: int = 0, enough: int | None = None) -> list[Batch]:
        try:
            return super().ask(limit, ahead=ahead, enough=enough)
        except _Barren as error:
            if self.round == 0:
                raise InputError(f"{error}; check the prior's logpdf against its sampling") from None
            self._warn(str(error))
            return []

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        self._measure_all(self.measure)
        drawn = self._drawn.pop(batch.block)
        distance, seen, recorded, summaries = self._distances(outcomes)
        if distance.shape != (len(drawn.particles),):
            raise InputError(
                f"block {batch.key} asked for {len(drawn.particles)} simulations and was told {distance.size} outcomes"
            )
        self.seen = self.seen + seen
        self._present.add(
            Piece(drawn.particles, drawn.log_prior, distance, drawn.position, drawn.draws, recorded, summaries)
        )
        reached = self._accepted + np.cumsum(accepted(self._acceptance, distance))
        if self.method.simulations is None and reached[-1] >= self._wanted - 1e-9:
            self._present.stop_at(int(np.searchsorted(reached, self._wanted - 1e-9)))
        self._accepted = self._present.accepted = float(reached[-1])

    def _all_failed(self) -> None:
        for round in self.rounds:
            round.all_failed()
        self._accepted = 0.0

    def _distances(self, outcomes: Outcomes) -> tuple[FloatArray, Seen, Any, Any]:
        if isinstance(outcomes, Tally):
            return np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen, {}, None
        outcomes = require_simulated(outcomes)
        learns = self.method.distance is not None
        if learns and self.measure is None:
            # No scale is known yet: everything that did not fail is accepted, and measured when the round ends.
            failed = np.zeros(outcomes.simulations) if outcomes.failure is None else outcomes.failure
            _, seen = self.problem.distances(outcomes)
            distance = np.where(failed == 0, 0.0, np.nan)
            return (
                distance,
                replace(seen, closest=math.inf, distances=seen.distances[:0]),
                outcomes.columns,
                outcomes.summaries,
            )
        distance, seen = self.problem.distances(outcomes, self._present.tolerance, self.measure)
        return distance, seen, outcomes.columns, outcomes.summaries if learns else self._few(outcomes.summaries)

    def _few(self, summaries: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Summaries to keep for an adjustment: none any more from a simulation on with which they were too many."""
        self._numbers += summaries.size
        return few_numbers(summaries) if self._numbers <= MOST_NUMBERS else None

    def _round_over(self) -> bool:
        if self._present.stopped or self._hopeless():
            return True
        return self._absorbed == self._asked == self._blocks()

    def _hopeless(self) -> bool:
        """Whether the acceptance rate lies below the least one beyond doubt: 99.9% by the Poisson distribution."""
        if self.method.simulations is not None or self.method.least_rate == 0:
            return False
        n = self._present.simulations
        if n * self.method.least_rate < 6.9:  # not even without any acceptance
            return False
        from scipy.special import gammaincc

        expected = n * self.method.least_rate
        return bool(gammaincc(math.floor(self._accepted) + 1.0, expected) < 1e-3)

    # ------------------------------------------------------------ learning

    def _end(self, why: str) -> None:
        self._ended = why
        self.store.rounds = [round for round in self.rounds if round.pieces]
        if self._short:
            self.warnings.append(self._short)

    @property
    def _short(self) -> str:
        """What there is to say of a run that has not come to its tolerance, or to none; or nothing."""
        last, at = self.schedule.last, self.tolerance
        if self.settled or (last is None and at < math.inf) or not self.problem.has_summaries:
            return ""
        missed = "no tolerance was reached" if last is None else f"the wanted tolerance {last:g} was not reached"
        if at == math.inf:
            first = "the run came no further than its first round, which accepts everything, so this is the prior"
            return f"{missed}: {first}"
        return f"{missed}: the estimates are those at the tolerance {at:.4g}, of a wider posterior"

    def _end_round(self) -> None:
        present = self._present
        full = present.stopped
        if self.method.simulations is not None:
            full = self._accepted > 0 and present.used >= self._wanted
        present.complete = full
        if not full and self.store.simulations >= self._most:
            self._end(f"budget spent in round {self.round}, on the way to tolerance {present.tolerance:.4g}")
            return
        if not full:
            rate = self._accepted / present.simulations
            why = f"round {self.round} accepted {self._accepted:.4g} of {present.simulations:,} simulations"
            self._warn(
                f"{why} at tolerance {present.tolerance:.4g}, below the least rate {self.method.least_rate:g}"
                if rate < self.method.least_rate
                else f"{why} at tolerance {present.tolerance:.4g}, too few to go on"
            )
            return
        try:
            self._advance()
        except Degenerate as error:
            self._warn(f"round {self.round}: {error}")

    def _warn(self, why: str) -> None:
        self.warnings.append(f"the run ended early, what it gave is kept: {why}")
        self._end("ended early")

    def _measure_all(self, measure: PNorm | None) -> None:
        """Measure every simulation so far by a distance whose scales were learnt."""
        if measure is None or measure is self._measured:
            return
        self._measured = measure
        closest = math.inf
        for round in self.rounds:
            measured = []
            for piece in round.pieces:
                assert piece.summaries is not None
                ok = ~np.isnan(piece.distance)
                distance = np.full(len(piece.distance), np.nan)
                if ok.any():
                    distance[ok] = self.problem.distance(piece.summaries[ok], math.inf, measure)
                    closest = min(closest, float(distance[ok].min()))
                measured.append(distance)
            round.measured(measured)
        self.seen = replace(self.seen, closest=closest)

    def _advance(self) -> None:
        """Plan the next round, or end the run."""
        present = self._present
        if self.store.simulations >= self._most:
            self._end("budget spent")
            return
        at_last = self._stuck or (self.schedule.last is not None and present.tolerance <= self.schedule.last)
        if at_last and self.budget is None and self.limit is None:
            self._end(f"tolerance {present.tolerance:.4g} reached")
            return
        if at_last and self._extra:  # the proposal is good enough: keep it
            self._extra += 1
            self._open(present.proposal, present.tolerance)
            return
        if at_last:
            self._extra = 1
            self._open(self._propose(present.tolerance, present.weights(self._acceptance)), present.tolerance)
            return
        scaled, present_weights = self.method.distance, present.weights(self._acceptance)
        if scaled is not None and (scaled.each_round or self.measure is None):
            self.measure = scaled.learn(present.summaries[~np.isnan(present.distance)])
            self._measure_all(self.measure)
        tolerance = self._next_tolerance(present_weights)
        if tolerance is None:
            if self.budget is None and self.limit is None:
                self._end(f"no simulation came closer than {present.tolerance:.4g}")
                return
            tolerance, self._stuck = present.tolerance, True
        self._open(self._propose(tolerance, present_weights), tolerance)

    def _population(self, accepted: FloatArray) -> tuple[Any, FloatArray]:
        """The rows of the accepted particles of the present round, and their weights."""
        rows = np.flatnonzero(accepted)
        log_w = self._present.log_weights(rows)
        return rows, accepted[rows] * np.exp(log_w - log_w.max())

    def _next_tolerance(self, accepted: FloatArray) -> float | None:
        present = self._present
        rows, weights = self._population(accepted)
        before = present.tolerance
        if self.measure is not present.measure:  # in the new scales the old tolerance means nothing
            before = float(present.distance[rows].max()) if present.measure is not None else math.inf
        if not self.schedule.needs_rates or self.round == 1:
            return self._positive(self.schedule.next(self.round, before, present.distance[rows], weights))
        measured = np.flatnonzero(np.isfinite(present.distance[: present.used]))
        proposal = self._propose(present.tolerance, accepted)
        new = proposal.log_density(present.particles.take(measured))
        old = present.log_prior[measured] - present.log_weights(measured)
        ratio = np.exp(new - old - (new - old).max())
        return self._positive(self.schedule.next(self.round, before, present.distance[measured], ratio))

    def _positive(self, tolerance: float | None) -> float | None:
        """A smooth acceptance kernel has no tolerance 0."""
        return None if tolerance == 0 and self.method.kernel != "uniform" else tolerance

    def _propose(self, tolerance: float, accepted: FloatArray) -> Proposal:
        present = self._present
        rows, weights = self._population(accepted)
        proposal = Perturbed(
            self.space,
            present.particles.take(rows),
            weights,
            present.distance[rows],
            perturbation=self.perturbation,
            next_tolerance=tolerance,
            jump=self.method.jump,
            most=self.method.centres,
            rng=self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1),
        )
        self._remember(proposal, present, rows)
        return proposal

    def _remember(self, proposal: Proposal, source: Round, rows: Any) -> None:
        self._proposals.append(proposal)
        self.store.sources[id(proposal)] = (source, rows)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, Any] | None:
        proposal = self._present.proposal
        if not isinstance(proposal, Perturbed):
            return None
        return {"tolerance": np.array(self._present.tolerance), **proposal.arrays()}

    def restore_round(self, state: Mapping[str, Any]) -> None:
        before = self._present.proposal
        assert isinstance(before, Perturbed)
        self._retolerate(float(state["tolerance"]))
        if before.is_made_of(state):  # rounds that share a proposal go on sharing it
            return
        self._present.proposal = proposal = before.restored(state)
        self._remember(proposal, *self.store.sources[id(before)])

    def _retolerate(self, tolerance: float) -> None:
        self._present.tolerance = tolerance
        self._acceptance = Acceptance(tolerance, self.method.kernel if tolerance < math.inf else "uniform")

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        if tolerance is not None:
            self.schedule, self._stuck = self.schedule.down_to(tolerance), False
        was_open, self._ended = not self._ended, ""
        self.warnings.clear()  # of the end that this goes beyond
        if was_open and tolerance is None:
            return
        complete = [round for round in self.rounds if round.complete]
        if not complete:
            self._open(self._present.proposal, self._present.tolerance)
            return
        if was_open:  # planned, and not asked for
            self.store.rounds.pop()
        if self.rounds[-1].complete:
            self._present = self.rounds[-1]
            self._retolerate(self._present.tolerance)
            self._extra = 0 if tolerance is not None else self._extra
            self._advance()
        else:
            self._open(self._present.proposal, self._present.tolerance)

    # ------------------------------------------------------------ what comes out

    def posterior(self, tolerance: float | None = None, weights: str | None = None) -> Posterior:
        """The posterior at a tolerance (the last complete round's by default) from the particles of all rounds."""
        if not any(round.pieces for round in self.rounds):
            raise NoPosterior("no simulations were told yet; ask the run for batches and tell it their outcomes")
        at = self.tolerance if tolerance is None else non_negative_number(tolerance, "tolerance")
        self._measure_all(next((round.measure for round in reversed(self.rounds) if round.complete), None))
        acceptance = Acceptance(at, self.method.kernel if at < math.inf else "uniform")
        posterior = self.store.posterior(acceptance, weights or self.method.weights, self.seen)
        if tolerance is None and self._short:
            posterior.doubts = (self._short,)
            if at == math.inf:
                return posterior
        first = self.rounds[0].weights(acceptance)  # of draws from the prior
        return self._told_apart(posterior, at, float(first.mean()) if first.size else 0.0)

    def posterior_at(self, tolerance: float) -> Posterior:
        return self.posterior(tolerance)

    def stages(self) -> list[Stage]:
        found: list[Stage] = []
        before: Round | None = None
        for round in self.rounds:
            if not round.pieces:
                continue
            stage = Stage(self._whence(round), round.simulations, round.accepted, round.tolerance)
            if before is not None and before.proposal is round.proposal and before.tolerance == round.tolerance:
                last = found.pop()
                accepted = (last.accepted or 0.0) + round.accepted
                stage = replace(stage, simulations=last.simulations + round.simulations, accepted=accepted)
            found.append(stage)
            before = round
        return found

    def _whence(self, round: Round) -> str:
        source = self.store.sources.get(id(round.proposal))
        return "from the prior" if source is None else f"from particles of round {source[0].number + 1}, perturbed"

    def places(self, most: int) -> Points | None:
        parts = [round.particles for round in self.rounds if round.pieces]
        if not parts:
            return None
        particles = Particles.concatenate(parts)
        if len(particles) > most:
            particles = particles.take(np.linspace(0, len(particles) - 1, most).astype(np.int64))
        return self.space.points(particles).with_derived(self.problem.derived)

    def ahead(self, posterior: Posterior, target: Target) -> Ahead:
        """What more simulations from the present proposal would leave of the variance of the mixture of all rounds."""
        errors, proposal = posterior.errors, self._present.proposal
        if not isinstance(errors, MixtureErrors) or posterior.contributions(target) is None:
            return super().ahead(posterior, target)
        ratio = self.store.density_ratios(errors.draws, proposal)
        if ratio is None:
            return super().ahead(posterior, target)
        told = [round for round in self.rounds if round.pieces]
        like = [round for round in told if round.proposal is proposal] or told[-1:]
        rate = sum(round.draws for round in like) / sum(round.simulations for round in like)
        return draws_ahead(posterior, target, ratio, float(errors.draws.stratum_sizes.sum()), rate)

    def _own_tolerance(self) -> float:
        return self.tolerance

    @property
    def measure_told(self) -> PNorm | None:
        return self._measured

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.concatenate([round.distance for round in self.rounds if round.pieces])[rows]

    def _kept_summaries(self) -> list[npt.NDArray[Any] | None]:
        return [piece.summaries for round in self.rounds for piece in round.pieces]

    def curve(
        self,
        targets: Target | Sequence[Target] | None = None,
        tolerances: Sequence[float] | None = None,
        weights: str | None = None,
    ) -> list[tuple[float, Any]]:
        """The estimates against the tolerance: pairs (tolerance, `Estimates`), at the rounds' tolerances by default."""
        listed = self.targets if targets is None else as_targets(targets)
        at = self._curve_tolerances() if tolerances is None else tolerances
        return [(t, self.posterior(t, weights).expect(list(listed))) for t in at]

    def _curve_tolerances(self) -> list[float]:
        if self.method.distance is not None and self.method.distance.each_round:
            raise InputError(
                "the rounds' tolerances are in scales of their own; give tolerances= in those of the last round"
            )
        return sorted({r.tolerance for r in self.rounds if r.complete and r.tolerance < math.inf}, reverse=True)


class _Barren(Exception):
    """No proposal lies in the prior's support."""
