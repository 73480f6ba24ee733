"""How the total error of estimates at the data falls as simulations grow, and when it will be small enough.

The variance falls like 1/N, and the bias more slowly, at a rate that depends on the problem. Neither is smooth: every
reading of a run chooses order, region and bandwidth again and estimates its bias again, and a choice once made tends
to stay for a while. So y = log(e²/wanted²) at the readings N₁, N₂, … of a run is a random walk with drift, seen with
noise,

    y_k = l_k + v σ ε_k,     l_{k+1} = l_k − s log(N_{k+1}/N_k) + v q √log(N_{k+1}/N_k) η_k,

with ε and η standard normal, a rate s ≥ 0 and a roughness v of the run. The prior of v is log-normal. That of s is
normal, or with a small probability s is hardly above 0, since there are problems whose bias stays. For each s and v on
a grid the Kalman filter gives the present level l and the probability of what was read.

A run ends at the first reading whose error is small enough, and an error that goes up and down is small enough sooner
than its level is. So the forecast is the distribution of that first passage over the readings to come, whose numbers of
simulations are known. It is found by simulating the walk.
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

RATE, RATE_SPREAD = 0.9, 0.35
"""The prior of the rate s, where the error falls."""

HARDLY_FALLS, STUCK = 0.3, 0.1
"""A rate s below this is that of an error that hardly falls, and the prior probability of such a problem."""

NOISE, WALK, ROUGHNESS = 0.3, 0.75, 0.6
"""σ, q, and the prior deviation of log v.

With the mean of s they are about the most likely values for runs on odd observations of six problems of the catalogue
(gaussian-linear, gaussian-mixture, two-moons, sir, filippi, lotka-volterra).
"""

GROWTH = 1.5
"""Simulations at a reading over those at the one before: a targeted run that a rule ends adds half in every round."""

AHEAD = 64
"""Readings to come that are simulated; what is not reached then has no end that can be seen."""

PATHS = 1000
"""Simulated walks."""

READINGS, GROWN = 5, 8.0
"""Readings, and how many times the simulations must have grown between them, before a bias is found not to fall."""

WHAT_HELPS = (
    "try fewer or learned summaries (summaries=, --summaries), another summary function, or a simulator with less noise"
)
"""Against an error that is mostly bias."""

LIKELY_STUCK = 0.4
"""The probability that the error hardly falls from which a run may give up."""

UNLIKELY = 0.02
"""The probability of reaching the wanted error within the limit below which a run gives up."""

RATES = np.linspace(0.0, 3.0, 61)[:, None]
ROUGH = np.exp(np.linspace(-math.log(10), math.log(5), 12))[None, :]


def _prior_of_rates() -> FloatArray:
    falls, hardly = np.exp(-((RATES - RATE) ** 2) / (2 * RATE_SPREAD**2)), RATES <= HARDLY_FALLS
    return np.asarray((1 - STUCK) * falls / falls.sum() + STUCK * hardly / hardly.sum())


@dataclass(frozen=True, eq=False)
class Walk:
    """What is known of a walk after its last reading: a weight, and the level's mean and variance, for each s and v."""

    weights: FloatArray
    level: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, log_simulations: FloatArray, y: FloatArray) -> Walk:
        """By the Kalman filter for every s and v; before the first reading nothing is known of the level."""
        noise, walk = (ROUGH * NOISE) ** 2, (ROUGH * WALK) ** 2
        log_weights = np.log(_prior_of_rates()) - np.log(ROUGH) ** 2 / (2 * ROUGHNESS**2)
        level, variance = np.full(log_weights.shape, y[0]), np.broadcast_to(noise, log_weights.shape)
        for step, seen in zip(np.diff(log_simulations), y[1:], strict=True):
            level, variance = level - RATES * step, variance + walk * step
            expected, miss = variance + noise, seen - level
            log_weights = log_weights - (np.log(expected) + miss**2 / expected) / 2
            level, variance = level + variance / expected * miss, variance * noise / expected
        weights = np.exp(log_weights - log_weights.max())
        return cls(weights / weights.sum(), level, variance)

    @property
    def stuck(self) -> float:
        """The probability that the error hardly falls."""
        return float((self.weights * (RATES <= HARDLY_FALLS)).sum())

    def first_passage(self, steps: FloatArray) -> FloatArray:
        """The probabilities that y was 0 or less at one of the next 0, 1, 2, … readings, ``steps`` of log N apart."""
        rng = np.random.default_rng(0)
        among = np.searchsorted(np.cumsum(self.weights), (np.arange(PATHS) + 0.5) / PATHS)
        row, column = np.unravel_index(np.minimum(among, self.weights.size - 1), self.weights.shape)
        rate, rough = RATES[row], ROUGH[:, column].T
        start = self.level[row, column] + np.sqrt(self.variance[row, column]) * rng.standard_normal(PATHS)
        moves = rough * WALK * np.sqrt(steps) * rng.standard_normal((PATHS, steps.size)) - rate * steps
        y = start[:, None] + np.cumsum(moves, axis=1) + rough * NOISE * rng.standard_normal((PATHS, steps.size))
        return np.concatenate([[0.0], np.logical_or.accumulate(y <= 0, axis=1).mean(axis=0)])


@dataclass(frozen=True, eq=False)
class Decline:
    """The error over the wanted one as it fell, and when it will be small enough."""

    at: int
    last: float
    """log(e²/wanted²) at present."""
    stuck: float
    """The probability that the error hardly falls."""
    readings: tuple[int, ...]
    """Simulations at the readings to come, after that of the present."""
    reached: FloatArray
    """The probability that the error was small enough at one of the readings up to each."""

    @classmethod
    def of(
        cls, simulations: Sequence[int], log_ratio: Sequence[float], growth: float = GROWTH, read: int | None = None
    ) -> Decline:
        """From log(e²/wanted²) after some numbers of simulations, the last at present.

        ``read`` are the simulations at the last reading, if that was before the present.
        """
        n, y = np.asarray(simulations, dtype=np.float64), np.asarray(log_ratio, dtype=np.float64)
        at = int(n[-1])
        to_come = [max(math.floor(growth * (at if read is None else read)), at + 1)]
        while len(to_come) < AHEAD:
            to_come.append(max(math.floor(growth * to_come[-1]), to_come[-1] + 1))
        walk, readings = Walk.of(np.log(n), y), (at, *to_come)
        return cls(at, float(y[-1]), walk.stuck, readings, walk.first_passage(np.diff(np.log(readings))))

    @classmethod
    def of_history(
        cls,
        history: Sequence[Moment],
        estimate: Estimate,
        wanted: Any,
        simulations: int,
        growth: float = GROWTH,
    ) -> Decline | None:
        """From a run's moments and its present estimate; None where an error is not a positive number."""
        found = [(m.simulations, m.estimate(estimate.name)) for m in history if m.simulations < simulations]
        errors = [(n, log_ratio(one, wanted)) for n, one in found if one is not None]
        known = [(n, error) for n, error in errors if math.isfinite(error)]
        present = log_ratio(estimate, wanted)
        if not math.isfinite(present):
            return None
        read = history[-1].simulations if history else None
        return cls.of([*(n for n, _ in known), simulations], [*(error for _, error in known), present], growth, read)

    def reached_within(self, simulations: int) -> float:
        """The probability that the error is small enough at a reading of at most that many simulations."""
        if self.last <= 0:
            return 1.0
        return float(self.reached[np.searchsorted(self.readings, simulations, side="right") - 1])

    def forecast(self) -> Forecast:
        """How many more simulations, with the interval; an end that cannot be seen is `MOST`.

        The ends are numbers of simulations at readings: that with nearest 10% before it, and the one up to which the
        probability is nearest 80%.
        """
        if self.last <= 0:
            return Forecast(0, 0, 0, self.at)
        ends = np.append(self.reached, 1.0)
        before = np.abs(ends[:-1] - (1 - SURE) / 2)
        low = 1 + int(np.flatnonzero(before == before.min())[-1])
        high = low + int(np.argmin(np.abs(ends[low:] - ends[low - 1] - SURE)))
        middle = min(max(int(np.searchsorted(ends, 0.5)), low), high)
        return Forecast(self._more(middle), self._more(low), self._more(high), self.at)

    def _more(self, reading: int) -> int:
        return self.readings[reading] - self.at if reading < len(self.readings) else MOST


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
    if len(history) < READINGS or simulations < GROWN * history[0].simulations:
        return False
    found = [m.estimate(name) for m in history if m.simulations >= simulations / 4]
    last = found[-1]
    if last is None or not all(one is not None and _mostly_bias(one) for one in found):
        return False
    decline = Decline.of_history(history, last, wanted, simulations)
    if decline is None or decline.stuck < LIKELY_STUCK:
        return False
    return decline.reached_within(MOST if limit is None else limit) < UNLIKELY


def _mostly_bias(estimate: Estimate) -> bool:
    square = np.square(np.asarray(estimate.standard_error, dtype=np.float64))
    return bool(np.all(2 * np.square(np.asarray(estimate.bias, dtype=np.float64)) > square))
