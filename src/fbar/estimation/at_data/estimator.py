"""The estimator at the data, with the settings that researchers may want to change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fbar.checks import share, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.choice import ENOUGH, ORDERS, SHARES, STEPS, Step, choose, choose_from
from fbar.estimation.at_data.loss_at_unusual_data import charged
from fbar.estimation.at_data.nearness import nearest
from fbar.estimation.at_data.posterior import PosteriorAtData
from fbar.estimation.at_data.prepared import LEAST, MOST, Prepared, prepare
from fbar.estimation.at_data.reach import within_reach
from fbar.estimation.simulations import Portion, Simulations
from fbar.weights import effective_size

SHARE, MOST_OF_ALL = 0.2, 400_000
"""The share of a large run's simulations that is used, nearest first, and the largest number."""

CHOOSING, CHOOSING_ON_THE_WAY = 5000, 2500
"""Simulations that order, region and reach are chosen from where they are many; and for the rounds of a long run."""

WITHIN_REACH = 4.0
"""An estimate from the simulations within reach is preferred unless its squared error is larger by this factor, where
it rests on `ENOUGH` effective simulations; otherwise where its error is smaller."""

LONG = 10_000
"""A run of more simulations is long."""


@dataclass(frozen=True)
class AtData:
    """Estimates at the data from all simulations of a run.

    Parameters
    ----------
    order
        Of the regression that moves draws to the data: 1, 2 or 3, or 0 for none; None chooses.
    region
        The share of the simulations, nearest first, that it is fitted to; None chooses.
    bandwidth
        The share of the region that is weighted at the data; None chooses.
    learn
        Whether summaries are learned from the data where these are many numbers for the parameters, and the user has
        given neither a summary function nor a distance.
    choosing
        The largest number of simulations that all choose order and region; of more, some thousands do.
    search
        Whether all simulations then compare that choice with other orders and with smaller regions.
    """

    order: int | None = None
    region: float | None = None
    bandwidth: float | None = None
    learn: bool = True
    choosing: int = 2 * CHOOSING
    search: bool = True

    def __post_init__(self) -> None:
        if self.order is not None and self.order not in ORDERS:
            raise InputError(f"order must be 0, 1, 2 or 3; got {shown(self.order)}")
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
        portion = simulations.selected(most, lambda summaries, rows: nearest(summaries, centre, most, rows))
        return prepare(portion, simulations=len(simulations), most=most)

    def of(self, prepared: Prepared) -> PosteriorAtData:
        """The posterior from simulations in working coordinates.

        Where the data are many numbers and summaries can be learned from them, these are used: a regression on all the
        numbers has so few neighbours that it does not see its own bias. Where simulations are too few for the
        summaries, they are replaced by ever fewer main directions, with a doubt.
        """
        learned = prepared.in_learned_coordinates() if self.learn else None
        found = None if learned is None else self._chosen(learned)
        if found is not None:
            return PosteriorAtData(found, replace(self, learn=False))
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
        return PosteriorAtData(step, replace(self, learn=False))

    def _chosen(self, prepared: Prepared) -> Step | None:
        """The step of least total error; None where there are too few simulations for any."""
        step = self._of_many(prepared)
        return step if step is None or prepared.learned is None else charged(step)

    def _of_many(self, prepared: Prepared) -> Step | None:
        """The step of least total error.

        Of many simulations, some thousands that are spread evenly over them, so that all rounds are among them, choose
        order, region and reach. Their choice is one for the error that so few have: from there all simulations search
        on.
        """
        if len(prepared) < LEAST:
            return None
        if len(prepared) > self.choosing and self.order is None and self.region is None:
            some = prepared.take(np.arange(0, len(prepared), -(-len(prepared) // min(self.choosing, CHOOSING))))
            step = self._of_least_error(some)
            if step is not None:
                whole = step.moved.prepared is some
                kept = prepared if whole else prepared.take(np.flatnonzero(within_reach(step, prepared)))
                found = self._searched(kept, step.moved.order, step.moved.share)
                if found is not None and whole and self.search:
                    found = self._within_reach_of(found, prepared)
                if found is not None:  # what some of them chose may not do for all: then all choose
                    return found
        return self._of_least_error(prepared)

    def _within_reach_of(self, step: Step, prepared: Prepared) -> Step:
        """The step, or the one that a search from it finds among the simulations within its reach, if it is better."""
        kept = np.flatnonzero(within_reach(step, prepared))
        if not LEAST <= kept.size < len(prepared):
            return step
        found = self._searched(prepared.take(kept), step.moved.order, step.moved.share)
        return step if found is None or not preferred(found, step) else found

    def _of_least_error(self, prepared: Prepared) -> Step | None:
        """The step of least total error, of all simulations or of those within reach of the first estimate."""
        step = self._chosen_from(prepared)
        if step is None:
            return None
        kept = np.flatnonzero(within_reach(step, prepared))
        if not LEAST <= kept.size < len(prepared):
            return step
        found = self._chosen_from(prepared.take(kept), WITHIN_REACH * step.error)
        return step if found is None or not preferred(found, step) else found

    def _chosen_from(self, prepared: Prepared, below: float = math.inf) -> Step | None:
        orders = ORDERS if self.order is None else (self.order,)
        shares = SHARES if self.region is None else (self.region,)
        return choose(prepared, shares, orders, self._steps, first=self.bandwidth is not None, below=below)

    def _searched(self, prepared: Prepared, order: int, region: float) -> Step | None:
        """The step of least total error for an order and a region, or for what a search from there finds."""
        first = self.bandwidth is not None
        if not self.search:
            return choose(prepared, (region,), (order,), self._steps, first=first)
        return choose_from(prepared, order, region, self._steps, first=first)

    @property
    def _steps(self) -> list[float]:
        """Bandwidths, as shares of a region."""
        return [(1.0 if self.bandwidth is None else self.bandwidth) * 0.5**k for k in range(STEPS)]

    def provisional(self, prepared: Prepared) -> PosteriorAtData:
        """An estimate while a run goes on: like `of`, but fewer simulations choose, and summaries are as prepared."""
        choosing = CHOOSING if prepared.simulations <= LONG else CHOOSING_ON_THE_WAY
        return replace(self, learn=False, choosing=choosing, search=False).of(prepared)


def preferred(within: Step, step: Step) -> bool:
    """Whether an estimate from simulations within reach takes the place of the one that it was found from.

    It is about the same posterior, and free of what simulations far outside of it bring in: a bias that their own error
    hardly shows.
    """
    factor = WITHIN_REACH if within.weights.ess >= ENOUGH else 1.0
    return within.error < factor * step.error
