"""One look for all figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fbar.errors import MissingExtra
from fbar.paper.record import Record

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtra("matplotlib", "plot") from error

COLOURS = {
    "targeted": "#7b4ab0",
    "stratified": "#2aa3b8",
    "stratified-design-independent": "#d08a2e",
    "prior": "#3b6fb6",
    "posterior": "#c8452f",
    "max-ess": "#2a8f5c",
    "min-unnormalised-mse": "#9a6a3a",
    "min-mse": "#7b4ab0",
    "ibs": "#666666",
    "max-acceptance": "#3b6fb6",
    "adaptive-posterior": "#c8452f",
    "adaptive-min-mse": "#2a8f5c",
    "min-mse-oracle": "#7b4ab0",
    "local-mvn": "#3b6fb6",
    "uniform": "#c8452f",
    "local-mvn-fast": "#2a8f5c",
    "rejection": "#7b4ab0",
}
MARKERS = {
    "targeted": "o",
    "prior": "D",
    "posterior": "s",
    "max-ess": "^",
    "min-unnormalised-mse": "v",
    "min-mse": "o",
    "adaptive-posterior": "p",
    "adaptive-min-mse": "^",
    "min-mse-oracle": "*",
    "local-mvn": "o",
    "uniform": "D",
    "local-mvn-fast": "s",
    "rejection": "^",
}
LABELS = {
    "targeted": "targeted",
    "stratified": "stratified",
    "stratified-design-independent": "stratified's design,\nindependent draws",
    "prior": "prior",
    "posterior": "posterior",
    "max-ess": "max ESS",
    "min-unnormalised-mse": "min unnormalised MSE",
    "min-mse": "min MSE",
    "ibs": "IBS",
    "max-acceptance": "max acceptance",
    "adaptive-posterior": "adaptive posterior",
    "adaptive-min-mse": "adaptive min MSE",
    "min-mse-oracle": "min MSE (oracle)",
    "local-mvn": "local MVN",
    "uniform": "uniform",
    "local-mvn-fast": "local MVN, fast ε",
    "rejection": "rejection",
}

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


def render(draw: Callable[[Record], Figure], record: Record, stem: Path) -> list[Path]:
    """Draw a record and save PNG and SVG beside each other; the same data give the same bytes."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context(RC):
        figure = draw(record)
        figure.savefig(paths[0], dpi=160, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths
