"""How far an answer at a tolerance is from the posterior itself, from the same simulations.

The posterior is that at the data, by regression on all simulations (`fbar.estimation.at_data`). An answer at a
tolerance less the posterior's is its bias; the standard error is taken as if the two errors were independent. They come
from the same simulations, so that it is rather too large. Where the posterior cannot be estimated, the Richardson
extrapolation of the run's own estimates takes its place (`fbar.estimation.extrapolation`).

All of it is computed when it is first asked, and once for all estimates of a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import BoolArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Comparison, Estimate, Estimates
from fbar.methods import Run
from fbar.question.targets import Target

EXTRAPOLATION_FALSE_ALARMS = 0.01
"""The share of results in which an extrapolation finds a bias by chance, at most."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The posterior at the data that answers of a run are compared with."""

    run: Run

    @cached_property
    def posterior(self) -> PosteriorAtData | None:
        """None where the simulations cannot show it, or are not in memory."""
        try:
            return self.run.posterior_at_data()
        except (InputError, NoPosterior):
            return None


@dataclass(frozen=True, eq=False)
class Compared:
    """What the answers about some targets are compared with; ``own`` is whether they are the run's own answers.

    ``numbers`` is how many numbers the result has answers of, so that the same answer gets the same word when it is
    asked for once more.
    """

    reference: Reference
    targets: tuple[Target, ...]
    own: bool
    numbers: int

    @cached_property
    def posterior(self) -> Estimates | None:
        found = self.reference.posterior
        return None if found is None else found.expect(list(self.targets))

    @cached_property
    def extrapolated(self) -> Estimates | None:
        """f̂_ε less its Richardson extrapolation."""
        found = self.reference.run.bias() if self.own else None
        return None if found is None else found.expect(list(self.targets))

    def of(self, place: int) -> Comparison:
        return _Compared(self, place)


@dataclass(frozen=True, eq=False)
class _Compared(Comparison):
    """The comparison of the answer at one place."""

    whole: Compared
    place: int

    @property
    def numbers(self) -> int:
        return self.whole.numbers

    @property
    def _at_data(self) -> Estimate | None:
        return None if self.whole.posterior is None else self.whole.posterior[self.place]

    @property
    def _by_extrapolation(self) -> Estimate | None:
        """The extrapolation's answer, where the posterior has no reliable one."""
        at_data = self._at_data
        if at_data is not None and np.all(at_data.trusted):
            return None
        return None if self.whole.extrapolated is None else self.whole.extrapolated[self.place]

    def difference(self, estimate: Estimate) -> Estimate | None:
        extrapolated, at_data = self._by_extrapolation, self._at_data
        if extrapolated is not None or at_data is None:
            return extrapolated
        first, second = np.square(estimate.standard_error), np.square(at_data.standard_error)
        total = first + second
        df = np.divide(
            total**2,
            first**2 / estimate.df + second**2 / at_data.df,
            out=np.full(np.shape(total), np.inf),
            where=np.isfinite(total) & (total > 0),
        )
        return Estimate(
            estimate.name,
            estimate.value - at_data.value,
            np.sqrt(total),
            df if np.ndim(df) else float(df),
            estimate.simulations,
            estimate.accepted,
            at_data.trusted,
            at_data.warnings,
            estimate.labels,
            about="the answer less the posterior",
        )

    def biased(self, estimate: Estimate) -> BoolArray:
        extrapolated = self._by_extrapolation
        if extrapolated is None:
            return super().biased(estimate)
        low, high = extrapolated.interval(1 - EXTRAPOLATION_FALSE_ALARMS / self.numbers)
        least = np.maximum(np.maximum(low, -np.asarray(high)), 0.0)  # of its size
        return np.asarray((least > estimate.standard_error) & np.asarray(extrapolated.trusted, dtype=bool))
