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
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attack.attacked import Attacked, left_behind
from attack.children import children_of, last_line
from attack.kinds import Kind
from attack.recipes import RECIPES, Recipe
from attack.runs import (
    change,
    parsed,
    remove,
)
from attack.table import Tried

HOWS = ("random", "write", "group", "write", "random", "worker", "write", "terminated", "repair")
"""How the cases of one recipe are killed, in turn."""


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
    recipes = RECIPES

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self._peace: dict[tuple[str, int], Peace] = {}

    def chosen(self, number: int) -> tuple[Recipe, int, str]:
        """A case's recipe, workers and way to die."""
        recipe = self.recipes[number % len(self.recipes)]
        turn = number // len(self.recipes)
        how = HOWS[(turn + number % len(self.recipes)) % len(HOWS)]
        workers = recipe.workers[turn % len(recipe.workers)]
        return recipe, max(workers, 2) if how == "worker" else workers, how

    def called(self, number: int) -> str:
        recipe, workers, how = self.chosen(number)
        return f"{number} ({recipe.name}, {workers} workers, {how})"

    def attack(self, number: int) -> list[Tried]:
        recipe, workers, how = self.chosen(number)
        peace = self.peace(recipe, workers)
        peace.turn = 4 * (number // len(self.recipes))
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
        told = f"{workers} workers" if workers else NO_WORKERS
        return [Tried(f"kills: {TOLD[how]}, {told}", attacked.kills, tuple(attacked.failures))]

    def counted(self, found: Sequence[Tried]) -> int:
        """Kills of runs with workers."""
        return sum(tried.tried for tried in found if not tried.test.endswith(NO_WORKERS))

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


NO_WORKERS = "no workers"
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
        attacked.look(attacked.finish(process, log, "left in peace"), mark)
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
