"""The map of the house in CONTRIBUTING, drawn from the real imports: ``python docs/_ext/house.py docs/house.svg``.

Rows are the layers of ``pyproject.toml``, boxes the rooms with the first sentence of their own docstring. Arrows are
the imports between rooms, without those that follow from others.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fbar"

WIDTH, MARGIN, GAP = 1180, 16, 14
LINE, NAME_HEIGHT, ROW_GAP = 15, 24, 34
LETTER = 6.3
"""The width of a letter of the sentences, roughly."""


@dataclass(frozen=True)
class Room:
    """A package or module at the top of fbar."""

    name: str
    words: str

    @classmethod
    def of(cls, name: str) -> Room:
        package = SOURCE / name
        file = package / "__init__.py" if package.is_dir() else SOURCE / f"{name}.py"
        words = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
        first = " ".join(words.split()).split(". ")[0].rstrip(".")
        return cls(f"{name}/" if package.is_dir() else f"{name}.py", first)


def layers() -> list[list[str]]:
    """The rooms of every layer, top to bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rows = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip(" ()") for name in row.replace(":", "|").split("|")] for row in rows]


def imports(rooms: Iterable[str]) -> dict[str, set[str]]:
    """Which rooms each room imports from, at run time."""
    graph = grimp.build_graph("fbar", exclude_type_checking_imports=True, cache_dir=None)
    known = set(rooms)
    found: dict[str, set[str]] = {name: set() for name in known}
    for module in graph.modules:
        room = module.split(".")[1] if "." in module else ""
        for other in graph.find_modules_directly_imported_by(module):
            to = other.split(".")[1] if "." in other else ""
            if room in known and to in known and to != room:
                found[room].add(to)
    return found


def without_shortcuts(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""

    def reached(name: str) -> set[str]:
        found, waiting = set[str](), list(edges[name])
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting.extend(edges[at])
        return found

    below = {name: reached(name) for name in edges}
    return sorted((a, b) for a, others in edges.items() for b in others if not any(b in below[c] for c in others - {b}))


def svg() -> str:
    """The picture."""
    rows = [[Room.of(name) for name in row] for row in layers()]
    base = set(layers()[-1])
    edges = imports(name for row in layers() for name in row)
    arrows = [(a, b) for a, b in without_shortcuts(edges) if not {a, b} <= base]
    parts: list[str] = []
    place: dict[str, tuple[float, float, float, float]] = {}
    top = float(MARGIN)
    for row in rows:
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        wrapped = [textwrap.wrap(room.words, max(int((width - 16) / LETTER), 12)) for room in row]
        height = NAME_HEIGHT + LINE * max(len(lines) for lines in wrapped) + 12
        for number, (room, lines) in enumerate(zip(row, wrapped, strict=True)):
            left = MARGIN + number * (width + GAP)
            place[room.name.removesuffix("/").removesuffix(".py")] = (left, top, width, height)
            parts.append(_box(room, lines, left, top, width, height))
        top += height + ROW_GAP
    drawn = [_arrow(place[a], place[b]) for a, b in arrows]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif">',
            "<title>The rooms of fbar, in layers; arrows are imports</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#6b7a8f"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{top:.0f}" fill="#ffffff"/>',
            *drawn,
            *parts,
            "</svg>\n",
        ]
    )


def _box(room: Room, lines: list[str], left: float, top: float, width: float, height: float) -> str:
    words = "".join(
        f'<text x="{left + 8:.0f}" y="{top + NAME_HEIGHT + 12 + LINE * number:.0f}" font-size="12" fill="#333333">'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    )
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" fill="#eef3f9" '
        f'stroke="#3b6ea5"/><text x="{left + 8:.0f}" y="{top + 18:.0f}" font-size="14" font-weight="bold" '
        f'fill="#1d3c5e">{escape(room.name)}</text>{words}'
    )


def _arrow(start: tuple[float, float, float, float], end: tuple[float, float, float, float]) -> str:
    x, y = start[0] + start[2] / 2, start[1] + start[3]
    to_x, to_y = end[0] + end[2] / 2, end[1]
    bend = (to_y - y) / 2
    return (
        f'<path d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} {to_x:.0f},{to_y - bend:.0f} {to_x:.0f},{to_y - 2:.0f}" '
        'fill="none" stroke="#9aa9bc" marker-end="url(#tip)"/>'
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(), encoding="utf-8")
