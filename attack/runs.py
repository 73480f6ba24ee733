"""Recorded runs as the attack makes them, and looks at them: by its own hand, not through what it attacks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RELATIVE = 1e-9
"""How far the estimates of a run that was disturbed may be from those of one that was not."""

EXACT = ("simulations", "accepted", "failures", "rounds", "stopped_by", "seed")
"""What of a result must be the same to the last digit."""


def environment(state: Path, **more: str) -> dict[str, str]:
    """The environment of what is attacked: this source, one thread, and a home where nothing is trusted yet."""
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    state.mkdir(parents=True, exist_ok=True)
    return {
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "XDG_STATE_HOME": str(state),
        "FBAR_STATE_DIR": str(state / "fbar"),
        "HOME": str(state),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


# ---------------------------------------------------------------- results


def differences(whole: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Where a result differs from that of the run that was left in peace."""
    found = [f"{key} is {now.get(key)!r}, not {whole.get(key)!r}" for key in EXACT if whole.get(key) != now.get(key)]
    before, after = whole.get("estimates", {}), now.get("estimates", {})
    if set(before) != set(after):
        return [*found, f"estimates of {sorted(after)}, not of {sorted(before)}"]
    for name, estimate in before.items():
        found += [
            f"{part} of {name} is {after[name][part]}, not {estimate[part]}"
            for part in ("value", "standard_error")
            if not np.allclose(_numbers(after[name][part]), _numbers(estimate[part]), RELATIVE, 0, equal_nan=True)
        ]
    return found


def _numbers(value: Any) -> Any:
    return np.array(value, dtype=np.float64)


def parsed(text: str) -> dict[str, Any]:
    """The JSON object that a command printed; empty if it printed none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# ---------------------------------------------------------------- what is on disk


Blocks = dict[tuple[str, int, int], str]


def blocks_on_disk(run: Path) -> Blocks:
    """The blocks that a run's files hold, those of its pilot too: a digest of each payload.

    A copy is looked at, so that nothing of the run is touched.
    """
    found: Blocks = {}
    for place in ("", "pilot"):
        rows = rows_on_disk(run / place, "SELECT round, block, payload FROM blocks")
        found |= {(place, round, block): hashlib.sha256(payload).hexdigest() for round, block, payload in rows}
    return found


def theta_on_disk(run: Path, name: str = "mu") -> set[float]:
    """The values of a parameter that are on disk."""
    found: set[float] = set()
    for (payload,) in rows_on_disk(run, "SELECT payload FROM blocks"):
        header, _, data = payload.partition(b"\n")
        start = 0
        for array, code, shape in json.loads(header)["arrays"]:
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(code).itemsize
            if array == f"theta:{name}":
                found.update(np.frombuffer(data[start : start + size], code).tolist())
            start += size
    return found


def legs_on_disk(run: Path) -> list[bool]:
    """Whether each leg of a run has ended."""
    return [bool(ended) for (ended,) in rows_on_disk(run, "SELECT result IS NOT NULL FROM legs ORDER BY leg")]


def rows_on_disk(run: Path, query: str) -> list[tuple[Any, ...]]:
    if not (run / "ledger.sqlite").exists():
        return []
    with tempfile.TemporaryDirectory() as room:
        copy = Path(room) / "ledger.sqlite"
        for suffix in ("", "-wal"):
            with_suffix = run / f"ledger.sqlite{suffix}"
            if with_suffix.exists():
                shutil.copyfile(with_suffix, f"{copy}{suffix}")
        with closing(sqlite3.connect(copy)) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.OperationalError as error:  # killed before its tables were made
                if "no such table" in str(error):
                    return []
                raise


def change(run: Path, sql: str, *values: Any) -> int:
    """Change a run's ledger; how many rows."""
    with closing(sqlite3.connect(run / "ledger.sqlite", isolation_level=None)) as connection:
        return connection.execute(sql, values).rowcount


def digests(directory: Path) -> dict[str, str]:
    """Every file below a directory, by what it holds and what it is; times of access and change are left out."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(directory):
        for name in [*folders, *files]:
            path = Path(folder, name)
            status = path.lstat()
            what = f"{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o} {status.st_size}"
            if stat.S_ISLNK(status.st_mode):
                what += f" {os.readlink(path)}"
            elif stat.S_ISREG(status.st_mode):
                what += f" {_digest(path, status.st_size)}"
            found[str(path.relative_to(directory))] = what if not stat.S_ISDIR(status.st_mode) else "directory"
    return found


MOST_READ = 64_000_000
"""Bytes of a file that its digest is of; hostile ones are huge and hollow."""


def _digest(path: Path, size: int) -> str:
    if size <= MOST_READ:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with path.open("rb") as file:
        return hashlib.sha256(file.read(1_000_000)).hexdigest()


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What differs between two looks at a directory, in words."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return ", ".join(
        f"{name} {'is new' if name not in before else 'is gone' if name not in after else 'has changed'}"
        for name in names
    )


def restored(pristine: Path, run: Path) -> None:
    """Put a run back as it was, at its own place."""
    remove(run)
    shutil.copytree(pristine, run, symlinks=True)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
