"""Wrong calls of Python and wrong command lines, in portions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from attack.kinds import Kind
from attack.table import Tried

PORTION = 100
BAD = ("raw", "endless")


class Outcome(Protocol):
    """What came of one wrong call: "fine" and "refused" are as they should be, "raw" and "endless" are not."""

    call: str
    verdict: str
    text: str


class Calls(Kind):
    name = "calls"
    figure = 5000
    module = "attack.wrong_calls"
    function = "wrong_calls"
    told = "wrong calls of Python"
    portion = PORTION

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self.absent = ""
        try:
            self._outcomes: Any = getattr(importlib.import_module(self.module), self.function)
        except ImportError as error:
            self.absent = str(error)

    @property
    def cases(self) -> int | None:
        return 1 if self.absent else None

    def attack(self, number: int) -> list[Tried]:
        if self.absent:
            return [Tried(self.told, 0, skipped=self.absent)]
        seed = self.random(number).randrange(2**31)
        return [tried(self.told, self._outcomes(seed, self.portion))]


def tried(told: str, outcomes: Iterator[Outcome]) -> Tried:
    number, failures = 0, []
    for outcome in outcomes:
        number += 1
        if outcome.verdict in BAD:
            failures.append(f"{outcome.verdict}: {outcome.call}: {outcome.text}")
    return Tried(told, number, tuple(failures))


class Commands(Calls):
    name = "commands"
    figure = 900
    module = "attack.wrong_commands"
    function = "wrong_commands"
    told = "wrong command lines"
    portion = 20
