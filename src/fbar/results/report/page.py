"""One self-contained HTML page: no script, nothing from elsewhere, light and dark, on a phone and on paper."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fbar.checks import one_line
from fbar.checks import path as as_path
from fbar.errors import FbarError
from fbar.results.markup import Html, element, html, join, paragraph
from fbar.system.files import write_text

SHORT_NAME = 16
"""Letters that need not be broken on a phone."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may load for the page: nothing."""

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ctext x='3' y='13' font-size='13' font-style='italic' fill='%230072B2'%3Ef%3C/text%3E"
    "%3Cpath d='M4 2h9' stroke='%230072B2'/%3E%3C/svg%3E"
)


def table(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    left: int = 1,
    caption: str = "",
    words: Collection[int] | None = None,
) -> Html:
    """The first ``left`` columns are words, or those that are in ``words``; the others are numbers."""
    to_left = range(left) if words is None else words

    def row(cells: Sequence[object], name: str) -> Html:
        return element(
            "tr",
            *(
                element(name, cell, **({} if place in to_left else {"class_": "number"}))
                for place, cell in enumerate(cells)
            ),
        )

    title = paragraph(caption, class_="soft") if caption else Html("")
    body = element("tbody", *(row(cells, "td") for cells in rows))
    return Html(title + element("div", element("table", element("thead", row(head, "th")), body), class_="wide"))


def breakable(name: str) -> Html:
    """A target's name, which a browser may break after its punctuation where it is long, and not within a word."""
    if len(name) <= SHORT_NAME:
        return html(name)
    return Html("".join(f"{html(part)}<wbr>" for part in re.split(r"(?<=[:,_|])", name)).removesuffix("<wbr>"))


def notes(texts: Iterable[object], kind: str = "note") -> Html:
    """Warnings (``kind`` "warning") or remarks, one under the other."""
    return join(paragraph(text, class_=kind) for text in texts)


def figures(pictures: Sequence[Html], caption: object = "", kind: str = "panels") -> Html:
    """Pictures side by side where there is room (``kind`` "panels"), or one as wide as the page ("whole")."""
    if not pictures:
        return Html("")
    under = element("figcaption", caption) if caption else ""
    return element("figure", element("div", *pictures, class_=kind), under)


def details(summary: object, *children: object) -> Html:
    return element("details", element("summary", summary), *children)


def keys(entries: Mapping[str, str]) -> Html:
    """A legend for several pictures: words, each with the page's colour of that name."""
    return element("span", *(element("span", words, class_=f"key {name}") for words, name in entries.items()))


def split_table(
    head: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    left: int = 1,
    most: int = 20,
    words: Collection[int] | None = None,
) -> Html:
    """A table whose rows beyond ``most`` are folded."""
    if len(rows) <= most:
        return table(head, rows, left=left, words=words)
    more = details(f"{len(rows) - most:,} more rows", table(head, rows[most:], left=left, words=words))
    return join([table(head, rows[:most], left=left, words=words), more])


@dataclass(frozen=True)
class Section:
    """A part of the page, by its name in the table of contents; one that is ``folded`` shows its title and a line."""

    name: str
    title: str
    body: Html
    folded: bool = False
    line: object = ""

    @property
    def html(self) -> Html:
        title = element("h2", self.title)
        if not self.folded:
            return element("section", title, self.body, id=self.name)
        head = element("summary", title, element("span", self.line, class_="soft"))
        return element("section", element("details", head, self.body, class_="part"), id=self.name)


def page(title: str, subtitle: object, sections: Sequence[Section], foot: object) -> str:
    contents = element("nav", *(element("a", s.title, href=f"#{s.name}") for s in sections))
    parts = [section.html for section in sections]
    style = files("fbar.results.report").joinpath("style.css").read_text(encoding="utf-8")
    head = "".join(
        [
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<link rel="icon" href="{ICON}">',
            f"<title>{html(title)}</title>",
            f"<style>{style}</style>",
        ]
    )
    under = paragraph(subtitle, class_="subtitle") if subtitle else Html("")
    header = element("header", element("h1", title), under)
    body = f"{header}{contents}<main>{''.join(parts)}</main>{element('footer', foot)}"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def write(path: str | Path, text: str) -> Path:
    file = as_path(path, "path")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
    except OSError as error:
        raise FbarError(f"cannot write the report to {one_line(file)}: {error.strerror or error}") from None
    return file
