"""The estimator at the data, with the settings that researchers may want to change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from fbar.checks import share, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.choice import ORDERS, SHARES, STEPS, Step, choose
from fbar.estimation.at_data.nearness import nearest
from fbar.estimation.at_data.posterior import PosteriorAtData
from fbar.estimation.at_data.prepared import LEAST, MOST, Prepared, prepare
from fbar.estimation.at_data.reach import within_reach
from fbar.estimation.simulations import Portion, Simulations
from fbar.weights import effective_size

SHARE, MOST_OF_ALL = 0.2, 400_000
"""The share of a large run's simulations that is used, nearest first, and the largest number."""

PROVISIONAL = 5000
"""Simulations that a provisional estimate chooses its order and region from, at most."""


@dataclass(frozen=True)
class AtData:
    """Estimates at the data from all simulations of a run.

    Parameters
    ----------
    order
        Of the regression that moves draws to the data: 1 or 2, or 0 for none; None chooses.
    region
        The share of the simulations, nearest first, that it is fitted to; None chooses.
    bandwidth
        The share of the region that is weighted at the data; None chooses.
    learn
        Whether summaries are learned from the data where these are many numbers for the parameters, and the user has
        given neither a summary function nor a distance.
    """

    order: int | None = None
    region: float | None = None
    bandwidth: float | None = None
    learn: bool = True

    def __post_init__(self) -> None:
        if self.order is not None and self.order not in ORDERS:
            raise InputError(f"order must be 0, 1 or 2; got {shown(self.order)}")
        for value, name in ((self.region, "region"), (self.bandwidth, "bandwidth")):
            if value is not None and value != 1:
                share(value, name)

    def posterior(self, simulations: Simulations | Portion) -> PosteriorAtData:
        """The posterior at the data, from the simulations that are nearest to them."""
        return self.of(self.prepared(simulations))

    def prepared(self, simulations: Simulations | Portion) -> Prepared:
        """The simulations that are nearest to the data: `MOST`, or of many `SHARE` of them, in working coordinates."""
        if isinstance(simulations, Portion):
            return prepare(simulations)
        observed = simulations.problem.observed
        if observed is None or np.asarray(observed).dtype.kind not in "biuf":
            raise InputError("estimates at the data need summaries that are numbers")
        centre = np.ravel(np.asarray(observed, dtype=np.float64))
        most = max(MOST, min(int(SHARE * len(simulations)), MOST_OF_ALL))
        portion = simulations.selected(most, lambda summaries: nearest(summaries, centre, most))
        return prepare(portion, simulations=len(simulations), most=most)

    def of(self, prepared: Prepared) -> PosteriorAtData:
        """The posterior from simulations in working coordinates.

        Of many simulations, some thousands that are spread evenly over them choose order and region. Where the data
        are many numbers and summaries can be learned from them, these are used: a regression on all the numbers has so
        few neighbours that it does not see its own bias. Where simulations are too few for the summaries, they are
        replaced by ever fewer main directions, with a doubt.
        """
        if len(prepared) > 2 * PROVISIONAL and self.order is None and self.region is None:
            some = prepared.take(np.arange(0, len(prepared), -(-len(prepared) // PROVISIONAL)))
            with suppress(NoPosterior):  # what some of them chose may not do for all: then all choose
                chosen = self.of(some).step.moved
                return replace(self, order=chosen.order, region=chosen.share).of(prepared)
        learnt = prepared.in_learnt_coordinates() if self.learn else None
        found = None if learnt is None else self._chosen(learnt)
        if found is not None:
            return PosteriorAtData(found)
        step, used = self._chosen(prepared), prepared
        while step is None and used.z.shape[1] > 1:
            used = used.in_main_directions(used.z.shape[1] // 2)
            step = self._chosen(used)
        if step is None:
            effective = effective_size(prepared.w)
            worth = f" (effectively {effective:.2g})" if effective < 0.9 * len(prepared) else ""
            raise NoPosterior(
                f"{len(prepared):,} usable simulations{worth} are too few for an estimate at the data; raise the budget"
            )
        return PosteriorAtData(step)

    def _chosen(self, prepared: Prepared) -> Step | None:
        if len(prepared) < LEAST:
            return None
        halves = [0.5**k for k in range(STEPS)]
        orders = ORDERS if self.order is None else (self.order,)
        shares = SHARES if self.region is None else (self.region,)
        steps = halves if self.bandwidth is None else [self.bandwidth * half for half in halves]
        first = self.bandwidth is not None
        step = choose(prepared, shares, orders, steps, first=first)
        if step is None:
            return None
        kept = np.flatnonzero(within_reach(step))
        if not LEAST <= kept.size < len(prepared):
            return step
        again = choose(prepared.take(kept), shares, orders, steps, first=first)
        return step if again is None or again.error >= step.error else again

    def provisional(self, prepared: Prepared) -> PosteriorAtData:
        """An estimate while a run goes on: like `of`, but its order and region are chosen from some thousands of them.

        These are spread evenly over the simulations, so that all rounds are among them. Summaries are taken as they
        were prepared.
        """
        plain = replace(self, learn=False)
        every = -(-len(prepared) // PROVISIONAL)
        if every == 1:
            return plain.of(prepared)
        chosen = plain.of(prepared.take(np.arange(0, len(prepared), every))).step.moved
        return replace(plain, order=chosen.order, region=chosen.share).of(prepared)
