"""What the records of all figures share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import Field, asdict
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fbar.checks import shown
from fbar.errors import InputError
from fbar.plot.look import legend_entries, look, panels, plain
from fbar.system.json_values import as_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTHS = 4.2, 6.2, 7.2
"""Of figures with one, two and three columns, in inches."""


class Record:
    """The data of a figure; its subclasses are frozen dataclasses of plain arrays, numbers and text."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    message: str = ""
    """What is to be said of what is not shown; where nothing is, why."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of its panels."""
        return 1, 1

    @property
    def number(self) -> int:
        """Its panels; those of the grid beyond stay empty."""
        rows, columns = self.grid
        return rows * columns

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches of a figure of its own."""
        return 6.0, 3.4

    @property
    def options(self) -> dict[str, Any]:
        """How a figure of its own arranges its panels, beyond its grid."""
        return {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show but its message."""
        return False

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        """Draw into the panels; ``figure`` where it is its own, so that a legend may stand beside them."""
        raise NotImplementedError

    def draw(self, ax: Any = None) -> Any:
        """Draw a new figure, or draw into the given axes (one or a sequence), and return what was drawn.

        Figures are made without pyplot: ``figure.savefig("x.png")`` saves one, and a notebook shows it.
        """
        with look():
            if ax is None and self.empty:
                figure, axes = panels(1, 1, width=6.0, height=1.0)
                _say(axes[0, 0], self.message)
                return figure
            if ax is None:
                width, height = self.size
                figure, axes = panels(*self.grid, width=width, height=height, **self.options)
                flat = list(np.ravel(axes))
                for spare in flat[self.number :]:
                    spare.set_visible(False)
                self.render(flat[: self.number], figure)
                return figure
            flat = _axes(ax)
            if self.empty:
                _say(flat[0], self.message)
                return ax
            if len(flat) != self.number:
                raise InputError(f"this figure has {self.number} panels; give it {self.number} axes, not {len(flat)}")
            self.render(flat, None)
            return ax

    def as_dict(self) -> dict[str, Any]:
        """The data as JSON values."""
        found: dict[str, Any] = as_json(asdict(self))
        return found


class Panels(Record):
    """A record with a panel for each of its parts, in three columns at most."""

    height: ClassVar[float] = 2.1
    """Inches of a row; what stands around the panels takes ``around`` more."""
    around: ClassVar[float] = 0.4

    @property
    def parts(self) -> Sequence[Any]:
        raise NotImplementedError

    @property
    def empty(self) -> bool:
        return not self.parts

    @property
    def number(self) -> int:
        return max(1, len(self.parts))

    @property
    def grid(self) -> tuple[int, int]:
        return arranged(self.number)

    @property
    def size(self) -> tuple[float, float]:
        rows, columns = self.grid
        return WIDTHS[columns - 1], self.height * rows + self.around


def _axes(ax: Any) -> list[Any]:
    """The axes that a user gave, one or several."""
    try:
        flat = list(np.ravel(np.asarray(ax, dtype=object)))
    except Exception:  # of an object of the user's
        flat = [ax]
    if not flat or not all(hasattr(item, "set_axis_off") for item in flat):
        raise InputError(f"ax must be matplotlib axes, as plt.subplots() returns them; got {shown(ax)}")
    return flat


def arranged(number: int) -> tuple[int, int]:
    """Rows and columns of so many panels, three columns at most.

    >>> arranged(2), arranged(4), arranged(5)
    ((1, 2), (2, 2), (2, 3))
    """
    columns = 2 if number == 4 else min(3, number)
    return math.ceil(number / columns), columns


_ORDER = {"prior": 1, "simulations": 2, "posterior": 3}


def legend(axes: Sequence[Any], figure: Figure | None, **options: Any) -> None:
    """Below a figure of its own, otherwise in the first of the axes; from the prior to the posterior."""
    entries = sorted(zip(*legend_entries(axes), strict=True), key=lambda entry: _ORDER.get(entry[1], 0))
    handles, labels = [entry[0] for entry in entries], [entry[1] for entry in entries]
    if figure is None and any(type(drawn).__name__ == "BarContainer" for drawn in axes[0].containers):
        low, high = axes[0].get_ylim()
        axes[0].set_ylim(low, low + 1.25 * (high - low))  # bars leave no corner free
        axes[0].legend(handles, labels, loc="upper center", ncols=len(labels), handlelength=1.2, columnspacing=1)
    elif figure is None:
        axes[0].legend(handles, labels)
    elif handles:
        figure.legend(handles, labels, **{"loc": "outside lower center", "ncols": len(labels), **options})


def _say(ax: Any, message: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, fill(plain(message), 80), ha="center", va="center", transform=ax.transAxes)


def one_run(result: Any) -> None:
    """Refuse a run of many trials, and what is no result of a run."""
    if not hasattr(result, "posterior"):
        raise InputError(f"this figure needs a run's result, as fbar.infer returns it; got {type(result).__name__}")
    if np.ndim(result.posterior.simulations):
        raise InputError("a run of many trials has no single figure; run it without trials=")


def one_study(result: Any) -> None:
    """Refuse what is no result of a study."""
    if not hasattr(result, "contenders"):
        raise InputError(f"this figure needs a study's result, as Study.run returns it; got {type(result).__name__}")
