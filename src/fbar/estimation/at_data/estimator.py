"""The estimator at the data, with the settings that researchers may want to change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fbar.checks import share, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data import averaging
from fbar.estimation.at_data.choice import ORDERS, SHARES, STEPS, Step, choose, choose_from
from fbar.estimation.at_data.loss_at_unusual_data import charged
from fbar.estimation.at_data.nearness import nearest, spread_evenly
from fbar.estimation.at_data.parts import Part
from fbar.estimation.at_data.posterior import PosteriorAtData
from fbar.estimation.at_data.prepared import LEAST, MOST, Prepared, prepare
from fbar.estimation.at_data.reach import within_reach
from fbar.estimation.simulations import Portion, Simulations
from fbar.weights import effective_size

SHARE, MOST_OF_ALL = 0.2, 400_000
"""The share of a large run's simulations that is used, nearest first, and the largest number."""

LEARNED, LEARNED_NUMBERS = 100_000, 20_000_000
"""The nearest simulations in learned coordinates are found among so many, and among so many numbers of data, at most;
or among those that would be used anyway, where these are more."""

CHOOSING, CHOOSING_ON_THE_WAY = 5000, 2500
"""Simulations that order, region and reach are chosen from where they are many; and for the rounds of a long run."""

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
        Whether all simulations then compare that choice with other orders and with smaller regions, and whether two
        estimates may be averaged.
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
        """The posterior at the data, from the simulations that are nearest to them.

        Of many simulations with learned summaries it is not known which are the nearest. In many numbers of data what
        is nearest may be a part of the simulations that says little; in summaries learned from simulations everywhere,
        data that are unlike them may have the wrong neighbours. The first is taken unless its error is much larger.
        """
        found = self.of(self.prepared(simulations))
        if isinstance(simulations, Portion) or found.step.moved.prepared.learned is None:
            return found
        size, numbers = len(simulations), np.size(np.asarray(simulations.problem.observed))
        most = max(_most(size), min(LEARNED, LEARNED_NUMBERS // numbers))
        if size <= _most(size):
            return found
        portion = simulations.selected(most, lambda summaries, rows: spread_evenly(summaries, most, rows))
        try:
            other = self.of(prepare(portion, simulations=size, most=most))
        except NoPosterior:
            return found
        return other if averaging.MUCH * other.step.error < found.step.error else found

    def prepared(self, simulations: Simulations | Portion) -> Prepared:
        """The simulations that are nearest to the data: `MOST`, or of many `SHARE` of them, in working coordinates."""
        if isinstance(simulations, Portion):
            return prepare(simulations)
        observed = simulations.problem.observed
        if observed is None or np.asarray(observed).dtype.kind not in "biuf":
            raise InputError("estimates at the data need summaries that are numbers")
        centre, most = np.ravel(np.asarray(observed, dtype=np.float64)), _most(len(simulations))
        portion = simulations.selected(most, lambda summaries, rows: nearest(summaries, centre, most, rows))
        return prepare(portion, simulations=len(simulations), most=most)

    def in_coordinates(self, prepared: Prepared) -> Prepared:
        """The nearest simulations, in learned coordinates where these can be learned."""
        learned = prepared.in_learned_coordinates() if self.learn else None
        return (prepared if learned is None else learned).nearest(_most(prepared.simulations))

    def of(self, prepared: Prepared) -> PosteriorAtData:
        """The posterior from simulations in working coordinates.

        Where the data are many numbers and summaries can be learned from them, these are used: a regression on all the
        numbers has so few neighbours that it does not see its own bias. Where simulations are too few for the
        summaries, they are replaced by ever fewer main directions, with a doubt.
        """
        used = self.in_coordinates(prepared)
        parts = self._chosen(used)
        if parts is None and used.learned is not None:
            used = prepared.nearest(_most(prepared.simulations))
            parts = self._chosen(used)
        while parts is None and used.z.shape[1] > 1:
            used = used.in_main_directions(used.z.shape[1] // 2)
            parts = self._chosen(used)
        if parts is None:
            effective = effective_size(prepared.w)
            worth = f" (effectively {effective:.2g})" if effective < 0.9 * len(prepared) else ""
            raise NoPosterior(
                f"{len(prepared):,} usable simulations{worth} are too few for an estimate at the data; raise the budget"
            )
        return PosteriorAtData(parts, replace(self, learn=False))

    def _chosen(self, prepared: Prepared) -> list[Part] | None:
        """The parts of least total error, with what learned summaries may lose where data are unusual.

        None where there are too few simulations for any.
        """
        found = self._of_many(prepared)
        return None if found is None else [replace(part, step=charged(part.step)) for part in found]

    def _of_many(self, prepared: Prepared) -> list[Part] | None:
        """The parts of least total error.

        Of many simulations, some thousands that are spread evenly over them, so that all rounds are among them, choose
        order, region and reach. Their choice is one for the error that so few have: from there all simulations search
        on.
        """
        if len(prepared) < LEAST:
            return None
        if len(prepared) > self.choosing and self.order is None and self.region is None:
            some = prepared.take(np.arange(0, len(prepared), -(-len(prepared) // min(self.choosing, CHOOSING))))
            few = self._of_least_error(some)
            found = None if few is None else self._like(few, some, prepared)
            if found is not None:  # what some of them chose may not do for all: then all choose
                return found
        return self._of_least_error(prepared)

    def _of_least_error(self, prepared: Prepared) -> list[Part] | None:
        """Of all simulations, of those within reach of the first estimate, or of both."""
        step = self._chosen_from(prepared)
        if step is None:
            return None
        near = _within_reach(step, prepared)
        within = None if near is None else self._chosen_from(near, averaging.MUCH * step.error)
        return averaging.of(within, step, both=self.search)

    def _like(self, few: list[Part], some: Prepared, prepared: Prepared) -> list[Part] | None:
        """Of all simulations, like the parts that some of them chose."""
        whole = next((part.step for part in few if part.step.moved.prepared is some), None)
        within = next((part.step for part in few if part.step is not whole), None)
        step = None if whole is None else self._searched(prepared, whole)
        if within is not None:
            near = _within_reach(within, prepared)
            found = self._searched(prepared if near is None else near, within)
        elif step is not None and self.search:
            near = _within_reach(step, prepared)
            found = None if near is None else self._searched(near, step)
        else:
            found = None
        if step is None:
            return None if found is None else [Part(1.0, found)]
        return averaging.of(found, step)

    def _chosen_from(self, prepared: Prepared, below: float = math.inf) -> Step | None:
        orders = ORDERS if self.order is None else (self.order,)
        shares = SHARES if self.region is None else (self.region,)
        return choose(prepared, shares, orders, self._steps, first=self.bandwidth is not None, below=below)

    def _searched(self, prepared: Prepared, like: Step) -> Step | None:
        """The step of least total error for order and region of another, or for what a search from there finds."""
        order, region, first = like.moved.order, like.moved.share, self.bandwidth is not None
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


def _most(simulations: int) -> int:
    """How many of a run's simulations are used: `MOST`, or of many `SHARE` of them."""
    return max(MOST, min(int(SHARE * simulations), MOST_OF_ALL))


def _within_reach(step: Step, prepared: Prepared) -> Prepared | None:
    """The simulations within reach of an estimate; None where these are all of them, or hardly any."""
    kept = np.flatnonzero(within_reach(step, prepared))
    return prepared.take(kept) if LEAST <= kept.size < len(prepared) else None
