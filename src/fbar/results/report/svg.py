"""Pictures inside a page: matplotlib's SVG that takes the page's colours and its font, light or dark, and is short."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from fbar.plot.look import BLUE, GREEN, GRID, INK, VERMILLION, look, panels
from fbar.results.markup import Html, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.plot.base import Record

SMALL = 2.45, 1.75
"""Inches of a picture that stands in a row with others."""

LARGER = 1.15
"""How much larger than in print a picture is shown, where there is room."""

COLOURS = {INK: "ink", GRID: "line", BLUE: "blue", VERMILLION: "vermillion", GREEN: "green"}
"""Colours that the page has of its own, brighter ones in the dark."""

_number = count()


def small(record: Record, label: str) -> Html:
    """One of several pictures alike, without a legend and names of its axes: the page has them once for all."""

    def made() -> Figure:
        figure, axes = panels(1, 1, width=SMALL[0], height=SMALL[1])
        record.draw(axes[0, 0])
        for ax in figure.axes:
            ax.set(xlabel="", ylabel="")
            if (legend := ax.get_legend()) is not None:
                legend.remove()
        return figure

    return inline(made, label)


def whole(record: Record, label: str, size: tuple[float, float] | None = None) -> Html:
    """A figure of its own, with its legend below."""

    def made() -> Figure:
        figure = record.draw()
        if size is not None:
            figure.set_size_inches(*size)
        drawn: Figure = figure
        return drawn

    return inline(made, label)


def inline(make: Callable[[], Figure], label: str) -> Html:
    """The figure that ``make`` draws, as a part of the page; ``label`` is what a screen reader says."""
    from matplotlib import rc_context

    out = io.StringIO()
    with look(), rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's font has it
        figure = make()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    width = f"max-width: {LARGER * 96 * figure.get_figwidth():.0f}px"
    text = text.replace("<svg", f'<svg role="img" aria-label="{html(label)}" style="{width}"', 1)
    for colour, name in COLOURS.items():
        text = text.replace(colour.lower(), f"var(--{name})")
    # Names inside one picture are not those inside another.
    own = f"p{next(_number)}-"
    text = re.sub(r'\bid="', f'id="{own}', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{own}", text)
    return Html(_shortened(text))


def _shortened(text: str) -> str:
    """Coordinates to a hundredth of a point, text in the page's own font, no empty space."""

    def path(match: re.Match[str]) -> str:
        return re.sub(r"\s+", " ", re.sub(r"(\.\d\d)\d+", r"\1", match[0]))

    text = re.sub(r' d="[^"]*"', path, text)
    text = re.sub(r' (?:x|y)="[^"]*"', path, text)
    text = re.sub(r"font: ([^;\"]*?px) [^;\"]*", _font, text)
    text = re.sub(r"; font-family: [^;\"]*", "", text)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    return re.sub(r">\s+<", "><", text)


def _font(match: re.Match[str]) -> str:
    """Size and weight of a font without its family."""
    words: list[Any] = match[1].split()
    return "; ".join([f"font-size: {words[-1]}", *(f"font-weight: {word}" for word in words[:-1] if word.isdigit())])
