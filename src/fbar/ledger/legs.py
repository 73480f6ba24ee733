"""The legs of a run: what was asked, and how it ended. They are in the ledger, and again in ``run.json`` for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fbar import former
from fbar.errors import LedgerError
from fbar.ledger.codec import GARBAGE, checksum
from fbar.system.files import read_text, write_text

FORMAT = 1
MOST_BYTES = 64_000_000
"""A ``run.json`` that is longer is not read."""

MOST_LEGS = 1_000


@dataclass(frozen=True)
class Leg:
    """One stretch of a run: its settings, and how it ended if it did."""

    settings: dict[str, Any]
    result: dict[str, Any] | None

    def as_now(self) -> Leg:
        """The leg with the names and meanings of now, where it was recorded under former ones."""
        return Leg(former.answer(former.settings(self.settings)), former.result(self.result))

    def row(self, number: int) -> tuple[int, str, str | None, int]:
        """Its row in the table, with the checksum."""
        settings = json.dumps(self.settings)
        result = None if self.result is None else json.dumps(self.result)
        return number, settings, result, checksum(number, settings, result)

    @classmethod
    def of(cls, number: int, settings: bytes, result: bytes | None, crc: int) -> Leg | None:
        """A leg from its row; None if it is damaged."""
        with suppress(*GARBAGE):
            if checksum(number, settings, result) == crc:
                return cls.of_trees(json.loads(settings), None if result is None else json.loads(result))
        return None

    @classmethod
    def of_trees(cls, settings: Any, result: Any) -> Leg:
        if not isinstance(settings, dict) or not isinstance(result, dict | None):
            raise TypeError
        return cls(settings, result)


def write_json(directory: Path, legs: Sequence[Leg]) -> None:
    entries = [
        {"settings": leg.settings, "result": leg.result, "crc": leg.row(number)[-1]} for number, leg in enumerate(legs)
    ]
    write_text(directory / "run.json", json.dumps({"fbar": FORMAT, "legs": entries}, indent=1, ensure_ascii=False))


def read_json(directory: Path) -> dict[int, Leg]:
    """The legs in ``run.json`` that are sound."""
    legs: dict[int, Leg] = {}
    with suppress(OSError, LedgerError, *GARBAGE):
        tree = json.loads(read_text(directory / "run.json", MOST_BYTES))
        for number, entry in enumerate(tree["legs"][:MOST_LEGS]):
            leg = Leg.of_trees(entry["settings"], entry["result"])
            if leg.row(number)[-1] == entry["crc"]:
                legs[number] = leg
    return legs
