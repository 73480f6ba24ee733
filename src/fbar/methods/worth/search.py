"""How flat a likelihood must be for a few draws to show where the posterior is: |a|^β, with β up to 1."""

from __future__ import annotations

from fbar.arrays import FloatArray
from fbar.weights import effective_size, relative

ENOUGH, ENOUGH_PER_DIMENSION = 10, 4
"""Effective draws that a proposal is learned from, and for each dimension."""

HALVINGS = 40

FLATTEST = 1e-3
"""The power of |a| that no likelihood is too small for."""


def largest_power(log_w: FloatArray, log_a: FloatArray, dimension: int) -> float:
    """The largest β up to 1 at which enough draws have a part in the weights w |a|^β."""
    wanted = min(max(ENOUGH, ENOUGH_PER_DIMENSION * (dimension + 1)), log_a.size / 2)

    def enough(power: float) -> bool:
        return effective_size(relative(log_w + power * log_a)) >= wanted

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
