"""A distribution of one parameter from its density, by numerical inversion to full precision.

The density need not be normalised. It is integrated over panels that are halved until Gauss-Legendre rules of
two orders agree; panels that keep failing enclose a kink or a jump, where the support is split. Each smooth
piece is inverted by UNU.RAN's polynomial interpolation of the inverse distribution function (Derflinger,
Hörmann & Leydold 2010), through scipy.stats.sampling, with an error in u below 10⁻¹².
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, floats, numeric_array
from fbar.checks import function as check_function
from fbar.checks import in_words, number, shown
from fbar.errors import InputError, ZeroDensity

ORDER = 15
LEVELS = 48
U_ERROR = 1e-12
AGREE = 1e-13
MOST_PANELS = 20_000
NARROW = 16
MOST_PIECES = 64
CHECKED = 1e-8

_COARSE = np.polynomial.legendre.leggauss(ORDER)
_FINE = np.polynomial.legendre.leggauss(2 * ORDER + 1)


class _Interpolant:
    """The density between its quadrature nodes, where polynomials of their degree have been shown to suffice.

    The sampler's set-up asks for thousands of single values; a user's function of arrays would take ten times
    as long. Barycentric interpolation at Legendre nodes (Wang & Xiang 2012).
    """

    def __init__(self, left: FloatArray, right: FloatArray, values: FloatArray) -> None:
        self.left: list[float] = left.tolist()
        self._right, self._values = right.tolist(), values
        x, w = _FINE
        self._weights = (-1.0) ** np.arange(x.size) * np.sqrt((1 - x**2) * w)

    def __call__(self, x: float) -> float:
        panel = min(max(bisect_right(self.left, x) - 1, 0), len(self.left) - 1)
        left, right = self.left[panel], self._right[panel]
        difference = (2 * x - left - right) / (right - left) - _FINE[0]
        at_node = difference == 0
        if at_node.any():
            return float(self._values[panel, int(at_node.argmax())])
        share = self._weights / difference
        return max(0.0, float((share * self._values[panel]).sum() / share.sum()))


class _Piece:
    """One smooth piece, brought to [0, 1]: what scipy's sampler wants is an object whose ``pdf`` takes one number."""

    def __init__(self, function: Callable[[float], float], low: float, high: float, mass: float) -> None:
        self._function, self._low, self._width = function, low, high - low
        self._scale = (high - low) / mass

    def pdf(self, t: float) -> float:
        return self._function(self._low + self._width * t) * self._scale

    def invert(self, centre: float) -> Callable[[FloatArray], FloatArray]:
        from scipy.stats.sampling import NumericalInversePolynomial

        centre = min(max((centre - self._low) / self._width, 1e-6), 1 - 1e-6)
        sampler = NumericalInversePolynomial(self, center=centre, domain=(0.0, 1.0), u_resolution=U_ERROR)
        return lambda u: self._low + self._width * np.asarray(sampler.ppf(u))


class Density:
    """The distribution with density ∝ ``function`` on [low, high].

    Parameters
    ----------
    function
        The density up to a constant, for an array of values.
    low, high
        The bounds of its support; finite. (Truncate an infinite tail where its mass is below rounding error.)
    breaks
        Points where it is not smooth, if they are known; others are found.

    Examples
    --------
    >>> d = Density(lambda x: np.exp(-np.abs(x)), -40, 60)
    >>> round(d.mass, 9), abs(float(d.ppf(np.array([0.5]))[0])) < 1e-9
    (2.0, True)
    """

    discrete = False

    def __init__(
        self,
        function: Callable[[FloatArray], Any],
        low: float,
        high: float,
        breaks: Sequence[float] = (),
    ) -> None:
        check_function(function, "a density")
        ends = number(low, "low"), number(high, "high")
        if not (np.isfinite(ends).all() and ends[0] < ends[1]):
            raise InputError(f"a density needs finite ends low < high; got {shown(low)} and {shown(high)}")
        self.low, self.high = low, high = ends
        self._given = function
        edges = np.array(
            [
                self.low,
                *sorted(b for b in set(numeric_array(breaks, "breaks").ravel().tolist()) if low < b < high),
                self.high,
            ]
        )
        nodes, weights, values, rough, self._interpolant = self._integrate(edges)
        self.mass = float(weights @ values)
        """∫ function."""
        if not self.mass > 0:
            raise ZeroDensity(f"the density is zero everywhere on [{low:g}, {high:g}]; it cannot be normalised")
        self.nodes, self.weights = nodes, weights * values / self.mass
        """Quadrature nodes, and weights that integrate a function under this distribution."""
        self._pieces = self._invert(np.unique(np.concatenate([edges, rough, self._valleys(nodes, values)])), rough)
        self._check()

    # ------------------------------------------------------------ the density

    def function(self, x: FloatArray) -> FloatArray:
        """The unnormalised density, checked."""
        with np.errstate(over="ignore"):
            y = self._called(x)
        bad = ~(np.isfinite(y) & (y >= 0))
        if bad.any():
            word = "negative" if y[bad][0] < 0 else "not finite"
            raise InputError(
                f"the density is {word} at {x[bad][0]:.6g}: {y[bad][0]:g}; it must be a number of at least 0"
            )
        return y

    def _called(self, x: FloatArray) -> FloatArray:
        try:
            y = floats(self._given(x), "a density's values")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the density failed: {in_words(error)}") from error
        if y.shape not in ((), x.shape):
            raise InputError(
                f"a density must return one number for each of {x.size} values; it returns shape {y.shape}"
            )
        return np.broadcast_to(y, x.shape)

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def pdf(self, x: npt.ArrayLike) -> FloatArray:
        x = np.atleast_1d(floats(x, "x"))
        if x.size == 0 or (x.min() >= self.low and x.max() <= self.high):
            return self._called(x) / self.mass
        inside = (x >= self.low) & (x <= self.high)
        result = np.zeros(x.shape)
        result[inside] = self._called(x[inside]) / self.mass
        return result

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pdf(x)))

    # ------------------------------------------------------------ quadrature

    def _integrate(self, edges: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, _Interpolant]:
        """Nodes, weights and values over panels fine enough, the kinks found on the way, and the interpolant."""
        # Enough panels at the start that a narrow peak is not stepped over.
        start = np.concatenate([np.linspace(a, b, 65)[:-1] for a, b in pairwise(edges)])
        left, right = start, np.append(start[1:], edges[-1])
        done: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]] = []
        rough: list[float] = []
        scale = 0.0
        for level in range(LEVELS):
            half, middle = (right - left) / 2, (right + left) / 2
            x = middle[:, None] + half[:, None] * _FINE[0]
            y = self.function(x.ravel()).reshape(x.shape)
            fine = half * (y @ _FINE[1])
            coarse_x = middle[:, None] + half[:, None] * _COARSE[0]
            coarse = half * (self.function(coarse_x.ravel()).reshape(coarse_x.shape) @ _COARSE[1])
            scale = max(scale, float(fine.sum()) + sum(float((w * v).sum()) for _, w, v, *_ in done))
            ok = np.abs(fine - coarse) <= AGREE * np.maximum(scale, 1e-300)
            # A panel of a few floating-point numbers around a jump cannot be halved further.
            ok |= right - left <= NARROW * np.spacing(np.maximum(np.abs(left), np.abs(right)))
            if level == LEVELS - 1:
                if np.abs(fine - coarse).sum() > 1e-9 * scale:
                    raise InputError(
                        f"the density could not be normalised near {float(middle[~ok][0]):.6g}: its integral does not "
                        "converge there"
                    )
                ok[:] = True
            done.append((x[ok], half[ok, None] * _FINE[1], y[ok], left[ok], right[ok]))
            left, right = left[~ok], right[~ok]
            if left.size == 0:
                break
            if level > 12:  # a panel this small is no smooth function's
                rough += list((left + right) / 2)
            if left.size > MOST_PANELS:
                raise InputError(
                    f"the density is too rough to be integrated: {left.size} panels are not fine enough "
                    f"(near {float(left[0]):.6g}); smooth it, or give it on a smaller range"
                )
            middle = (left + right) / 2
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        x, w, y, left, right = (np.concatenate(parts) for parts in zip(*done, strict=True))
        order = np.argsort(left, kind="stable")
        interpolant = _Interpolant(left[order], right[order], y[order])
        return x[order].ravel(), w[order].ravel(), y[order].ravel(), self._cluster(rough), interpolant

    def _valleys(self, nodes: FloatArray, values: FloatArray) -> FloatArray:
        """Where the density falls to a thousandth of the peaks on both sides: the sampler takes one mode at a time."""
        before = np.maximum.accumulate(values)
        after = np.maximum.accumulate(values[::-1])[::-1]
        deep = values < 1e-3 * np.minimum(before, after)
        starts = np.flatnonzero(np.diff(np.concatenate([[False], deep, [False]]).astype(np.int8)))
        ends = zip(starts[::2], starts[1::2], strict=True)
        lowest = np.array([a + int(np.argmin(values[a:b])) for a, b in ends], dtype=np.int64)
        return np.array(self._interpolant.left)[lowest // _FINE[0].size]  # the end of a panel, whose mass is known

    def _check(self) -> None:
        """The inverse must agree with the quadrature at every panel's end, or some of the mass was lost."""
        x = np.array(self._interpolant.left[1:])
        mass = np.add.reduceat(self.weights, np.arange(0, self.weights.size, _FINE[0].size))
        u = np.cumsum(mass)[:-1]
        between = (u > 1e-7) & (u < 1 - 1e-7)
        x, u = x[between], u[between]
        slack = 1e-9 * (self.high - self.low)
        wrong = (self.ppf(u - CHECKED) > x + slack) | (self.ppf(u + CHECKED) < x - slack)
        if wrong.any():
            raise InputError(
                f"the density could not be inverted near {float(x[wrong][0]):.6g}; "
                "give the points where it is not smooth as breaks="
            )

    def _cluster(self, rough: list[float]) -> FloatArray:
        """One point for each kink: the centre of the last panel that enclosed it."""
        width = (self.high - self.low) * 2.0**-12
        kinks: list[float] = []
        for x in reversed(rough):  # the smallest panels came last
            if all(abs(x - kink) > width for kink in kinks):
                kinks.append(x)
        return np.array(kinks)

    # ------------------------------------------------------------ inversion

    def _invert(
        self, edges: FloatArray, rough: FloatArray
    ) -> list[tuple[float, float, Callable[[FloatArray], FloatArray]]]:
        """For each piece: the cumulated mass before it, its mass, and its inverse distribution function."""
        from scipy.stats.sampling import UNURANError

        if edges.size > MOST_PIECES:
            raise InputError(f"the density has {edges.size - 1} separate pieces, more than can be inverted one by one")
        pieces: list[tuple[float, float, Callable[[FloatArray], FloatArray]]] = []
        before = 0.0
        for low, high in pairwise(edges.tolist()):
            # The panel that encloses a jump belongs to neither side.
            margin = U_ERROR * (self.high - self.low)
            low, high = low + margin * (low in rough), high - margin * (high in rough)
            if not low < high:
                continue
            inside = (self.nodes >= low) & (self.nodes <= high)
            mass = float(self.weights[inside].sum())
            if mass <= 10 * U_ERROR:
                continue
            # Tails whose mass is below rounding error only trouble the inversion.
            filled = np.flatnonzero(inside & (self.weights > 0))
            cumulated = np.cumsum(self.weights[filled])
            first = int(np.searchsorted(cumulated, 1e-17))
            last = int(np.searchsorted(cumulated, mass * (1 - 1e-16)))
            a = low if first == 0 else self.nodes[filled[max(first - 1, 0)]]
            b = high if last >= filled.size - 1 else self.nodes[filled[min(last + 1, filled.size - 1)]]
            peak = filled[np.argmax(self.function(self.nodes[filled]))]
            try:
                inverse = _Piece(self._interpolant, float(a), float(b), mass * self.mass).invert(
                    float(self.nodes[peak])
                )
            except UNURANError as error:
                raise InputError(
                    f"the density could not be inverted on [{low:.6g}, {high:.6g}] ({error}); "
                    "give the points where it is not smooth as breaks="
                ) from None
            pieces.append((before, mass, inverse))
            before += mass
        if not np.isclose(before, 1.0, atol=1e-9):
            raise InputError("the density could not be integrated to full precision; name its kinks with breaks=")
        return pieces

    def ppf(self, u: FloatArray) -> FloatArray:
        u = floats(u, "unit coordinates")
        if len(self._pieces) == 1:
            return self._pieces[0][2](u)
        total = self._pieces[-1][0] + self._pieces[-1][1]
        result = np.empty(u.shape)
        for before, mass, inverse in self._pieces:
            inner = (u * total - before) / mass
            # What lies on a border belongs to both pieces up to rounding: the later one has it, none is left out.
            rows = np.flatnonzero((inner >= -1e-12) & (inner <= 1 + 1e-12))
            result[rows] = inverse(np.clip(inner[rows], 0.0, 1.0))
        return result

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """By bisection of the inverse: slower than ``ppf``, and as precise."""
        x = np.clip(floats(x, "x"), self.low, self.high)
        low, high = np.zeros(x.shape), np.ones(x.shape)
        for _ in range(60):
            middle = (low + high) / 2
            above = self.ppf(middle) < x
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return (low + high) / 2
