"""Tasks done, recorded, resumed and extended.

A recorded run is a list of legs. To go on with it, its finished legs are replayed from the ledger through the loop, as
they were asked for then; the last one goes on where its record ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fbar.checks import counted, listed_of, path, shown
from fbar.checks import function as check_function
from fbar.diagnostics.faults import FailureWatch
from fbar.engine import Engine, InProcess, as_before, machine_of
from fbar.errors import FbarError, InputError, LedgerError, NoPosterior
from fbar.ledger import Ledger, Leg
from fbar.ledger.settings import describe, differences, is_source
from fbar.methods import Run, stopping
from fbar.methods.restored import restored, restored_method
from fbar.methods.stopping import StoppingRule
from fbar.methods.summaries import LearnedSummaries, LearntProblem
from fbar.methods.summaries.learn import Pilot
from fbar.question.problem import Problem
from fbar.question.targets import Target, as_targets, parse
from fbar.results.again import going_on
from fbar.results.result import Result, doubt_damaged, json_seed, spent
from fbar.running import model_file
from fbar.running.loop import NOT_FINISHED, Progress, drive
from fbar.running.progress import LiveProgress
from fbar.running.repeat import WARNING, FirstBlockTwice
from fbar.running.task import Lesson, Task, make_task
from fbar.seeds import Seeds
from fbar.system.schema import check_legs, fits
from fbar.system.signals import ending_as_by_ctrl_c, interrupted
from fbar.system.terminal import is_terminal, waiting


@ending_as_by_ctrl_c()
def run_task(
    task: Task,
    *,
    seed: Any = None,
    run: str | Path | None = None,
    engine: Engine,
    progress: Progress | bool | None = None,
    model: model_file.ModelFile | None = None,
) -> Result:
    """Do a task, recorded if there is a directory for it.

    ``model`` says which file it comes from, for `fbar resume`.
    """
    if run is None:
        seeds = Seeds.of(seed)
        task = _taught(task, seeds, engine, progress)
        return _finish(task, task.start(seeds), engine, progress, None)
    with Ledger(as_directory(run), create=True) as ledger:
        if not ledger.legs:
            seeds = Seeds.of(seed)
            started = task.start(seeds)  # refuses what cannot be done before anything is recorded
            about: dict[str, Any] = {"machine": machine_of(engine)}
            if model is not None:
                about["model"] = model.describe()
            if model is not None:
                model.copy_to(ledger.directory)
            ledger.add_leg({**task.settings(seeds), **about})
            if task.lesson is not None:
                task = _taught(task, seeds, engine, progress, ledger)
                started = task.start(seeds)
            return _finish_leg(task, started, ledger, engine, progress)
        stored = _last_leg(ledger).settings
        asked = task.settings(_same_streams(stored, seed))
        notes = require_same(stored, asked, run)
        return _continue(task, ledger, engine, progress, notes)


@ending_as_by_ctrl_c()
def continue_task(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: Target | Sequence[Target] | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    replay_only: bool = False,
    trust: bool = False,
) -> Result:
    """Go on with the last leg of a recorded run, with its own settings; a finished one on read-only media is read.

    ``trust`` says that its model file may be run, whoever wrote it.
    """
    fixed = not replay_only and run.is_dir() and not os.access(run, os.W_OK)
    replay_only = replay_only or fixed
    with Ledger(run, create=False, driver=not replay_only) as ledger:
        last = _last_leg(ledger)
        if fixed and last.result is None:
            raise LedgerError(
                f"{run} is not finished, and cannot be written to; copy it to where you can write, and resume it there"
            )
        asked = () if targets is None else as_targets(targets)
        problem, own = _model_of(ledger, problem, "" if replay_only else _going_on(ledger), trust)
        task = _task_of(last, problem, (*own, *asked))
        notes = require_same(_asked(last.settings), _asked(task.settings(Seeds(0))), run)
        result = _continue(task, ledger, engine or InProcess(), progress, notes, replay_only=replay_only)
    return replace(result, estimates=result.posterior.expect(list(asked)), asked=asked) if asked else result


@ending_as_by_ctrl_c()
def extend_run(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: Target | Sequence[Target] | Sequence[str] | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    engine: Engine,
    progress: Progress | bool | None = None,
    trust: bool = False,
) -> Result:
    """Append a leg to a finished run and do it."""
    read = None if targets is None else _read_targets(targets)
    with Ledger(run, create=False) as ledger:
        last = _last_leg(ledger)
        problem, own = _model_of(ledger, problem, f"fbar.extend({str(run)!r}, problem, budget=...)", trust)
        own = (*own, *(read or ()))

        def extended(before: Task) -> Task:
            asked = (budget, precision, stop)
            if before.stop is None and all(item is None for item in asked) and not before.method.ends_by_itself:
                raise InputError(
                    f"{run} has spent its budget of {before.budget} simulations; say how far to go on: give a larger "
                    "budget (budget=, --budget) or a precision (precision=, --precision)"
                )
            return make_task(
                problem,
                before.targets if read is None else read,
                method=before.method if tolerance is None else before.method.at_tolerance(tolerance),
                budget=budget,
                precision=precision,
                stop=before.stop if all(item is None for item in asked) else stop,
                block_size=before.block_size,
                summaries=before.lesson,
            )

        seeds = Seeds.recorded(last.settings)
        if len(ledger.legs) > 1:  # the same extension again goes on with it, or gives its result at once
            task = extended(_task_of(ledger.legs[-2], problem, own))
            settings = task.settings(seeds)
            if not any(not is_source(path) for path, _, _ in differences(_but_model(last.settings), settings)):
                return _continue(task, ledger, engine, progress, require_same(last.settings, settings, run))
        if last.result is None:
            how = f"fbar resume {run}" if last.settings.get("model") else _going_on(ledger)
            raise InputError(f"{run} is not finished; finish it first (the same command again, or: {how})")
        before = _task_of(last, problem, own)
        task = extended(before)
        settings = task.settings(seeds)
        notes = require_same(_asked(last.settings), _asked(settings), run)
        before = _taught(before, seeds, engine, progress, ledger)
        task = replace(task, learnt=before.learnt)
        watch = FailureWatch()
        live, _ = _replay(before, ledger, watch, engine=engine)
        _go_on(live, last, task)  # refuses what cannot be done before anything is recorded
        about = {key: value for key, value in last.settings.items() if key == "model"}
        ledger.add_leg({**settings, **about, "machine": machine_of(engine)})
        return _finish_leg(task, live, ledger, engine, progress, watch, notes)


def engine_of(run: Path, engine: Any = None, workers: int | None = None, timeout: float | None = None) -> Engine:
    """The engine that is asked for; what is not said is as the run has it recorded."""
    machine: Any = None
    with suppress(LedgerError), Ledger(run, create=False, driver=False) as ledger:  # who opens it next says what is
        machine = ledger.legs[-1].settings.get("machine") if ledger.legs else None  # wrong with it
    return as_before(machine if isinstance(machine, Mapping) else {}, engine, workers, timeout)


def _same_streams(stored: Mapping[str, Any], seed: Any) -> Seeds:
    """A seed that is given again, with the streams that the run was started with."""
    recorded = Seeds.recorded(stored)
    return recorded if seed is None else replace(Seeds.of(seed), streams=recorded.streams)


def as_directory(run: Any) -> Path:
    given = path(run, "run")
    if any(ord(character) < 32 or ord(character) == 127 for character in str(given)):
        raise InputError(f"run must be a path without line breaks and control characters; got {shown(run)}")
    return given


def _last_leg(ledger: Ledger) -> Leg:
    if not ledger.legs:
        raise InputError(f"{ledger.directory} holds no run yet; start one with fbar.infer(..., run=...)")
    check_legs(ledger.legs, ledger.directory)
    return ledger.legs[-1]


def _asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What no leg of a run may change."""
    return {"problem": settings["problem"]}


def _going_on(ledger: Ledger) -> str:
    """The call that goes on with a run that was made from Python; none for a finished one."""
    return "" if ledger.legs[-1].result else going_on(ledger.directory, [leg.settings for leg in ledger.legs])


def _model_of(
    ledger: Ledger, problem: Problem | None, call: str = "", trust: bool = False
) -> tuple[Problem, tuple[Target, ...]]:
    """The problem, and targets that can be known again: those of the run's model file if there is one.

    Nothing of the run is executed where a problem is given. ``call`` is what does in Python what is wanted, for a run
    that has no model file.
    """
    if problem is not None:
        return problem, ()
    about = ledger.legs[0].settings.get("model")
    if about is None and call:
        raise InputError(f"{ledger.directory} was made from Python and its problem is there; go on there with {call}")
    source = model_file.of_run(ledger.directory, about, trust=trust)
    return source.problem, source.targets


def _read_targets(given: Target | Sequence[Target] | Sequence[str]) -> tuple[Target, ...]:
    listed: list[Any] = [given] if isinstance(given, Target | str) else listed_of(given, "targets")
    return as_targets([parse(item) if isinstance(item, str) else item for item in listed])


def _but_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in ("model", "machine")}


def _with_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings whose method has all its own: a run may be older than some of them."""
    try:
        return {**settings, "method": describe(restored(settings["method"]))}
    except (InputError, KeyError, TypeError):  # a method of the user's own, or no method in question
        return settings


def require_same(stored: Any, asked: Any, run: str | Path) -> tuple[str, ...]:
    """Refuse other settings than the recorded ones, with the difference shown; a changed source is a warning."""
    changed = list(differences(_with_defaults(_but_model(stored)), asked))
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
    targets = _known_again(settings["targets"], known)
    method = restored_method(settings["method"])
    stop = None if settings["stop"] is None else stopping.restored(settings["stop"])
    lesson, told = None, settings.get("summaries")
    if told is not None:
        pupils = _known_again(told["targets"], known)
        own = {key: told[key] for key in ("regression", "simulations", "folds") if key in told}
        if not fits(own.get("folds", 2), int) or own.get("simulations") is None:
            raise LedgerError(f"the settings of the run cannot be used: they say {own!r:.100} of its summaries")
        lesson = Lesson(LearnedSummaries(**own), pupils)
    return Task(problem, targets, method, settings["budget"], settings["limit"], stop, settings["block_size"], lesson)


def _known_again(names: Sequence[str], known: Sequence[Target]) -> tuple[Target, ...]:
    """Targets by their names: the known ones, the others read from them."""
    by_name, found = {target.name: target for target in known}, []
    for name in names:
        try:
            found.append(by_name[name] if name in by_name else parse(name))
        except InputError as error:
            raise InputError(
                f"the run's target {name!r:.100} cannot be read from its name; give it, as it was, in targets=: {error}"
            ) from None
    return tuple(found)


DAMAGED = "its record is damaged"
"""How a run ended whose record was read as far as it is sound."""

PILOT = "pilot"
"""Where a run keeps the simulations that taught its summaries."""

LEARNS = "learning the summaries"


def _taught(
    task: Task,
    seeds: Seeds,
    engine: Engine,
    progress: Progress | bool | None,
    ledger: Ledger | None = None,
    replay_only: bool = False,
) -> Task:
    """The task with its summaries learnt; a recorded run keeps the pilot's simulations and learns from them again."""
    if task.lesson is None or task.learnt is not None:
        return task
    pilot = task.lesson.summaries.pilot(task.problem, task.lesson.targets, seeds, block_size=task.block_size)
    if ledger is None:
        _driven(pilot, progress, None, engine, title=LEARNS)
        return replace(task, learnt=_fitted(task.lesson, pilot, progress))
    missing = NoPosterior(f"the simulations that teach the summaries of {ledger.directory} are not all there yet")
    if replay_only and not (ledger.directory / PILOT).is_dir():
        raise missing
    with ledger.part(PILOT, create=not replay_only) as kept:
        if _driven(pilot, progress, kept, engine, replay=replay_only, title=LEARNS) == NOT_FINISHED:
            damage = kept.damage()
            if damage:
                raise NoPosterior(
                    f"of the simulations that teach the summaries of {ledger.directory} {damage}; {_mends(ledger)}"
                )
            raise missing
        kept.flush()
        learnt = _fitted(task.lesson, pilot, progress)
        _require_learnt_again(learnt, kept, ledger)
    return replace(task, learnt=learnt)


def _fitted(lesson: Lesson, pilot: Pilot, progress: Progress | bool | None) -> LearntProblem:
    with waiting(LEARNS, shown=progress is None or progress is True):
        return lesson.summaries.fit(pilot)


def _require_learnt_again(learnt: LearntProblem, kept: Ledger, ledger: Ledger) -> None:
    """Refuse summaries other than those that the recorded outcomes have; differences of rounding do not matter."""
    assert learnt.observed is not None
    own = {"observed": learnt.observed, "summaries": learnt.learning.summaries[:100]}
    recorded = kept.round_state(1, own)
    if recorded is None:
        if not kept.reads_only:
            kept.record_round(1, own)
        return
    for name, values in own.items():
        before = recorded[name]
        if before.shape != values.shape or not np.allclose(before, values, rtol=1e-6, atol=1e-6):
            raise LedgerError(
                f"the summaries of {ledger.directory}, learnt again from its recorded pilot, are not what they were; "
                "go on with the versions of numpy and scikit-learn that it was started with, or start it anew"
            )


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
    seeds = Seeds.recorded(ledger.legs[0].settings)
    task = _taught(task, seeds, engine, progress, ledger, replay_only)
    if len(ledger.legs) > 1:
        run, whole = _replay(task, ledger, watch, leave=1, engine=engine, replay_only=replay_only)
        if whole:
            _go_on(run, ledger.legs[-2], task)
    else:
        run = task.start(seeds)
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
    tasks = [replace(_task_of(leg, task.problem, task.targets), learnt=task.learnt) for leg in legs]
    run = tasks[0].start(Seeds.recorded(legs[0].settings))
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
    if last.result is not None and not replay_only and ledger.has_recorded:  # it was finished, and something was gone
        ledger.sweep()
    if last.result is not None and not replay_only and ledger.damaged:
        other = _other_estimates(result, last.result)
        result = replace(result, notes=(*result.notes, other)) if other else result
    return result


def _mends(ledger: Ledger) -> str:
    return (
        f"give the run's own command again, or fbar resume {ledger.directory}, which simulates what is damaged anew "
        "from its seeds and gives the result that the run had"
    )


def _damage(ledger: Ledger, run: Run, ended: str) -> str:
    """What to say of a run that was read only as far as its record is sound; nothing where that is all of it."""
    before = ledger.legs[-1].result
    if ended != NOT_FINISHED or (before is None and not ledger.damaged_blocks and not ledger.end_is_lost):
        return ""
    what = ledger.damage() or "some recorded blocks are missing"
    of = f" of its {before['simulations']:,}" if before is not None else ""
    return (
        f"{ledger.directory} is damaged: {what}. What follows is from the {run.simulations:,}{of} simulations before "
        f"the damage alone and is not the run's result; {_mends(ledger)}"
    )


def _other_estimates(result: Result, before: Mapping[str, Any]) -> str:
    """A warning if a run that was mended gives other estimates than it had, beyond rounding."""
    now = result.as_dict()["estimates"]
    other = [
        name
        for name, had in before["estimates"].items()
        if name in now and not _alike(_numbers(now[name]), _numbers(had))
    ]
    if not other:
        return ""
    return (
        f"the damaged blocks were simulated again, and {', '.join(other)} came out otherwise than recorded: the "
        "simulator has changed, or does not take its random numbers from rng"
    )


def _alike(first: Any, second: Any) -> bool:
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-6, atol=0, equal_nan=True)


def _numbers(estimate: Mapping[str, Any]) -> Any:
    return np.array([estimate["value"], estimate["standard_error"]], dtype=np.float64)


def _learnt_for_others(task: Task) -> str:
    """A warning of targets that were asked for after the summaries were learnt."""
    if task.lesson is None:
        return ""
    learnt = {target.name for target in task.lesson.targets}
    others = [target.name for target in task.targets if target.name not in learnt]
    return f"summaries were learnt for {', '.join(sorted(learnt))}, not for {', '.join(others)}" if others else ""


def _without_posterior(run: Run, error: NoPosterior) -> dict[str, Any]:
    """How a run went that accepted nothing, as `Result.as_dict` has it."""
    return {
        "estimates": {},
        "simulations": run.simulations,
        "accepted": 0,
        **spent(run),
        "failures": {kind.name.lower(): count for kind, count in run.seen.counts.items()},
        "warnings": [str(error)],
        "stopped_by": run.ended,
        "rounds": run.round,
        "seed": json_seed(run.seeds.entropy),
    }


def _go_on(run: Run, before: Leg, task: Task) -> None:
    tolerance = task.method.final_tolerance
    if tolerance == restored_method(before.settings["method"]).final_tolerance:
        tolerance = None
    run.extend(
        budget=task.left_of(task.budget), limit=task.left_of(task.limit), tolerance=tolerance, targets=task.targets
    )


def _driven(
    run: Run,
    progress: Progress | bool | None,
    ledger: Ledger | None,
    engine: Engine,
    *,
    stop: StoppingRule | None = None,
    watch: FailureWatch | None = None,
    until: int | None = None,
    replay: bool = False,
    title: str = "",
) -> str:
    """Drive a run with its progress shown; who stops it is told what is recorded. Returns why it ended."""
    if progress is not None and not isinstance(progress, bool):
        check_function(progress, "progress")
    live = None
    if progress is True or (progress is None and is_terminal()):
        live = LiveProgress(stop, plain=progress is True, title=title)
    shown: Progress | None = progress if callable(progress) else live
    try:
        return drive(
            run,
            stop,
            engine=engine,
            progress=shown,
            ledger=ledger,
            watch=watch,
            until_round=until,
            replay_only=replay,
            history=not title,
        )
    except KeyboardInterrupt as error:
        if ledger is None:
            raise
        try:
            ledger.flush()
            with Ledger(ledger.path.parent, create=False, driver=False) as recorded:
                # Those too whose turn to be used has not come, since blocks before them are not there.
                done = counted(recorded.simulations(), "simulation")
            told = f"stopped after {done}, all recorded in {ledger.directory}; give the same command again to go on"
        except FbarError as other:
            told = f"stopped; {other}"
        raise interrupted(error, told) from None
    finally:
        if live is not None:
            live.end()


def _unrecorded(task: Task, run: Run, engine: Engine) -> dict[str, Any]:
    return {**task.settings(run.seeds), "machine": machine_of(engine)}


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
    try:
        return _finished(task, run, engine, progress, ledger, watch, notes, until_round, replay_only)
    except NoPosterior as error:
        if run.seen.failures >= run.simulations > 0 and ledger is not None:
            raise NoPosterior(
                f"every one of the {run.simulations} simulations recorded in {ledger.directory} failed "
                f"({run.seen.failed}); mend the simulator and start again in another directory"
            ) from error
        if task.exact:
            raise NoPosterior(
                f"{error}. No tolerance was given, so simulations had to match the data exactly; give one (tolerance=, "
                "--tolerance)"
            ) from error
        raise


def _finished(
    task: Task,
    run: Run,
    engine: Engine,
    progress: Progress | bool | None,
    ledger: Ledger | None,
    watch: FailureWatch,
    notes: tuple[str, ...],
    until_round: int | None,
    replay_only: bool,
) -> Result:
    twice = FirstBlockTwice(engine, new=ledger is None or not len(ledger))
    ended = _driven(run, progress, ledger, twice, stop=task.stop, watch=watch, until=until_round, replay=replay_only)
    if ledger is not None:
        ledger.flush()
        if until_round is not None and ended != NOT_FINISHED and ledger.legs[-1].result is not None:
            ended = ledger.legs[-1].result["stopped_by"]
    damage = _damage(ledger, run, ended) if ledger is not None and replay_only else ""
    if damage:
        ended, notes = DAMAGED, (damage, *notes)
    elif ledger is not None and ledger.damaged:
        again = f"to be mended by fbar resume {ledger.directory}" if replay_only else "recomputed from their seeds"
        notes = (*notes, f"damaged in {ledger.directory} and {again}: {', '.join(ledger.damaged)}")
    try:
        posterior = run.posterior()
    except NoPosterior as error:
        if damage:
            raise NoPosterior(f"{damage} ({error})") from error
        raise
    # The loop has looked when it ended.
    last = run.history[-1] if run.history and run.history[-1].simulations == run.simulations else None
    if damage:
        doubt_damaged(posterior, run)
        last = None
    told = (*notes, watch.dependence(), _learnt_for_others(task), "" if task.learnt is None else task.learnt.warning)
    done = None if ledger is None else ledger.legs[-1].result  # what was seen then is not looked at again
    told = (*told, WARNING if done is not None and WARNING in done["warnings"] else twice.warning)
    return Result(
        run,
        posterior,
        posterior.expect(list(task.targets)) if last is None else last.estimates,
        ended,
        tuple(note for note in told if note),
        {} if task.stop is None else task.stop.missing(run),
        () if task.learnt is None else (task.learnt.remark,),
        settings=_unrecorded(task, run, engine) if ledger is None else ledger.legs[-1].settings,
        earlier=() if ledger is None else tuple(leg.settings for leg in ledger.legs[:-1]),
        directory=None if ledger is None else ledger.directory,
        failed=watch.places(),
        damage=damage,
    )
