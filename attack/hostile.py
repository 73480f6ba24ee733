"""Run directories made by somebody who means harm, and what becomes of who opens them.

Nothing of them may be executed, no file outside may change, no secret may be printed, no command may take more than ten
seconds of processor time or a gigabyte, nothing that commands a terminal may be printed, and what is refused is refused
in one line.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attack import forged_settings, forgeries  # noqa: F401 - they add theirs
from attack.bases import Base, bases
from attack.children import Ended, call, command, forked
from attack.forgery import FORGERIES, Forgery, Victim
from attack.kinds import Kind
from attack.runs import changed, digests, environment, remove
from attack.table import Tried

READ = ("show", "show --json", "explain", "export", "export --all", "report", "load")
WRITE = ("resume", "extend")
"""Commands that go on with the run, each with the directory as it was made."""

FORMULA = re.compile(r"^\s*[=+@\t\r-](?![\d.]|inf|nan)", re.IGNORECASE)
"""How a cell begins that a spreadsheet would compute."""

MOST_GROWN = 100_000_000
"""Bytes by which a command may let the directory grow."""

TAGS = ("<script>alert", "<img src=x onerror")


class Hostile(Kind):
    name = "hostile"
    figure = len(FORGERIES)

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self.bases = bases(room, readers=())

    @property
    def cases(self) -> int:
        return len(FORGERIES)

    def called(self, number: int) -> str:
        forgery = FORGERIES[number]
        return f"{number} ({forgery.kind}: {forgery.name})"

    def attack(self, number: int) -> list[Tried]:
        forgery = FORGERIES[number]
        base = self.bases[forgery.base]()
        victim = Victim(self.room / "victim")
        failures: list[str] = []
        for what in (*READ, *WRITE):
            if what in (READ[0], *WRITE):
                base.restore()
                victim.renew()
                # What the forger writes must not be what the user has ever run.
                base.recipe.write_model(base.room / "model.py")
                forgery.make(base, victim)
            fault = faults_of(base, victim, forgery, what)
            if fault:
                failures.append(f"{forgery.name}; {what}: {fault}")
            if fault.startswith("bomb"):
                break  # the others would take as long
        remove(base.run)
        base.recipe.write_model(base.room / "model.py")
        base.restore()
        return [Tried(f"hostile: {forgery.kind}", 1, tuple(failures))]


def faults_of(base: Base, victim: Victim, forgery: Forgery, what: str) -> str:
    """What harm a command does, in words; nothing if it does none."""
    for path in base.outside.iterdir():
        remove(path)
    before, held = digests(victim.room), held_on_disk(base.run)
    ended = opened(base, victim, forgery, what)
    harm = changed(before, digests(victim.room))
    victim.renew()
    if harm:
        return f"executed: {harm}" if victim.executed(harm) else f"overwritten: {harm}"
    written = "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in base.outside.iterdir() if path.is_file()
    )
    if victim.secret in ended.out + ended.err + written:
        return "leaked: a secret of the reader is printed"
    grown = held_on_disk(base.run) - held
    if grown > MOST_GROWN:
        return f"bomb: the directory grew by {grown >> 20:,} MB"
    return ended.fault() or _formulas(base.outside / "out.csv") or _tags(base)


def held_on_disk(directory: Path) -> int:
    """Bytes of the disk that a directory takes; hollow files take none."""
    paths = [Path(folder, name) for folder, _, files in os.walk(directory) for name in files]
    return sum(512 * path.lstat().st_blocks for path in paths)


def opened(base: Base, victim: Victim, forgery: Forgery, what: str) -> Ended:
    """Give a command of the one who opens the directory."""
    home = base.room / ("state" if forgery.trusted else "nobody")
    if not forgery.trusted:
        remove(home)
    around = environment(home, ATTACK_SECRET=victim.secret)
    if what == "load":
        return forked(call(base.load), base.room / "said", environment=around, where=base.outside)
    arguments = arguments_of(base, what)
    if forgery.fresh:
        return started(arguments, around, base.outside)
    return forked(command(*arguments), base.room / "said", environment=around, where=base.outside)


def arguments_of(base: Base, what: str) -> list[str]:
    if what == "resume":
        return ["resume", str(base.run), "-q"]
    if what == "extend":
        return ["extend", str(base.run), "--budget", "2600", "-q"]
    if what == "report":  # into the run's directory, as is its habit
        return ["report", str(base.run), "--predictive", "5"]
    return base.arguments(what)


def started(arguments: list[str], around: dict[str, str], where: Path) -> Ended:
    """The same in a Python that has imported nothing yet."""
    program = "import sys; sys.argv[0] = 'fbar'; sys.path.pop(0); from fbar.__main__ import main; main()"
    began = time.monotonic()
    environ: dict[str, Any] = {**os.environ, **around}
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=environ, cwd=where, capture_output=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return Ended(0, "", "", time.monotonic() - began, "endless: not done after 60 s")
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    return Ended(done.returncode, out, err, time.monotonic() - began)


def _formulas(path: Path) -> str:
    """Whether a cell of a table is a formula."""
    if not path.exists():
        return ""
    csv.field_size_limit(1 << 30)
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.reader(file):
            for cell in row:
                if FORMULA.match(cell):
                    return f"formula: the cell {cell[:40]!r} is written"
    return ""


def _tags(base: Base) -> str:
    page = base.run / "report.html"
    if page.is_symlink() or not page.is_file():
        return ""
    text = page.read_text(encoding="utf-8", errors="replace")
    return next((f"injected: {tag!r} is in the report" for tag in TAGS if tag in text), "")
