"""HTML from text: what is not HTML already is escaped when it meets it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(text: object) -> Html:
    """Any text as HTML; control characters are dropped, which no browser would show, and halves of characters marked.

    >>> html("a < b"), html(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    if isinstance(text, Html):
        return text
    return Html(escape(_shown(str(text))))


def _shown(text: str) -> str:
    return re.sub(r"[\ud800-\udfff]", "\ufffd", re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text))


def element(name: str, *children: object, **attributes: str) -> Html:
    """<name attributes>children</name>; an attribute is written class_ where Python has the word for itself."""
    given = "".join(f' {key.rstrip("_")}="{escape(_shown(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{''.join(html(child) for child in children)}</{name}>")


def paragraph(*children: object, **attributes: str) -> Html:
    return element("p", *children, **attributes)


def join(parts: Iterable[object], by: str = "\n") -> Html:
    return Html(by.join(html(part) for part in parts))
