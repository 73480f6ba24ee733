"""The figures and tables of "Measuring the accuracy of likelihood-free inference", regenerated: a module for each.

The command line takes `experiment` and `EXPERIMENTS` from here; nothing else imports it.
"""

from __future__ import annotations

from fbar.checks import choice
from fbar.paper.record import Experiment, FigureRecord, Options, PaperClaim, Row

__all__ = ["EXPERIMENTS", "Experiment", "FigureRecord", "Options", "PaperClaim", "Row", "experiment"]

EXPERIMENTS = (
    "fig1",
    "fig2",
    "table3",
    "fig3",
    "fig4",
    "fig5",
    "figS1",
    "figS2",
    "figS3",
    "figS4",
    "figS5",
    "beyond-continuous",
    "beyond-figS5",
    "beyond-systems",
)


def experiment(name: str) -> Experiment:
    """An experiment by its name in the paper."""
    from importlib import import_module

    choice(name, EXPERIMENTS, "experiment")
    found = import_module(f"fbar.paper.{name.replace('-', '_')}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
