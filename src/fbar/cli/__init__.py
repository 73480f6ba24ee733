"""The command line: a file for each group of commands, one line for every error.

Nothing imports from here but ``python -m fbar``, which takes `main`.
"""

from fbar.cli.commands import app, main

__all__ = ["app", "main"]
