"""Nodes for integrals over the prior that lie where the simulations do, in replicates.

The spread between replicates is the integral's own error: two grids of Gauss–Legendre panels in one dimension, and
independently scrambled Sobol points of the design in more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.draws import Draws
from fbar.estimation.kernel_regression import gauss_legendre
from fbar.question.points import Points

ORDER = 8
NARROWEST = 5e-4
REACH = 3
SCRAMBLES = 8
FEWEST, MOST = 2**9, 2**12
"""Nodes of one scramble."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Unit coordinates (J, D), weights that sum to about 1, and the replicate that each node belongs to."""

    unit: FloatArray
    weight: FloatArray
    replicate: IntArray
    replicates: int


def panels(accepted: FloatArray, width: float, jumps: tuple[float, ...]) -> Nodes:
    """Panels of twice the width near accepted draws and coarse ones elsewhere, split at the jumps."""
    size = 2 * max(width, NARROWEST)
    x, w, replicate = [], [], []
    for number, (shift, coarse) in enumerate(((0.0, 17), (0.5, 14))):
        bins = np.unique(np.floor(accepted / size - shift))
        near = np.unique((bins[:, None] + np.arange(-REACH, REACH + 2)).ravel())
        edges = np.unique(np.concatenate([(near + shift) * size, np.linspace(0, 1, coarse), jumps]))
        edges = edges[(edges >= 0) & (edges <= 1)]
        nodes, weights = gauss_legendre(tuple(edges.tolist()), ORDER)
        x.append(nodes)
        w.append(weights / 2)
        replicate.append(np.full(nodes.size, number))
    return Nodes(np.concatenate(x)[:, None], np.concatenate(w), np.concatenate(replicate), 2)


def scrambles(draws: Draws) -> tuple[Nodes, Points]:
    """Scrambled Sobol points of the design that the draws are from, about four times as many; a node weighs p/q.

    The draws themselves seed the scrambles: the same draws have the same nodes, and runs have no error in common.
    """
    from scipy.stats import qmc

    assert draws.design is not None
    assert draws.log_ratio is not None
    size = int(np.clip(2 ** int(np.ceil(np.log2(4 * draws.simulations / SCRAMBLES))), FEWEST, MOST))
    d, first = draws.design.dimension, draws.problem.prior.to_unit(draws.points.take(np.arange(4)))
    rng = np.random.default_rng(np.frombuffer(np.ascontiguousarray(first).tobytes(), dtype=np.uint32))
    parts = [qmc.Sobol(d, rng=rng).random_base2(size.bit_length() - 1) for _ in range(SCRAMBLES)]
    points = draws.design.from_unit(np.concatenate(parts))
    weight = np.exp(draws.log_ratio(points)) / points.rows
    unit = draws.problem.prior.to_unit(points)
    return Nodes(unit, weight, np.repeat(np.arange(SCRAMBLES), size), SCRAMBLES), points
