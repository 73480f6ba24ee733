"""The ways into a session: do a task, resume a recorded run, read one, extend one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fbar.engine import Engine, InProcess, as_before
from fbar.errors import InputError, LedgerError
from fbar.ledger import Ledger, LedgerReader
from fbar.methods.stopping import StoppingRule
from fbar.question.problem import Problem
from fbar.question.targets import AnyTargets, Target, as_targets
from fbar.results.result import Result
from fbar.running.model_file import ModelFile
from fbar.running.recall import (
    as_directory,
    as_recorded,
    last_leg,
    model_of,
    python_call,
    require_same,
    require_same_problem,
    same_but_for_sources,
    streams_of,
    task_of,
)
from fbar.running.session import InferenceSession
from fbar.running.shown import ProgressOption
from fbar.running.task import Task, make_task
from fbar.seeds import Seeds
from fbar.system.signals import ending_as_by_ctrl_c


@ending_as_by_ctrl_c()
def run_task(
    task: Task,
    *,
    seed: Any = None,
    run: str | Path | None = None,
    engine: Engine,
    progress: ProgressOption = None,
    model: ModelFile | None = None,
) -> Result:
    """Do a task; with a directory to record it in, begin the run there or resume it.

    ``model`` is the file that it comes from, for `fbar resume`.
    """
    if run is None:
        session = InferenceSession(task, Seeds.of(seed), engine, progress)
        session.begin()
        return session.finish()
    with Ledger(as_directory(run), create=True) as ledger:
        if not ledger.legs:
            session = InferenceSession(task, Seeds.of(seed), engine, progress, ledger)
            session.begin(model)
            return session.finish()
        last = last_leg(ledger)
        task, earlier = as_recorded(last, task)
        notes = require_same(last.settings, task.settings(streams_of(last, seed)), run)
        return _resumed(task, ledger, engine, progress, (*earlier, *notes))


@ending_as_by_ctrl_c()
def resume_run(
    run: Path,
    *,
    problem: Problem | None = None,
    engine: Engine | None = None,
    progress: ProgressOption = None,
    trust: bool = False,
) -> Result:
    """Go on with the last leg of a recorded run, with its own settings; a finished one on read-only media is read.

    ``trust`` allows its model file to be run, whoever wrote it.
    """
    if run.is_dir() and not os.access(run, os.W_OK):
        with LedgerReader(run) as ledger:
            if last_leg(ledger).result is None:
                raise LedgerError(
                    f"{run} is not finished, and cannot be written to; copy it to where you can write, and resume it "
                    "there"
                )
            return _of_own_settings(ledger, problem, (), engine or InProcess(), progress, trust)
    with Ledger(run, create=False) as ledger:
        return _of_own_settings(ledger, problem, (), engine or InProcess(), progress, trust)


@ending_as_by_ctrl_c()
def load_run(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: AnyTargets | None = None,
    trust: bool = False,
) -> Result:
    """The result of a recorded run as far as it is recorded, without a new simulation."""
    asked = () if targets is None else as_targets(targets)
    with LedgerReader(run) as ledger:
        result = _of_own_settings(ledger, problem, asked, InProcess(), False, trust)
    if not asked:
        return result
    asked = result.run.problem.posed(asked)
    return replace(result, estimates=result.posterior.expect(list(asked)), asked=asked)


def _of_own_settings(
    ledger: LedgerReader,
    problem: Problem | None,
    targets: tuple[Target, ...],
    engine: Engine,
    progress: ProgressOption,
    trust: bool,
) -> Result:
    """The result of a recorded run, asked what it was asked; ``targets`` are known beyond those of its model file."""
    last = last_leg(ledger)
    call = python_call(ledger) if isinstance(ledger, Ledger) else ""
    problem, known = model_of(ledger, problem, call, trust)
    task = task_of(last, problem, (*known, *targets))
    return _resumed(task, ledger, engine, progress, require_same_problem(last, task, ledger.directory))


def _resumed(
    task: Task, ledger: LedgerReader, engine: Engine, progress: ProgressOption, notes: tuple[str, ...]
) -> Result:
    session = InferenceSession(task, Seeds.recorded(ledger.legs[0].settings), engine, progress, ledger, notes)
    session.resume()
    return session.finish()


@dataclass(frozen=True)
class Extension:
    """What is to change in a run that goes on; None leaves it as it was."""

    targets: tuple[Target, ...] | None = None
    budget: int | None = None
    tolerance: float | None = None
    precision: Mapping[str, float | str] | None = None
    stop: StoppingRule | None = None

    def of(self, before: Task, run: Path) -> Task:
        """The task that goes on from another one."""
        no_end = self.budget is None and self.precision is None and self.stop is None
        if before.stop is None and no_end and not before.method.ends_by_itself:
            raise InputError(
                f"{run} has spent its budget of {before.budget} simulations; to go on, give a larger budget (budget=, "
                "--budget) or a precision (precision=, --precision)"
            )
        task = make_task(
            before.problem,
            before.targets if self.targets is None else self.targets,
            method=before.method if self.tolerance is None else before.method.at_tolerance(self.tolerance),
            budget=self.budget,
            precision=self.precision,
            stop=before.stop if no_end else self.stop,
            block_size=before.block_size,
            summaries=before.lesson,
        )
        return replace(task, at_data=before.at_data, learns=before.learns)


@ending_as_by_ctrl_c()
def extend_run(
    run: Path,
    *,
    problem: Problem | None = None,
    targets: AnyTargets | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    engine: Engine,
    progress: ProgressOption = None,
    trust: bool = False,
) -> Result:
    """Append a leg to a finished run and do it; the same extension again resumes it, or gives its result at once."""
    wanted = None if targets is None else as_targets(targets)
    extension = Extension(wanted, budget, tolerance, precision, stop)
    with Ledger(run, create=False) as ledger:
        last = last_leg(ledger)
        problem, known = model_of(ledger, problem, f"fbar.extend({str(run)!r}, problem, budget=...)", trust)
        known = (*known, *(wanted or ()))
        seeds = Seeds.recorded(last.settings)
        if len(ledger.legs) > 1:
            task = extension.of(task_of(ledger.legs[-2], problem, known), run)
            settings = task.settings(seeds)
            if same_but_for_sources(last, settings):
                return _resumed(task, ledger, engine, progress, require_same(last.settings, settings, run))
        if last.result is None:
            command = f"fbar resume {run}" if last.settings.get("model") else python_call(ledger)
            raise InputError(f"{run} is not finished; finish it first: rerun its command, or use {command}")
        before = task_of(last, problem, known)
        task = extension.of(before, run)
        notes = require_same_problem(last, task, run)
        session = InferenceSession(before, seeds, engine, progress, ledger, notes)
        session.learn()
        session.replay(ledger.legs)
        session.extend(task)
        return session.finish()


def engine_for(run: Path, engine: Any = None, workers: int | None = None, timeout: float | None = None) -> Engine:
    """The engine that is asked for; by default as the run has recorded it."""
    machine: Any = None
    with suppress(LedgerError), LedgerReader(run) as ledger:  # whoever opens it next reports what is wrong with it
        machine = ledger.legs[-1].settings.get("machine") if ledger.legs else None
    return as_before(machine if isinstance(machine, Mapping) else {}, engine, workers, timeout)
