"""A table of all methods that have a name, from their registrations when the pages are built."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fbar.methods import registered

HEADINGS = ("name", "what it does", "needs")


def rows() -> list[tuple[str, str, str]]:
    return [(entry.name, entry.title, entry.needs) for entry in registered().values()]


class MethodsByName(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        table = nodes.table()
        group = nodes.tgroup(cols=len(HEADINGS))
        table += group
        group += [nodes.colspec(colwidth=width) for width in (20, 60, 30)]
        group += nodes.thead("", _row([nodes.Text(heading) for heading in HEADINGS]))
        body = nodes.tbody()
        for name, title, needs in rows():
            body += _row([nodes.literal(text=name), nodes.Text(title), nodes.Text(needs)])
        group += body
        return [table]


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("methods-by-name", MethodsByName)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
