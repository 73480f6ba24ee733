"""Simulations from the posterior beside the data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, floats
from fbar.checks import texts
from fbar.errors import InputError
from fbar.plot.base import Record, legend
from fbar.plot.look import INK, OBSERVED, POSTERIOR, plain, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEVELS = np.array([0.025, 0.25, 0.5, 0.75, 0.975])

FEW = 8
"""Numbers that are drawn one by one, at most; more are a series."""

FAR = 2.2
"""Where a number that is further out than this is drawn, with an arrow, in half widths of the central 95%."""


@dataclass(frozen=True, eq=False)
class Predictive(Record):
    """For each number of the data: the observed one, and the 2.5, 25, 50, 75 and 97.5% points of the simulated ones.

    ``tails`` are two-sided: 2 min(P(sim < obs) + ½ P(sim = obs), P(sim > obs) + ½ P(sim = obs)), from
    ``number_of_simulations``. ``simulated`` are those of a single number only. ``title`` and ``axis`` are
    written above and below.
    """

    names: tuple[str, ...]
    observed: FloatArray
    quantiles: FloatArray
    tails: FloatArray
    number_of_simulations: int
    simulated: FloatArray | None
    message: str = ""
    title: str = ""
    axis: str = ""

    @classmethod
    def of(cls, observed: npt.ArrayLike, simulated: npt.ArrayLike, names: Sequence[str] | None = None) -> Predictive:
        """``simulated`` has a row for each simulation of the data, of any shape, which is flattened."""
        data = floats(observed, "observed data")
        rows = floats(simulated, "simulated data")
        if rows.ndim == 0 or rows.shape[1:] != data.shape or rows.size == 0:
            raise InputError(
                f"simulated data must have a row for each simulation, of the observed shape {data.shape}; "
                f"got shape {rows.shape}"
            )
        flat, x = data.reshape(-1), rows.reshape(len(rows), -1)
        if not (np.isfinite(flat).all() and np.isfinite(x).all()):
            raise InputError("predictive data must be finite; leave simulations that failed out")
        if names is not None and len(texts(names, "names", "['day 1', 'day 2']")) != flat.size:
            raise InputError(f"give a name for each of {flat.size} numbers; got {len(names)}")
        numbered = ("data",) if flat.size == 1 else tuple(str(i + 1) for i in range(flat.size))
        listed = numbered if names is None else tuple(map(str, names))
        equal = (x == flat).mean(axis=0) / 2
        below, above = (x < flat).mean(axis=0) + equal, (x > flat).mean(axis=0) + equal
        tails = np.minimum(1.0, 2 * np.minimum(below, above))
        return cls(listed, flat, np.quantile(x, LEVELS, axis=0), tails, len(x), x[:, 0] if flat.size == 1 else None)

    @property
    def series(self) -> bool:
        """Whether the numbers are one series: more than a few, numbered, or under one name."""
        stems = {re.sub(r"\[\d+\]$", "", name) for name in self.names}
        numbered = all(name.isdigit() for name in self.names)
        return self.observed.size > FEW and (numbered or len(stems) == 1)

    @property
    def size(self) -> tuple[float, float]:
        return (6.0, 3.4) if self.series or self.simulated is not None else (6.0, 1.0 + 0.3 * self.observed.size)

    def tail_in_words(self, component: int) -> str:
        """A tail that no simulation reached is not zero, but below what so many can show."""
        tail = float(self.tails[component])
        return f"of {tail:.2g}" if tail > 0 else f"below {2 / self.number_of_simulations:.2g}"

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        ax = axes[0]
        if self.simulated is not None:
            self._histogram(ax, self.simulated)
        elif self.series:
            self._series(ax)
        else:
            self._rows(ax)
        if self.title:
            ax.set_title(plain(self.title), loc="left")
        if self.axis:
            ax.set_xlabel(plain(self.axis))
        legend(axes, figure)

    def _histogram(self, ax: Any, simulated: FloatArray) -> None:
        values = np.unique(simulated)
        whole = values.size <= 40 and bool((values == np.rint(values)).all())
        bins: Any = np.arange(values[0], values[-1] + 2) - 0.5 if whole else "auto"
        ax.hist(simulated, bins, color=POSTERIOR, alpha=0.6, density=True, label="simulated from the posterior")
        ax.axvline(self.observed[0], color=OBSERVED, linewidth=2, label="observed")
        ax.set(yticks=[], xlabel=short(self.names[0]) + plain(f"; tail probability {self.tail_in_words(0)}"))
        ax.spines["left"].set_visible(False)

    def _series(self, ax: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        x = np.arange(1, self.observed.size + 1, dtype=np.float64)
        low, lower, middle, upper, high = self.quantiles
        ax.fill_between(x, low, high, color=POSTERIOR, alpha=0.2, linewidth=0, label="95% of the simulated")
        ax.fill_between(x, lower, upper, color=POSTERIOR, alpha=0.4, linewidth=0, label="50%")
        ax.plot(x, middle, color=POSTERIOR, linewidth=1.2)
        size = 4.5 if self.observed.size <= 60 else 2.0
        ax.plot(x, self.observed, color=OBSERVED, marker="o", markersize=size, linestyle="none", label="observed")
        ax.set_xlim(0.5, self.observed.size + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        ax.grid(axis="y")

    def _rows(self, ax: Any) -> None:
        """A row for each number, in terms of its own predictions: their central 95% reaches from −1 to 1."""
        low, lower, _, upper, high = self.quantiles
        centre, half = (low + high) / 2, (high - low) / 2
        half = np.where(half > 0, half, np.maximum(np.abs(centre), 1.0))
        y = -np.arange(self.observed.size, dtype=np.float64)
        thick: dict[str, Any] = {"color": POSTERIOR, "linewidth": 8}
        ax.hlines(y, (low - centre) / half, (high - centre) / half, alpha=0.3, label="95% of the simulated", **thick)
        ax.hlines(y, (lower - centre) / half, (upper - centre) / half, alpha=0.6, label="50%", **thick)
        place = np.clip((self.observed - centre) / half, -FAR, FAR)
        far = np.abs(place) >= FAR
        ax.plot(place[~far], y[~far], color=OBSERVED, marker="o", linestyle="none", label="observed")
        for side, mark in ((-1, "<"), (1, ">")):
            out = far & (np.sign(place) == side)
            ax.plot(place[out], y[out], color=OBSERVED, marker=mark, markersize=7, linestyle="none")
        for j, number in enumerate(self.observed.tolist()):
            words = f"{number:.4g} ({low[j]:.4g} to {high[j]:.4g})"
            ax.text(FAR + 0.25, y[j], words, va="center", ha="left", fontsize=8, color=INK)
        ax.set_yticks(y, [short(name) for name in self.names])
        ax.set(xlim=(-FAR - 0.15, FAR + 0.15), ylim=(0.6 - self.observed.size, 0.6), xticks=[])
        ax.tick_params(left=False)
        for spine in ("left", "bottom"):
            ax.spines[spine].set_visible(False)
