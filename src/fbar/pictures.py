"""One look for all figures of the project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fbar.errors import MissingExtra

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtra("matplotlib", "plot") from error

Data = TypeVar("Data")

RC: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.hashsalt": "fbar",
    "svg.fonttype": "path",
}


def panels(rows: int, columns: int, *, width: float = 7.2, height: float = 3.0, **options: Any) -> tuple[Figure, Any]:
    """A figure with a grid of axes, lettered (a), (b), … by `letter`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def letter(axes: Any, titles: list[str]) -> None:
    """Titles (a), (b), … in reading order."""
    for index, (ax, title) in enumerate(zip(np.ravel(axes), titles, strict=False)):
        ax.set_title(f"({chr(97 + index)}) {title}", loc="left")


def render(draw: Callable[[Data], Figure], record: Data, stem: Path) -> list[Path]:
    """Draw a record and save PNG and SVG beside each other; the same data give the same bytes."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context(RC):
        figure = draw(record)
        figure.savefig(paths[0], dpi=160, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths
