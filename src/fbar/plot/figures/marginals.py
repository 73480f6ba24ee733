"""The posterior of each parameter over its prior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.plot.base import Panels, legend
from fbar.plot.density import density
from fbar.plot.look import POSTERIOR, PRIOR, decimal_ticks, plain, short
from fbar.plot.source import Source
from fbar.weights import weighted_quantiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

MOST_LABELS = 12
"""Labels below an axis, at most; of more values every second, third, … is labelled."""

MOST_DIGITS = 6
"""Digits behind or before the point, at most; other numbers have an exponent."""

FILLED = 129
"""Points of the outline of a filled curve."""

ALL = 0.999999


@dataclass(frozen=True, eq=False)
class Marginal:
    """A parameter's posterior and prior: densities at ``x``, or probabilities of the values ``labels``.

    ``share`` is the posterior probability of the models that have it, ``finite`` that it is a finite number in these;
    the rest is given both. Labels have no mean. With ``log`` the axis is logarithmic and densities are those of ln x.
    """

    name: str
    discrete: bool
    x: FloatArray
    labels: tuple[str, ...]
    posterior: FloatArray
    prior: FloatArray | None
    share: float
    finite: float
    mean: float | None
    median: float | None
    interval: tuple[float, float] | None
    log: bool = False

    @property
    def caption(self) -> str:
        """The mean and the 95% interval, or the likeliest value, in words."""
        if self.mean is None or self.interval is None:
            place = int(np.argmax(self.posterior))
            text = f"{self.labels[place]} {self.posterior[place]:.1%}"
        else:
            low, high = self.interval
            spread = high - low or abs(high) or 1.0
            digits = max(0, 1 - math.floor(math.log10(spread)))  # two of the interval's width
            form = f".{digits}f" if digits <= MOST_DIGITS and abs(high) + abs(low) < 10**MOST_DIGITS else ".3g"
            text = f"mean {self.mean:{form}}, 95% {low:{form}} to {high:{form}}"
        given = [f"its model ({self.share:.0%})"] if self.share < ALL else []
        given += [f"that it is finite ({self.finite:.0%})"] if self.finite < ALL else []
        return f"{text}\ngiven {' and '.join(given)}" if given else text


def marginal(source: Source, name: str) -> Marginal:
    column, weights = source.of_posterior(name)
    where = source.axis(name)
    mean = median = interval = None
    if column.dtype.kind in "biuf":
        mean = float((weights * column).sum() / weights.sum())
        low, middle, high = weighted_quantiles(column, np.maximum(weights, 0.0), np.array([0.025, 0.5, 0.975])).tolist()
        median, interval = middle, (low, high)
    return Marginal(
        name,
        where.discrete,
        where.x,
        where.labels,
        density(where, column, weights),
        source.prior_density(name, where),
        source.share(name),
        source.finite(name),
        mean,
        median,
        interval,
        where.log,
    )


@dataclass(frozen=True, eq=False)
class Marginals(Panels):
    parameters: tuple[Marginal, ...]
    message: str = ""

    @classmethod
    def of(cls, result: Result, names: str | Sequence[str] | None = None) -> Marginals:
        source = Source.of(result)
        said = "" if names is not None else source.unseen
        return cls(tuple(marginal(source, name) for name in source.checked(names)), said)

    @property
    def parts(self) -> Sequence[Marginal]:
        return self.parameters

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        for ax, one in zip(axes, self.parameters, strict=True):
            draw_marginal(ax, one)
            ax.set_title(short(one.name), loc="left")
            ax.set_xlabel(plain(one.caption), fontsize=8)
        legend(axes, figure)
        if figure is not None and self.message:
            figure.supxlabel(plain(self.message), fontsize=8)


def draw_marginal(ax: Any, one: Marginal) -> None:
    """Posterior filled, prior as a grey line; below them the mean and the central 95%."""
    if one.discrete:
        width = bar_width(one.x)
        ax.bar(one.x, one.posterior, width, color=POSTERIOR, alpha=0.75, label="posterior")
        if one.prior is not None:
            half = width / 2
            ax.hlines(one.prior, one.x - half, one.x + half, color=PRIOR, linewidth=1.6, label="prior")
        label_values(ax, one.x, one.labels)
        ax.set_ylabel("probability")
    else:
        some = thinned(one.x.size)
        ax.fill_between(one.x[some], one.posterior[some], color=POSTERIOR, alpha=0.25, linewidth=0)
        ax.plot(one.x, one.posterior, color=POSTERIOR, label="posterior")
        if one.prior is not None:
            ax.plot(one.x, one.prior, color=PRIOR, label="prior")
        ax.set_xlim(one.x[0], one.x[-1])
        if one.log:
            ax.set_xscale("log")
            decimal_ticks(ax.xaxis)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        if one.mean is not None and one.interval is not None:
            ends = np.clip(one.interval, one.x[0], one.x[-1])
            ax.plot(ends, (0, 0), color=POSTERIOR, linewidth=4, solid_capstyle="butt", clip_on=False, zorder=3)
            if one.x[0] <= one.mean <= one.x[-1]:  # negative weights may put it anywhere
                ax.plot([one.mean], [0], color=POSTERIOR, marker="o", markersize=6, clip_on=False, zorder=4)
    ax.set_ylim(0)


def thinned(size: int) -> IntArray:
    """Some of the points of a curve, evenly spread: as many as its filling needs."""
    return np.unique(np.linspace(0, size - 1, min(size, FILLED)).round().astype(np.int64))


def bar_width(x: FloatArray) -> float:
    return 0.8 * float(np.diff(np.unique(x)).min()) if x.size > 1 else 0.8


def label_values(ax: Any, x: FloatArray, labels: Sequence[str], *, vertical: bool = False) -> None:
    """Labels of a few values under their places; numbers that are many have the axis's own ticks."""
    numbers = all(_is_number(label) for label in labels)
    if numbers and len(labels) > MOST_LABELS:
        return
    step = math.ceil(len(labels) / MOST_LABELS)
    shown = [short(_short(label) if numbers else label) for label in labels[::step]]
    long = not vertical and sum(map(len, shown)) > 24
    set_ticks = ax.set_yticks if vertical else ax.set_xticks
    set_ticks(x[::step], shown, **({"rotation": 30, "ha": "right"} if long and not numbers else {}))


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _short(label: str) -> str:
    return f"{float(label):g}"
