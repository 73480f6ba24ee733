"""How the estimates of a run came about: moments at which it was looked at, as its simulations grew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fbar.errors import FbarError
from fbar.estimation.estimate import Estimate, Estimates
from fbar.estimation.posterior import Posterior

if TYPE_CHECKING:
    from fbar.methods.run import Run

GROWTH = 1.5
"""Simulations at a moment over those at the one before, at least: looks are few, and evenly spread on a log scale."""

AT_DATA_GROWTH = 1.25
"""The same for runs that answer at the data, where stopping rules and forecasts read these moments; with a budget it is
as after many acceptances, since each look takes long."""

MANY, MANY_GROWTH = 20_000, 2.0
"""After so many acceptances looks are rarer: there is less to be seen, and each takes longer."""


@dataclass(frozen=True, eq=False)
class Moment:
    """A run at the end of a round. ``tolerance`` is that of the estimates, None where there is none above 0."""

    simulations: int
    round: int
    tolerance: float | None
    accepted: float
    ess: float | None
    estimates: Estimates

    def estimate(self, name: str) -> Estimate | None:
        """A target's estimate; None for one that was not asked for then."""
        return next((estimate for estimate in self.estimates if estimate.name == name), None)


class Recorder:
    """Fills ``run.history`` while a run is driven. Numbers of simulations decide when, and never a clock."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next = _next(run) if run.history else 1.0
        self._looked = -1

    def round_ended(self) -> None:
        """Look if simulations have grown enough since the last moment."""
        run = self._run
        if run.simulations < self._next:
            return
        if run.at_data:
            self._look(run.provisional_posterior)
        elif not run.posterior_is_slow:
            self._look(run.peek)

    def run_ended(self) -> None:
        """Look once more, unless nothing was told since; at the data, where looks are provisional, in any case."""
        if self._run.simulations > (0 if self._run.at_data else max(self._looked, 0)):
            self._look(self._run.posterior)

    def _look(self, take: Callable[[], Posterior]) -> None:
        run = self._run
        self._looked = run.simulations
        if run.trials is not None:
            return  # each has a number of simulations of its own
        try:
            posterior = take()
            estimates = posterior.expect(list(run.targets))
        except FbarError:  # too early for a posterior or a target; if that is so at the end, the result says why
            return
        if run.history and run.history[-1].simulations == run.simulations:
            run.history.pop()  # the run was extended, and what is asked for now needed no simulation
        ess = posterior.ess
        run.history.append(
            Moment(
                run.simulations,
                run.round,
                run.reported_tolerance,
                float(posterior.accepted),
                None if ess is None else float(ess),
                estimates,
            )
        )
        self._next = _next(run)


def _next(run: Run) -> float:
    last = run.history[-1]
    if run.at_data and run.budget is None:
        return AT_DATA_GROWTH * last.simulations
    return (MANY_GROWTH if run.at_data or last.accepted > MANY else GROWTH) * last.simulations
