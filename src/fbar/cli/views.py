"""A recorded run seen at another tolerance, adjusted or extrapolated, from the command line."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fbar.cli.common import Flag, MaybeNumber
from fbar.errors import InputError
from fbar.results.result import Result

NOT_RECORDED = "RUN"
"""Stands for the directory of a run that has none."""

_METHOD = re.compile(r"result\.(adjusted|extrapolated)\(\)")


@dataclass(frozen=True)
class View:
    """How a run's simulations are looked at.

    Parameters
    ----------
    at
        The estimates at another tolerance, from the same simulations: any after targeted and smc, a smaller one than
        the run's after others.
    adjusted
        The estimates adjusted by regression on the summaries, at the run's tolerance or the one of --at.
    extrapolated
        The estimates extrapolated to tolerance 0, from the run's tolerance or the one of --at, and half of it.
    """

    at: MaybeNumber = None
    adjusted: Flag = False
    extrapolated: Flag = False

    def __bool__(self) -> bool:
        return self.at is not None or self.adjusted or self.extrapolated

    def of(self, result: Result) -> Result:
        """What is seen of a result."""
        if self.adjusted and self.extrapolated:
            raise InputError("give either --adjusted or --extrapolated, not both")
        found = result if self.at is None else result.at(self.at)
        if self.adjusted:
            return found.adjusted()
        return found.extrapolated() if self.extrapolated else found


ViewOf = Annotated[View, Parameter(name="*")]
OWN = View()
"""The run's own estimates."""


def spoken(text: str, run: Path | None) -> str:
    """A text that names methods of Python, with the commands that do the same."""
    where = NOT_RECORDED if run is None else shlex.quote(str(run))
    found, changed = _METHOD.subn(rf"fbar show {where} --\1", text)
    if changed and run is None:
        found += f" (record the run with --run {NOT_RECORDED})"
    return found


def spoken_json(tree: Any, run: Path | None) -> Any:
    """The same in all warnings of a result or of a recorded run."""
    if isinstance(tree, list):
        return [spoken_json(item, run) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: [spoken(text, run) for text in value] if key == "warnings" else spoken_json(value, run)
        for key, value in tree.items()
    }
