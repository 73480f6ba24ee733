"""Finished trials, kept in a text file as they come: nothing is lost when the study dies.

A line holds a checksum and one trial as JSON, and is on the disk before the next is written. A line that was cut or
damaged is left out, and its trial is run again.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fbar import former
from fbar.checks import shown
from fbar.errors import FbarError, InputError
from fbar.running.replication import Found
from fbar.study.trials import Cell, TrialRecord
from fbar.system.files import require_own_file, write_text
from fbar.system.locks import Lock

FORMAT = 1


class Journal:
    """The directory of a study, held by one driver at a time.

    ``settings`` must be those of what is there already, but for its grid, which may grow.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        self.directory = directory
        self.damaged = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(directory / "driver.lock")
        except OSError as error:
            raise FbarError(f"cannot write to the directory {directory}: {error.strerror}") from None
        try:
            for name in ("study.json", "trials.jsonl"):
                require_own_file(directory / name)
            self._check(directory / "study.json", {"format": FORMAT, **settings})
            self.trials = self._read(directory / "trials.jsonl")
            self._file = open(directory / "trials.jsonl", "ab")  # noqa: SIM115 - closed with the journal
        except OSError as error:
            self._lock.release()
            raise FbarError(f"cannot write to the directory {directory}: {error.strerror}") from None
        except BaseException:
            self._lock.release()
            raise

    def _check(self, path: Path, settings: dict[str, Any]) -> None:
        now = json.loads(json.dumps(settings))
        before = _settings(path)
        if before is not None:
            _same_study(before, now, self.directory)
            # What other runs of the study recorded stays known, also where this one leaves it out.
            now |= {part: {**before.get(part, {}), **now[part]} for part in ("problems", "methods")}
        write_text(path, json.dumps(now, indent=1) + "\n")

    def _read(self, path: Path) -> Found[Cell, TrialRecord]:
        if not path.exists():
            return {}
        found: Found[Cell, TrialRecord] = {}
        raw = path.read_bytes()
        for line in raw.splitlines():
            try:
                crc, text = line.split(b" ", 1)
                if int(crc, 16) != zlib.crc32(text):
                    raise ValueError
                given = json.loads(text)
                cell = Cell(given["problem"], given["method"], given["budget"])
                found[cell, given["trial"]] = TrialRecord.from_dict(former.trial(given["record"]))
            except (ValueError, KeyError, TypeError):
                self.damaged += 1
        if raw and not raw.endswith(b"\n"):
            with open(path, "ab") as file:  # the next line must not be glued to one that was cut
                file.write(b"\n")
        return found

    def record(self, cell: Cell, trials: Sequence[tuple[int, TrialRecord]]) -> None:
        """Keep some trials of a cell; they are on the disk when this returns."""
        lines = []
        for trial, record in trials:
            self.trials[cell, trial] = record
            tree = {"problem": cell.problem, "method": cell.method, "budget": cell.budget, "trial": trial}
            text = json.dumps({**tree, "record": record.as_dict()}).encode()
            lines.append(b"%08x %s\n" % (zlib.crc32(text), text))
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FbarError(
                f"cannot write {self.directory}/trials.jsonl: {error.strerror}; finished trials are kept: "
                "free some space, then rerun the command"
            ) from None

    def close(self) -> None:
        self._file.close()
        self._lock.release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _settings(path: Path) -> dict[str, Any] | None:
    """The settings that recorded trials belong to; None where there are no trials yet."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        found = None
    if isinstance(found, dict):
        known: dict[str, Any] = former.study(found)
        return known
    trials = path.with_name("trials.jsonl")
    if trials.exists() and trials.stat().st_size > 0:
        raise InputError(
            f"{path} is missing or damaged, so it is not known what the recorded trials belong to; restore it, or use "
            "another directory"
        )
    return None


def _same_study(before: Mapping[str, Any], now: Mapping[str, Any], directory: Path) -> None:
    for name in ("format", "seed", "scores", "truth", "tolerance"):
        if name in before and before[name] != now[name]:
            raise InputError(
                f"{directory} holds a study with {name} {shown(before[name])}, not {shown(now[name])}; use "
                "another directory, or "
                "use the same settings to resume"
            )
    for part in ("problems", "methods"):
        for name, described in before.get(part, {}).items():
            if name in now[part] and now[part][name] != described:
                raise InputError(
                    f"{directory} holds trials of a {part[:-1]} {shown(name)} with other settings; use "
                    "another directory "
                    "or another name"
                )
