"""The estimator at the data, with the settings that researchers may want to change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fbar.checks import share, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.choice import ORDERS, SHARES, STEPS, choose
from fbar.estimation.at_data.posterior import PosteriorAtData
from fbar.estimation.at_data.prepared import Prepared, prepare
from fbar.estimation.at_data.reach import within_reach
from fbar.estimation.simulations import Portion, Simulations

PROVISIONAL = 5000
"""Simulations that a provisional estimate chooses its order and region from, at most."""


@dataclass(frozen=True)
class AtData:
    """Estimates at the data from all simulations of a run.

    Parameters
    ----------
    order
        Of the regression that moves draws to the data: 1 or 2; None chooses.
    region
        The share of the simulations, nearest first, that it is fitted to; None chooses.
    bandwidth
        The share of the region that is weighted at the data; None chooses.
    """

    order: int | None = None
    region: float | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.order is not None and self.order not in ORDERS:
            raise InputError(f"order must be 1 or 2; got {shown(self.order)}")
        for name in ("region", "bandwidth"):
            value = getattr(self, name)
            if value is not None:
                share(value, name)

    def posterior(self, simulations: Simulations | Portion) -> PosteriorAtData:
        """The posterior at the data."""
        portion = simulations if isinstance(simulations, Portion) else simulations.take()
        return self.of(prepare(portion))

    def of(self, prepared: Prepared) -> PosteriorAtData:
        halves = [0.5**k for k in range(STEPS)]
        orders = ORDERS if self.order is None else (self.order,)
        shares = SHARES if self.region is None else (self.region,)
        steps = halves if self.bandwidth is None else [self.bandwidth * half for half in halves]
        step = choose(prepared, shares, orders, steps)
        if step is None:
            raise NoPosterior(
                f"{len(prepared)} usable simulations are too few for {prepared.z.shape[1]} summaries; raise the budget "
                "or use fewer summaries"
            )
        kept = within_reach(step)
        if not kept.all():
            again = choose(prepared.take(np.flatnonzero(kept)), shares, orders, steps)
            if again is not None and again.error < step.error:
                step = again
        return PosteriorAtData(step)

    def provisional(self, prepared: Prepared) -> PosteriorAtData:
        """An estimate while a run goes on: like `of`, but its order and region are chosen from some thousands of them.

        These are spread evenly over the simulations, so that all rounds are among them.
        """
        every = -(-len(prepared) // PROVISIONAL)
        if every == 1:
            return self.of(prepared)
        chosen = self.of(prepared.take(np.arange(0, len(prepared), every))).step.moved
        return replace(self, order=chosen.order, region=chosen.share).of(prepared)
