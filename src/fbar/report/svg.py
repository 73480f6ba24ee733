"""Pictures inside a page: matplotlib's SVG that takes the page's colours, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import count
from typing import Any

from fbar.pictures import GRID, INK, RC, Figure, mpl
from fbar.report.page import Html, html

PANEL = 3.5, 2.45
"""Inches of a picture that stands beside others."""

_number = count()


def panel(draw: Callable[..., Any], label: str, size: tuple[float, float] = PANEL) -> Html:
    """One picture, drawn on the axes that ``draw`` takes as ``ax``; ``label`` is what a screen reader says."""

    def made() -> Figure:
        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.subplots())
        return figure

    return inline(made, label)


def inline(make: Callable[[], Figure], label: str) -> Html:
    """The figure that ``make`` draws, as a part of the page."""
    out = io.StringIO()
    with mpl.rc_context(RC):
        figure = make()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace("<svg", f'<svg role="img" aria-label="{html(label)}"', 1)
    text = text.replace(INK, "var(--ink)").replace(GRID, "var(--line)")
    # Names inside one picture are not those inside another.
    own = f"p{next(_number)}-"
    text = re.sub(r'\bid="', f'id="{own}', text)
    return Html(re.sub(r'(href="#|url\(#)', rf"\g<1>{own}", text))
