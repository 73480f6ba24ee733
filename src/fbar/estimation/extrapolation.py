"""Richardson extrapolation in the tolerance, from the simulations of one run.

ABC's posterior at tolerance ε is the true one seen through a kernel of width ε on the summaries. Where the density of
the summaries is smooth at the data, and the kernel symmetric, the bias is bε² + O(ε⁴), so that

    f̂_R = (c² f̂_{ε/c} − f̂_ε) / (c² − 1),    (4 f̂_{ε/2} − f̂_ε) / 3 for c = 2,

has a bias of O(ε⁴). Simulations within ε/c are among those within ε: the error of f̂_R is Σ z_R over simulations with

    z_R = (c² z_{ε/c} − z_ε) / (c² − 1),    z = w a ψ / Σ w a at each tolerance,

and z_R goes through the plain estimator's formula for the variance of such a sum. The two are not independent, and are
not taken to be. The price is variance: with d summaries and equal weights there are c^d times fewer simulations
within ε/c.

Where the assumption fails the bias is of another order and the interval is about another number: data at the edge of
what the simulator can give (there the bias is of order ε), summaries on a lattice no finer than ε, a density with a
kink at the data, or an ε over which it is not yet close to a parabola. The error bar accounts for chance only. Compare
with f̂_R at a smaller tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import number, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.question.targets import Target


def as_ratio(ratio: Any) -> float:
    """c, the larger tolerance over the smaller."""
    value = number(ratio, "ratio")
    if not 1 < value < np.inf:
        raise InputError(f"ratio must be larger than 1, such as 2 for the tolerances ε and ε/2; got {shown(ratio)}")
    return value


class Combined(Posterior):
    """k₁ T_{ε/c} + k₂ T_ε for every target T.

    ``points`` are those within ε, and ``weights`` the combination of the two sets of weights: some are negative, so
    that they give expectations and are no probabilities. Targets that are not expectations (a variance, a quantile)
    combine the two values.
    """

    def __init__(self, large: Posterior, small: Posterior, ratio: float, coefficients: tuple[float, float]) -> None:
        self.large, self.small, self.ratio = large, small, ratio
        self._rows = _places(small, large)
        self._k = coefficients
        super().__init__(
            large.points,
            self._combined(small.weights[:, None], large.weights[:, None])[:, 0],
            large.errors,
            large.simulations,
            small.accepted,
        )

    inverts = False
    is_distribution = False

    @property
    def _distribution(self) -> tuple[Points, FloatArray]:
        return self.small.points, self.small.weights

    def _combined(self, small: FloatArray, large: FloatArray) -> FloatArray:
        result: FloatArray = self._k[1] * large
        result[self._rows] += self._k[0] * small
        return result

    @property
    def ess(self) -> float:
        """1/Σw²: how many equally weighted simulations give an expectation with the same variance."""
        return float(1 / (self.weights**2).sum())

    def value(self, target: Target) -> FloatArray:
        return np.asarray(self._k[0] * self.small.value(target) + self._k[1] * self.large.value(target))

    def contributions(self, target: Target) -> FloatArray:
        """z_R, on the rows of the larger tolerance."""
        return self._combined(_z(self.small, target.influence), _z(self.large, target.influence))

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        """The plain formula for the variance of Σ z_R, and the second-order terms of covariances."""
        z, inner = [], []
        for target in targets:
            target.check(self.small.points)
            z.append(self.contributions(target))
            inner.append(_inner_z(self, target))
        widths, nested = [part.shape[1] for part in z], [own is not None for own in inner]
        size = sum(widths)
        influence = np.concatenate([*z, *(part for part in inner if part is not None)], axis=1)
        del z, inner  # of as many rows as were accepted, which may be very many
        influence /= self.large.weights[:, None]  # whose z are these
        assert self.large.errors is not None
        bars = self.large.errors.error_bars(influence)
        covariance = bars.covariance[:size, :size].copy()
        place, start = 0, size
        for width, has_inner in zip(widths, nested, strict=True):
            if has_inner:
                covariance[place, place] += self._second_order(bars.covariance[start : start + 4, start : start + 4])
                start += 4
            place += width
        few = np.full(size, self.small.points.rows < FEW_ACCEPTED)
        doubts = (
            *((mask[:size], text) for mask, text in bars.doubts),
            (few, f"{FEW_WERE_ACCEPTED} at the smaller tolerance"),
        )
        return ErrorBars(covariance, bars.df[:size], doubts)

    def _second_order(self, v: FloatArray) -> float:
        """var(Σ k_t δa_t δb_t) for normal errors in the order a, b at ε/c, a, b at ε.

        cov(δa_t δb_t, δa_u δb_u) = C(a_t, a_u) C(b_t, b_u) + C(a_t, b_u) C(b_t, a_u).
        """
        total = 0.0
        for t, k in enumerate(self._k):
            for u, other in enumerate(self._k):
                a, b, c, d = 2 * t, 2 * t + 1, 2 * u, 2 * u + 1
                total += k * other * (v[a, c] * v[b, d] + v[a, d] * v[b, c])
        return max(float(total), 0.0)


class ExtrapolatedPosterior(Combined):
    """(c² T_{ε/c} − T_ε)/(c² − 1) for every target T; its weights sum to 1."""

    def __init__(self, large: Posterior, small: Posterior, ratio: float) -> None:
        super().__init__(large, small, ratio, (ratio**2 / (ratio**2 - 1), -1 / (ratio**2 - 1)))


class Bias(Combined):
    """T_ε less the extrapolated value, c²/(c² − 1) (T_ε − T_{ε/c}): what the tolerance ε seems to add to every T."""

    def __init__(self, large: Posterior, small: Posterior, ratio: float) -> None:
        k = ratio**2 / (ratio**2 - 1)
        super().__init__(large, small, ratio, (-k, k))


def _z(posterior: Posterior, influence: Any) -> FloatArray:
    z: FloatArray = posterior.weights[:, None] * influence(posterior.points, posterior.weights)
    return z


def _inner_z(posterior: Combined, target: Target) -> FloatArray | None:
    """z of the two inner quantities at ε/c and at ε, four columns on the rows of the larger tolerance."""
    if target.inner(posterior.large.points, posterior.large.weights) is None:
        return None
    small = np.zeros((posterior.large.points.rows, 2))
    small[posterior._rows] = _z(posterior.small, target.inner)
    return np.concatenate([small, _z(posterior.large, target.inner)], axis=1)


def _places(small: Posterior, large: Posterior) -> IntArray:
    """Where the simulations of the smaller tolerance are among those of the larger."""
    rows, among = (rows_of(posterior) for posterior in (small, large))
    places = np.searchsorted(among, rows)
    if places.size and (places[-1] >= among.size or (among[places] != rows).any()):
        raise NoPosterior("too few simulations are within the smaller tolerance; raise the tolerance or the budget")
    return np.asarray(places)


def rows_of(posterior: Posterior) -> IntArray:
    """Which of the run's kept simulations a posterior is made of, in rising order."""
    draws = posterior.draws
    if type(posterior) is not Posterior or draws is None or draws.row is None:
        raise InputError(
            "extrapolation and adjustment need individually weighted simulations; use "
            "estimator=fbar.WeightedAverage(), or weights='mixture' for SMC"
        )
    return draws.row
