"""What the records of all figures share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.errors import InputError
from fbar.explanation import as_json
from fbar.pictures import legend_entries, look, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Record:
    """The data of a figure; its subclasses are frozen dataclasses of plain arrays, numbers and text."""

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
        """A figure of its own, or its panels in the axes that are given, one or a sequence: what is drawn is returned.

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
            flat = list(np.ravel(np.asarray(ax, dtype=object)))
            if self.empty:
                _say(flat[0], self.message)
                return ax
            if len(flat) != self.number:
                raise InputError(f"this figure has {self.number} panels; give it as many axes, not {len(flat)}")
            self.render(flat, None)
            return ax

    def as_dict(self) -> dict[str, Any]:
        """Its data in JSON's terms."""
        found: dict[str, Any] = as_json(asdict(self))  # type: ignore[call-overload]
        return found


_ORDER = {"prior": 1, "simulations": 2, "posterior": 3}


def legend(axes: Sequence[Any], figure: Figure | None, **options: Any) -> None:
    """Below a figure of its own, otherwise in the first of the axes; from the prior to the posterior."""
    entries = sorted(zip(*legend_entries(axes), strict=True), key=lambda entry: _ORDER.get(entry[1], 0))
    handles, labels = [entry[0] for entry in entries], [entry[1] for entry in entries]
    if figure is None:
        axes[0].legend(handles, labels)
    elif handles:
        figure.legend(handles, labels, **{"loc": "outside lower center", "ncols": len(labels), **options})


def _say(ax: Any, message: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, fill(plain(message), 80), ha="center", va="center", transform=ax.transAxes)


def one_run(result: Any) -> None:
    """Refuse a run of many trials."""
    if np.ndim(result.posterior.simulations):
        raise InputError("a run of many trials has no one figure; run it without trials=")
