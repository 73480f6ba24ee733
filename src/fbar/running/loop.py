"""The one loop: ask, simulate, record, tell, until a stopping rule holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from fbar.checks import counted, instance, shown, whole_number
from fbar.checks import function as check_function
from fbar.diagnostics.faults import FailureWatch
from fbar.engine import Engine, InProcess, Session
from fbar.errors import InputError, SimulatorFailed
from fbar.ledger import Ledger, LedgerReader
from fbar.methods import Run
from fbar.methods.history import Recorder
from fbar.methods.stopping import NOT_FINISHED, StoppingRule, require_rule
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.simulators.hints import RETURNED_NONE

AT_A_TIME = 2**17
"""Simulations under way at most, or as many as keep all workers busy."""

Progress = Callable[[Run], None]

RULE_MET = "stopping rule met"

BIAS_STAYS = "more simulations will not help; stopping rule not met"
"""Why a run towards a precision ended whose error is mostly bias that does not fall."""

ALL_FAILED = 500
"""A run in which every simulation fails ends with an error after this many."""

HOPELESS = 100_000
"""A run towards a precision ends with an error after this many simulations if none was accepted."""


def drive(
    run: Run,
    stop: StoppingRule | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    ledger: LedgerReader | None = None,
    watch: FailureWatch | None = None,
    until_round: int | None = None,
    history: bool = True,
) -> str:
    """Ask, simulate and tell until the run is finished or the stopping rule holds at the end of a round.

    Returns why it ended. ``progress`` is called with the run after every block, and before an estimate that will take
    a while (``run.estimating`` is then true); the run's ``expected`` is then the
    forecast, made at the end of the last round, of what is left to do. With a ``ledger``, recorded blocks are taken
    from it and new ones are recorded; workers start when the first block has to be simulated. With one that is only
    read, a ``LedgerReader``, it ends where the record ends. ``until_round`` ends at the start of that round.
    ``history=False`` skips the intermediate estimates that fill ``run.history``.
    """
    instance(run, Run, "run", "a run, as a method's start gives it")
    if engine is not None and not isinstance(engine, Engine):
        raise InputError(f"engine must be an engine such as fbar.Workers(4); got {shown(engine)}")
    if progress is not None:
        check_function(progress, "progress")
    if until_round is not None:
        whole_number(until_round, "until_round")
    if stop is not None:
        require_rule(stop).check(run)
    reads = run.at_data and stop is not None  # a stopping rule reads the moments of such a run
    recorder = Recorder(run) if history or reads else None
    run.watcher = progress
    loop = _Loop(run, stop, engine or InProcess(), progress, ledger, watch, until_round, recorder)
    why = loop.until_it_ends()
    if recorder is not None:
        recorder.run_ended()
    return why


@dataclass(eq=False)
class _Loop:
    """What `drive` was given, and the session of the engine once something has to be simulated."""

    run: Run
    stop: StoppingRule | None
    engine: Engine
    progress: Progress | None
    ledger: LedgerReader | None
    watch: FailureWatch | None
    until_round: int | None
    recorder: Recorder | None
    session: Session | None = None

    @property
    def recording(self) -> Ledger | None:
        """The ledger, if it is there to be written; a reader is only replayed."""
        return self.ledger if isinstance(self.ledger, Ledger) else None

    def until_it_ends(self) -> str:
        run, round = self.run, -1
        with ExitStack() as stack:
            while not run.finished:
                if run.round > round:
                    round = run.round
                    why = self._ends_before_round()
                    if why is not None:
                        return why
                    self._begin_round()
                new, replayed = self._replay(self._ask())
                if replayed and not new:
                    continue
                if self.ledger is not None and self.recording is None:
                    return NOT_FINISHED
                self._simulate(new, self.session or self._open_session(stack))
        if self.stop is not None and not self.stop.holds(run):
            return f"{run.ended}; stopping rule not met"
        return run.ended

    def _ends_before_round(self) -> str | None:
        """Why the run ends before its present round, if it does."""
        run = self.run
        if run.at_data and run.simulations > 0 and self.recorder is not None:
            self.recorder.round_ended()
        if self.until_round is not None and run.round >= self.until_round:
            return run.ended
        if self.stop is not None and run.simulations > 0 and self.stop.holds(run):
            return RULE_MET
        if self.stop is not None and run.at_data and self.stop.hopeless(run):
            return BIAS_STAYS
        return None

    def _begin_round(self) -> None:
        run, stop = self.run, self.stop
        if stop is not None and self.progress is not None and run.simulations > 0:
            run.expected = None if run.learning else stop.forecast(run)
        if stop is not None and run.simulations >= HOPELESS and not (run.at_data and run.history):
            run.posterior()  # a rule on the error is never met without acceptances: its error is due now
        self._restore_round()
        if self.recorder is not None and not run.at_data:
            self.recorder.round_ended()

    def _restore_round(self) -> None:
        """Take what the round's draws depend on from the record, or record it."""
        computed = None if self.ledger is None else self.run.round_state()
        if self.ledger is None or computed is None:
            return
        recorded = self.ledger.round_state(self.run.round, computed, self.run.state_as_now)
        if recorded is not None:
            self.run.restore_round(recorded)
        elif self.recording is not None:
            self.recording.record_round(self.run.round, computed)

    def _ask(self) -> list[Batch]:
        """The next blocks: enough for the workers and not all of a long round, whose θ would fill the memory."""
        run, ahead = self.run, 0 if self.session is None else self.session.ahead
        batches: list[Batch] = []
        while True:
            simulations, blocks = run.under_way
            if simulations >= AT_A_TIME and blocks >= ahead:
                return batches
            more = run.ask(extra_blocks=ahead, enough=max(AT_A_TIME - simulations, 1))
            if not more:
                return batches
            batches += more

    def _replay(self, batches: Sequence[Batch]) -> tuple[list[Batch], bool]:
        """Tell the run what is recorded of these blocks; the others, and whether any was recorded."""
        if self.ledger is None:
            return list(batches), False
        new = []
        for batch in batches:
            outcomes = self.ledger.lookup(batch)
            if outcomes is None:
                new.append(batch)
            else:
                self._tell(batch, outcomes, replayed=True)
        return new, len(new) < len(batches)

    def _open_session(self, stack: ExitStack) -> Session:
        """Begin work with the engine, until the stack is left."""
        session = self.session = stack.enter_context(self.engine.session(self.run.problem))
        stack.callback(self._take_warning, session)
        if self.recording is not None:
            session.arrived = self.recording.record_early
        if session.ahead:  # blocks may be under way when the run ends
            stack.callback(self.run.abandon)
        return session

    def _take_warning(self, session: Session) -> None:
        if session.warning:
            self.run.warnings.append(session.warning)

    def _simulate(self, batches: Sequence[Batch], session: Session) -> None:
        session.submit(batches)
        answers = session.collect()
        if self.recording is not None:  # all of them before the run uses any
            self.recording.record(*answers)
        for batch, outcomes in answers:
            self._tell(batch, outcomes)
        _require_success(self.run)

    def _tell(self, batch: Batch, outcomes: Outcomes, *, replayed: bool = False) -> None:
        run = self.run
        run.tell((batch, outcomes))
        if replayed:
            run.replayed, run.mistake = run.simulations, ""  # it goes on from here, whatever there is
        if self.watch is not None:
            self.watch.add(batch, outcomes)
        if self.progress is not None:
            self.progress(run)


def _require_success(run: Run) -> None:
    """End a run whose simulations all fail, whatever the kind, long before its budget is gone.

    Sooner if none of their output can be used, as happens when the problem is wrong.
    """
    if run.mistake:
        raise InputError(run.mistake)
    seen = run.seen
    enough = run.finished or run.simulations >= ALL_FAILED
    if enough and seen.failures >= run.simulations > 0:
        if seen.mistake:
            raise InputError(seen.mistake)
        kind = next(iter(seen.counts))
        example = f"; the first: {seen.examples[kind]}" if seen.examples.get(kind) else ""
        words = "gave no data" if seen.examples.get(kind) == RETURNED_NONE else kind.words
        what = "the only simulation" if run.simulations == 1 else f"all {counted(run.simulations, 'simulation')}"
        raise SimulatorFailed(f"{what} {words}{example}")
