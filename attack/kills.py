"""Runs that are killed: at random times and at every write, their workers and their whole group, in repairs too.

After every kill the run goes on by the same command or by ``resume``. What was on disk must still be there, what had
arrived half a second before the kill must be on disk, no process may be left, and the result must be that of the run
that was left in peace.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.children import DEFECT, children_of, last_line
from attack.driver import ARRIVED, KILLED
from attack.kinds import Kind
from attack.runs import (
    RECIPES,
    Blocks,
    Recipe,
    blocks_on_disk,
    change,
    differences,
    environment,
    legs_on_disk,
    parsed,
    remove,
    theta_on_disk,
)
from attack.table import Tried

DURABLE = 0.5
"""Seconds after which what has arrived is on disk."""

PATIENCE = 4.0
"""Seconds in which the processes of a run that was killed must be gone."""

ON_THE_WAY = 2.0
"""Seconds that a finished simulation may be on its way from its worker to the driver: workers report in bundles."""

WALL = 120.0
MARK = "ATTACK_MARK"
SEED = "5"

HOWS = ("random", "write", "group", "write", "random", "worker", "write", "terminated", "repair")
"""How the cases of one recipe are killed, in turn."""


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


def left_behind(mark: str) -> list[str]:
    """What is still alive of a run after a while; it is ended."""
    until = time.monotonic() + PATIENCE
    while (left := marked(mark)) and time.monotonic() < until:
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
            "ATTACK_SIMULATED": str(self.room / "simulated"),
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
            late = DURABLE if death.how != "terminated" else 0.0
            self.failures += lost(death.log, on_disk, death.killed, late, death.how)
            if self.recipe.one_in_a_block:
                self.failures += unwritten(self.room / "simulated", theta_on_disk(self.run), death.killed, death.how)
        if DEFECT.search(death.err):
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


# ---------------------------------------------------------------- cases


@dataclass
class Peace:
    """What a run gives that is left in peace: results, seconds, and how often each command writes."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    writes: dict[str, list[str]] = field(default_factory=dict)
    """Every moment before and after a write, in the order in which they are tried."""
    turn: int = 0

    def next_write(self, what: str) -> str:
        self.turn += 1
        return self.writes[what][self.turn % len(self.writes[what])]


class Kills(Kind):
    name = "kills"
    figure = 300

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self._peace: dict[tuple[str, int], Peace] = {}

    def chosen(self, number: int) -> tuple[Recipe, int, str]:
        """A case's recipe, workers and way to die."""
        recipe = RECIPES[number % len(RECIPES)]
        turn = number // len(RECIPES)
        how = HOWS[(turn + number) % len(HOWS)]
        workers = recipe.workers[turn % len(recipe.workers)]
        return recipe, max(workers, 2) if how == "worker" else workers, how

    def called(self, number: int) -> str:
        recipe, workers, how = self.chosen(number)
        return f"{number} ({recipe.name}, {workers} workers, {how})"

    def attack(self, number: int) -> list[Tried]:
        recipe, workers, how = self.chosen(number)
        peace = self.peace(recipe, workers)
        peace.turn = 4 * (number // len(RECIPES))
        attacked = Attacked(recipe, workers, self.room / f"case-{number}")
        rng = self.random(number)
        with contextlib.ExitStack() as stack:
            stack.callback(remove, attacked.room)
            for what in ("infer", "extend") if recipe.more else ("infer",):
                if how == "repair" and what == "infer":
                    attacked.end("infer", peace.results["infer"])
                    _repaired(attacked, rng, peace)
                else:
                    for _ in range(rng.randint(1, 3)):
                        if not _kill(attacked, what, "random" if how == "repair" else how, rng, peace):
                            break
                attacked.end(what, peace.results[what])
                if attacked.failures:
                    break
        workers_told = f"{workers} workers" if workers else "no workers"
        return [Tried(f"kills: {TOLD[how]}, {workers_told}", attacked.kills, tuple(attacked.failures))]

    def peace(self, recipe: Recipe, workers: int) -> Peace:
        """The run that is left in peace, made once."""
        key = recipe.name, workers
        if key not in self._peace:
            found = Peace()
            undisturbed = Attacked(recipe, workers, self.room / f"peace-{recipe.name}-{workers}")
            for what in ("infer", "extend") if recipe.more else ("infer",):
                process, mark, log = undisturbed.start(undisturbed.command(what))
                began = time.monotonic()
                death = undisturbed.finish(process, log, what)
                result = parsed(death.out)
                if not result:
                    raise RuntimeError(f"{recipe.name} does not work undisturbed: {death.err}")
                left_behind(mark)
                began = death.log.began or began
                found.results[what] = result
                found.writes[what] = self._moments(recipe, what, len(death.log.writes))
                found.seconds[what] = max(0.2, time.monotonic() - began)
            remove(undisturbed.room)
            self._peace[key] = found
        return self._peace[key]

    def _moments(self, recipe: Recipe, what: str, writes: int) -> list[str]:
        """Before and after every write, mixed: whoever tries long enough has tried them all."""
        moments = [f"{when}:{write}" for when in ("before", "after") for write in range(1, writes + 1)]
        random.Random(f"{self.seed}:{recipe.name}:{what}").shuffle(moments)
        return moments


TOLD = {
    "random": "at a random time",
    "write": "at a write",
    "group": "of the whole group",
    "worker": "of a worker",
    "terminated": "by SIGTERM",
    "repair": "in a repair",
}


def _kill(attacked: Attacked, what: str, how: str, rng: random.Random, peace: Peace) -> bool:
    """Kill the run once; whether it was alive."""
    if how == "write":
        process, mark, log = attacked.start(attacked.command(what), peace.next_write(what))
        death = attacked.finish(process, log, how)
        attacked.kills += death.killed is not None
        attacked.look(death, mark)
        return death.killed is not None
    process, mark, log = attacked.start(attacked.command(what))
    if how == "worker":
        _wait_for(process, lambda: bool(children_of(process.pid)))
    elif rng.random() < 0.85:
        _wait_for(process, lambda: log.exists() and log.stat().st_size > 0)
    died = _sleep_until_killed(process, rng.uniform(0, peace.seconds[what] * (0.4 if how == "worker" else 1)))
    if died:
        attacked.look(attacked.finish(process, log, how), mark)
        return False
    if how == "worker":
        victims = sorted(children_of(process.pid))
        if victims:
            attacked.kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
        attacked.look(attacked.finish(process, log, how), mark)
        return bool(victims)
    killed = time.monotonic()
    number = signal.SIGTERM if how == "terminated" else signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number) if how == "group" else process.send_signal(number)
    attacked.kills += 1
    attacked.look(attacked.finish(process, log, how, killed), mark)
    return True


def _wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < until and not there():
        time.sleep(0.005)


def _sleep_until_killed(process: subprocess.Popen[str], seconds: float) -> bool:
    """Wait; whether the process ended by itself meanwhile."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def _repaired(attacked: Attacked, rng: random.Random, peace: Peace) -> None:
    """Damage a finished run and kill its repairs; what was sound before is looked at no more."""
    path = attacked.run / "ledger.sqlite"
    if rng.random() < 0.5:
        change(attacked.run, "UPDATE blocks SET crc = crc + 1 WHERE id % 3 = ?", rng.randrange(3))
    else:
        with path.open("r+b") as file:
            for _ in range(3):
                page = rng.randrange(1, max(2, path.stat().st_size // 4096))
                file.seek(4096 * page)
                file.write(bytes(4096) if rng.random() < 0.5 else rng.randbytes(4096))
    attacked.seen = {}
    for how in _ways(rng):
        attacked.seen = {}  # a file that is broken may be read in one way now and in another one then
        if not _kill_repair(attacked, how, rng):
            break


def _ways(rng: random.Random) -> Iterator[str]:
    for _ in range(rng.randint(1, 3)):
        yield rng.choice(["before", "after"])


def _kill_repair(attacked: Attacked, when: str, rng: random.Random) -> bool:
    what = "infer" if attacked.recipe.from_python else "resume"
    process, mark, log = attacked.start(attacked.command(what), f"{when}:{rng.randint(1, 40)}")
    death = attacked.finish(process, log, "repair")
    attacked.kills += death.killed is not None
    left = left_behind(mark)
    if left:
        attacked.failures.append(f"repair: processes are left: {', '.join(left)[:200]}")
    if death.killed is None and not parsed(death.out):
        attacked.failures.append(f"repair: status {death.status}: {last_line(death.err)}")
    return death.killed is not None
