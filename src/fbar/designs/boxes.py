"""A density on the unit cube that is constant on boxes, as a design for several dimensions (strata are in `schemes`).

The boxes come from a tree of halvings that are chosen to even the wanted density out. Whatever its quality,
the density of the draws is known exactly, so that their weights are right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.errors import InputError, ZeroDensity
from fbar.question.points import Points
from fbar.question.priors import Distribution, structure
from fbar.question.priors.base import as_unit

PASSES = 5
POINTS = 2**15
LEAF = 6
PROBES = 16
FLOOR = 0.05
SHRINK = 0.1


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes as arrays. An inner node is split at ``cut`` in coordinate ``axis`` and its left child has ``share`` of
    its probability; a leaf has axis −1 and a density relative to the uniform one."""

    axis: npt.NDArray[np.int64]
    cut: FloatArray
    share: FloatArray
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    low: FloatArray
    high: FloatArray
    log_density: FloatArray

    def _descend(self, values: FloatArray, sampling: bool) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Each row's leaf. When sampling, coordinates are uniform and stretched at each split."""
        node = np.zeros(len(values), dtype=np.int64)
        v = values.copy() if sampling else values
        rows = np.arange(len(values))
        while rows.size:
            at = node[rows]
            rows = rows[self.axis[at] >= 0]
            if not rows.size:
                break
            at = node[rows]
            axis = self.axis[at]
            x = v[rows, axis]
            border = self.share[at] if sampling else self.cut[at]
            goes_left = x < border
            if sampling:
                with np.errstate(divide="ignore", invalid="ignore"):
                    v[rows, axis] = np.where(goes_left, x / border, (x - border) / (1 - border))
            node[rows] = np.where(goes_left, self.left[at], self.right[at])
        return node, v

    def leaf(self, u: FloatArray) -> npt.NDArray[np.int64]:
        return self._descend(u, sampling=False)[0]

    def from_unit(self, v: FloatArray) -> FloatArray:
        leaf, inner = self._descend(v, sampling=True)
        return self.low[leaf] + (self.high[leaf] - self.low[leaf]) * np.clip(inner, 0.0, 1.0)

    def log_relative(self, u: FloatArray) -> FloatArray:
        return self.log_density[self.leaf(u)]


def _shares(
    mass: FloatArray, inner: npt.NDArray[np.int64], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> FloatArray:
    """Sum the leaves' masses up the tree, in place; the left child's share of each inner node."""
    share = np.full(mass.size, 0.5)
    for node in inner[::-1]:
        mass[node] = mass[left[node]] + mass[right[node]]
        if mass[node] > 0:
            share[node] = mass[left[node]] / mass[node]
    return share


class Partition:
    """The distribution with density ≈ p(θ)·factor(θ)/∫, constant on boxes of the prior's unit cube.

    A share of 5% is the prior itself, so that nothing the prior can reach is left out.
    """

    def __init__(self, prior: Distribution, factor: Callable[[Points], FloatArray], *, seed: int = 0) -> None:
        from scipy.stats import qmc

        self.prior = prior
        self._borders = structure(prior).borders()
        d = prior.dimension
        rng = np.random.Generator(np.random.PCG64(seed))
        self._tree: Tree | None = None
        for _ in range(PASSES):
            v = qmc.Sobol(d, rng=rng).random(POINTS)
            u = v if self._tree is None else self._tree.from_unit(v)
            value = np.asarray(factor(prior.from_unit(u)), dtype=np.float64)
            bad = ~(np.isfinite(value) & (value >= 0))
            if bad.any():
                raise InputError(f"the wanted density is not a number of at least 0 somewhere: {value[bad][0]:g}")
            weight = value if self._tree is None else value * np.exp(-self._tree.log_relative(u))
            if not weight.sum() > 0:
                raise ZeroDensity("the wanted density was zero at every point tried; it cannot be normalised")
            self.mass = float(weight.mean())
            """∫ p·factor."""
            self._tree = self._grow(u, value, weight, factor, rng)

    def _cut(self, axis: int, low: float, high: float) -> float | None:
        """The middle of a box's side; of a discrete parameter the border between values that is nearest to it.

        A value of θ then lies in one box whole, and has one density.
        """
        middle = (low + high) / 2
        borders = self._borders.get(axis)
        if borders is None:
            return middle
        inside = borders[(borders > low + 1e-12) & (borders < high - 1e-12)]
        return float(inside[np.argmin(np.abs(inside - middle))]) if inside.size else None

    def _grow(
        self,
        u: FloatArray,
        value: FloatArray,
        weight: FloatArray,
        factor: Callable[[Points], FloatArray],
        rng: np.random.Generator,
    ) -> Tree:
        d = u.shape[1]
        axis, cut, left, right, low, high = [-1], [0.0], [-1], [-1], [np.zeros(d)], [np.ones(d)]
        total = weight.sum()
        stack = [(0, np.arange(len(u)))]
        while stack:
            node, rows = stack.pop()
            share = weight[rows].sum() / total
            # Few points with much weight are a ridge that was hardly seen: look closer there.
            if share < 1e-4 or rows.size < (4 if share > 1e-3 else 2 * LEAF):
                continue
            best, gain = None, 0.0
            w = weight[rows]
            for j in range(d):
                middle = self._cut(j, low[node][j], high[node][j])
                if middle is None:
                    continue
                side = u[rows, j] < middle
                n = np.array([side.sum(), (~side).sum()])
                if rows.size >= 2 * LEAF and n.min() < LEAF // 2:
                    continue
                # A box of volume V and mass m with constant density costs m²/V; halves are cheaper by this much.
                mass = np.array([w[side].sum(), w[~side].sum()])
                spread = abs(mass[0] - mass[1]) / mass.sum()
                if spread > gain:
                    best, gain = (j, middle, side), spread
            if best is None or gain < 0.02:
                spans = high[node] - low[node]
                inside = value[rows]
                if inside.max() < 1.5 * inside.mean() or rows.size < 8 * LEAF:
                    continue
                j = int(np.argmax(spans))
                middle = self._cut(j, low[node][j], high[node][j])
                if middle is None:
                    continue
                best = (j, middle, u[rows, j] < middle)
            j, middle, side = best
            for child, part in ((0, rows[side]), (1, rows[~side])):
                box_low, box_high = low[node].copy(), high[node].copy()
                (box_high if child == 0 else box_low)[j] = middle
                axis.append(-1)
                cut.append(0.0)
                left.append(-1)
                right.append(-1)
                low.append(box_low)
                high.append(box_high)
                stack.append((len(axis) - 1, part))
            axis[node], cut[node], left[node], right[node] = j, middle, len(axis) - 2, len(axis) - 1
        lows, highs = np.array(low), np.array(high)
        axes = np.array(axis)
        bare = Tree(axes, np.array(cut), lows[:, 0], np.array(left), np.array(right), lows, highs, lows[:, 0])
        leaf = bare.leaf(u)
        seen = np.bincount(leaf, weights=weight, minlength=axes.size) / len(u)
        return self._weigh(bare, seen, factor, rng)

    def _weigh(
        self, tree: Tree, seen: FloatArray, factor: Callable[[Points], FloatArray], rng: np.random.Generator
    ) -> Tree:
        """Fresh points in every leaf give its mass: √E[g²], the best constant for a density that varies.

        At least what was ``seen`` of it, since a few points can miss what many found.
        """
        axis, cut, left, right, low, high = tree.axis, tree.cut, tree.left, tree.right, tree.low, tree.high
        leaves = np.flatnonzero(axis < 0)
        volume = np.prod(high - low, axis=1)
        v = rng.random((leaves.size, PROBES, low.shape[1]))
        u = low[leaves, None, :] + (high - low)[leaves, None, :] * v
        value = factor(self.prior.from_unit(u.reshape(-1, low.shape[1]))).reshape(leaves.size, PROBES)
        mass = np.zeros(axis.size)
        mass[leaves] = np.maximum(volume[leaves] * np.sqrt((value**2).mean(axis=1)), seen[leaves])
        inner = np.flatnonzero(axis >= 0)  # children come after their parents
        share = _shares(mass, inner, left, right)
        # A part whose points missed a narrow ridge must not be left empty: each split is drawn towards its volume.
        share[inner] = (1 - SHRINK) * share[inner] + SHRINK * volume[left[inner]] / volume[inner]
        mass[0] = 1.0
        for node in inner:
            mass[left[node]], mass[right[node]] = mass[node] * share[node], mass[node] * (1 - share[node])
        mass[leaves] = (1 - FLOOR) * mass[leaves] + FLOOR * volume[leaves]
        share = _shares(mass, inner, left, right)
        return Tree(axis, cut, share, left, right, low, high, np.log(mass / volume))

    @property
    def tree(self) -> Tree:
        assert self._tree is not None
        return self._tree

    @property
    def names(self) -> tuple[str, ...]:
        return self.prior.names

    @property
    def dimension(self) -> int:
        return self.prior.dimension

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(rng.random((size, self.dimension)))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        return self.prior.from_unit(self.tree.from_unit(as_unit(unit, self.dimension)))

    def log_relative(self, points: Points) -> FloatArray:
        """log of the density over the prior's."""
        return self.tree.log_relative(self.prior.to_unit(points))

    def logpdf(self, points: Points) -> FloatArray:
        return self.prior.logpdf(points) + self.log_relative(points)

    def to_unit(self, points: Points) -> FloatArray:
        raise InputError("the coordinates of a partition are not kept")
