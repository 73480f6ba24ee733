"""The progress of a recorded run as a small file in its directory, for whoever watches it from anywhere.

The driver replaces ``progress.json`` at most once a second, and so that this takes at most a hundredth of its time.
Readers need nothing but this file and ``run.json``: no lock, no SQLite, no model. The file is of no use to the run,
whose record is the ledger: what cannot be written is not written, and a file that cannot be read is ignored.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fbar.checks import in_words
from fbar.errors import LedgerError
from fbar.estimation.estimate import Estimate, Estimates
from fbar.ledger.codec import GARBAGE
from fbar.methods import Run
from fbar.methods.history import Moment
from fbar.results.account import recorded_estimates
from fbar.running.progress import Observer, State
from fbar.system.files import read_text, replace_text
from fbar.system.json_values import as_json
from fbar.system.schema import check_progress

NAME = "progress.json"

BEGINNING, PAUSE = 0.5, 1.0
"""Seconds before the file is first written, and between two times at least."""

SHARE = 0.01
"""The share of the driver's time that may go into writing it."""

UNSEEN_LOOKS = 0.01
"""The share of the time that may go into estimates where no progress is shown on a terminal."""

MOST_MOMENTS, MOST_TARGETS, MOST_NUMBERS = 100, 40, 20
"""Moments, targets and numbers of a vector that are written, at most."""

MOST_BYTES = 16_000_000
"""A file that is longer is not read."""

INTERRUPTED = "interrupted"


class ProgressFile:
    """Called with the run after every block; writes what an observer sees into the run's directory.

    As a context it writes once more when it is left, with the reason where that is an error.
    """

    def __init__(self, directory: Path, leg: int, observer: Observer) -> None:
        self._path = directory.resolve() / NAME  # the simulator may change the working directory
        self._observer = observer
        self._about = {"leg": leg, "machine": socket.gethostname(), "began": time.time()}
        self._next = time.monotonic() + BEGINNING
        self._moments: list[tuple[Moment, dict[str, Any]]] = []
        self._run: Run | None = None
        self._tree: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, run: Run) -> None:
        self._run = run
        self._observer.note(run)
        begun = time.monotonic()
        if begun < self._next and not run.estimating:
            return
        self._write(self._of(run))
        now = time.monotonic()
        self._next = now + max(PAUSE, (now - begun) / SHARE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is None:
            return
        if error is None:
            self._write(self._of(self._run))
            return
        why = INTERRUPTED if isinstance(error, KeyboardInterrupt) else in_words(error)
        tree = self._tree or self._of(self._run)
        self._write({**tree, "stopped": why, "now": {**tree["now"], "simulations": self._run.simulations}})

    def _of(self, run: Run) -> dict[str, Any]:
        state = self._observer.state(run)
        shown = {
            field.name: as_json(getattr(state, field.name)) for field in fields(State) if field.name != "estimates"
        }
        return {
            **self._about,
            "stopped": "",
            "failures": {kind.name.lower(): int(count) for kind, count in run.seen.counts.items()},
            "unshown": sum(not _is_short(target) for target in state.estimates or ())
            if len(run.targets) <= MOST_TARGETS
            else len(run.targets) - MOST_TARGETS,
            "now": {**shown, "estimates": _short(state.estimates or ())},
            "moments": self._trees_of(run.history),
        }

    def _trees_of(self, history: list[Moment]) -> list[dict[str, Any]]:
        """The last moments, of which only new ones are described."""
        known = {moment.simulations: (moment, tree) for moment, tree in self._moments}
        found = []
        for moment in history[-MOST_MOMENTS:]:
            before = known.get(moment.simulations)
            tree = before[1] if before is not None and before[0] is moment else _tree_of(moment)
            found.append((moment, tree))
        self._moments = found
        return [tree for _, tree in found]

    def _write(self, tree: dict[str, Any]) -> None:
        self._tree = tree
        with suppress(OSError, ValueError):  # a full disk, a directory that is gone: the record is what counts
            replace_text(self._path, json.dumps({**tree, "written": time.time()}, ensure_ascii=False))


def _tree_of(moment: Moment) -> dict[str, Any]:
    return {
        "simulations": moment.simulations,
        "accepted": as_json(moment.accepted),
        "tolerance": as_json(moment.tolerance),
        "estimates": _short(moment.estimates),
    }


def _is_short(estimate: Estimate) -> bool:
    return np.size(estimate.value) <= MOST_NUMBERS


def _short(estimates: Iterable[Estimate]) -> dict[str, Any]:
    """Estimates without their warnings, which the result has."""
    listed = list(estimates)[:MOST_TARGETS]
    return {item.name: {**item.as_dict(), "warnings": []} for item in listed if _is_short(item)}


# ---------------------------------------------------------------- for readers


@dataclass(frozen=True, eq=False)
class RecordedMoment:
    """A run when it had fewer simulations."""

    simulations: int
    estimates: Estimates

    def estimate(self, name: str) -> Estimate | None:
        return next((estimate for estimate in self.estimates if estimate.name == name), None)


@dataclass(frozen=True, eq=False)
class RecordedProgress:
    """What a driver wrote last about its run."""

    leg: int
    machine: str
    began: float
    written: float
    """Seconds of the driver's clock."""
    stopped: str
    """Why the driver stopped before the end; empty while it is at work, and at the end."""
    failures: Mapping[str, int]
    unshown: int
    """Targets that are left out, because they are many or have many numbers."""
    state: State
    moments: tuple[RecordedMoment, ...]
    tree: Mapping[str, Any]
    """All of it as JSON values."""


def read_progress(directory: Path) -> RecordedProgress | None:
    """What the driver of a run wrote last; None if there is nothing that can be used."""
    with suppress(OSError, LedgerError, *GARBAGE):
        tree = json.loads(read_text(directory / NAME, MOST_BYTES))
        check_progress(tree)
        now = tree["now"]
        known = {field.name: now[field.name] for field in fields(State) if field.name in now}
        state = State(**{**known, "estimates": None})
        return RecordedProgress(
            tree["leg"],
            tree["machine"],
            tree["began"],
            tree["written"],
            tree["stopped"],
            tree["failures"],
            tree["unshown"],
            replace(state, estimates=recorded_estimates(now)) if now["estimates"] else state,
            tuple(RecordedMoment(moment["simulations"], recorded_estimates(moment)) for moment in tree["moments"]),
            tree,
        )
    return None
