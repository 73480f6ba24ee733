"""Whole numbers of simulations for the cells of a finite parameter space, and the rules that share them out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.arrays import FloatArray, IntArray

Rule = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

RULES: dict[str, Rule] = {
    "prior": lambda prior, p_star, f: np.broadcast_to(prior, np.broadcast_shapes(prior.shape, p_star.shape)),
    "posterior": lambda prior, p_star, f: theory.posterior(prior, p_star),
    "max-acceptance": lambda prior, p_star, f: theory.max_acceptance(prior, p_star),
    "ibs": lambda prior, p_star, f: theory.inverse_binomial(p_star),
    "max-ess": lambda prior, p_star, f: theory.max_ess(prior, p_star),
    "min-unnormalised-mse": lambda prior, p_star, f: theory.min_unnormalised_mse(prior, p_star),
    "min-mse": theory.min_mse,
}
"""The allocations of the paper's table 3, and the prior and the posterior, by name: each takes
(prior, p_star, f) and gives the shares n_i/N."""


def largest_remainder(amounts: npt.ArrayLike) -> IntArray:
    """Whole counts nearest to the amounts, with the same (whole) total, over the last axis.

    Every amount is rounded down and the units left over go to the largest fractions, the first cell
    first among equals, so that the result depends on nothing else.

    >>> largest_remainder([2.5, 2.5, 5.0])
    array([3, 2, 5])
    """
    x = np.asarray(amounts, dtype=np.float64)
    # An amount that is whole up to rounding error must not be cut by one.
    base = np.floor(x + 1e-9 * np.maximum(1.0, x) / max(1, x.shape[-1]))
    total = np.rint(x.sum(axis=-1, keepdims=True))
    left = (total - base.sum(axis=-1, keepdims=True)).astype(np.int64)
    order = np.argsort(base - x, axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(x.shape[-1]), x.shape), axis=-1)
    counts: IntArray = base.astype(np.int64) + (rank < left)
    # Many amounts a hair below a whole number can leave too few units: take them back from the last ranks.
    return counts - (rank >= x.shape[-1] + left) if (left < 0).any() else counts


def top_up(counts: npt.ArrayLike, shares: npt.ArrayLike, extra: int) -> IntArray:
    """Where ``extra`` more simulations go so that all together come closest to the wanted shares.

    Minimising Σ α_i/(c_i + x_i) over x ≥ 0 with √α_i ∝ shares gives c_i + x_i = max(c_i, s·share_i):
    cells that already have more than their due wait, the others are filled to a common level s.
    """
    c = np.asarray(counts, dtype=np.float64)
    share = np.asarray(shares, dtype=np.float64)
    c, share = np.broadcast_arrays(c, np.where(share < 1e-200, 0.0, share))  # what no count can see, and overflows
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(share > 0, c / share, np.inf)
    order = np.argsort(level, axis=-1, kind="stable")
    sorted_level = np.take_along_axis(level, order, axis=-1)
    filled = np.cumsum(np.take_along_axis(c, order, axis=-1), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The level when exactly the first m cells are filled; right for the last m it does not undercut.
        s = (extra + filled) / np.cumsum(np.take_along_axis(share, order, axis=-1), axis=-1)
    valid = s >= sorted_level
    last = share.shape[-1] - 1 - np.argmax(valid[..., ::-1], axis=-1)
    s_final = np.take_along_axis(s, last[..., None], axis=-1)
    amounts = np.maximum(0.0, s_final * share - c)
    amounts *= extra / amounts.sum(axis=-1, keepdims=True)
    return largest_remainder(amounts)
