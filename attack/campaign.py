"""All kinds of attack in turn, for as long as asked, and the table of what failed."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attack.calls import Calls, Commands
from attack.children import preload
from attack.damage import Damages
from attack.disk import Disks, supported
from attack.hostile import Hostile
from attack.kills import Kills
from attack.kinds import Kind
from attack.table import Table, Tried

KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (Kills, Damages, Disks, Hostile, Calls, Commands)}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m attack",
        description="Attack recorded runs: kills, damaged files, full disks, hostile directories, wrong calls. "
        "By default for ten minutes, all kinds in turn; the exit status is 1 if anything failed.",
    )
    parser.add_argument("--minutes", type=float, help="how long, shared by all kinds")
    parser.add_argument("--only", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same attacks")
    parser.add_argument("--case", type=int, help="the one case of this number, of the one kind of --only")
    for name in KINDS:
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"try at least so many {name}, however long it takes"
        )
    parser.add_argument("--campaign", action="store_true", help="the figures of the documentation; an hour or two")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--page", type=Path, help="write the table between the marks of this page")
    parser.add_argument(
        "--add", type=Path, action="append", default=[], help="add what another part of the campaign wrote by --csv"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    found = parser.parse_args(given)
    found.only = [name for name in found.only.split(",") if name]
    unknown = [name for name in found.only if name not in KINDS]
    if unknown:
        parser.error(f"--only takes some of {', '.join(KINDS)}; got {', '.join(unknown)}")
    if found.case is not None and len(found.only) != 1:
        parser.error("--case needs --only with the one kind that it is of")
    return found


class Campaign:
    """The kinds in turn, so that each has the same time, or as many cases as were asked for."""

    def __init__(self, asked: argparse.Namespace, room: Path) -> None:
        self.asked, self.room, self.table = asked, room, Table()
        self.kinds = [KINDS[name](asked.seed, room / name) for name in asked.only]
        self.wanted = {kind.name: self._wanted(kind) for kind in self.kinds}
        self.tried = dict.fromkeys(self.wanted, 0)
        self.spent = dict.fromkeys(self.wanted, 0.0)
        self.next = dict.fromkeys(self.wanted, 0)
        self.order = {kind.name: self._order(kind) for kind in self.kinds}
        self.began = time.monotonic()

    def _wanted(self, kind: Kind) -> int | None:
        given: int | None = getattr(self.asked, kind.name)
        return kind.figure if given is None and self.asked.campaign else given

    def _order(self, kind: Kind) -> list[int] | None:
        """The cases of a kind that has an end, mixed."""
        if kind.cases is None:
            return None
        numbers = list(range(kind.cases))
        random.Random(self.asked.seed).shuffle(numbers)
        return numbers

    def run(self) -> Table:
        if self.asked.case is not None:
            self._attack(self.kinds[0], self.asked.case)
            return self.table
        while left := [kind for kind in self.kinds if self._goes_on(kind)]:
            kind = min(left, key=lambda kind: self.spent[kind.name])
            order, number = self.order[kind.name], self.next[kind.name]
            self.next[kind.name] += 1
            self._attack(kind, number if order is None else order[number])
        return self.table

    def _goes_on(self, kind: Kind) -> bool:
        if kind.cases is not None and self.next[kind.name] >= kind.cases:
            return False
        wanted = self.wanted[kind.name]
        if wanted is not None:
            return self.tried[kind.name] < wanted
        if any(number is not None for number in self.wanted.values()) and self.asked.minutes is None:
            return False
        return time.monotonic() - self.began < 60 * (10.0 if self.asked.minutes is None else self.asked.minutes)

    def _attack(self, kind: Kind, number: int) -> None:
        again = f"python -m attack --only {kind.name} --seed {self.asked.seed} --case {number}"
        self._say(f"{kind.name} {kind.called(number)}")
        began = time.monotonic()
        try:
            found = kind.attack(number)
        except Exception as error:
            if os.environ.get("ATTACK_DEBUG"):
                raise
            found = [Tried(f"{kind.name}: the attack itself", 1, (f"{type(error).__name__}: {error}",))]
        self.spent[kind.name] += time.monotonic() - began
        self.tried[kind.name] += kind.counted(found)
        if any(tried.skipped for tried in found) and not any(tried.tried for tried in found):
            self.tried[kind.name] += 1  # or it would be tried for ever
        found = [replace(one, failures=tuple(map(self._without_room, one.failures))) for one in found]
        self.table.add(found, again)
        for tried in found:
            for text in tried.failures:
                self._say(f"FAILED {kind.name} {number}: {text}"[:400], keep=True)

    def _without_room(self, text: str) -> str:
        """Places are told from the room of all: the next campaign has another."""
        return text.replace(str(self.room), "…")

    def _say(self, text: str, keep: bool = False) -> None:
        if self.asked.quiet:
            return
        minutes = (time.monotonic() - self.began) / 60
        line = f"{minutes:6.1f} min  {self.table.tried:,} tried, {self.table.failed:,} failed  {text}"
        if sys.stderr.isatty() and not keep:
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        else:
            sys.stderr.write(("\r\x1b[K" if sys.stderr.isatty() else "") + line + "\n")
        sys.stderr.flush()


def main(given: Sequence[str] | None = None) -> int:
    asked = arguments(given)
    if not supported():
        print("the attack finds processes in /proc: it needs Linux", file=sys.stderr)
        return 2
    preload()
    with tempfile.TemporaryDirectory(prefix="fbar-attack-", ignore_cleanup_errors=True) as room:
        Path(room).chmod(0o755)
        campaign = Campaign(asked, Path(room))
        try:
            table = campaign.run()
        except KeyboardInterrupt:
            table = campaign.table
    if sys.stderr.isatty() and not asked.quiet:
        sys.stderr.write("\r\x1b[K")
    for path in asked.add:
        table.add_csv(path)
    print(table.plain())
    minutes = (time.monotonic() - campaign.began) / 60
    about = f"Seed {asked.seed}, {minutes:.0f} minutes; `python -m attack --campaign --seed {asked.seed}` has it again."
    if asked.add:
        about = "In parts that ran side by side; `python -m attack --campaign` does all of them."
    if asked.csv is not None:
        table.write_csv(asked.csv)
    if asked.page is not None:
        table.write_page(asked.page, about)
    return 1 if table.failed else 0
