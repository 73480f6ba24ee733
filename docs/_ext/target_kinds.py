"""The kinds of targets as a table, made from what is registered when the pages are built."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fbar.question.targets import registered


def listed() -> list[str]:
    """The table in Markdown, a row for each kind."""
    kinds = registered().values()
    rows = [f"| `{kind.text}` | `{kind.example}` | {kind.title.replace('|', chr(92) + '|')} |" for kind in kinds]
    return ["| written | example | what it is |", "|---|---|---|", *rows]


class TargetKinds(SphinxDirective):
    """How every kind of target is written, an example, and what it is."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(listed()))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("target-kinds", TargetKinds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
