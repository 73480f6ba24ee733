"""Pictures inside a page: matplotlib's SVG that takes the page's colours, light or dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from fbar.plot.look import BLUE, GREEN, GRID, INK, VERMILLION, look
from fbar.results.markup import Html, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = 3.5, 2.45
"""Inches of a picture that stands beside others."""

LARGER = 1.15
"""How much larger than in print a picture is shown, where there is room."""

COLOURS = {INK: "ink", GRID: "line", BLUE: "blue", VERMILLION: "vermillion", GREEN: "green"}
"""Colours that the page has of its own, brighter ones in the dark."""

_number = count()


def panel(draw: Callable[..., Any], label: str, size: tuple[float, float] = PANEL) -> Html:
    """One picture, drawn on the axes that ``draw`` takes as ``ax``; ``label`` is what a screen reader says."""

    def made() -> Figure:
        from matplotlib.figure import Figure  # `fbar.plot.look` says so where it is missing

        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.subplots())
        return figure

    return inline(made, label)


def inline(make: Callable[[], Figure], label: str) -> Html:
    """The figure that ``make`` draws, as a part of the page."""
    out = io.StringIO()
    with look(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page itself has the name in its text
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
    return Html(re.sub(r'(href="#|url\(#)', rf"\g<1>{own}", text))
