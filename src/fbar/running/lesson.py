"""Summaries learned before a run begins; a recorded run keeps the pilot's simulations and learns from them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from fbar.engine import Engine
from fbar.errors import LedgerError, NoPosterior
from fbar.ledger import Ledger, LedgerReader
from fbar.methods.stopping import NOT_FINISHED
from fbar.methods.summaries import LearnedProblem, Pilot
from fbar.running.damage import how_to_repair
from fbar.running.loop import drive
from fbar.running.shown import ProgressOption, interruption_explained, progress_shown
from fbar.running.task import Task
from fbar.seeds import Seeds
from fbar.system.terminal import waiting

PILOT = "pilot"
"""Where a run keeps the simulations that taught its summaries."""

LEARNS = "learning the summaries"


def learn_unrecorded(task: Task, seeds: Seeds, engine: Engine, progress: ProgressOption) -> LearnedProblem:
    """The problem with the summaries that the task's lesson asks for."""
    pilot = _pilot(task, seeds)
    _drive(pilot, engine, progress)
    return _fit(task, pilot, progress)


def learn_recorded(
    task: Task, seeds: Seeds, engine: Engine, progress: ProgressOption, ledger: LedgerReader
) -> LearnedProblem:
    """The same, from the pilot that the run has recorded, as far as it has."""
    pilot = _pilot(task, seeds)
    missing = f"the pilot from which the summaries of {ledger.directory} are learned is not complete yet"
    if not isinstance(ledger, Ledger) and not (ledger.directory / PILOT).is_dir():
        raise NoPosterior(missing)
    with ledger.part(PILOT) as kept:
        at_work = ledger if isinstance(ledger, Ledger) and ledger.legs[-1].result is None else None
        if _drive(pilot, engine, progress, kept, at_work) == NOT_FINISHED:
            damage = kept.damage()
            raise NoPosterior(
                f"the pilot from which the summaries of {ledger.directory} are learned is damaged: {damage}; "
                f"{how_to_repair(ledger)}"
                if damage
                else missing
            )
        if isinstance(kept, Ledger):
            kept.flush()
        learned = _fit(task, pilot, progress)
        _require_learned_again(learned, kept, ledger)
    return learned


def _pilot(task: Task, seeds: Seeds) -> Pilot:
    assert task.lesson is not None
    return task.lesson.summaries.pilot(task.problem, task.lesson.targets, seeds, block_size=task.block_size)


def _drive(
    pilot: Pilot,
    engine: Engine,
    progress: ProgressOption,
    ledger: LedgerReader | None = None,
    record: Ledger | None = None,
) -> str:
    with interruption_explained(ledger), progress_shown(progress, title=LEARNS, record=record) as shown:
        return drive(pilot, engine=engine, progress=shown, ledger=ledger, history=False)


def _fit(task: Task, pilot: Pilot, progress: ProgressOption) -> LearnedProblem:
    assert task.lesson is not None
    with waiting(LEARNS, shown=progress is None or progress is True):
        return task.lesson.summaries.fit(pilot)


def _require_learned_again(learned: LearnedProblem, kept: LedgerReader, ledger: LedgerReader) -> None:
    """Refuse summaries other than those that the recorded outcomes have; differences of rounding do not matter."""
    assert learned.observed is not None
    now: dict[str, Any] = {"observed": learned.observed, "summaries": learned.learning.summaries[:100]}
    recorded = kept.round_state(1, now)
    if recorded is None:
        if isinstance(kept, Ledger):
            kept.record_round(1, now)
        return
    for name, values in now.items():
        before = recorded[name]
        if before.shape != values.shape or not np.allclose(before, values, rtol=1e-6, atol=1e-6):
            raise LedgerError(
                f"the summaries of {ledger.directory}, learned again from its recorded pilot, are not what they were; "
                "use the versions of numpy and scikit-learn that it was started with, or start a new run"
            )
