"""Disks that are full, that cannot be written to, and directories that are taken away, moved or copied at work."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attack.attacked import SEED, Attacked, left_behind
from attack.bases import READERS, Base, bases
from attack.children import Ended, command, forked, last_line
from attack.damage import misread
from attack.kills import Kills, Peace
from attack.kinds import Kind
from attack.recipes import RECIPES, Recipe
from attack.runs import blocks_on_disk, changed, differences, digests, environment, parsed, remove
from attack.table import Tried

NOBODY = 65534
SMALL = ["--budget", "1500", "--tolerance", "0.5", "--block-size", "50"]


class CannotMount(Exception):
    """Neither as root nor in a namespace of one's own."""


def in_own_mounts(work: Callable[[], list[str]], room: Path) -> list[str] | str:
    """What ``work`` finds in a child with mounts of its own, which end with it; or why that cannot be."""
    room.mkdir(parents=True, exist_ok=True)
    found = room / ".found"
    found.unlink(missing_ok=True)

    def child() -> int:
        if ctypes.CDLL(None, use_errno=True).unshare(0x00020000) or os.system("mount --make-rprivate / 2>/dev/null"):
            found.write_text(json.dumps("no mounts of one's own are allowed here"))
            return 0
        try:
            found.write_text(json.dumps(work()))
        except CannotMount as error:
            found.write_text(json.dumps(str(error)))
        return 0

    ended = forked(child, room / "mounts", cpu=600, memory=None, wall=600)
    if not found.exists():
        return [f"the attack itself failed: {last_line(ended.err)}"]
    result: list[str] | str = json.loads(found.read_text())
    return result


def mount(where: Path, options: str) -> None:
    where.mkdir(parents=True, exist_ok=True)
    if os.system(f"mount -t tmpfs -o {options} none '{where}' 2>/dev/null"):
        raise CannotMount("a file system in memory cannot be mounted here")


def remount(where: Path, options: str) -> None:
    if os.system(f"mount -o remount,{options} '{where}' 2>/dev/null"):
        raise CannotMount("a file system cannot be mounted anew here")


# ---------------------------------------------------------------- full


class Infer:
    """A small run at a place of its own, from the command line."""

    def __init__(self, room: Path, run: Path) -> None:
        room.mkdir(parents=True, exist_ok=True)
        recipe = next(recipe for recipe in RECIPES if recipe.name == "targeted")
        self.room, self.run, self.model = room, run, recipe.write_model(room / "model.py")

    def __call__(self, **limits: Any) -> Ended:
        asked = ["infer", str(self.model), *SMALL, "--seed", SEED, "--run", str(self.run), "--json", "-q"]
        return self.forked(command(*asked), **limits)

    def forked(self, work: Callable[[], int | None], **limits: Any) -> Ended:
        around = environment(self.room / "state")
        return forked(work, self.room / "said", **{"environment": around, "cpu": 60, "memory": None, **limits})


def refused(ended: Ended, what: str) -> list[str]:
    """What is wrong with how something was refused that cannot be done."""
    if ended.fine:
        return [f"{what}: said nothing of it"]
    return [f"{what}: {ended.fault()}"] if ended.fault() else []


def goes_on(infer: Infer, whole: dict[str, Any], what: str) -> list[str]:
    ended = infer()
    result = parsed(ended.out)
    if not result:
        return [f"{what}: {last_line(ended.err)}"]
    return [f"{what}: {text}" for text in differences(whole, result)]


class Disks(Kind):
    name = "disk"

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self.bases = bases(room / "bases")
        self._whole: dict[str, Any] = {}
        self.tests: tuple[tuple[str, Callable[[int, Path], list[str] | str]], ...] = (
            ("files that cannot grow", self._limited_files),
            ("a full disk", self._full_disk),
            ("a full disk, reports and exports", self._full_outputs),
            ("read-only disks", self._read_only),
            ("a directory of another user", self._another_user),
            ("the directory is deleted at work", self._deleted),
            ("the directory is renamed at work", self._renamed),
            ("copies of a run at work", self._copied),
            ("two drivers", self._two_drivers),
            ("readers of a run at work", self._read_at_work),
        )
        self.figure = 4 * len(self.tests)

    def called(self, number: int) -> str:
        return f"{number} ({self.tests[number % len(self.tests)][0]})"

    def attack(self, number: int) -> list[Tried]:
        name, test = self.tests[number % len(self.tests)]
        place = self.room / f"case-{number}"
        try:
            found = test(number, place)
        finally:
            remove(place)
        if isinstance(found, str):
            return [Tried(f"disk: {name}", 0, skipped=found)]
        return [Tried(f"disk: {name}", 1, tuple(found))]

    def whole(self) -> dict[str, Any]:
        """What the small run gives in peace."""
        if not self._whole:
            place = self.room / "whole"
            ended = Infer(place, place / "run")()
            self._whole = parsed(ended.out)
            remove(place)
            if not self._whole:
                raise RuntimeError(f"a run does not work undisturbed: {ended.err}")
        return self._whole

    def _limited_files(self, number: int, place: Path) -> list[str]:
        infer, size = Infer(place, place / "run"), self.random(number).randrange(3_000, 60_000)
        return [
            *refused(infer(file_size=size), f"no file beyond {size:,} bytes"),
            *goes_on(infer, self.whole(), f"after no file beyond {size:,} bytes"),
        ]

    def _full_disk(self, number: int, place: Path) -> list[str] | str:
        size = self.random(number).randrange(8, 140) * 1024
        whole = self.whole()

        def work() -> list[str]:
            mount(place / "disk", f"size={size}")
            infer = Infer(place, place / "disk" / "run")
            found = refused(infer(), f"a disk of {size:,} bytes")
            remount(place / "disk", "size=20m")
            return [*found, *goes_on(infer, whole, f"after a disk of {size:,} bytes")]

        return in_own_mounts(work, place)

    def _full_outputs(self, number: int, place: Path) -> list[str] | str:
        base = self.bases["targeted"]()

        def work() -> list[str]:
            mount(place / "disk", "size=16k")
            found = []
            for name, arguments in {
                "out.html": ["report", str(base.run), "--predictive", "0"],
                "out.csv": ["export", str(base.run), "--all", "--force"],
            }.items():
                path = place / "disk" / name
                path.write_text("what was here before")
                ended = base.forked(command(*arguments, "--out", str(path)))
                found += refused(ended, f"{name} on a full disk")
                if path.read_text() != "what was here before":
                    found.append(f"{name} on a full disk: the file that was there is gone")
                if len(list((place / "disk").iterdir())) > 1:
                    found.append(f"{name} on a full disk: something is left behind")
                path.unlink()
            return found

        return in_own_mounts(work, place)

    # ------------------------------------------------------------ read-only

    def _read_only(self, number: int, place: Path) -> list[str] | str:
        name = ("targeted", "log-kept", "learned-summaries", "extended")[number // len(self.tests) % 4]
        base = self.bases[name]()
        base.restore()

        def work() -> list[str]:
            if os.system(f"mount --bind '{base.run}' '{base.run}' && mount -o remount,bind,ro '{base.run}'"):
                raise CannotMount("a directory cannot be mounted read-only here")
            return read_in_vain(base)

        return in_own_mounts(work, place)

    def _another_user(self, number: int, place: Path) -> list[str] | str:
        if os.getuid():
            return "only root can be another user"
        base = self.bases["targeted"]()
        base.restore()
        for folder in (base.outside, base.room / "said"):
            folder.chmod(0o777)
        if not _can_be_read(base.run):
            return "the directories above cannot be read by another user"
        # The others execute the model file, which this user never ran.
        own = environment(place / "state", HOME="/nonexistent")
        return read_in_vain(base, ("show", "show --json", "load"), user=NOBODY, environment=own)

    # ------------------------------------------------------------ at work

    def _started(self, place: Path, workers: int = 2) -> tuple[Attacked, Peace, Any, str, Path]:
        """A run at work that has recorded something."""
        recipe: Recipe = next(recipe for recipe in RECIPES if recipe.name == "from-python")
        peace = self._peace(recipe, workers)
        attacked = Attacked(recipe, workers, place)
        process, mark, log = attacked.start(attacked.command("infer"))
        until = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < until and "arrived" not in _text(log):
            time.sleep(0.01)
        time.sleep(self.random(len(place.name)).uniform(0, 0.3))
        return attacked, peace, process, mark, log

    def _peace(self, recipe: Recipe, workers: int) -> Peace:
        if not hasattr(self, "_kills"):
            self._kills = Kills(self.seed, self.room / "kills")
        return self._kills.peace(recipe, workers)

    def _deleted(self, number: int, place: Path) -> list[str]:
        attacked, _, process, mark, log = self._started(place)
        shutil.rmtree(attacked.run, ignore_errors=True)
        death = attacked.finish(process, log, "deleted")
        found = [f"processes are left: {text}" for text in left_behind(mark)]
        if death.status == 0:
            found.append("it ended as if all were well")
        if "Traceback" in death.err and "LedgerError" not in death.err:
            found.append(f"raw: {last_line(death.err)}")
        if "everything recorded so far is safe" in death.err:
            found.append("it says that what was recorded before is safe")
        return found

    def _renamed(self, number: int, place: Path) -> list[str]:
        attacked, peace, process, mark, log = self._started(place)
        attacked.run.rename(place / "elsewhere")
        death = attacked.finish(process, log, "renamed")
        found = [f"processes are left: {text}" for text in left_behind(mark)]
        if "Traceback" in death.err and "LedgerError" not in death.err:
            found.append(f"raw: {last_line(death.err)}")
        remove(attacked.run)
        attacked.run = place / "elsewhere"
        attacked.end("infer", peace.results["infer"])
        return [*found, *attacked.failures]

    def _copied(self, number: int, place: Path) -> list[str]:
        attacked, peace, process, mark, log = self._started(place)
        copies: list[Path] = []
        while process.poll() is None and len(copies) < 3:
            copies.append(place / f"copy-{len(copies)}")
            shutil.copytree(attacked.run, copies[-1])
            time.sleep(0.15)
        attacked.finish(process, log, "copied")
        left_behind(mark)
        for copy in copies:
            attacked.run, attacked.seen = copy, {}
            attacked.end("infer", peace.results["infer"])
        return attacked.failures

    def _two_drivers(self, number: int, place: Path) -> list[str]:
        attacked, peace, process, mark, log = self._started(place)
        second, second_mark, second_log = attacked.start(attacked.command("infer"))
        death = attacked.finish(second, second_log, "second driver")
        first = attacked.finish(process, log, "first driver")
        found = [f"processes are left: {text}" for text in left_behind(mark) + left_behind(second_mark)]
        result = parsed(first.out)
        found += differences(peace.results["infer"], result) if result else [f"the first: {last_line(first.err)}"]
        if death.status == 0:  # it came late, or has run beside the first
            found += differences(peace.results["infer"], parsed(death.out))
        elif "is in use by another driver" not in death.err:
            found.append(f"the second does not say that the run is in use: {last_line(death.err)}")
        return found

    def _read_at_work(self, number: int, place: Path) -> list[str]:
        recipe = next(recipe for recipe in RECIPES if recipe.name == "targeted")
        peace = self._peace(recipe, 2)
        attacked = Attacked(recipe, 2, place)
        process, mark, log = attacked.start(attacked.command("infer"))
        while process.poll() is None and not blocks_on_disk(attacked.run):
            time.sleep(0.01)
        found = []
        around = environment(place / "state")
        base = Base("at work", recipe, place)
        base.outside.mkdir(exist_ok=True)
        for reader in ("show", "explain", "export", "export --all", "report", "show --json"):
            ended = forked(command(*base.arguments(reader, attacked.run)), place / "said", environment=around)
            if ended.fault():
                found.append(f"{reader}: {ended.fault()}")
            elif not ended.fine and process.poll() is None and "in use" in ended.err:
                found.append(f"{reader} refuses: {last_line(ended.err)}")
        death = attacked.finish(process, log, "read at work")
        attacked.look(death, mark)
        result = parsed(death.out)
        found += differences(peace.results["infer"], result) if result else [last_line(death.err)]
        return [*found, *attacked.failures]


def read_in_vain(base: Base, readers: Sequence[str] = READERS, **more: Any) -> list[str]:
    """What is wrong with how a run is read that cannot be written to."""
    found, before = [], digests(base.run)
    for reader in readers:
        ended = base.read(reader, **more)
        fault = ended.fault() or ("" if ended.fine else last_line(ended.err)) or misread(base, reader, ended)
        if fault:
            found.append(f"{reader}: {fault}")
    ended = base.resume(**more)
    if ended.fault() or (ended.fine and differences(base.result, parsed(ended.out))):
        found.append(f"resume: {ended.fault() or 'another result'}")
    harm = changed(before, digests(base.run))
    return [*found, f"it was written to: {harm}"] if harm else found


def _can_be_read(run: Path) -> bool:
    return all(os.stat(folder).st_mode & 0o005 == 0o005 for folder in [run, *run.parents])


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def supported() -> bool:
    """Processes are found in /proc, and signals are sent to groups."""
    return sys.platform == "linux" and hasattr(signal, "SIGKILL")
