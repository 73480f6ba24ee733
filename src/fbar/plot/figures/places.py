"""Where the simulations were spent, beside the prior and the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.plot.base import Panels, Record, legend
from fbar.plot.density import density
from fbar.plot.figures.marginals import bar_width, label_values, thinned
from fbar.plot.figures.pairs import CELLS, Pair, draw_pair, pair
from fbar.plot.look import POSTERIOR, PRIOR, SIMULATIONS, decimal_ticks, plain, short
from fbar.plot.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

MOST_POINTS = 2000
"""Simulations that are shown as points."""

UNKNOWN = "where the simulations were is unknown: this method does not keep them"


@dataclass(frozen=True, eq=False)
class Place:
    """Densities of a parameter at ``x``, or probabilities of its values ``labels``."""

    name: str
    discrete: bool
    x: FloatArray
    labels: tuple[str, ...]
    prior: FloatArray | None
    simulations: FloatArray | None
    posterior: FloatArray
    log: bool = False


@dataclass(frozen=True, eq=False)
class Places(Panels):
    parameters: tuple[Place, ...]
    message: str = ""

    @classmethod
    def of(cls, result: Result, names: str | Sequence[str] | None = None) -> Places:
        source = Source.of(result)
        found, known = [], True
        for name in source.checked(names):
            where, spent = source.axis(name, whole=True), source.of_simulations(name)
            known &= spent is not None
            found.append(
                Place(
                    name,
                    where.discrete,
                    where.x,
                    where.labels,
                    source.prior_density(name, where),
                    None if spent is None else density(where, *spent, least=0.5),
                    density(where, *source.of_posterior(name)),
                    where.log,
                )
            )
        said = ["" if known else UNKNOWN, "" if names is not None else source.unseen]
        return cls(tuple(found), "; ".join(filter(None, said)))

    @property
    def parts(self) -> Sequence[Place]:
        return self.parameters

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        for ax, one in zip(axes, self.parameters, strict=True):
            draw_place(ax, one)
            ax.set_title(short(one.name), loc="left")
        legend(axes, figure)
        if figure is not None and self.message:
            figure.supxlabel(plain(self.message), fontsize=8)


def draw_place(ax: Any, one: Place) -> None:
    """Densities each in terms of its largest value, as that of a narrow posterior is many times the others'."""
    parts = (("prior", PRIOR, one.prior), ("simulations", SIMULATIONS, one.simulations))
    shown = [part for part in (*parts, ("posterior", POSTERIOR, one.posterior)) if part[2] is not None]
    if one.discrete:
        width = bar_width(one.x) / len(shown)
        for i, (label, colour, values) in enumerate(shown):
            ax.bar(one.x + (i - (len(shown) - 1) / 2) * width, values, width, color=colour, label=label)
        label_values(ax, one.x, one.labels)
        ax.set_ylabel("probability")
    else:
        for label, colour, values in shown:
            assert values is not None
            scaled = values / (values.max() or 1.0)
            ax.plot(one.x, scaled, color=colour, label=label)
            if label == "posterior":
                some = thinned(one.x.size)
                ax.fill_between(one.x[some], scaled[some], color=colour, alpha=0.2, linewidth=0)
        ax.set_xlim(one.x[0], one.x[-1])
        if one.log:
            ax.set_xscale("log")
            decimal_ticks(ax.xaxis)
        ax.set(yticks=[], ylabel="density / its peak")
    ax.set_ylim(0)


@dataclass(frozen=True, eq=False)
class PlacesPair(Record):
    """Simulated θ of two parameters, and the posterior's regions of highest density."""

    x: FloatArray
    y: FloatArray
    posterior: Pair
    message: str = ""

    @classmethod
    def of(cls, result: Result, names: Sequence[str] | None = None) -> PlacesPair:
        source = Source.of(result)
        chosen = [name for name in source.checked(names) if source.numeric(name)][: None if names else 2]
        if len(chosen) != 2:
            raise InputError(f"name two parameters that are numbers; got {', '.join(chosen) or 'none'}")
        a, b = chosen
        places = source.simulated
        x = y = np.empty(0)
        if places is not None:
            has = np.logical_and.reduce([places.present(name) & np.isfinite(places[name]) for name in (a, b)])
            both = np.flatnonzero(has)
            rows = both[np.linspace(0, both.size - 1, min(both.size, MOST_POINTS)).astype(np.int64)]
            x, y = (places[name][rows].astype(np.float64) for name in (a, b))
        axes = [source.axis(name, 2 * CELLS, whole=True) for name in (a, b)]
        return cls(x, y, pair(source, a, b, *axes), "" if places is not None else UNKNOWN)

    @property
    def size(self) -> tuple[float, float]:
        return 4.6, 4.2

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        ax, one = axes[0], self.posterior
        ax.scatter(self.x, self.y, s=3, color=SIMULATIONS, alpha=0.5, linewidths=0, rasterized=True, zorder=1)
        draw_pair(ax, one)
        ax.scatter([], [], s=14, color=SIMULATIONS, label="simulations")
        ax.scatter([], [], s=40, marker="s", color=POSTERIOR, label="posterior")
        for log, axis in ((one.x_log, ax.xaxis), (one.y_log, ax.yaxis)):
            if log:
                decimal_ticks(axis)
        ax.set(xlabel=short(one.x_name), ylabel=short(one.y_name))
        legend(axes, figure)
