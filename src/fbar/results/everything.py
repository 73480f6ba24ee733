"""Every simulation of a result's run: from memory, or from its record where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fbar.arrays import IntArray
from fbar.estimation.simulations import Simulations
from fbar.ledger import LedgerReader
from fbar.methods import Run
from fbar.question.outcomes import Outcomes
from fbar.question.points import Points


@dataclass(frozen=True)
class Record:
    """A run's record, open only while it is read."""

    directory: Path

    def blocks(self) -> Iterator[tuple[int, int, Points, IntArray | None, Outcomes]]:
        with LedgerReader(self.directory) as reader:
            yield from reader.blocks()


def all_simulations(run: Run, directory: Path | None) -> Simulations:
    return run.all_simulations(None if directory is None else Record(directory))
