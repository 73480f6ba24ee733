"""Simulations from the posterior beside the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, floats
from fbar.checks import texts
from fbar.errors import InputError
from fbar.plot.base import Record, legend
from fbar.plot.figures.marginals import label_values
from fbar.plot.look import OBSERVED, POSTERIOR, plain, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEVELS = np.array([0.025, 0.25, 0.5, 0.75, 0.975])


@dataclass(frozen=True, eq=False)
class Predictive(Record):
    """For each number of the data: the observed one, and the 2.5, 25, 50, 75 and 97.5% points of the simulated ones.

    ``tails`` are two-sided: 2 min(P(sim < obs) + ½ P(sim = obs), P(sim > obs) + ½ P(sim = obs)), from
    ``number_of_simulations``. ``simulated`` are those of a single number only.
    """

    names: tuple[str, ...]
    observed: FloatArray
    quantiles: FloatArray
    tails: FloatArray
    number_of_simulations: int
    simulated: FloatArray | None
    message: str = ""

    @classmethod
    def of(cls, observed: npt.ArrayLike, simulated: npt.ArrayLike, names: Sequence[str] | None = None) -> Predictive:
        """``simulated`` has a row for each simulation of the data, of any shape, which is read in order."""
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

    def tail_in_words(self, component: int) -> str:
        """A tail that no simulation reached is not zero, but below what so many can show."""
        tail = float(self.tails[component])
        return f"of {tail:.2g}" if tail > 0 else f"below {2 / self.number_of_simulations:.2g}"

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        ax = axes[0]
        if self.simulated is not None:
            shown = self.simulated
            values = np.unique(shown)
            if values.size <= 40 and (values == np.rint(values)).all():
                bins: Any = np.arange(values[0], values[-1] + 2) - 0.5
            else:
                bins = "auto"
            ax.hist(shown, bins, color=POSTERIOR, alpha=0.6, density=True, label="simulated from the posterior")
            ax.axvline(self.observed[0], color=OBSERVED, linewidth=2, label="observed")
            ax.set(yticks=[], xlabel=short(self.names[0]) + plain(f"; tail probability {self.tail_in_words(0)}"))
            ax.spines["left"].set_visible(False)
        else:
            x = np.arange(1, self.observed.size + 1, dtype=np.float64)
            low, lower, middle, upper, high = self.quantiles
            if self.observed.size <= 8:  # few numbers that need not be a series
                ax.vlines(x, low, high, color=POSTERIOR, alpha=0.35, linewidth=7, label="95% of the simulated")
                ax.vlines(x, lower, upper, color=POSTERIOR, alpha=0.7, linewidth=7, label="50%")
            else:
                ax.fill_between(x, low, high, color=POSTERIOR, alpha=0.2, linewidth=0, label="95% of the simulated")
                ax.fill_between(x, lower, upper, color=POSTERIOR, alpha=0.4, linewidth=0, label="50%")
                ax.plot(x, middle, color=POSTERIOR, linewidth=1.2)
            ax.plot(x, self.observed, color=OBSERVED, marker="o", linestyle="none", label="observed")
            ax.set_xlim(0.5, self.observed.size + 0.5)
            label_values(ax, x, self.names)
            ax.grid(axis="y")
            unlikely = int((self.tails < 0.05).sum())
            what = "" if not all(name.isdigit() for name in self.names) else "number; "
            ax.set_xlabel(f"{what}{unlikely} of {self.tails.size} outside the central 95%")
        legend(axes, figure)
