"""How many more simulations a given error takes.

With V(n) the variance after n more simulations, n is the first with V(n) ≤ the wanted error squared. Where a run goes
on as before V(n) = V̂ N/(N + n), so that n = N ((error/wanted)² − 1). Where its next draws come from another proposal
than those that are there, V(n) = Σ z²/(1 + (n/N) r), with r the density of that proposal over the mixture's at every
draw: each z² estimates its part of ∫ ψ² p² m₂/(N q) /Z², and (N q + n q′) takes the place of N q
(``variance_after_draws``).

V̂ is itself an estimate: df V̂/V has about a χ² distribution with the error bar's degrees of freedom, which gives the
interval of a forecast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import counted
from fbar.estimation.posterior import Posterior
from fbar.question.targets import Target

VarianceAfter = Callable[[int], FloatArray]
"""The variances (m,) of a target's components after that many more simulations."""

SURE = 0.8
"""The probability of a forecast's interval."""

MOST = 10**15
"""What a number of simulations that has no end is written as."""

FORESEEABLE = 10**11
"""Simulations that a forecast names: how the errors of a run fall until then, its own simulations do not show."""


@dataclass(frozen=True)
class Forecast:
    """``more`` simulations, between ``low`` and ``high`` with 80% probability, made after ``at`` simulations."""

    more: int
    low: int
    high: int
    at: int

    def __str__(self) -> str:
        """In two digits.

        >>> str(Forecast(12345, 9871, 15432, 1000)), str(Forecast(7, 7, 7, 0))
        ('about 12,000 more simulations (9,900 to 15,000)', '7 more simulations')
        >>> str(Forecast(10**9, 10**8, 10**12, 1000))
        'about 1,000,000,000 more simulations (at least 100,000,000)'
        """
        if self.low >= FORESEEABLE:
            return "more simulations than can be forecast"
        if self.low == self.high:
            return counted(self.more, "more simulation")
        if self.more >= FORESEEABLE:
            return f"at least {brief(self.low)} more simulations"
        low, high = brief(self.low), brief(self.high)
        interval = f"at least {low}" if self.high >= FORESEEABLE else f"{low} to {high}"
        return f"about {brief(self.more)} more simulations ({interval})"

    def largest(self, other: Forecast) -> Forecast:
        """Until both are reached."""
        return self._joined(other, max)

    def smallest(self, other: Forecast) -> Forecast:
        """Until one of them is reached."""
        return self._joined(other, min)

    def _joined(self, other: Forecast, chosen: Callable[[int, int], int]) -> Forecast:
        return Forecast(
            chosen(self.more, other.more), chosen(self.low, other.low), chosen(self.high, other.high), self.at
        )

    def as_dict(self) -> dict[str, int]:
        return {"more": self.more, "low": self.low, "high": self.high}


def brief(number: int) -> str:
    """A whole number in two digits."""
    digits = len(str(abs(number)))
    return f"{round(number, 2 - digits) if digits > 2 else number:,}"


def proportional(posterior: Posterior, target: Target) -> VarianceAfter:
    """V̂ N/(N + n): the simulations to come are like those that are there."""
    variance, n = np.atleast_1d(posterior.expect(target).variance), posterior.simulations
    return lambda more: np.asarray(variance * n / (n + more))


def variance_after_draws(
    posterior: Posterior, target: Target, ratio: FloatArray, draws: float, rate: float
) -> VarianceAfter:
    """V̂ Σ z²/(1 + (n/N) r) / Σ z² for draws from another proposal than before.

    ``ratio`` is r = q′/q at the posterior's draws, with q the density that they are weighted by; ``draws`` is N, and
    ``rate`` the number of draws from q′ that a simulation stands for.
    """
    z = posterior.contributions(target)
    assert z is not None
    square, variance = z**2, np.atleast_1d(posterior.expect(target).variance)
    total = square.sum(axis=0)

    def after(more: int) -> FloatArray:
        left = (square / (1 + (more * rate / draws) * ratio)[:, None]).sum(axis=0)
        return np.asarray(variance * np.where(total > 0, left / np.where(total > 0, total, 1.0), 1.0))

    return after


def until_error(variance_after: VarianceAfter, wanted: Any, df: Any, at: int, known: Any = 1.0) -> Forecast | None:
    """When every variance is at most that of its ``wanted`` standard error; None where that cannot be said.

    ``known`` is the share of the variance that is no careful guess: the rest may turn out to be nothing, which lowers
    the lower end.
    """
    from scipy.special import chdtri

    with np.errstate(over="ignore"):  # a wanted error that is no bound at all
        df, bound = np.atleast_1d(df), np.square(np.atleast_1d(wanted))
    if not (np.isfinite(variance_after(0)).all() and (bound > 0).all()):
        return None
    tail = (1 - SURE) / 2
    factors = 1.0, chdtri(df, tail) / df / np.maximum(known, 1e-12), chdtri(df, 1 - tail) / df
    found = [_first(variance_after, bound * factor) for factor in factors]
    if any(n is None for n in found):
        return None
    more, low, high = (int(n) for n in found if n is not None)
    return Forecast(more, low, high, at)


def _first(variance_after: VarianceAfter, bound: FloatArray) -> int | None:
    """The least whole number of simulations whose variances, which fall with it, keep to the bound."""

    def enough(more: int) -> bool:
        return bool((variance_after(more) <= bound).all())

    if enough(0):
        return 0
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > max(1, high // 10_000):  # to four digits
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def until_count(have: float, wanted: float, at: int) -> Forecast | None:
    """Until ``wanted`` events of which ``have`` were seen in ``at`` simulations, as a Poisson process."""
    if have >= wanted:
        return Forecast(0, 0, 0, at)
    if have <= 0:
        return None
    from scipy.special import chdtri

    tail = (1 - SURE) / 2
    rates = have / at, chdtri(2 * have, tail) / 2 / at, chdtri(2 * have, 1 - tail) / 2 / at
    more, low, high = (math.ceil((wanted - have) / rate) for rate in rates)
    return Forecast(more, low, high, at)
