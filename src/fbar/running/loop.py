"""The one loop: ask, simulate, record, tell, until a stopping rule holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from fbar.checks import function as check_function
from fbar.checks import instance, shown, whole_number
from fbar.diagnostics.faults import FailureWatch
from fbar.engine import Engine, InProcess, Session
from fbar.errors import InputError, SimulatorFailed
from fbar.ledger import Ledger
from fbar.methods import Run
from fbar.methods.history import Recorder
from fbar.methods.stopping import StoppingRule, require_rule
from fbar.question.outcomes import Batch, Outcomes

AT_A_TIME = 2**17
"""Simulations that are asked for before the first of them is told, or as many as keep all workers busy."""

Progress = Callable[[Run], None]
NOT_FINISHED = "not finished"
ALL_FAILED = 500
"""A run ends with an error after so many simulations if all of them failed."""

HOPELESS = 100_000
"""A run towards a precision ends with an error after so many simulations if none was accepted."""


def drive(
    run: Run,
    stop: StoppingRule | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    ledger: Ledger | None = None,
    watch: FailureWatch | None = None,
    until_round: int | None = None,
    replay_only: bool = False,
    history: bool = True,
) -> str:
    """Ask, simulate and tell until the run is finished or the stopping rule holds at a round's end.

    Returns why it ended. ``progress`` is called with the run after every block; the run's ``expected`` then says what
    is left to do until the rule holds, as forecast at the end of the last round. With a ``ledger``, recorded blocks are
    told from it and others recorded; workers start when the first block has to be simulated. ``until_round`` ends at
    the start of that round, ``replay_only`` where the record ends. ``history=False`` spares the looks at the posterior
    that fill ``run.history``.
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
    recorder = Recorder(run) if history else None
    ended = _drive(run, stop, engine, progress, ledger, watch, until_round, replay_only, recorder)
    if recorder is not None:
        recorder.run_ended()
    return ended


def _drive(
    run: Run,
    stop: StoppingRule | None,
    engine: Engine | None,
    progress: Progress | None,
    ledger: Ledger | None,
    watch: FailureWatch | None,
    until_round: int | None,
    replay_only: bool,
    recorder: Recorder | None,
) -> str:
    with ExitStack() as stack:
        session = None
        round = -1
        while not run.finished:
            if run.round > round:
                round = run.round
                if until_round is not None and round >= until_round:
                    return run.ended
                if stop is not None and run.simulations > 0 and stop.holds(run):
                    return "stopped by its rule"
                if stop is not None and progress is not None and run.simulations > 0:
                    run.expected = None if run.learning else stop.forecast(run)
                if stop is not None and run.simulations >= HOPELESS:
                    run.posterior()  # a rule on the error is never met without acceptances: say so now
                if ledger is not None:
                    _restore_round(run, ledger, replay_only)
                if recorder is not None:
                    recorder.round_ended()
            new, replayed = [], False
            for batch in _asked(run, 0 if session is None else session.ahead):
                known = None if ledger is None else ledger.lookup(batch)
                if known is None:
                    new.append(batch)
                else:
                    _tell(run, batch, known, watch, progress, replayed=True)
                    replayed = True
            if replayed and not new:
                continue
            if replay_only:
                return NOT_FINISHED
            if session is None:
                session = stack.enter_context((engine or InProcess()).session(run.problem))
                stack.callback(_take_warning, run, session)
                if ledger is not None:
                    session.arrived = ledger.record_early
                if session.ahead:  # blocks may be under way when the run ends
                    stack.callback(run.abandon)
            session.submit(new)
            answers = session.collect()
            if ledger is not None:  # all of them before the run thinks about any
                ledger.record(*answers)
            for batch, outcomes in answers:
                _tell(run, batch, outcomes, watch, progress)
            _require_success(run)
    if stop is not None and not stop.holds(run):
        return f"{run.ended}; its stopping rule was not reached"
    return run.ended


def _take_warning(run: Run, session: Session) -> None:
    if session.warning:
        run.warnings.append(session.warning)


def _restore_round(run: Run, ledger: Ledger, replay_only: bool) -> None:
    own = run.round_state()
    if own is None:
        return
    recorded = ledger.round_state(run.round, own)
    if recorded is not None:
        run.restore_round(recorded)
    elif not replay_only:
        ledger.record_round(run.round, own)


def _asked(run: Run, ahead: int) -> list[Batch]:
    """The next blocks: enough for the workers and not all of a long round, whose θ would fill the memory."""
    batches: list[Batch] = []
    while True:
        simulations, blocks = run.under_way
        if simulations >= AT_A_TIME and blocks >= ahead:
            return batches
        more = run.ask(ahead=ahead, enough=max(AT_A_TIME - simulations, 1))
        if not more:
            return batches
        batches += more


def _tell(
    run: Run,
    batch: Batch,
    outcomes: Outcomes,
    watch: FailureWatch | None,
    progress: Progress | None,
    *,
    replayed: bool = False,
) -> None:
    run.tell((batch, outcomes))
    if replayed:
        run.replayed, run.mistake = run.simulations, ""  # it goes on from here, whatever there is
    if watch is not None:
        watch.add(batch, outcomes)
    if progress is not None:
        progress(run)


def _require_success(run: Run) -> None:
    """End a run whose simulations all fail, whatever the kind, long before its budget is gone.

    The sooner if nothing that they give can be used, as a mistake in the problem has it.
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
        raise SimulatorFailed(f"every one of {run.simulations} simulations {kind.words}{example}")
