"""What a recorded run was asked: its problem, targets and tasks, from its settings; and whether that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fbar import former
from fbar.checks import path, shown
from fbar.errors import InputError, LedgerError
from fbar.ledger import LedgerReader, Leg
from fbar.ledger.reader import no_run
from fbar.ledger.settings import NAMES, describe, differences, is_source
from fbar.methods import stopping
from fbar.methods.restored import restored, restored_method
from fbar.question.problem import Problem
from fbar.question.targets import Target, parse
from fbar.results.again import going_on
from fbar.running import model_file
from fbar.running.summaries import LearnedSummaries
from fbar.running.task import Lesson, Task
from fbar.seeds import Seeds
from fbar.system.schema import check_legs, fits

NOT_COMPARED = ("model", "machine")
"""Settings that a run may be resumed without: where its model came from and where it was simulated."""


def as_directory(run: Any) -> Path:
    given = path(run, "run")
    if any(ord(character) < 32 or ord(character) == 127 for character in str(given)):
        raise InputError(f"run must be a path without line breaks and control characters; got {shown(run)}")
    return given


def last_leg(ledger: LedgerReader) -> Leg:
    if not ledger.legs:
        raise no_run(ledger.directory)
    check_legs(ledger.legs, ledger.directory)
    return ledger.legs[-1]


def streams_of(leg: Leg, seed: Any) -> Seeds:
    """A seed that is given again, with the streams that the run was started with; the run's seed by default."""
    recorded = Seeds.recorded(leg.settings)
    return recorded if seed is None else replace(Seeds.of(seed), streams=recorded.streams)


def python_call(ledger: LedgerReader) -> str:
    """The call that goes on with a run that was made from Python; nothing for a finished one."""
    return "" if ledger.legs[-1].result else going_on(ledger.directory, [leg.settings for leg in ledger.legs])


def model_of(
    ledger: LedgerReader, problem: Problem | None, call: str = "", trust: bool = False
) -> tuple[Problem, tuple[Target, ...]]:
    """The problem, and the targets of the run's model file if it has one.

    Nothing of the run is executed if a problem is given. ``call`` does in Python what is wanted, for a run that has no
    model file.
    """
    if problem is not None:
        return problem, ()
    about = ledger.legs[0].settings.get("model")
    if about is None and call:
        raise InputError(f"{ledger.directory} was made from Python, where its problem is defined; there, use {call}")
    source = model_file.of_run(ledger.directory, about, trust=trust)
    return source.problem, source.targets


def task_of(leg: Leg, problem: Problem, known: Sequence[Target] = ()) -> Task:
    """A leg's task, from its settings; its targets are among the known ones, or read from their names."""
    settings = leg.settings
    targets = _targets_named(settings["targets"], known)
    method = restored_method(settings["method"])
    stop = None if settings["stop"] is None else stopping.restored(settings["stop"])
    lesson = _lesson_of(settings.get("summaries"), known)
    return Task(
        _with_recorded_names(problem, settings["problem"]),
        targets,
        method,
        settings["budget"],
        settings["limit"],
        stop,
        settings["block_size"],
        lesson,
        at_data=settings.get("at_data", False),
        learns=settings.get("learns", True),
    )


def _with_recorded_names(problem: Problem, recorded: Mapping[str, Any]) -> Problem:
    """The problem with the names of summaries that the run was started with, where it has none itself."""
    names = recorded.get(NAMES)
    if not names or problem.summary_names:
        return problem
    try:
        return problem.replace(summary_names=names)
    except InputError as error:
        raise LedgerError(f"the run's names of summaries cannot be used: {error}") from None


def _lesson_of(recorded: Mapping[str, Any] | None, known: Sequence[Target]) -> Lesson | None:
    if recorded is None:
        return None
    given = {key: recorded[key] for key in ("regression", "simulations", "folds") if key in recorded}
    if not fits(given.get("folds", 2), int) or given.get("simulations") is None:
        raise LedgerError(f"the run's settings of its summaries cannot be used: {given!r:.100}")
    return Lesson(LearnedSummaries(**given), _targets_named(recorded["targets"], known))


def _targets_named(names: Sequence[str], known: Sequence[Target]) -> tuple[Target, ...]:
    """Targets by their names: the known ones, the others read from their names."""
    by_name: dict[str, Target] = {former.target(target.name): target for target in known}
    found = []
    for name in names:
        try:
            found.append(by_name[name] if name in by_name else parse(name))
        except InputError as error:
            raise InputError(
                f"the run's target {name!r:.100} cannot be read from its name; give it again in targets=: {error}"
            ) from None
    return tuple(found)


# ---------------------------------------------------------------- has it changed?


EARLIER = (
    "the run was started by an earlier version of fbar and answers as it did then, by {}; for the posterior itself, "
    "start a run in another directory"
)


def as_recorded(leg: Leg, task: Task) -> tuple[Task, tuple[str, ...]]:
    """What is asked of a recorded run, with a note where that was started before there were answers at the data.

    What was asked without a tolerance then is asked as it was meant then.
    """
    if "at_data" in leg.settings or not task.answers_at_data:
        return task, ()
    described = describe(task.method)
    then = former.answer({"method": described})["method"]
    exact = leg.settings["method"].get("tolerance") == 0
    if exact and task.stop is not None:  # a precision of whole numbers was reached by exact matching
        then = {**then, "tolerance": 0.0}
    method = replace(task.method, **{name: value for name, value in then.items() if value != described[name]})
    how = "exact matching" if exact else "ABC's posterior at a tolerance that the run came to"
    return replace(task, method=method, at_data=False), (EARLIER.format(how),)


def require_same(recorded: Mapping[str, Any], asked: Mapping[str, Any], run: str | Path) -> tuple[str, ...]:
    """Refuse other settings than the recorded ones, with the difference shown; a changed source is a warning."""
    changed = list(differences(_with_defaults(comparable(recorded), asked), asked))
    refused = [(path, old, new) for path, old, new in changed if not is_source(path)]
    if refused:
        shown = "; ".join(f"{path} was {_short(old)}, is {_short(new)}" for path, old, new in refused[:5])
        raise InputError(
            f"{run} was made with other settings: {shown}. Use another directory, or extend the run "
            "(budget, tolerance, targets)"
        )
    return tuple(
        f"the source of {path.rsplit('.', 1)[0]} has changed since the run was started; its earlier simulations were "
        "made by the old one"
        for path, _, _ in changed
    )


def require_same_problem(leg: Leg, task: Task, run: str | Path) -> tuple[str, ...]:
    """The same of the problem only, which no leg of a run may change."""
    return require_same({"problem": leg.settings["problem"]}, {"problem": describe(task.problem)}, run)


def same_but_for_sources(leg: Leg, settings: Mapping[str, Any]) -> bool:
    before = _with_answer(comparable(leg.settings), settings)
    return all(is_source(path) for path, _, _ in differences(before, settings))


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in NOT_COMPARED}


def _with_answer(settings: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that say whether the answer is at the data, where these do: a run may be older than such answers."""
    return {"at_data": False, **settings} if "at_data" in asked else settings


def _with_defaults(settings: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which the method has all of its own: a run may be older than some of them."""
    settings = _with_answer(settings, asked)
    try:
        return {**settings, "method": describe(restored(settings["method"]))}
    except (InputError, KeyError, TypeError):  # a method of the user's, or no method in question
        return settings


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
