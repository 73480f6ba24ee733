"""One run, other tolerances: the posterior at each, and estimators of what is left of the bias."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray, floats
from fbar.checks import non_negative_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.adjustment import AdjustedPosterior
from fbar.estimation.columns import NotKept
from fbar.estimation.doubts import FEW_ACCEPTED
from fbar.estimation.extrapolation import Bias, ExtrapolatedPosterior, as_ratio, rows_of
from fbar.estimation.posterior import Posterior
from fbar.estimation.sequential import with_error_of_prior
from fbar.estimation.store import FEW_NUMBERS
from fbar.question.comparison import Distance
from fbar.question.problem import Problem
from fbar.question.targets import AnyTargets, Target

NEARER = 0.4
"""The share of the accepted simulations that is within the smaller tolerance when a bias is estimated."""

CURVE = 7
"""Tolerances of a curve, at most."""


class OtherTolerances(ABC):
    """A run's posteriors at tolerances other than its own; a run that keeps no distances has none."""

    problem: Problem
    targets: tuple[Target, ...]

    @abstractmethod
    def posterior(self) -> Posterior:
        """The posterior from all blocks told so far without a gap."""

    def posterior_at(self, tolerance: float) -> Posterior:
        """The posterior at another tolerance, from the same simulations."""
        raise InputError(f"{type(self).__name__} keeps no distances, so it has no posterior at another tolerance")

    def _posterior_tolerance(self) -> float:
        """The tolerance of its posterior."""
        raise InputError(f"{type(self).__name__} keeps no distances, so it has no posterior at another tolerance")

    @property
    def chooses_tolerance(self) -> bool:
        """Whether its tolerance was not given."""
        return False

    @property
    def reported_tolerance(self) -> float | None:
        """The tolerance of its posterior, where it has one above 0."""
        try:
            found = float(self._posterior_tolerance())
        except InputError:
            return None
        return found if 0 < found < math.inf else None

    @property
    def present_tolerance(self) -> float | None:
        """The tolerance that it has come to, where that is on its way down to the final one."""
        return self.reported_tolerance

    @property
    def learned_distance(self) -> Distance | None:
        """The distance that this tolerance is meant in, where it was learned; None for the problem's own."""
        return None

    # ------------------------------------------------------------ the bias that a tolerance leaves

    def curve(
        self, targets: AnyTargets | None = None, tolerances: Sequence[float] | None = None
    ) -> list[tuple[float, Any]]:
        """The estimates against the tolerance, from the same simulations: pairs (tolerance, `Estimates`)."""
        listed = self.targets if targets is None else self.problem.posed(targets)
        at = self._curve_tolerances() if tolerances is None else floats(tolerances, "tolerances").ravel().tolist()
        return [(tolerance, self.posterior_at(tolerance).expect(list(listed))) for tolerance in at]

    def _curve_tolerances(self) -> list[float]:
        """The run's tolerance and half powers of two below it, while simulations are accepted there."""
        first = self._posterior_tolerance()
        self.posterior_at(first)
        found = [first]
        for k in range(1, CURVE if first > 0 else 1):
            try:
                if np.sum(self.posterior_at(first / 2 ** (k / 2)).accepted) < FEW_ACCEPTED:
                    break
            except NoPosterior:
                break
            found.append(first / 2 ** (k / 2))
        return found

    def extrapolated(self, ratio: float = 2, tolerance: float | None = None) -> ExtrapolatedPosterior:
        """(c² f̂_{ε/c} − f̂_ε)/(c² − 1), see `fbar.estimation.extrapolation`; ε is the run's tolerance by default."""
        c = as_ratio(ratio)
        at, large = self._biased(tolerance)
        rows_of(large)  # refuses what it cannot do before it looks for simulations
        found = ExtrapolatedPosterior(large, self.posterior_at(at / c), c)
        with_error_of_prior(found, self.problem.prior)
        found.about = f"ABC's posterior extrapolated to tolerance 0, from {at:.4g} and {at / c:.4g}"
        return found

    def bias(self) -> Bias | None:
        """What the run's tolerance may add to its estimates; None where there is no tolerance or too few simulations.

        From the estimates at ε and at ε/c, with c so that enough simulations are within ε/c (2 at most).
        """
        found = self._two_tolerances()
        return None if found is None else Bias(*found)

    def without_bias(self) -> ExtrapolatedPosterior | None:
        """The posterior less the `bias`, from the same two tolerances."""
        found = self._two_tolerances()
        return None if found is None else ExtrapolatedPosterior(*found)

    def _two_tolerances(self) -> tuple[Posterior, Posterior, float] | None:
        """The posteriors at ε and ε/c, and c; None where there is no tolerance or too few simulations."""
        try:
            at, large = self._biased(None)
            distance = self._distances_of(rows_of(large))
        except (InputError, NoPosterior):
            return None
        near = float(np.quantile(distance, NEARER))
        if not 0 < near < at:
            return None
        ratio = min(2.0, at / near)
        try:
            small = self.posterior_at(at / ratio)
        except NoPosterior:
            return None
        if small.points.rows in (0, large.points.rows):  # whole-number data: nothing lies between the two
            return None
        return large, small, ratio

    def _distances_of(self, rows: IntArray) -> FloatArray:
        """The distances of some of the simulations that are kept."""
        raise InputError(f"{type(self).__name__} keeps no distances, so it has no posterior at another tolerance")

    def adjusted(self, tolerance: float | None = None) -> AdjustedPosterior:
        """The posterior adjusted by regression on the summaries, see `fbar.estimation.adjustment`."""
        at, posterior = self._biased(tolerance)
        rows, observed = rows_of(posterior), self.problem.observed
        assert observed is not None
        size = np.size(observed)
        if np.asarray(observed).dtype.kind not in "biuf":
            raise InputError("adjustment regresses on summaries that are numbers; these are labels")
        try:
            if size > FEW_NUMBERS:
                raise NotKept
            summaries = self._summaries_of(rows, size)
        except NotKept:
            raise InputError(
                f"adjustment regresses on at most {FEW_NUMBERS} numbers per simulation, which are not kept for very "
                f"many simulations; this problem's data are {size}: give it a shorter summary="
            ) from None
        away = summaries - np.ravel(observed)
        found = AdjustedPosterior(posterior, away, self.problem)
        with_error_of_prior(found, self.problem.prior)
        found.about = f"ABC's posterior at tolerance {at:.4g}, adjusted by regression"
        return found

    def _biased(self, tolerance: float | None) -> tuple[float, Posterior]:
        """The tolerance and its posterior, if there is a bias to be removed."""
        at = self._posterior_tolerance() if tolerance is None else non_negative_number(tolerance, "tolerance")
        posterior = self.posterior_at(at)
        if not 0 < at < math.inf:
            raise InputError(
                "exact matching (tolerance 0) leaves no bias to remove; run with a tolerance above 0"
                if at == 0
                else "the tolerance is infinite; give a finite one"
            )
        return at, posterior

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        """The summaries of some of the simulations that are kept, shape (n, size)."""
        raise InputError(f"{type(self).__name__} keeps no summaries, so there is nothing to regress on")
