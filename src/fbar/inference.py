"""The one loop: ask, simulate, record, tell, until a stopping rule holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fbar import model_file, stopping
from fbar.checks import function as check_function
from fbar.checks import non_negative_number
from fbar.engine import Engine, InProcess, as_engine
from fbar.errors import InputError, NoPosterior, SimulatorFailed
from fbar.faults import FailureWatch
from fbar.ledger import Ledger, Leg
from fbar.methods import AdaptiveAllocation, Method, Rejection, Run
from fbar.methods.named import as_method, at_tolerance, restored
from fbar.outcomes import Batch, Outcomes
from fbar.priors import Finite
from fbar.problem import Problem
from fbar.progress import ProgressLine
from fbar.result import Result
from fbar.seeds import Seeds
from fbar.settings import describe, differences, is_source
from fbar.stopping import StandardError, StoppingRule, require_rule
from fbar.targets import Target, as_targets, parse

Progress = Callable[[Run], None]
MOST_SIMULATIONS = 10_000_000
"""Where a run ends at the latest that was given a stopping rule and no budget."""

NOT_FINISHED = "not finished"
ALL_FAILED = 50
"""A run ends with an error after so many simulations if all of them failed."""

HOPELESS = 100_000
"""A run towards a precision ends with an error after so many simulations if none was accepted."""


# ---------------------------------------------------------------- the loop


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
) -> str:
    """Ask, simulate and tell until the run is finished or the stopping rule holds at a round's end.

    Returns why it ended. ``progress`` is called with the run after every block. With a ``ledger``, recorded blocks are
    told from it and others recorded; workers start when the first block has to be simulated. ``until_round`` ends at
    the start of that round, ``replay_only`` where the record ends.
    """
    if stop is not None:
        require_rule(stop).check(run)
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
                if stop is not None and run.simulations >= HOPELESS:
                    run.posterior()  # a rule on the error is never met without acceptances: say so now
                if ledger is not None:
                    _restore_round(run, ledger, replay_only)
            batches = run.ask(ahead=0 if session is None else session.ahead)
            known, new = _look_up(batches, ledger)
            for batch, outcomes in known:
                _tell(run, batch, outcomes, watch, progress)
            if known and not new:
                continue
            if replay_only:
                return NOT_FINISHED
            if session is None:
                session = stack.enter_context((engine or InProcess()).session(run.problem))
            session.submit(new)
            for batch, outcomes in session.collect():
                if ledger is not None:
                    ledger.record(batch, outcomes)
                _tell(run, batch, outcomes, watch, progress)
            _require_success(run)
    if stop is not None and not stop.holds(run):
        return f"{run.ended}; its stopping rule was not reached"
    return run.ended


def _restore_round(run: Run, ledger: Ledger, replay_only: bool) -> None:
    own = run.round_state()
    if own is None:
        return
    recorded = ledger.round_state(run.round, own)
    if recorded is not None:
        run.restore_round(recorded)
    elif not replay_only:
        ledger.record_round(run.round, own)


def _look_up(batches: Sequence[Batch], ledger: Ledger | None) -> tuple[list[tuple[Batch, Outcomes]], list[Batch]]:
    """Blocks that the ledger has, with their outcomes, and the others."""
    if ledger is None:
        return [], list(batches)
    known, new = [], []
    for batch in batches:
        outcomes = ledger.lookup(batch)
        if outcomes is None:
            new.append(batch)
        else:
            known.append((batch, outcomes))
    return known, new


def _tell(run: Run, batch: Batch, outcomes: Outcomes, watch: FailureWatch | None, progress: Progress | None) -> None:
    run.tell((batch, outcomes))
    if watch is not None:
        watch.add(batch, outcomes)
    if progress is not None:
        progress(run)


def _require_success(run: Run) -> None:
    """End a run whose simulations all fail, whatever the kind, long before its budget is gone."""
    seen = run.seen
    enough = run.finished or run.simulations >= ALL_FAILED
    if enough and seen.failures >= run.simulations > 0:
        kind = next(iter(seen.counts))
        example = f"; the first: {seen.examples[kind]}" if seen.examples.get(kind) else ""
        raise SimulatorFailed(f"every one of {run.simulations} simulations {kind.words}{example}")


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Task:
    """Everything that decides a result, checked."""

    problem: Problem
    targets: tuple[Target, ...]
    method: Method
    budget: int | None
    limit: int | None
    stop: StoppingRule | None
    block_size: int | None

    def start(self, seed: Any) -> Run:
        return self.method.start(
            self.problem, self.targets, seed, self.budget, limit=self.limit, block_size=self.block_size
        )

    def settings(self, seeds: Seeds) -> dict[str, Any]:
        """The task as JSON."""
        return {
            "problem": describe(self.problem),
            "targets": [target.name for target in self.targets],
            "method": describe(self.method),
            "budget": self.budget,
            "limit": self.limit,
            "stop": describe(self.stop),
            "block_size": self.block_size,
            "seed": str(seeds.entropy),
        }


def make_task(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    method: Method | str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float] | None = None,
    stop: StoppingRule | None = None,
    block_size: int | None = None,
) -> Task:
    """Check what is asked, and choose what was left open."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be an fbar.Problem; got {problem!r}")
    if method is None:
        method = AdaptiveAllocation() if isinstance(problem.prior, Finite) else Rejection()
    method = as_method(method)
    if tolerance is not None:
        method = at_tolerance(method, non_negative_number(tolerance, "tolerance"))
    listed = as_targets(targets)
    if precision is not None and stop is not None:
        raise InputError("give either precision= or stop=, not both")
    if precision is not None:
        if not isinstance(precision, Mapping) or not precision:
            raise InputError("precision must name its targets; give for example {'mean:theta': 0.01}")
        for name, wanted in precision.items():
            rule = StandardError(name, wanted)
            stop = rule if stop is None else stop & rule
    if budget is None and stop is None and not method.ends_by_itself:
        raise InputError("say when to stop: give a budget (budget=, --budget) or a precision (precision=, --precision)")
    if stop is None:
        return Task(problem, listed, method, budget, None, None, block_size)
    limits = [n for n in (budget, require_rule(stop).limit, MOST_SIMULATIONS) if n is not None]
    return Task(problem, listed, method, None, min(limits), stop, block_size)


def infer(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    method: Method | str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float] | None = None,
    stop: StoppingRule | None = None,
    seed: Any = None,
    run: str | Path | None = None,
    workers: int | None = None,
    engine: Any = None,
    timeout: float | None = None,
    block_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Estimate posterior expectations with error bars.

    Parameters
    ----------
    problem, targets
        What is asked: see `Problem`, and `mean`, `probability` and the other targets.
    method
        The algorithm, or its name (``"rejection"``, ``"smc"``, …). On a finite space `AdaptiveAllocation` by default,
        which spends simulations where they reduce the error of the targets; on others `Rejection`.
    budget
        The largest number of simulations.
    tolerance
        How close simulations must come to the data; for ABC-SMC the tolerance it ends at.
    precision
        Standard errors that end the run, by target name: ``{"mean:theta": 0.01}``; all must be reached.
    stop
        A stopping rule of your own in place of ``precision``.
    seed
        The same seed gives the same result, on any number of workers.
    run
        A directory that keeps every finished simulation. The same command again goes on where it was, or gives the
        finished result at once; other settings are refused, see `extend`.
    workers
        Local processes. None or 0 simulates here, which is best for vectorised simulators.
    engine
        In place of ``workers``: a ``concurrent.futures.Executor``, a ``distributed.Client`` or its address.
    timeout
        Seconds that one simulation may take; it needs workers, and starts one if there are none.
    block_size
        Simulations in a block, the unit of work and of seeds: another size gives other numbers.
    progress
        A function that is called with the run after every block; False for no line on the terminal.

    >>> import fbar
    >>> problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    >>> print(fbar.infer(problem, fbar.mean("theta"), budget=10_000, seed=1)["mean:theta"])
    1.829(16)
    """
    task = make_task(
        problem,
        targets,
        method=method,
        budget=budget,
        tolerance=tolerance,
        precision=precision,
        stop=stop,
        block_size=block_size,
    )
    return run_task(task, seed=seed, run=run, engine=as_engine(engine, workers, timeout), progress=progress)


def extend(
    run: str | Path,
    problem: Problem | None = None,
    targets: Target | Sequence[Target] | None = None,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float] | None = None,
    stop: StoppingRule | None = None,
    workers: int | None = None,
    engine: Any = None,
    timeout: float | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Go on with a finished run: a larger budget, a smaller tolerance, other targets. Nothing is simulated again.

    What is left out stays as it was; ``budget`` counts the simulations that are there. ``problem`` can be left out
    for a run of a model file.
    """
    chosen = as_engine(engine, workers, timeout)
    return extend_run(
        Path(run),
        problem=problem,
        targets=targets,
        budget=budget,
        tolerance=tolerance,
        precision=precision,
        stop=stop,
        engine=chosen,
        progress=progress,
    )


def load(run: str | Path, problem: Problem | None = None, targets: Target | Sequence[Target] | None = None) -> Result:
    """The result of a recorded run, finished or not, without a new simulation.

    ``problem`` can be left out for a run of a model file. ``targets`` are the run's own by default.
    """
    return continue_task(Path(run), problem=problem, targets=targets, progress=False, replay_only=True)


# ---------------------------------------------------------------- recorded runs


def run_task(
    task: Task,
    *,
    seed: Any = None,
    run: str | Path | None = None,
    engine: Engine,
    progress: Progress | bool | None = None,
    model: model_file.ModelFile | None = None,
) -> Result:
    """Do a task, recorded if there is a directory for it. ``model`` says which file it comes from."""
    if run is None:
        return _finish(task, task.start(seed), engine, progress, None)
    with Ledger(Path(run), create=True) as ledger:
        if not ledger.legs:
            seeds = Seeds.of(seed)
            started = task.start(seeds)  # refuses what cannot be done before anything is recorded
            about = {} if model is None else {"model": model.describe()}
            if model is not None:
                model.copy_to(ledger.directory)
            ledger.add_leg({**task.settings(seeds), **about})
            return _finish_leg(task, started, ledger, engine, progress)
        stored = ledger.legs[-1].settings
        asked = task.settings(Seeds(int(stored["seed"])) if seed is None else Seeds.of(seed))
        notes = require_same(stored, asked, run)
        return _continue(task, ledger, engine, progress, notes)


def continue_task(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: Target | Sequence[Target] | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    replay_only: bool = False,
) -> Result:
    """Go on with the last leg of a recorded run, with its own settings."""
    with Ledger(run, create=False) as ledger:
        last = _last_leg(ledger)
        problem, own = _model_of(ledger, problem)
        asked = () if targets is None else as_targets(targets)
        task = _task_of(last, problem, (*own, *asked))
        notes = require_same(_asked(last.settings), _asked(task.settings(Seeds(0))), run)
        result = _continue(task, ledger, engine or InProcess(), progress, notes, replay_only=replay_only)
    return replace(result, estimates=result.posterior.expect(list(asked))) if asked else result


def extend_run(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: Target | Sequence[Target] | Sequence[str] | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float] | None = None,
    stop: StoppingRule | None = None,
    engine: Engine,
    progress: Progress | bool | None = None,
) -> Result:
    """Append a leg to a finished run and do it."""
    with Ledger(run, create=False) as ledger:
        last = _last_leg(ledger)
        problem, own = _model_of(ledger, problem)

        def extended(before: Task) -> Task:
            return make_task(
                problem,
                before.targets if targets is None else _read_targets(targets),
                method=before.method if tolerance is None else at_tolerance(before.method, tolerance),
                budget=budget,
                precision=precision,
                stop=stop,
                block_size=before.block_size,
            )

        seeds = Seeds(int(last.settings["seed"]))
        if len(ledger.legs) > 1:  # the same extension again goes on with it, or gives its result at once
            task = extended(_task_of(ledger.legs[-2], problem, own))
            settings = task.settings(seeds)
            if not any(not is_source(path) for path, _, _ in differences(_but_model(last.settings), settings)):
                return _continue(task, ledger, engine, progress, require_same(last.settings, settings, run))
        if last.result is None:
            raise InputError(f"{run} is not finished; finish it first (the same command again, or: fbar resume {run})")
        before = _task_of(last, problem, own)
        task = extended(before)
        settings = task.settings(seeds)
        notes = require_same(_asked(last.settings), _asked(settings), run)
        watch = FailureWatch()
        live, _ = _replay(before, ledger, watch)
        _go_on(live, last, task)  # refuses what cannot be done before anything is recorded
        about = {"model": last.settings["model"]} if "model" in last.settings else {}
        ledger.add_leg({**settings, **about})
        return _finish_leg(task, live, ledger, engine, progress, watch, notes)


def _last_leg(ledger: Ledger) -> Leg:
    if not ledger.legs:
        raise InputError(f"{ledger.directory} holds no run yet; start one with fbar.infer(..., run=...)")
    return ledger.legs[-1]


def _asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What no leg of a run may change."""
    return {"problem": settings["problem"]}


def _model_of(ledger: Ledger, problem: Problem | None) -> tuple[Problem, tuple[Target, ...]]:
    """The problem, and targets that can be known again: those of the run's model file if there is one."""
    about = ledger.legs[0].settings.get("model")
    if problem is not None and about is None:
        return problem, ()
    source = model_file.of_run(ledger.directory, about)
    return problem or source.problem, source.targets


def _read_targets(given: Target | Sequence[Target] | Sequence[str]) -> tuple[Target, ...]:
    listed: list[Any] = [given] if isinstance(given, Target | str) else list(given)
    return as_targets([parse(item) if isinstance(item, str) else item for item in listed])


def _but_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "model"}


def require_same(stored: Any, asked: Any, run: str | Path) -> tuple[str, ...]:
    """Refuse other settings than the recorded ones, with the difference shown; a changed source is a warning."""
    changed = list(differences(_but_model(stored), asked))
    refused = [(path, old, new) for path, old, new in changed if not is_source(path)]
    if refused:
        shown = "; ".join(f"{path} was {_short(old)}, is {_short(new)}" for path, old, new in refused[:5])
        raise InputError(
            f"{run} was made with other settings: {shown}. Take another directory, or extend the run "
            "(budget, tolerance, targets)"
        )
    return tuple(
        f"the source of {path.rsplit('.', 1)[0]} has changed since the run was started; its earlier simulations are "
        "from the old one"
        for path, _, _ in changed
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _task_of(leg: Leg, problem: Problem, known: Sequence[Target] = ()) -> Task:
    """A leg's task, from its settings; its targets are among the known ones, or read from their names."""
    settings = leg.settings
    by_name = {target.name: target for target in known}
    targets = tuple(by_name[name] if name in by_name else parse(name) for name in settings["targets"])
    method: Method = restored(settings["method"])
    stop = None if settings["stop"] is None else stopping.restored(settings["stop"])
    return Task(problem, targets, method, settings["budget"], settings["limit"], stop, settings["block_size"])


def _continue(
    task: Task,
    ledger: Ledger,
    engine: Engine,
    progress: Progress | bool | None,
    notes: tuple[str, ...],
    *,
    replay_only: bool = False,
) -> Result:
    """Replay the legs that are done, then go on with the last one."""
    watch = FailureWatch()
    if len(ledger.legs) > 1:
        run, whole = _replay(task, ledger, watch, leave=1, engine=engine, replay_only=replay_only)
        if whole:
            _go_on(run, ledger.legs[-2], task)
    else:
        run = task.start(Seeds(int(ledger.legs[0].settings["seed"])))
    return _finish_leg(task, run, ledger, engine, progress, watch, notes, replay_only)


def _replay(
    task: Task,
    ledger: Ledger,
    watch: FailureWatch,
    leave: int = 0,
    engine: Engine | None = None,
    replay_only: bool = False,
) -> tuple[Run, bool]:
    """The run at the end of all its finished legs but the last ``leave``, and whether it is there.

    Damaged blocks are simulated again; with ``replay_only`` the run stays where the first of them is.
    """
    legs = ledger.legs[: len(ledger.legs) - leave]
    tasks = [_task_of(leg, task.problem, task.targets) for leg in legs]
    run = tasks[0].start(Seeds(int(legs[0].settings["seed"])))
    for number, (leg, done) in enumerate(zip(legs, tasks, strict=True)):
        if number:
            _go_on(run, legs[number - 1], done)
        assert leg.result is not None
        until = leg.result["rounds"]
        ended = drive(run, engine=engine, ledger=ledger, watch=watch, until_round=until, replay_only=replay_only)
        if ended == NOT_FINISHED:
            return run, False
    return run, True


def _finish_leg(
    task: Task,
    run: Run,
    ledger: Ledger,
    engine: Engine,
    progress: Progress | bool | None,
    watch: FailureWatch | None = None,
    notes: tuple[str, ...] = (),
    replay_only: bool = False,
) -> Result:
    """Drive the last leg to its end, and record how it ended."""
    last = ledger.legs[-1]
    until = None if last.result is None else last.result["rounds"]
    try:
        result = _finish(task, run, engine, progress, ledger, watch, notes, until, replay_only)
    except NoPosterior as error:
        if last.result is None and not replay_only:  # it has ended all the same, and may be extended
            ledger.finish_leg(_without_posterior(run, error))
        raise
    if last.result is None and not replay_only:
        ledger.finish_leg(result.as_dict())
    return result


def _without_posterior(run: Run, error: NoPosterior) -> dict[str, Any]:
    """How a run went that accepted nothing, as `Result.as_dict` has it."""
    return {
        "estimates": {},
        "simulations": run.simulations,
        "accepted": 0.0,
        "failures": {kind.name.lower(): count for kind, count in run.seen.counts.items()},
        "warnings": [str(error)],
        "stopped_by": run.ended,
        "rounds": run.round,
        "seed": str(run.seeds.entropy),
    }


def _go_on(run: Run, before: Leg, task: Task) -> None:
    tolerance = task.method.final_tolerance
    if tolerance == restored(before.settings["method"]).final_tolerance:
        tolerance = None
    run.extend(budget=task.budget, limit=task.limit, tolerance=tolerance, targets=task.targets)


def _finish(
    task: Task,
    run: Run,
    engine: Engine,
    progress: Progress | bool | None,
    ledger: Ledger | None,
    watch: FailureWatch | None = None,
    notes: tuple[str, ...] = (),
    until_round: int | None = None,
    replay_only: bool = False,
) -> Result:
    """Drive a run to its end and take its result."""
    watch = watch or FailureWatch()
    line = ProgressLine() if progress in (None, True) and ProgressLine.wanted() else None
    if callable(progress):
        check_function(progress, "progress")
    shown: Progress | None = progress if callable(progress) else line
    try:
        ended = drive(
            run,
            task.stop,
            engine=engine,
            progress=shown,
            ledger=ledger,
            watch=watch,
            until_round=until_round,
            replay_only=replay_only,
        )
    except KeyboardInterrupt:
        if ledger is None:
            raise
        ledger.flush()
        raise KeyboardInterrupt(
            f"stopped after {run.simulations:,} simulations, all recorded in {ledger.directory}; "
            "give the same command again to go on"
        ) from None
    finally:
        if line is not None:
            line.end()
    if ledger is not None:
        ledger.flush()
        if until_round is not None and ended != NOT_FINISHED and ledger.legs[-1].result is not None:
            ended = ledger.legs[-1].result["stopped_by"]
        if ledger.damaged:
            again = "left out" if replay_only else "recomputed from their seeds"
            notes = (*notes, f"damaged in {ledger.directory} and {again}: {', '.join(ledger.damaged)}")
    posterior = run.posterior()
    dependence = watch.dependence()
    return Result(
        run, posterior, posterior.expect(list(task.targets)), ended, (*notes, dependence) if dependence else notes
    )
