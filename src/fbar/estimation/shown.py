"""Numbers that notebooks show as tables, without numerics that know of tables."""

from __future__ import annotations

from importlib import import_module

NOTEBOOK = "fbar.results.notebook"
"""Where the tables are made: a room above this one, loaded when a notebook asks, and imported by no numerics."""


class ShownInNotebooks:
    """Shown as `fbar.results.notebook.as_html` shows its type."""

    def _repr_html_(self) -> str:
        html: str = import_module(NOTEBOOK).as_html(self)
        return html
