"""The help of every command, as the command prints it."""

from __future__ import annotations

import io

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = 84


def printed(*command: str) -> str:
    """What ``fbar COMMAND --help`` prints."""
    from rich.console import Console

    from fbar.cli.commands import app

    paper = io.StringIO()
    app.help_print(command, console=Console(file=paper, width=WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in paper.getvalue().strip().splitlines())


def commands() -> list[str]:
    from fbar.cli.commands import app

    return sorted(name for name in app if not name.startswith("-"))


def listed() -> list[str]:
    """The help as Markdown, a section for each command."""
    found = ["```text", printed(), "```"]
    for command in commands():
        found += ["", f"## fbar {command}", "", "```text", printed(command), "```"]
    return found


class CommandHelp(SphinxDirective):
    """``fbar --help``, then a section for each command that the command line has."""

    def run(self) -> list[nodes.Node]:
        made: list[nodes.Node] = [nodes.literal_block(text=printed(), language="text")]
        for command in commands():
            section = nodes.section(ids=[f"fbar-{command}"], names=[f"fbar {command}"])
            section += nodes.title(text=f"fbar {command}")
            section += nodes.literal_block(text=printed(command), language="text")
            made.append(section)
        return made


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
