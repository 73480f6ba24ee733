"""A driver that is watched at every write and ended at one of them: ``python -m attack.driver infer …``.

Nothing in fbar knows of it: what writes is wrapped before the command line starts. The environment says what to do:
``ATTACK_LOG`` names the file that every write is noted in, ``ATTACK_KILL`` the moment of death, as in ``before:17``.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITES = ("BEGIN", "COMMIT", "INSERT", "DELETE", "UPDATE", "REPLACE", "CREATE", "PRAGMA JOURNAL_MODE", "PRAGMA WAL")
"""How statements begin that write."""

ARRIVED = "arrived"
KILLED = "killed"


class Watch:
    """Counts the writes of one process, notes them, and ends it at one."""

    def __init__(self, log: str, kill: str) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._process = os.getpid()
        self._numbers = itertools.count(1)
        when, _, number = kill.partition(":")
        self._kill = (when, int(number)) if number else ("", 0)

    def note(self, what: str) -> None:
        os.write(self._log, f"{time.monotonic():.6f} {what}\n".encode())

    def write(self, what: str, do: Callable[[], Any]) -> Any:
        """Do what writes, unless this is where the process ends."""
        if os.getpid() != self._process:  # a worker
            return do()
        number = next(self._numbers)
        self.note(f"write {number} {what}")
        self._die_at("before", number, what)
        done = do()
        self._die_at("after", number, what)
        return done

    def _die_at(self, when: str, number: int, what: str) -> None:
        if (when, number) == self._kill:
            self.note(f"{KILLED} {when} {what}")
            os.kill(self._process, signal.SIGKILL)
            time.sleep(60)  # in whatever thread this is


def install(watch: Watch) -> None:
    """Wrap what writes: files, SQLite and the ledger's own steps."""
    for module, name in ((os, "replace"), (os, "rename"), (os, "fsync"), (os, "ftruncate"), (shutil, "copyfile")):
        _wrap(watch, module, name, f"{module.__name__}.{name}")
    _wrap(watch, Path, "write_text", "write_text")
    _watch_sqlite(watch)
    from fbar.ledger import Ledger

    for name in ("flush", "record_round", "add_leg", "finish_leg"):
        _wrap(watch, Ledger, name, f"Ledger.{name}")
    record = Ledger.record

    @functools.wraps(record)
    def recorded(self: Ledger, *answers: Any) -> None:
        place = "pilot" if self.directory.name == "pilot" else "run"
        for batch, _ in answers:
            watch.note(f"{ARRIVED} {place} {batch.key[0]} {batch.key[1]}")
        record(self, *answers)

    Ledger.record = recorded  # type: ignore[method-assign]


def _wrap(watch: Watch, owner: Any, name: str, what: str) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return watch.write(what, lambda: plain(*arguments, **options))

    setattr(owner, name, wrapped)


def _watch_sqlite(watch: Watch) -> None:
    plain = sqlite3.connect

    def kind(base: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
        class Watched(base):  # type: ignore[misc, valid-type]
            def execute(self, sql: str, *more: Any) -> Any:
                return _executed(watch, sql, lambda: super(Watched, self).execute(sql, *more))

            def executemany(self, sql: str, *more: Any) -> Any:
                return _executed(watch, sql, lambda: super(Watched, self).executemany(sql, *more))

            def commit(self) -> None:
                watch.write("sqlite COMMIT", super().commit)

            def close(self) -> None:
                watch.write("sqlite close", super().close)

        return Watched

    @functools.wraps(plain)
    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        options["factory"] = kind(options.get("factory", sqlite3.Connection))
        connection: sqlite3.Connection = plain(*arguments, **options)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


def _executed(watch: Watch, sql: str, do: Callable[[], Any]) -> Any:
    first = " ".join(sql.split()).upper()
    if not first.startswith(WRITES):
        return do()
    return watch.write(f"sqlite {' '.join(first.split()[:3])}", do)


def from_python(arguments: list[str]) -> None:
    """The same run through Python: ``MODEL.py RUN infer|extend --budget 3000 …``."""
    import json

    import fbar
    from fbar.running import model_file

    path, run, what, *options = arguments
    source = model_file.read(path)
    given: dict[str, Any] = {}
    for name, value in zip(options[::2], options[1::2], strict=True):
        key = name.removeprefix("--").replace("-", "_")
        given[key] = value if key == "method" else float(value) if key == "tolerance" else int(value)
    if what == "infer":
        result = fbar.infer(source.problem, source.targets, run=run, progress=False, **given)
    else:
        result = fbar.extend(run, source.problem, source.targets, progress=False, **given)
    print(json.dumps(result.as_dict()))


def main() -> None:
    log = os.environ.get("ATTACK_LOG")
    if log:
        install(Watch(log, os.environ.get("ATTACK_KILL", "")))
    if sys.argv[1:2] == ["python"]:
        from_python(sys.argv[2:])
        return
    from fbar.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
