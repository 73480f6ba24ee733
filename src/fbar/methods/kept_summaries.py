"""How many summaries a run keeps for regression adjustment: it must not fill the memory."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from fbar.methods.other_tolerances import few_numbers

MOST_NUMBERS = 20_000_000
"""Numbers in the summaries that a run keeps for regression adjustment, 160 MB."""


class KeptSummaries:
    """Counts the numbers in a run's summaries: from the block on with which they are too many, none are kept."""

    def __init__(self) -> None:
        self._numbers = 0

    def keep(self, summaries: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """A block's summaries where they are to be kept."""
        self._numbers += summaries.size
        return few_numbers(summaries) if self._numbers <= MOST_NUMBERS else None
