"""One run under attack: its drivers, what they leave behind, and what must hold after each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.children import DEFECT, last_line
from attack.driver import ARRIVED, KILLED
from attack.recipes import Recipe
from attack.runs import (
    Blocks,
    blocks_on_disk,
    differences,
    environment,
    legs_on_disk,
    parsed,
    theta_on_disk,
)

DURABLE = 0.5
"""Seconds after which what has arrived is on disk."""

AT_ONCE = 0.05
"""The same for a driver that is asked to end and not killed: it writes what it has."""

PATIENCE = 4.0
"""Seconds in which the processes of a run that was killed must be gone."""

ON_THE_WAY = 2.0
"""Seconds that a finished simulation may be on its way from its worker to the driver: workers report in bundles."""

WALL = 120.0
MARK = "ATTACK_MARK"
SEED = "5"


# ---------------------------------------------------------------- processes


def marked(mark: str) -> dict[int, str]:
    """The living processes with a mark in their environment, and what they are."""
    found: dict[int, str] = {}
    wanted = f"{MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                command = (path.parent / "cmdline").read_text().replace("\0", " ").strip()
                if command:  # a dead one that nobody waited for has none
                    found[int(path.parent.name)] = command
    return found


LOOKS = 3
"""That must find nothing, one after the other."""


def left_behind(mark: str) -> list[str]:
    """What is still alive of a run after a while; it is ended."""
    until, none = time.monotonic() + PATIENCE, 0
    while none < LOOKS and (none or time.monotonic() < until):  # one that is just starting shows no environment
        left = marked(mark)
        none = 0 if left else none + 1
        time.sleep(0.05)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return sorted(set(left.values()))


# ---------------------------------------------------------------- drivers


@dataclass
class Log:
    """What a driver noted: writes, arrivals of blocks, and its own end."""

    writes: list[str] = field(default_factory=list)
    arrived: list[tuple[float, tuple[str, int, int]]] = field(default_factory=list)
    killed: float | None = None
    where: str = ""
    began: float | None = None


def read_log(path: Path) -> Log:
    log = Log()
    for line in path.read_text().splitlines() if path.exists() else ():
        moment, what, *more = line.split()
        log.began = float(moment) if log.began is None else log.began
        if what == ARRIVED:
            place, round, block = more
            log.arrived.append((float(moment), (place.replace("run", ""), int(round), int(block))))
        elif what == KILLED:
            log.killed, log.where = float(moment), " ".join(more)
        else:
            log.writes.append(" ".join(more[1:]))
    return log


@dataclass
class Death:
    """A driver that has ended: whether it was killed, when, and what it said."""

    killed: float | None
    status: int
    out: str
    err: str
    log: Log
    how: str


class Attacked:
    """One run under attack, and what was found wrong with it."""

    def __init__(self, recipe: Recipe, workers: int, room: Path) -> None:
        self.recipe, self.workers, self.room = recipe, workers, room
        room.mkdir(parents=True, exist_ok=True)
        self.run = room / "run"
        self.model = recipe.write_model(room / "model.py")
        self.failures: list[str] = []
        self.kills = 0
        self.seen: Blocks = {}
        self._drivers = 0

    # ------------------------------------------------------------ commands

    def command(self, what: str) -> list[str]:
        """The command that starts, extends or resumes the run, up to the wrapper's own."""
        workers = ["--workers", str(self.workers)] if self.workers else []
        if self.recipe.from_python:
            options = self.recipe.more if what == "extend" else [*self.recipe.asked, "--seed", SEED]
            return [
                "python",
                str(self.model),
                str(self.run),
                "extend" if what == "extend" else "infer",
                *options,
                *workers,
            ]
        if what == "infer":
            asked = [*self.recipe.asked, "--seed", SEED, "--run", str(self.run)]
            return ["infer", str(self.model), *asked, *workers, "--json", "-q"]
        more = self.recipe.more if what == "extend" else ()
        return [what, str(self.run), *more, *workers, "--json", "-q"]

    def start(self, arguments: Sequence[str], kill: str = "") -> tuple[subprocess.Popen[str], str, Path]:
        self._drivers += 1
        mark, log = f"{os.getpid()}-{self.room.name}-{self._drivers}", self.room / f"log-{self._drivers}"
        more = {
            MARK: mark,
            "ATTACK_LOG": str(log),
            "ATTACK_KILL": kill,
            "ATTACK_PAUSE": str(self.recipe.pause),
            "ATTACK_SIMULATED": str(self.room / f"simulated-{self._drivers}"),
        }
        out, err = (self.room / f"{name}-{self._drivers}" for name in ("out", "err"))
        with out.open("w") as standard, err.open("w") as error:
            process = subprocess.Popen(
                [sys.executable, "-m", "attack.driver", *arguments],
                env={**os.environ, **environment(self.room / "state", **more)},
                cwd=self.room,
                stdin=subprocess.DEVNULL,
                stdout=standard,
                stderr=error,
                text=True,
                start_new_session=True,
            )
        return process, mark, log

    def finish(self, process: subprocess.Popen[str], log: Path, how: str, killed: float | None = None) -> Death:
        try:
            process.wait(WALL)
        except subprocess.TimeoutExpired:
            self.failures.append(f"{how}: not done after {WALL:g} s")
            process.kill()
            process.wait()
        number = log.name.rpartition("-")[2]
        out, err = ((self.room / f"{name}-{number}").read_text(errors="replace") for name in ("out", "err"))
        noted = read_log(log)
        return Death(killed or noted.killed, process.returncode, out, err, noted, how)

    # ------------------------------------------------------------ what must hold

    def look(self, death: Death, mark: str) -> None:
        """After a driver's death: nothing is left of it, and nothing is lost."""
        left = left_behind(mark)
        if left:
            self.failures.append(f"{death.how}: processes are left: {', '.join(left)[:200]}")
        try:
            on_disk = blocks_on_disk(self.run)
        except Exception as error:
            self.failures.append(f"{death.how}: the ledger cannot be read after the kill: {error}")
            return
        self.compare(on_disk, death.how)
        if death.killed is not None:
            late = DURABLE if death.how != "terminated" else AT_ONCE
            self.failures += lost(death.log, on_disk, death.killed, late, death.how)
            if self.recipe.one_in_a_block:
                simulated = self.room / f"simulated-{self._drivers}"
                self.failures += unwritten(simulated, theta_on_disk(self.run), death.killed, death.how)
        stopped = death.how == "terminated" and "Terminated: stopped" in last_line(death.err)  # as by Ctrl-C
        if DEFECT.search(death.err) and not stopped:
            self.failures.append(f"{death.how}: raw: {last_line(death.err)}")

    def compare(self, on_disk: Blocks, how: str) -> None:
        """Blocks that were once seen on disk are there for good."""
        gone = [key for key in self.seen if key not in on_disk]
        other = [key for key, digest in on_disk.items() if self.seen.get(key, digest) != digest]
        if gone:
            self.failures.append(f"{how}: {len(gone)} blocks that were on disk are gone, such as {gone[0]}")
        if other:
            self.failures.append(f"{how}: {len(other)} blocks have changed, such as {other[0]}")
        self.seen |= on_disk

    def end(self, what: str, whole: dict[str, Any]) -> None:
        """Go on to the end, undisturbed, and compare."""
        legs = legs_on_disk(self.run)
        started = len(legs) > (1 if what == "extend" else 0)
        again = "resume" if started and not self.recipe.from_python and self._drivers % 2 else what
        process, mark, log = self.start(self.command(again))
        death = self.finish(process, log, again)
        result = parsed(death.out)
        if not result:
            self.failures.append(f"{again} after a kill: status {death.status}: {last_line(death.err)}")
            return
        self.failures += [f"{again} after a kill: {text}" for text in differences(whole, result)]
        self.look(death, mark)


def lost(log: Log, on_disk: Blocks, killed: float, late: float, how: str) -> list[str]:
    """Blocks that had arrived ``late`` seconds before the kill, and are not on disk."""
    missing = [(killed - at, key) for at, key in log.arrived if at < killed - late and key not in on_disk]
    if not missing:
        return []
    age, key = max(missing)
    return [f"{how}: lost {len(missing)} blocks that had arrived; {key} {age:.2f} s before the kill ({log.where})"]


def unwritten(simulated: Path, on_disk: set[float], killed: float, how: str) -> list[str]:
    """Simulations that had ended long before the kill, by the simulator's own word, and are not on disk."""
    lines = [line.split() for line in simulated.read_text().splitlines()] if simulated.exists() else []
    missing = [
        (killed - float(at), theta)
        for at, theta in lines
        if float(at) < killed - DURABLE - ON_THE_WAY and float(theta) not in on_disk
    ]
    if not missing:
        return []
    age, theta = max(missing)
    return [f"{how}: lost {len(missing)} finished simulations; θ = {theta} ended {age:.2f} s before the kill"]
