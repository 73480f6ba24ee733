"""The plan of a round: the sizes of its blocks, and the share of its draws that come from the prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

SCRAMBLES = 32
"""Scrambles of a round whose points are spread evenly, at least; they are independent, which gives its variance."""

DEFENCE = (0.1, 0.1, 0.2, 0.2, 0.3)
"""The share of draws from the prior in one, two, … five dimensions and more."""


def defence_in(dimension: int) -> float:
    """The share of draws from the prior, which bounds their weights, for a number of parameters."""
    return DEFENCE[min(max(dimension, 1), len(DEFENCE)) - 1]


@dataclass(frozen=True)
class RoundPlan:
    """The sizes of a round's blocks, and whether the points of each are spread evenly; block b is of group b mod k."""

    sizes: tuple[int, ...]
    evenly: bool

    @classmethod
    def of(cls, size: int, groups: int, block_size: int, evenly: bool) -> RoundPlan:
        """About equal parts for the groups, in blocks of at most ``block_size``."""
        each = [size // groups + (a < size % groups) for a in range(groups)]
        blocks = max(1, math.ceil(each[0] / block_size))
        if evenly:  # two scrambles of a group at least, or nothing would show their variance
            blocks = max(blocks, SCRAMBLES // groups, 2)
        sizes = [n // blocks + (b < n % blocks) for b in range(blocks) for n in each]
        while len(sizes) > 1 and sizes[-1] == 0:  # fewer simulations than groups
            sizes.pop()
        return cls(tuple(sizes), evenly)

    @property
    def simulations(self) -> int:
        return sum(self.sizes)
