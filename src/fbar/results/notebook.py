"""Small tables for notebooks: escaped, and without colours of their own, so that they suit light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fbar.results.markup import Html, element, join, paragraph

MOST_ROWS = 40
"""Rows of a table, at most."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> Html:
    """An HTML table; the columns in ``numbers`` are set to the right.

    >>> table(["a"], [["x < 2"]]).count("x &lt; 2")
    1
    """
    right = set(numbers)

    def row(cells: Sequence[str], tag: str) -> Html:
        sides = ("right" if place in right else "left" for place in range(len(cells)))
        return element(
            "tr", *(element(tag, text, style=f"text-align:{side}") for text, side in zip(cells, sides, strict=True))
        )

    shown = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS - 1]
    body = [row(cells, "td") for cells in shown]
    if len(shown) < len(rows):
        left = f"and {len(rows) - len(shown):,} more"
        body.append(element("tr", element("td", left, colspan=str(len(columns)))))
    return element("table", element("thead", row(columns, "th")), element("tbody", *body), style="color:inherit")


def warnings(texts: Iterable[str]) -> Html:
    """Each in a line of its own, marked; nothing if there are none."""
    return join((paragraph(element("strong", "warning:"), f" {text}") for text in dict.fromkeys(texts)), "")


def joined(*parts: str) -> Html:
    return element("div", *parts)
