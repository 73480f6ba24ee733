"""A recorded run seen at another tolerance, at the data, adjusted or extrapolated, from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from fbar.cli.common import Flag, MaybeNumber
from fbar.errors import InputError
from fbar.results.result import Result


@dataclass(frozen=True)
class View:
    """How a run's simulations are looked at.

    Parameters
    ----------
    at
        Estimates at another tolerance, from the same simulations: any tolerance after targeted and smc; after other
        methods, only one smaller than the run's.
    at_data
        Estimates of the posterior itself, at the data, from the simulations of a run with a tolerance.
    adjusted
        Estimates adjusted by regression on the summaries, at the run's tolerance or that of --at.
    extrapolated
        Estimates extrapolated to tolerance 0, from the run's tolerance (or that of --at) and half of it.
    """

    at: MaybeNumber = None
    at_data: Flag = False
    adjusted: Flag = False
    extrapolated: Flag = False

    def __bool__(self) -> bool:
        return self.at is not None or self.at_data or self.adjusted or self.extrapolated

    def of(self, result: Result) -> Result:
        """What is seen of a result."""
        if self.adjusted and self.extrapolated:
            raise InputError("give either --adjusted or --extrapolated, not both")
        if self.at_data and (self.at is not None or self.adjusted or self.extrapolated):
            raise InputError("--at-data has no tolerance; leave out --at, --adjusted and --extrapolated")
        if self.at_data:
            return result.at_data()
        found = result if self.at is None else result.at(self.at)
        if self.adjusted:
            return found.adjusted()
        return found.extrapolated() if self.extrapolated else found


ViewOf = Annotated[View, Parameter(name="*")]
OWN = View()
"""The run's own estimates."""
