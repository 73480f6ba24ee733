"""Probability density approximation: a kernel density of simulated data at each datum (Turner & Sederberg 2014).

For independent data x* = (x_1, …, x_n) with one density p(x|θ), R data sets are simulated at θ; their K = R n numbers
give p̂(x_i|θ) = Σ_k κ((x_i − y_k)/h)/(K h), and a = Π p̂(x_i). κ is Epanechnikov's kernel, of which the sum is exact from
sorted numbers and their running sums. h is Silverman's rule for it times a factor that is learned: the one with which
half of the simulated data sets best predict the other half, near the posterior. Whole numbers are counted instead.
Numbers with heavy tails are first put on the scale of asinh, which multiplies p(x_i|θ) by the same for every θ.

E[a|θ] is not quite proportional to the likelihood: p̂ is smoothed, and a product of estimates from the same simulations
has a bias of its own. Only differences between θ matter; the run looks at how log a changes from h to √2 h, and doubts
its answer where that differs between the draws of the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import positive_integer
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.replicates import ReplicatedValuation
from fbar.methods.worth.valuation import Replicates, Valuation, Valued

LEAST_NUMBERS = 2000
"""Simulated numbers that a density is estimated from, at least."""

FLOOR = 0.1
"""The least estimate of a density, over that of a single number in the middle of its kernel."""

LEAST_WEIGHT = 1e-3
"""Of a draw that this is looked at for."""

FACTORS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Of Silverman's bandwidth, which is far too large for densities of several peaks."""

HEAVY_TAILED = 20.0
"""The range of data over the distance of their quartiles above which kernels are set on another scale."""

NARROWEST = 1e-3
"""The least bandwidth over that of numbers as widely spread as the data."""

SMOOTHED = 0.3
"""A change of log a by a bandwidth √2 times as large, its standard deviation over the posterior, that is no matter."""


@register(
    "density", "independent data, whose densities are estimated from simulations at each draw", needs="independent data"
)
@dataclass(frozen=True)
class DensityApproximation(WorthMethod):
    """Probability density approximation (Turner & Sederberg 2014) with draws where they reduce the error most.

    For data that are independent numbers from one distribution, such as response times. It needs neither summaries nor
    a tolerance, but hundreds of simulated data sets at each θ.

    Parameters
    ----------
    replicates
        R, the data sets simulated at each θ; by default chosen so that the variance of log a is 1, and large enough for
        a density from 2,000 numbers.
    """

    replicates: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replicates is not None and positive_integer(self.replicates, "replicates") < 2:
            raise InputError("a density needs at least 2 simulated data sets at each draw; got replicates=1")

    def valuation(self, start: Start) -> Valuation:
        problem = start.problem
        if problem.summary is not None:
            raise InputError("a density of the data needs the data themselves; leave out summary=")
        if not problem.compares_numbers or problem.observed is None or problem.observed.ndim != 1:
            raise InputError("a density is estimated for a list of independent numbers; these data are something else")
        return Densities(self.replicates, problem.observed)


class Densities(ReplicatedValuation):
    """The valuation of probability density approximation."""

    unbiased = False

    def __init__(self, replicates: int | None, observed: npt.NDArray[np.generic]) -> None:
        super().__init__(replicates, max(2, -(-LEAST_NUMBERS // observed.size)))
        self._whole = observed.dtype.kind in "biu"
        self._scale = Scale() if self._whole else Scale.of(observed.astype(np.float64))
        self._observed = np.sort(self._scale(observed.astype(np.float64)))
        self._wide = silverman(self._observed) * self._observed.size**0.2
        self._factor = 1.0
        self._doubt = ""

    @property
    def about(self) -> str:
        return "the posterior, with the density of the data estimated from simulations"

    def value(self, waves: Sequence[Replicates]) -> Valued:
        (wave,) = waves
        half = wave.each // 2
        log_a, variance = np.full(wave.draws, -np.inf), np.full(wave.draws, np.nan)
        for row in range(wave.draws):
            good = np.flatnonzero(~wave.failed[row])
            if good.size < 2:
                continue
            x = wave.summaries[row]
            # Data sets that failed have no density at all.
            log_a[row] = self._log_density(x[good]) + math.log(good.size / wave.each)
            if self._given is None:
                first, second = good[good < half], good[good >= half]
                if first.size and second.size:
                    variance[row] = (self._log_density(x[first]) - self._log_density(x[second])) ** 2 / 4
        return Valued.positive(log_a, variance)

    def _log_density(self, simulated: FloatArray, wider: float = 1.0) -> float:
        """Σ log p̂(x_i) from the numbers of some data sets."""
        y = np.sort(self._scale(simulated.ravel()))
        if self._whole:
            counts = np.searchsorted(y, self._observed, "right") - np.searchsorted(y, self._observed, "left")
            return float(np.log(np.maximum(counts, 0.5) / y.size).sum())
        h = wider * max(self._factor * silverman(y), NARROWEST * self._wide * y.size**-0.2)
        return float(np.log(epanechnikov(y, self._observed, h, self._wide * y.size**-0.2)).sum())

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        """Choose the bandwidth and R; and see how much the answer depends on the bandwidth."""
        factor = self._factor if self._whole else self._best_factor(_near(draws, weights))
        other_bandwidth, self._factor = factor != self._factor, factor
        self.examine(draws, weights)
        return super().learn(draws, weights, left) or other_bandwidth

    def examine(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray) -> None:
        self._doubt = "" if self._whole else self._smoothed(_near(draws, weights))

    def _best_factor(self, near: Sequence[tuple[float, FloatArray]]) -> float:
        """The factor with which half of the data sets at a draw predict the other half best."""
        seen = self._observed[0], self._observed[-1]
        scaled = [(w, self._scale(x)) for w, x in near]
        return max(FACTORS, key=lambda factor: sum(w * _predicted(x, factor, seen) for w, x in scaled))

    def _smoothed(self, near: Sequence[tuple[float, FloatArray]]) -> str:
        """A doubt where the bandwidth decides between draws of the posterior."""
        weight = np.array([w for w, _ in near])
        change = np.array([self._log_density(x, math.sqrt(2)) - self._log_density(x) for _, x in near])
        share = weight / max(weight.sum(), 1e-300)
        spread = math.sqrt(share @ (change - share @ change) ** 2)
        if spread <= SMOOTHED:
            return ""
        return (
            f"the kernel smooths the density: with a bandwidth √2 times as large log a would change by {spread:.1f} "
            "between draws of the posterior; simulate more data sets at each draw (replicates=)"
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        return (self._doubt,) if self._doubt else ()

    @property
    def remark(self) -> str:
        return f"{self._chosen} data sets simulated at each draw of θ"

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {**super().state(), "factor": np.array(self._factor)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(state)
        self._factor = float(state["factor"])


def _near(draws: Sequence[Sequence[Replicates]], weights: FloatArray) -> list[tuple[float, FloatArray]]:
    """The draws that matter: their weights, and the data sets simulated there."""
    starts = np.cumsum([0, *(waves[0].draws for waves in draws)])
    return [
        (float(weights[start + row]), waves[0].summaries[row][~waves[0].failed[row]])
        for waves, start in zip(draws, starts, strict=False)
        for row in np.flatnonzero(weights[start : start + waves[0].draws] > LEAST_WEIGHT)
    ]


@dataclass(frozen=True)
class Scale:
    """Where kernels are set: asinh((y − centre)/width) for data with heavy tails, otherwise the numbers themselves.

    What that does to densities is the same factor for every θ.
    """

    centre: float = 0.0
    width: float = math.inf

    @staticmethod
    def of(data: FloatArray) -> Scale:
        low, centre, high = (float(q) for q in np.quantile(data, [0.25, 0.5, 0.75]))
        heavy = high > low and np.ptp(data) > HEAVY_TAILED * (high - low)
        return Scale(centre, high - low) if heavy else Scale()

    def __call__(self, y: FloatArray) -> FloatArray:
        return y if math.isinf(self.width) else np.arcsinh((y - self.centre) / self.width)


def _predicted(simulated: FloatArray, factor: float, seen: tuple[float, float]) -> float:
    """The mean log density of half of the data sets, as the other half has it, within the range of the data."""
    half = len(simulated) // 2
    others = simulated[half:].ravel()
    others = others[(others >= seen[0]) & (others <= seen[1])]
    if not half or not others.size:
        return 0.0
    y = np.sort(simulated[:half].ravel())
    return float(np.log(epanechnikov(y, others, factor * silverman(y))).mean())


def silverman(y: FloatArray) -> float:
    """Silverman's bandwidth for Epanechnikov's kernel, of numbers in rising order.

    0.9 min(s, IQR/1.34) K^(−1/5) is for a normal kernel; Epanechnikov's is 2.214 times as wide to smooth alike.
    """
    quartiles = np.quantile(y, [0.25, 0.75])
    spread = min(filter(None, (float(y.std()), float(quartiles[1] - quartiles[0]) / 1.34)), default=0.0)
    return float(2.214 * 0.9 * (spread or 1e-12) * y.size**-0.2)


def epanechnikov(y: FloatArray, at: FloatArray, h: float, wide: float = 0.0) -> FloatArray:
    """The kernel density of numbers in rising order at some places: Σ ¾ (1 − ((x − y)/h)²) / (K h) within h.

    With running sums of y and y² it costs two searches a place. Never below a tenth of what a single number gives in
    the middle of its kernel, since a datum that no simulation came near is unlikely and not impossible; a kernel that
    is narrower than ``wide`` counts as that wide, or θ at which all simulations are the same would be the best.
    """
    centre = at.mean()
    # Numbers far from all places would drown the others in running sums.
    v = (y[np.searchsorted(y, at.min() - h, "left") : np.searchsorted(y, at.max() + h, "right")] - centre) / h
    x = (at - centre) / h
    sums = np.concatenate([[[0.0], [0.0]], np.cumsum([v, v**2], axis=1)], axis=1)
    low, high = np.searchsorted(v, x - 1, "left"), np.searchsorted(v, x + 1, "right")
    first, second = sums[:, high] - sums[:, low]
    inside = (high - low) * (1 - x**2) + 2 * x * first - second
    scale = 0.75 / (y.size * h)
    return np.asarray(np.maximum(inside * scale, FLOOR * min(scale, 0.75 / (y.size * wide) if wide else scale)))
