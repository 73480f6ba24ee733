"""The weighted average of the states of Markov chains, with error bars from their autocorrelation.

K chains of T states each. A state outside the tolerance ε of the posterior has the weight a = 0, and with it the
average is f̂ = Σ a f / Σ a over all states (Wegmann et al. 2009; "post-correction" of Vihola & Franks 2020). To first
order its error is Σ z, z = a ψ / Σ a, with z = 0 where a = 0; within a chain the z depend on one another. The chains
are cut into batches, and the variance of Σ z is that between the sums ζ of batches ("replicated batch means", Argon &
Andradóttir 2006), about the mean of all of them:

    V = n/(n − 1) Σ_b (ζ_b − ζ̄)² + max_b (ζ_b − ζ̄)²,     n batches.

The largest part counts twice, as in a targeted run: chains that visit a tail are few. Without that, the error bars of
second moments in normal problems of one and two dimensions were too small by a tenth.
A batch is a whole chain where there are many chains. Few chains are cut into pieces, each as long as ten
autocorrelation times at least: τ = 1 + 2 Σ_h ρ_h, up to where Geyer's (1992) initial positive sequence ends, with the
autocovariances of all chains about the common mean. So chains that stay apart have a long τ, whatever each of them
does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED
from fbar.estimation.draws import Draws
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import ErrorModel

BATCHES = 30
"""Batches of all chains together that are wanted: more make the error bar hardly more certain."""

LEAST_BATCHES = 8
"""Batches that chains are cut into even where these are shorter than they should be."""

TIMES = 10.0
"""The length of a batch in autocorrelation times, at least: about a tenth of the variance is lost at the cuts."""

SHORTEST = 1.0
"""The length of a chain in autocorrelation times below which the chains are said to disagree."""

HALF = 0.5
"""The share of the variance that a single batch may contribute."""

AT_ONCE = 2**22
"""Numbers of a series that are transformed at once."""


def autocorrelation_times(series: FloatArray) -> FloatArray:
    """τ of K series at once, shape (T, K, m) with mean zero over all of them; one for each of the m columns.

    >>> independent = np.random.default_rng(1).standard_normal((4000, 2, 1))
    >>> bool(0.8 < autocorrelation_times(independent)[0] < 1.2)
    True
    """
    length, chains, columns = series.shape
    size = 1 << (2 * length - 1).bit_length()
    found = np.ones(columns)
    step = max(1, AT_ONCE // (size * chains))
    for first in range(0, columns, step):
        spectrum = np.fft.rfft(series[:, :, first : first + step], size, axis=0)
        covariance = np.fft.irfft((spectrum.real**2 + spectrum.imag**2).sum(axis=1), size, axis=0)[:length]
        for column in range(covariance.shape[1]):
            found[first + column] = _initial_positive(covariance[:, column])
    return found


def _initial_positive(covariance: FloatArray) -> float:
    """τ by Geyer's initial monotone sequence: sums of neighbouring autocovariances, while they are positive."""
    if not covariance[0] > 0:
        return 1.0
    pairs = covariance[: covariance.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    kept = np.minimum.accumulate(pairs[: negative[0]] if negative.size else pairs)
    return max(1.0, float(2 * kept.sum() / covariance[0] - 1))


@dataclass(frozen=True, eq=False)
class States:
    """The states of chains: ``place`` (T, K) is which of the posterior's points each is, −1 outside the tolerance.

    ``weight`` is a of every point.
    """

    place: IntArray
    weight: FloatArray

    @cached_property
    def visits(self) -> FloatArray:
        """How many states every point is."""
        inside = self.place[self.place >= 0]
        return np.bincount(inside, minlength=self.weight.size).astype(np.float64)

    @cached_property
    def weights(self) -> FloatArray:
        """The points' normalised weights."""
        mass = self.visits * self.weight
        return np.asarray(mass / mass.sum())

    def series(self, influence: FloatArray) -> FloatArray:
        """z of every state, shape (T, K, m), from ψ of every point."""
        total = float(self.visits @ self.weight)
        padded = np.concatenate([influence * (self.weight / total)[:, None], np.zeros((1, influence.shape[1]))])
        return np.asarray(padded[self.place])


@dataclass(frozen=True, eq=False)
class ChainErrors(ErrorModel):
    """Error bars of an average over chains, see the module's text.

    ``sample`` are the points as accepted simulations, and ``coordinates`` (points, d) those whose mean effective
    sample size is `ess`.
    """

    states: States
    sample: Draws
    coordinates: FloatArray

    @property
    def draws(self) -> Draws:
        return self.sample

    @property
    def draw_weights(self) -> FloatArray:
        return self.states.weights

    @cached_property
    def ess(self) -> float:
        """Independent draws that would give means of the coordinates with the same variance, on average over these."""
        weights, x = self.states.weights, self.coordinates
        away = x - weights @ x
        spread = weights @ away**2
        moving = spread > 0
        if not moving.any():
            return 1.0
        variance = np.diagonal(self.error_bars(away[:, moving]).covariance)
        most = float(self.states.weight.size)
        return float(np.clip(1 / np.mean(variance / spread[moving]), 1.0, most))

    def contributions(self, influence: FloatArray) -> FloatArray:
        """z of every point, all its visits together."""
        return self.states.weights[:, None] * influence

    def autocorrelation_times(self, influence: FloatArray) -> FloatArray:
        """τ of the weighted ψ, in states of a chain."""
        return autocorrelation_times(self.states.series(influence))

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        series = self.states.series(influence)
        length, chains, columns = series.shape
        batches = self._batches(series)
        starts = np.arange(batches) * length // batches
        zeta = np.add.reduceat(series, starts, axis=0).reshape(batches * chains, columns)
        number = len(zeta)
        away = zeta - zeta.mean(axis=0)
        covariance = number / max(number - 1, 1) * away.T @ away
        variance = np.diagonal(covariance) + (away**2).max(axis=0)
        np.fill_diagonal(covariance, variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = (
                3 * (away**2).sum(axis=0) ** 2 / np.square(away**2).sum(axis=0)
            )  # n for normal sums, whose kurtosis is 3
            largest = (away**2).max(axis=0) / (away**2).sum(axis=0)
        df = np.clip(np.nan_to_num(df, nan=1.0, posinf=number - 1.0), 1.0, max(number - 1.0, 1.0))
        return ErrorBars(covariance, df, self._doubts(series, variance, largest, number))

    def _batches(self, series: FloatArray) -> int:
        """The number of batches that each chain is cut into."""
        length, chains, _ = series.shape
        wanted = math.ceil(BATCHES / chains)
        if wanted == 1:
            return 1
        long = int(length / (TIMES * float(autocorrelation_times(series).max())))
        return int(min(max(min(wanted, long), math.ceil(LEAST_BATCHES / chains), 1), length))

    def _doubts(
        self, series: FloatArray, variance: FloatArray, largest: FloatArray, number: int
    ) -> tuple[tuple[BoolArray, str], ...]:
        length, _, columns = series.shape
        points = self.states.weight.size
        with np.errstate(divide="ignore", invalid="ignore"):
            times = variance / np.square(series).sum(axis=(0, 1))
        everywhere = np.ones(columns, dtype=bool)
        return (
            (everywhere & (points < FEW_ACCEPTED), FEW_WERE_ACCEPTED),
            (
                length < SHORTEST * times,
                "the chains disagree: they are too short, or do not move between parts of the posterior; use a larger "
                "budget, fewer chains or a larger tolerance",
            ),
            ((number >= FEW_ACCEPTED) & (largest > HALF), "one chain contributes more than half of the variance"),
            (everywhere & (number < LEAST_BATCHES), f"there are only {number} chains to compare"),
            (~(variance > 0), "all states give the same value of this target, so its error is unknown"),
        )
