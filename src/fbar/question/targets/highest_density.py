"""The interval of highest density, the shortest that has a given posterior probability.

Its ends L < U satisfy F(U) − F(L) = c and f(L) = f(U) = λ. Let F and f change by G and g, in the direction of a point
mass at θ: G(x) = 1{θ ≤ x} − F(x), g(x) = δ(θ − x) − f(x). With A = G(U) − G(L) and D = g(L) − g(U), the two conditions
give λ (δU − δL) = −A and f'(U) δU − f'(L) δL = D, so that

    ψ_L = (D + f'(U) A/λ) / (f'(U) − f'(L)),    ψ_U = (D + f'(L) A/λ) / (f'(U) − f'(L)).

f is not seen in a sample, and δ has no variance: a smoothed density f̂ takes its place. It is the slope of a local
cubic fit to the distribution function (Cattaneo, Jansson & Ma 2020), f̂(x) = e₁ᵀ Γ⁻¹ Σ w K(u) r(u) F̂ with u = (θ −
x)/b and r(u) = (1, u, u², u³), which needs no correction where the parameter has a bound; f̂' is its curvature. It is
linear in F̂, so that its own influence function, e₁ᵀ Γ⁻¹ Σ w K r (1{θ ≤ ·} − F̂), takes the place of g. The probability
of the interval is that of the sample, unsmoothed: smoothing does not widen the interval. What it may do is to shift it,
by the error of f̂(U) − f̂(L), which is O(b⁴) inside and O(b³) at a bound, with b ∝ s n^(−1/9) (n is Kish's effective
size; s the smaller of the standard deviation and the shortest half over 1.349). The error bars assume that this is
small compared with them: that the density is smooth on the scale of b. (The empirical shortest interval needs no
density; its error falls as n^(−1/3) only, and is not normal.)

At a bound of the parameter, where the density does not fall before it ends, L or U is the outermost draw: the interval
begins there, and its other end is a quantile. The error of such an end, about 1/(n f), is taken from the outermost
draws' spacing.

Where the density has several modes, the region {f ≥ λ} need not be an interval. The target is still the shortest
interval; a remark says that it is not the region. Where another interval is as short up to its error, or where f hardly
changes at the ends, the interval is not determined, and its error bars are unreliable.

Cattaneo, Jansson & Ma, J. Amer. Statist. Assoc. 115 (2020) 1449.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.question.points import Points
from fbar.question.targets.base import Target, continuous_column, present, restricted
from fbar.question.targets.quantiles import FEW_VALUES
from fbar.weights import effective_size

ENDS = ("lower end", "upper end")
"""The labels of the two numbers of a credible interval."""

BANDWIDTH, RATE = 2.5, -1 / 9
"""b in units of s, and how it falls with n."""

CELLS = 8
"""Cells of the table of the density in a bandwidth."""

RIDGE = 1e-9
"""Added to Γ, relative to its first entry: where hardly a draw is near, the density is about zero."""

GRID = 512
"""Intervals of the given probability that are compared."""

BEYOND_CHANCE = 2.0
"""Standard errors from which on a difference of densities counts."""

SLOPE_NOISE = 4.41
"""n b³ var(f̂')/f away from bounds: the integral of the squared influence function over u."""

OUTERMOST = 10
"""Draws whose spacing gives the error of an end at a bound."""

TINY = 1e-300

FEW_BEYOND = 10.0
"""Effective draws outside the interval, fewer of which do not show where it ends."""


def _kernel(u: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(1 - u**2, 0.0) ** 2)


def _inverse(squares: FloatArray) -> FloatArray:
    """Γ⁻¹ of one place or of many."""
    ridge = RIDGE * (squares[..., :1, :1] + RIDGE) * np.eye(4)
    return np.asarray(np.linalg.inv(squares + ridge))


@dataclass(frozen=True, eq=False)
class Local:
    """The density f̂ at a place, and its slope: sums of F at the draws ``x`` nearby, with these factors."""

    x: FloatArray
    mass: FloatArray
    of_density: FloatArray
    of_slope: FloatArray

    @property
    def density(self) -> float:
        return float(self.of_density @ self.mass)

    @property
    def slope(self) -> float:
        return float(self.of_slope @ self.mass)

    def influence(self, x: FloatArray, factor: FloatArray) -> FloatArray:
        """What a point mass at each x adds to a sum, up to a constant: Σ factor 1{x ≤ draw}."""
        upward = np.append(np.cumsum(factor[::-1])[::-1], 0.0)
        return np.asarray(upward[np.searchsorted(self.x, x, side="left")])


@dataclass(frozen=True, eq=False)
class Shortest:
    """The shortest interval of weighted draws of one variable; ``x`` in rising order, ``w`` sums to one."""

    x: FloatArray
    w: FloatArray
    level: float

    @staticmethod
    def of(x: FloatArray, weights: FloatArray, level: float) -> Shortest:
        order = np.argsort(x, kind="stable")
        w = weights[order]
        return Shortest(x[order], w / w.sum(), level)

    @cached_property
    def mass(self) -> FloatArray:
        """F at the draws: half of a draw's weight is below it."""
        return np.asarray(np.cumsum(self.w) - self.w / 2)

    @cached_property
    def n(self) -> float:
        return effective_size(self.w)

    def at(self, share: FloatArray) -> FloatArray:
        """F⁻¹."""
        return np.asarray(np.interp(share, self.mass, self.x))

    @cached_property
    def b(self) -> float:
        """The bandwidth; 0 where the draws do not vary."""
        mean = self.w @ self.x
        deviation = math.sqrt(max(float(self.w @ (self.x - mean) ** 2), 0.0))
        start = np.linspace(0.0, 0.5, GRID)
        half = float((self.at(start + 0.5) - self.at(start)).min()) / 1.349
        scale = min(deviation, half) if half > 0 else deviation
        return float(BANDWIDTH * scale * self.n**RATE)

    @cached_property
    def known(self) -> bool:
        """Whether the draws determine an interval at all."""
        return self.x.size > 1 and self.b > 0 and math.isfinite(self.b)

    # ------------------------------------------------------------ the density

    def local(self, where: float) -> Local:
        """The local cubic fit to the distribution function."""
        near = slice(*np.searchsorted(self.x, (where - self.b, where + self.b)).tolist())
        x, mass = self.x[near], self.mass[near]
        u = (x - where) / self.b
        r = u[:, None] ** np.arange(4)
        weighted = (self.w[near] * _kernel(u))[:, None] * r
        inverse = _inverse(weighted.T @ r)
        return Local(x, mass, weighted @ inverse[1] / self.b, 2 * weighted @ inverse[2] / self.b**2)

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """f̂ on a grid, from draws that are shared out between its neighbouring points."""
        low, high = float(self.x[0]), float(self.x[-1])
        size = int(np.clip(math.ceil(CELLS * (high - low) / self.b), 4 * CELLS, 1 << 16))
        step = (high - low) / size
        place = (self.x - low) / step
        left = np.minimum(place.astype(np.int64), size - 1)
        part = place - left
        reach = math.ceil(self.b / step)
        u = np.asarray(np.arange(-reach, reach + 1) * step / self.b, dtype=np.float64)
        shapes = _kernel(u) * u ** np.arange(7)[:, None]

        def moments(values: FloatArray, many: int) -> FloatArray:
            """Σ values K(u) uᵏ around every point of the grid, for k below ``many``."""
            cells = np.bincount(left, values * (1 - part), size + 1) + np.bincount(left + 1, values * part, size + 1)
            padded = np.pad(np.asarray(cells, dtype=np.float64), reach)
            return np.stack([np.convolve(padded, shape[::-1], "valid") for shape in shapes[:many]], axis=-1)

        squares = moments(self.w, 7)[:, np.add.outer(np.arange(4), np.arange(4))]
        density = np.einsum("ij,ij->i", _inverse(squares)[:, 1], moments(self.w * self.mass, 4)) / self.b
        return np.asarray(low + step * np.arange(size + 1), dtype=np.float64), np.asarray(density)

    # ------------------------------------------------------------ the interval

    @cached_property
    def _candidates(self) -> list[tuple[float, float]]:
        """F(L) of the intervals that are shorter than their neighbours, with their lengths; the shortest first.

        The length Q(p + c) − Q(p) falls where f(U) > f(L), and is least where that difference turns negative.
        """
        p = np.linspace(0.0, 1 - self.level, GRID + 1)
        low, high = self.at(p), self.at(p + self.level)
        places, table = self._table
        falls = np.interp(high, places, table) > np.interp(low, places, table)
        found = [0.0] if not falls[0] else []
        found += [self._between(p[k], p[k + 1]) for k in np.flatnonzero(falls[:-1] & ~falls[1:])]
        found += [1 - self.level] if falls[-1] else []
        return sorted(((share, self._length(share)) for share in found), key=lambda one: one[1])

    def _length(self, share: float) -> float:
        low, high = self.at(np.array([share, share + self.level]))
        return float(high - low)

    def _between(self, low: float, high: float) -> float:
        """F(L) of an interval, on a line between two neighbours."""
        ends = np.array([low, high])
        places, table = self._table
        away = np.interp(self.at(ends + self.level), places, table) - np.interp(self.at(ends), places, table)
        part = float(away[0] / (away[0] - away[1])) if away[0] > away[1] else 0.5
        return low + (high - low) * min(max(part, 0.0), 1.0)

    @cached_property
    def share(self) -> float:
        """F(L)."""
        return self._candidates[0][0]

    @cached_property
    def ends(self) -> tuple[float, float]:
        if not self.known:
            return (float(self.x[0]), float(self.x[-1])) if self.x.size else (math.nan, math.nan)
        low, high = self.at(np.array([self.share, self.share + self.level]))
        return float(low), float(high)

    @property
    def at_bound(self) -> tuple[bool, bool]:
        """Whether L and U are where the draws end."""
        return self.share <= 0.0, self.share >= 1 - self.level

    @cached_property
    def top(self) -> float:
        """λ."""
        return (self.fits[0].density + self.fits[1].density) / 2

    @cached_property
    def fits(self) -> tuple[Local, Local]:
        """The density at L and U."""
        return self.local(self.ends[0]), self.local(self.ends[1])

    def influence(self) -> Callable[[FloatArray], FloatArray]:
        """ψ_L and ψ_U, as a function of values of the variable: shape (n, 2)."""
        if not self.known or not self.top > 0:
            return lambda x: np.zeros((x.size, 2))
        if any(self.at_bound):
            return self._influence_at_bound()
        (low, high), level, (at_low, at_high) = self.ends, self.top, self.fits
        rises, falls = at_low.slope, at_high.slope
        bend = falls - rises
        bend = bend if bend < 0 else -level / self.b  # the interval is not determined, see `doubts`

        def unscaled(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            inside = ((x > low) & (x <= high)).astype(np.float64)
            return inside, at_low.influence(x, at_low.of_density) - at_high.influence(x, at_high.of_density)

        inside, difference = unscaled(self.x)
        share, offset = float(self.w @ inside), float(self.w @ difference)

        def psi(x: FloatArray) -> FloatArray:
            a, d = unscaled(x)
            a, d = (a - share) / level, d - offset
            return np.stack([(d + falls * a) / bend, (d + rises * a) / bend], axis=1)

        return psi

    def _influence_at_bound(self) -> Callable[[FloatArray], FloatArray]:
        lower = self.at_bound[0]
        bound, other = self.ends if lower else self.ends[::-1]
        part = min(OUTERMOST / self.n, 0.5)
        near = float(self.at(np.array([part if lower else 1 - part]))[0])
        factors = part / max(abs(near - bound), TINY), max(self.local(other).density, TINY)

        def beyond(x: FloatArray) -> FloatArray:
            marks = (x <= near, x <= other) if lower else (x >= near, x >= other)
            return np.stack(marks, axis=1).astype(np.float64)

        mean = self.w @ beyond(self.x)
        side = 1.0 if lower else -1.0
        ordered = slice(None) if lower else slice(None, None, -1)
        return lambda x: np.asarray((side * (mean - beyond(x)) / np.array(factors))[:, ordered])

    # ------------------------------------------------------------ what is doubtful

    def _deviation(self, psi: FloatArray) -> float:
        """The standard error of a number with this ψ, of independent draws."""
        return math.sqrt(float(self.w**2 @ (psi - self.w @ psi) ** 2))

    def doubts(self, name: str) -> tuple[str, ...]:
        if not self.known:
            return ()  # that its error is unknown is found elsewhere
        distinct = 1 + int(np.count_nonzero(np.diff(self.x)))
        if distinct <= FEW_VALUES * self.x.size:
            return (f"{name} takes few values among the simulations used, so it has no density",)
        found = []
        if self.n * (1 - self.level) < FEW_BEYOND:
            found.append("too few simulations lie outside the interval to find its ends")
        noise = math.sqrt(2 * max(self.top, 0.0) * SLOPE_NOISE / (self.n * self.b**3))
        straight = not any(self.at_bound) and not self.fits[0].slope - self.fits[1].slope > BEYOND_CHANCE * noise
        if straight or self._flat:
            found.append(
                f"the density of {name} hardly falls towards the ends: other intervals are as short, up to the error"
            )
        if self._rival:
            found.append(f"another interval of {name} is as short, up to the error")
        return tuple(found)

    @property
    def _flat(self) -> bool:
        """Whether λ is nearer to the largest density than to that of a normal distribution's ends, exp(−z²/2)."""
        from scipy.special import ndtri

        normal = math.exp(-(float(ndtri((1 + self.level) / 2)) ** 2) / 2)
        outer = min(fit.density for fit in self.fits)
        return outer > math.sqrt(normal) * float(self._table[1].max())

    @property
    def _rival(self) -> bool:
        """Whether another mode gives an interval whose length differs by less than its error."""
        if len(self._candidates) < 2 or not self.top > 0:
            return False
        error = math.sqrt(self.level * (1 - self.level) / self.n) / self.top
        return self._candidates[1][1] - self._candidates[0][1] < BEYOND_CHANCE * error

    def remarks(self, name: str) -> tuple[str, ...]:
        """That the region of highest density is not an interval."""
        if not self.known or any(self.at_bound):
            return ()
        places, table = self._table
        inside = (places > self.ends[0]) & (places < self.ends[1])
        fit = self.fits[0]
        noise = self._deviation(fit.influence(self.x, fit.of_density))
        dips = (table[inside] < self.top - BEYOND_CHANCE * noise).any()
        peaks = (table[~inside] > self.top + 2 * BEYOND_CHANCE * noise).any()
        if not (dips or peaks):
            return ()
        return (
            f"{name} has several modes: the region of highest density is not an interval, and this is the shortest one",
        )


@dataclass(frozen=True, repr=False)
class HighestDensity(Target):
    """The ends of the shortest interval of a continuous parameter with the posterior probability ``level``.

    They are where a smoothed density is equal, see `fbar.question.targets.highest_density` for what that assumes. A
    posterior with several modes is reported in the estimate's warnings.
    """

    parameter: str
    level: float
    name: str

    def components(self, points: Points) -> FloatArray:
        return continuous_column(points, self.parameter, self.name)[:, None]

    def given(self, points: Points) -> BoolArray | None:
        return present(points, (self.parameter,))

    @property
    def labels(self) -> tuple[str, ...]:
        return ENDS

    @property
    def scalar(self) -> bool:
        return False

    @property
    def smooth(self) -> bool:
        return False

    def shortest(self, points: Points, weights: FloatArray) -> Shortest:
        """The interval of one run's weighted points, of those that have the parameter."""
        x, given = self.components(points)[:, 0], self.given(points)
        return Shortest.of(x, weights, self.level) if given is None else self._of_given(x, weights, given)

    def _of_given(self, x: FloatArray, weights: FloatArray, given: BoolArray) -> Shortest:
        return Shortest.of(x[given], weights[given], self.level)

    def _each(self, points: Points, weights: FloatArray) -> list[Shortest]:
        return [self.shortest(points, row) for row in weights.reshape(-1, weights.shape[-1])]

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        found = [each.ends for each in self._each(points, weights)]
        return np.reshape(found, (*weights.shape[:-1], 2))

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        each = [found.influence() for found in self._each(points, weights)]
        given = self.given(points)
        share = np.ones(weights.shape[:-1]) if given is None else np.where(given, weights, 0.0).sum(axis=-1)

        def at(where: Points) -> FloatArray:
            x = self.components(where)[:, 0]
            psi = np.reshape([function(x) for function in each], (*weights.shape[:-1], x.size, 2))
            return restricted(psi, self.given(where), share)

        return at

    def limits(self, points: Points) -> tuple[float, float]:
        x, given = self.components(points)[:, 0], self.given(points)
        x = x if given is None else x[given]
        return float(x.min(initial=math.inf)), float(x.max(initial=-math.inf))

    def doubts(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        return self.shortest(points, weights).doubts(self.parameter) if weights.ndim == 1 else ()

    def remarks(self, points: Points, weights: FloatArray) -> tuple[str, ...]:
        return self.shortest(points, weights).remarks(self.parameter) if weights.ndim == 1 else ()
