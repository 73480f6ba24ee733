"""The posterior of every pair of parameters, with single ones on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.plot.base import Record
from fbar.plot.density import Axis, bandwidth, effective, levels, smoothed
from fbar.plot.figures.marginals import Marginal, draw_marginal, marginal
from fbar.plot.look import POSTERIOR, decimal_ticks, plain, short
from fbar.plot.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

MOST = 6
"""Parameters that are shown unless they are named."""

CELLS = 56
SHARES = 0.95, 0.8, 0.5, 0.2
"""The highest-density regions that are shaded."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two parameters: the probability of each cell, ``mass[i, j]`` at ``x[j]`` and ``y[i]``; it adds up to one.

    ``share`` is the posterior probability of the models that have both, and of finite values.
    """

    x_name: str
    y_name: str
    x: FloatArray
    y: FloatArray
    x_discrete: bool
    y_discrete: bool
    mass: FloatArray
    share: float
    x_log: bool = False
    y_log: bool = False

    @property
    def regions(self) -> list[float]:
        """Heights whose regions of highest density hold 95%, 80%, 50% and 20%, rising."""
        return levels(self.mass, SHARES)


def pair(source: Source, x_name: str, y_name: str, x: Axis, y: Axis) -> Pair:
    """By the same diffusion as a single parameter's density, wider as two dimensions ask for; values stay apart."""
    points, weights = source.posterior.points, source.posterior.weights
    both = points.present(x_name) & points.present(y_name)
    for name in (x_name, y_name):
        if points[name].dtype.kind == "f":
            both = both & np.isfinite(points[name])
    w = weights[both]
    if not w.sum() > 0:
        return Pair(x_name, y_name, x.x, y.x, x.discrete, y.discrete, np.zeros((y.x.size, x.x.size)), 0.0, x.log, y.log)
    mass = _histogram(points[x_name][both], points[y_name][both], w, x, y)
    number = effective(w)
    wider = number ** (1 / 5 - 1 / 6)  # h of one dimension falls with n^(−1/5), of two with n^(−1/6)
    for along, one in ((1, x), (0, y)):
        if not one.discrete:
            mass = smoothed(mass, wider * bandwidth(np.maximum(mass.sum(axis=1 - along), 0.0), number), along)
    share = float(w.sum() / weights.sum())
    return Pair(x_name, y_name, x.x, y.x, x.discrete, y.discrete, mass / mass.sum(), share, x.log, y.log)


def _histogram(a: npt.NDArray[Any], b: npt.NDArray[Any], w: FloatArray, x: Axis, y: Axis) -> FloatArray:
    j, i = x.cells(a), y.cells(b)
    inside = (i >= 0) & (j >= 0)
    size = y.x.size, x.x.size
    mass = np.bincount(i[inside] * size[1] + j[inside], w[inside], size[0] * size[1])
    return np.asarray(mass, dtype=np.float64).reshape(size)


@dataclass(frozen=True, eq=False)
class Pairs(Record):
    """``pairs`` has those below the diagonal, row by row."""

    parameters: tuple[Marginal, ...]
    pairs: tuple[Pair, ...]
    message: str = ""

    @classmethod
    def of(cls, result: Result, names: Sequence[str] | None = None) -> Pairs:
        source = Source.of(result)
        chosen = source.checked(names)
        message = ""
        if names is None:
            numbers = [name for name in chosen if source.numeric(name)]
            left = [name for name in chosen if name not in numbers[:MOST]]
            chosen = tuple(numbers[:MOST])
            message = f"not shown: {', '.join(left)}; name them to see them" if left else ""
        if len(chosen) < 2:
            raise InputError(f"pairs need at least two parameters; there is {', '.join(chosen) or 'none'}")
        axes = {name: source.axis(name, CELLS) for name in chosen}
        found = [pair(source, a, b, axes[a], axes[b]) for row, b in enumerate(chosen) for a in chosen[:row]]
        return cls(tuple(marginal(source, name) for name in chosen), tuple(found), message)

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.parameters), len(self.parameters)

    @property
    def size(self) -> tuple[float, float]:
        side = min(7.2, 1.0 + 1.7 * len(self.parameters))
        return side, side * 0.92

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        k = len(self.parameters)
        grid = [axes[row * k : (row + 1) * k] for row in range(k)]
        found = iter(self.pairs)
        for row in range(k):
            for column in range(k):
                ax = grid[row][column]
                if column > row:
                    ax.set_visible(False)
                    continue
                if column == row:
                    draw_marginal(ax, self.parameters[row])
                    ax.set(yticks=[], ylabel="")
                    ax.spines["left"].set_visible(False)
                else:
                    draw_pair(ax, next(found))
                    ax.set_xlim(grid[column][column].get_xlim())
                _outer_labels(ax, self.parameters[column], self.parameters[row], row == k - 1, column == 0 and row > 0)
        if figure is not None and self.message:
            figure.supxlabel(plain(self.message), fontsize=8)


def _outer_labels(ax: Any, x: Marginal, y: Marginal, bottom: bool, left: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    for shown, one, axis in ((bottom, x, ax.xaxis), (left, y, ax.yaxis)):
        if one.labels and not _numbers(one):
            axis.set_ticks(one.x, [short(label) for label in one.labels])
        elif one.log and (axis is ax.xaxis or x is not y):
            decimal_ticks(axis)
            axis.set_minor_locator(NullLocator())
        elif axis is ax.xaxis or x is not y:
            axis.set_major_locator(MaxNLocator(4, integer=one.discrete and _whole(one.x)))
        if not shown:
            axis.set_tick_params(labelleft=False, labelbottom=False)
    ax.set_xlabel(short(x.name) if bottom else "")
    ax.set_ylabel(short(y.name) if left else "")


def _whole(x: FloatArray) -> bool:
    return bool((x == np.rint(x)).all())


def _numbers(one: Marginal) -> bool:
    return one.mean is not None


def draw_pair(ax: Any, one: Pair) -> None:
    """Shaded regions of highest density, or cells where a parameter has single values."""
    from matplotlib.colors import to_rgba

    if not one.mass.any():
        ax.text(0.5, 0.5, "no model\nhas both", ha="center", va="center", transform=ax.transAxes, fontsize=7)
        return
    if one.x_discrete or one.y_discrete:
        from matplotlib.colors import LinearSegmentedColormap

        shades = LinearSegmentedColormap.from_list("posterior", [to_rgba(POSTERIOR, 0.0), to_rgba(POSTERIOR, 1.0)])
        edges = [_edges(part) for part in (one.x, one.y)]
        ax.pcolormesh(*edges, one.mass, cmap=shades, vmin=0, rasterized=True)
        return
    ax.set(xscale="log" if one.x_log else "linear", yscale="log" if one.y_log else "linear")
    heights = sorted(set(one.regions))
    colours = [to_rgba(POSTERIOR, alpha) for alpha in np.linspace(0.2, 0.85, len(heights))]
    ax.contourf(one.x, one.y, one.mass, [*heights, one.mass.max() * 1.001], colors=colours)


def _edges(x: FloatArray) -> FloatArray:
    """Borders half way between the values."""
    if x.size == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = (x[1:] + x[:-1]) / 2
    return np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])
