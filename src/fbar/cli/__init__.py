"""The command line."""

from fbar.cli.app import app, main

__all__ = ["app", "main"]
