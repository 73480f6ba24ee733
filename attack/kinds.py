"""What all kinds of attack have in common: numbered cases, each the same again with the same seed."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from attack.table import Tried


class Kind(ABC):
    """One kind of attack: cases by number.

    ``room`` is a directory of its own. What a case does depends on the seed and its number alone, up to what clocks and
    the system decide.
    """

    name: str
    figure: int
    """How many are tried in a campaign."""

    def __init__(self, seed: int, room: Path) -> None:
        self.seed, self.room = seed, room
        room.mkdir(parents=True, exist_ok=True)

    @property
    def cases(self) -> int | None:
        """How many cases there are; None if there is no end to them."""
        return None

    def random(self, number: int) -> random.Random:
        """The random numbers of a case."""
        return random.Random(f"{self.seed}:{self.name}:{number}")

    @abstractmethod
    def attack(self, number: int) -> list[Tried]:
        """Do a case."""

    def counted(self, found: Sequence[Tried]) -> int:
        """How many of what was tried count for the number that is wanted."""
        return sum(tried.tried for tried in found)

    def called(self, number: int) -> str:
        """A case in a few words, for progress."""
        return str(number)
