"""How the total error of estimates at the data falls as simulations grow, and when it will be small enough.

The variance falls like 1/N. The bias falls too, since regions shrink as simulations come closer to the data, but more
slowly, at a rate that depends on the problem and is not known. So the rate is estimated from the run itself. With the
total error e_k after N_k simulations, at the ends of the rounds since N/16,

    log e_k² = a − s log(N_k/N) + noise,     0 ≤ s ≤ 1,

by Bayesian regression: s has a normal prior, truncated, and the noise (estimates choose their regions again in every
round) a variance that is estimated together with a prior guess. The forecast is the distribution of the first N′ whose
error is the wanted one, P(N′ ≤ N eᵘ) = P(a − s u + noise ≤ log wanted²).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.estimate import Estimate
from fbar.methods.forecasts import MOST, SURE, Forecast
from fbar.methods.history import Moment

WINDOW = 16.0
"""Moments with fewer than N over this many simulations do not count."""

RECENT = 1.0
"""Moments count in proportion to this power of their simulations: at first errors fall faster than later."""

RATE, RATE_SPREAD = 0.7, 0.35
"""The prior of the rate s."""

NOISE, NOISE_WEIGHT = 0.25, 4.0
"""The prior guess of the noise's deviation, and how many moments it counts for."""

READINGS, GROWN = 5, 8.0
"""Moments, and how many times the simulations must have grown between them, before a bias is found not to fall."""

UNLIKELY = 0.02
"""The probability of reaching the wanted error within the limit below which a run gives up."""

HARDLY_FALLS = 0.3
"""An expected rate s below this is that of an error that hardly falls."""

RATES = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, eq=False)
class Decline:
    """The error over the wanted one as it fell: log(e²/wanted²) at present for every rate, with the rates' weights."""

    at: int
    last: float
    """The last value itself."""
    present: FloatArray
    weights: FloatArray
    deviation: float
    """Of what is known of the present value, and of the noise of a later one, together."""

    @classmethod
    def of(cls, simulations: Sequence[int], log_ratio: Sequence[float]) -> Decline:
        """From log(e²/wanted²) after some numbers of simulations, the last at present."""
        n, y = np.asarray(simulations, dtype=np.float64), np.asarray(log_ratio, dtype=np.float64)
        recent = n >= n[-1] / WINDOW
        x, y, weight = np.log(n[recent] / n[-1]), y[recent], (n[recent] / n[-1]) ** RECENT
        level = y[:, None] + RATES * x[:, None]
        present = weight @ level / weight.sum()
        square = weight @ (level - present) ** 2
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        variance = (NOISE_WEIGHT * NOISE**2 + float(square.min())) / (NOISE_WEIGHT + max(float(weight.sum()) - 1, 0.0))
        log_weights = -square / (2 * variance) - (RATES - RATE) ** 2 / (2 * RATE_SPREAD**2)
        weights = np.exp(log_weights - log_weights.max())
        return cls(
            int(n[-1]), float(y[-1]), present, weights / weights.sum(), math.sqrt(variance * (1 + 1 / effective))
        )

    @classmethod
    def of_history(cls, history: Sequence[Moment], estimate: Estimate, wanted: Any, simulations: int) -> Decline | None:
        """From a run's moments and its present estimate; None where an error is not a positive number."""
        before = [(m.simulations, m.estimate(estimate.name)) for m in history if m.simulations < simulations]
        errors = [*((n, log_ratio(one, wanted)) for n, one in before if one is not None)]
        known = [(n, error) for n, error in errors if math.isfinite(error)]
        present = log_ratio(estimate, wanted)
        if not math.isfinite(present):
            return None
        return cls.of([*(n for n, _ in known), simulations], [*(error for _, error in known), present])

    def reached(self, growth: float) -> float:
        """The probability that the error is the wanted one when simulations have grown by e to this power."""
        from scipy.special import ndtr

        return float(self.weights @ ndtr((RATES * growth - self.present) / self.deviation))

    @property
    def rate(self) -> float:
        """The expected rate s."""
        return float(self.weights @ RATES)

    def forecast(self) -> Forecast:
        """How many more simulations, with the interval; an end that cannot be seen is `MOST`."""
        if self.last <= 0:
            return Forecast(0, 0, 0, self.at)
        tail = (1 - SURE) / 2
        more, low, high = (self._more(p) for p in (0.5, tail, 1 - tail))
        return Forecast(more, low, high, self.at)

    def _more(self, probability: float) -> int:
        low, high = 0.0, math.log(MOST / self.at)
        if self.reached(low) >= probability:
            return 0
        if self.reached(high) < probability:
            return MOST
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.reached(middle) >= probability else (middle, high)
        return math.ceil(self.at * math.expm1(high))


def log_ratio(estimate: Estimate, wanted: Any) -> float:
    """log(e²/wanted²), the largest of a target's numbers."""
    with np.errstate(divide="ignore", over="ignore"):
        ratio = 2 * np.log(np.asarray(estimate.standard_error, dtype=np.float64) / np.asarray(wanted))
    return float(np.max(ratio))


def stays_biased(history: Sequence[Moment], name: str, wanted: Any, limit: int | None) -> bool:
    """Whether bias is the larger part of an error and falls so slowly that the limit will not see the wanted one.

    It must be found twice in a row, since single estimates are noisy.
    """
    return len(history) > 1 and all(_is_stuck(part, name, wanted, limit) for part in (history, history[:-1]))


def _is_stuck(history: Sequence[Moment], name: str, wanted: Any, limit: int | None) -> bool:
    simulations = history[-1].simulations
    recent = [m for m in history if m.simulations >= simulations / WINDOW]
    if len(recent) < READINGS or simulations < GROWN * recent[0].simulations:
        return False
    found = [m.estimate(name) for m in recent if m.simulations >= simulations / 4]
    last = found[-1]
    if last is None or not all(one is not None and _mostly_bias(one) for one in found):
        return False
    decline = Decline.of_history(history, last, wanted, simulations)
    if decline is None or decline.rate > HARDLY_FALLS:
        return False
    most = MOST if limit is None else min(limit, MOST)
    return decline.reached(math.log(most / simulations)) < UNLIKELY


def _mostly_bias(estimate: Estimate) -> bool:
    square = np.square(np.asarray(estimate.standard_error, dtype=np.float64))
    return bool(np.all(2 * np.square(np.asarray(estimate.bias, dtype=np.float64)) > square))
