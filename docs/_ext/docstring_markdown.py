"""Docstrings as Markdown that reads well as text: numpy's sections, examples, literal blocks."""

from __future__ import annotations

import re
import textwrap

LISTED = ("Parameters", "Attributes", "Returns", "Raises", "Yields")
CODE = re.compile(r"(``.*?``|`[^`]*`)")
STAR = re.compile(r"\*(?=\w)|(?<!\w)\*(?=\S)")  # where it could begin an emphasis
EMPHASIS = re.compile(r"(?<![\w*])\*\w(?:[^*]*[\w.])?\*(?![\w*])")


def markdown(docstring: str) -> str:
    """The text of a docstring.

    >>> print(markdown("The *best* share p*q.\\n\\nParameters\\n----------\\nq, r\\n    Two\\n    numbers."))
    The *best* share p\\*q.
    <BLANKLINE>
    **Parameters**
    <BLANKLINE>
    - `q`, `r`: Two numbers.
    """
    lines = docstring.strip("\n").split("\n")
    made: list[str] = []
    at = 0
    while at < len(lines):
        if at + 1 < len(lines) and lines[at].strip() and re.fullmatch(r"-{3,}", lines[at + 1]):
            made += [f"**{lines[at]}**", ""]
            at += 2
            if lines[at - 2] in LISTED:
                items, at = _items(lines, at)
                made += [*items, ""]
        elif lines[at].startswith(">>>"):
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            made += ["```pycon", *lines[at:end], "```"]
            at = end
        elif lines[at].startswith("    ") and made[-1:] == [""]:
            end = next((i for i in range(at, len(lines)) if lines[i].strip() and lines[i][0] != " "), len(lines))
            made += ["```text", *textwrap.dedent("\n".join(lines[at:end])).rstrip("\n").split("\n"), "```", ""]
            at = end
        elif lines[at].strip():
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            made.append(prose(re.sub(r"::$", ":", "\n".join(lines[at:end]))))
            at = end
        else:
            made.append("")
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(made)).strip("\n")


def _items(lines: list[str], start: int) -> tuple[list[str], int]:
    """The entries of a section as a list, up to what is not one."""
    found: list[str] = []
    at = start
    while at < len(lines) and lines[at].strip() and not lines[at].startswith((" ", ">>>")):
        if at + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[at + 1]):
            break  # the next section
        name = lines[at]
        at += 1
        words: list[str] = []
        while at < len(lines) and (lines[at].startswith(" ") or (not lines[at].strip() and _goes_on(lines, at))):
            words.append(lines[at].strip())
            at += 1
        names = ", ".join(f"`{part.strip()}`" for part in name.split(","))
        found.append(f"- {names}: {prose(' '.join(filter(None, words)))}" if words else f"- {prose(name)}")
        while at < len(lines) and not lines[at].strip():
            at += 1
    return found, at


def _goes_on(lines: list[str], at: int) -> bool:
    """Whether the next line that is not blank still belongs to the entry."""
    return next((line.startswith(" ") for line in lines[at:] if line.strip()), False)


def prose(text: str) -> str:
    """Text in which stars and angle brackets are themselves; code and emphasis stay."""
    return "".join(part if part.startswith("`") else _escaped(part) for part in CODE.split(text))


def _escaped(text: str) -> str:
    kept = EMPHASIS.findall(text)
    parts = EMPHASIS.split(text)
    escaped = [re.sub(r"<(?=[A-Za-z/!])", r"\\<", re.sub(STAR, r"\\*", part)) for part in parts]
    return "".join(part + (kept[i] if i < len(kept) else "") for i, part in enumerate(escaped))
