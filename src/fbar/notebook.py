"""Small tables for notebooks: escaped, and without colours of their own, so that they suit light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 40
"""Rows of a table, at most."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """An HTML table; the columns in ``numbers`` are set to the right.

    >>> table(["a"], [["x < 2"]]).count("x &lt; 2")
    1
    """
    right = set(numbers)

    def row(cells: Sequence[str], tag: str) -> str:
        made = (
            f'<{tag} style="text-align:{"right" if place in right else "left"}">{escape(text)}</{tag}>'
            for place, text in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    shown = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS - 1]
    body = "".join(row(cells, "td") for cells in shown)
    if len(shown) < len(rows):
        body += f'<tr><td colspan="{len(columns)}">and {len(rows) - len(shown):,} more</td></tr>'
    return f'<table style="color:inherit"><thead>{row(columns, "th")}</thead><tbody>{body}</tbody></table>'


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def warnings(texts: Iterable[str]) -> str:
    """Each in a line of its own, marked; nothing if there are none."""
    return "".join(f"<p><strong>warning:</strong> {escape(text)}</p>" for text in dict.fromkeys(texts))


def joined(*parts: str) -> str:
    return f"<div>{''.join(parts)}</div>"
