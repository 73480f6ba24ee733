"""The help of every command, as the command prints it when the pages are built."""

from __future__ import annotations

import os
import subprocess
import sys

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = 84


def printed(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "fbar", *arguments, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment,
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


class CommandHelp(SphinxDirective):
    """``fbar --help``, then a section for each command that the command line has."""

    def run(self) -> list[nodes.Node]:
        from fbar.cli.commands import app

        made: list[nodes.Node] = [nodes.literal_block(text=printed(), language="text")]
        for command in sorted(name for name in app if not name.startswith("-")):
            section = nodes.section(ids=[f"fbar-{command}"], names=[f"fbar {command}"])
            section += nodes.title(text=f"fbar {command}")
            section += nodes.literal_block(text=printed(command), language="text")
            made.append(section)
        return made


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
