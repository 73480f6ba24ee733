"""One look for all figures of the project."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from fbar.errors import MissingExtra
from fbar.system.files import written_beside

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtra("matplotlib", "plot") from error

Data = TypeVar("Data")

# ---------------------------------------------------------------- colours

INK, GRID, PAPER = "#1f2328", "#d0d7de", "none"
"""Text and axes, grid lines, background. Nothing else has these colours, so that a page may replace them by its own."""

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
OLIVE, GREY = "#999933", "#8a8f98"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, OLIVE, GREY)
"""Okabe and Ito's colours, which colour-blind readers can tell apart, without those that are lost on black or white."""

MARKS = "osD^vP*X"

PRIOR, SIMULATIONS, POSTERIOR, OBSERVED = GREY, ORANGE, BLUE, VERMILLION

_KNOWN = {
    "targeted": (BLUE, "o"),
    "optimal": (BLUE, "*"),
    "min-mse": (BLUE, "*"),
    "allocation-optimal": (BLUE, "*"),
    "rejection": (ORANGE, "D"),
    "prior": (ORANGE, "D"),
    "allocation-prior": (ORANGE, "D"),
    "posterior": (VERMILLION, "s"),
    "allocation-posterior": (VERMILLION, "s"),
    "adaptive-posterior": (VERMILLION, "p"),
    "max-ess": (GREEN, "^"),
    "allocation-max-ess": (GREEN, "^"),
    "adaptive": (GREEN, "d"),
    "smc": (PURPLE, "P"),
    "smc-last": (OLIVE, "v"),
    "smc-ess": (SKY, "X"),
    "importance": (SKY, "h"),
    "stratified": (SKY, "<"),
    "inverse-binomial": (GREY, ">"),
    "default": (VERMILLION, "*"),
    "pmc": (SKY, "o"),
    "adaptive-weights": (SKY, "^"),
    "smc-replicas": (PURPLE, "X"),
    "mcmc": (GREEN, "o"),
    "synthetic-likelihood-mcmc": (GREEN, "s"),
    "synthetic-likelihood": (OLIVE, "D"),
    "density": (OLIVE, "^"),
    "pseudo-marginal": (OLIVE, "o"),
    "until-match": (OLIVE, "X"),
    "multilevel": (GREY, "v"),
    "multifidelity": (GREY, "D"),
    "bolfi": (ORANGE, "o"),
    "bolfi-eiv": (ORANGE, "^"),
    "pyabc": (OLIVE, "s"),
    "sbi": (GREY, "s"),
}


def method_look(name: str, among: Iterable[str] = ()) -> dict[str, str]:
    """The colour and marker of a method, the same in every figure.

    Methods of other names get theirs from the name, or where all methods of a figure are known (``among``) in turn from
    what the others leave.

    >>> method_look("targeted")
    {'color': '#0072B2', 'marker': 'o'}
    """
    if name in _KNOWN:
        colour, mark = _KNOWN[name]
        return {"color": colour, "marker": mark}
    among = list(dict.fromkeys(among))
    if name not in among:
        number = crc32(name.encode())
        return {"color": PALETTE[number % len(PALETTE)], "marker": MARKS[number // 8 % len(MARKS)]}
    used = [_KNOWN[other][0] for other in among if other in _KNOWN]
    order = sorted(range(len(PALETTE)), key=lambda i: (used.count(PALETTE[i]), i))
    index = [other for other in among if other not in _KNOWN].index(name)
    turn, place = divmod(index, len(PALETTE))
    return {"color": PALETTE[order[place]], "marker": MARKS[(place + 3 * turn) % len(MARKS)]}


# ---------------------------------------------------------------- text and axes

LONGEST = 40
"""Characters of a name in a picture, at most."""

RC: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.hashsalt": "fbar",
    "svg.fonttype": "path",
}


def look() -> AbstractContextManager[None]:
    """Within it figures are made and saved in this look."""
    found: AbstractContextManager[None] = mpl.rc_context(RC)
    return found


def plain(text: Any) -> str:
    r"""Text that is shown as it stands: names are not formulas, and a name with an underscore in front is no secret.

    >>> plain("a$b$"), plain("_x")
    ('a\\$b\\$', ' _x')
    """
    text = re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", str(text)).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # matplotlib leaves such labels out of legends


def short(name: Any) -> str:
    """A name in one line, cut where it would leave a picture no room.

    >>> short("a\\nb"), len(short("x" * 300))
    ('a b', 40)
    """
    text = " ".join(str(name).split("\n"))
    return plain(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


class Picture(Figure):
    """A figure of no window and no global state, that notebooks show."""

    def savefig(self, fname: Any, *, transparent: bool | None = None, **options: Any) -> None:
        """As matplotlib's, on white unless told otherwise."""
        if not transparent:
            options.setdefault("facecolor", "white")
        super().savefig(fname, transparent=transparent, **options)

    def _repr_png_(self) -> bytes:
        with look():
            file = io.BytesIO()
            self.savefig(file, dpi=110, format="png")
        return file.getvalue()


def panels(rows: int, columns: int, *, width: float = 7.2, height: float = 3.0, **options: Any) -> tuple[Figure, Any]:
    """A figure with a grid of axes, lettered (a), (b), … by `letter`."""
    figure = Picture(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def letter(axes: Any, titles: list[str]) -> None:
    """Titles (a), (b), … in reading order."""
    for index, (ax, title) in enumerate(zip(np.ravel(axes), titles, strict=False)):
        ax.set_title(f"({chr(97 + index)}) {title}", loc="left")


def render(draw: Callable[[Data], Figure], record: Data, stem: Path) -> list[Path]:
    """Draw a record and save PNG and SVG beside each other; the same data give the same bytes."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with look():
        figure = draw(record)
        with written_beside(paths[0]) as new:
            figure.savefig(new, dpi=160, facecolor="white", metadata={"Software": None})
        with written_beside(paths[1]) as new:
            figure.savefig(new, facecolor="white", metadata={"Date": None, "Creator": None})
    return paths


LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e6
"""Between these, ticks of a long logarithmic axis are plain numbers; elsewhere they are powers of ten."""


def decimal_ticks(axis: Any) -> None:
    """Of a logarithmic axis: ticks at 1, 2 and 5 of every decade, on a long one only decades; as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    short = high / low < 50
    if high / low < 4:
        axis.set_major_locator(MaxNLocator(4))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=9))
    axis.set_minor_formatter(NullFormatter())
    if short or (low > LEAST_PLAIN and high < MOST_PLAIN):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < MOST_PLAIN else f"{value:g}"))


def legend_entries(axes: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """One handle for each label in any of the axes."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
