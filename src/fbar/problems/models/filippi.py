"""Filippi's problem (figure S5, section S7.1), for y* = 0 and for any data (Filippi et al. 2013).

y ~ N((θ1−2θ2)² + (θ2−4)², 1), θ1, θ2 ~ U(−50, 50).

In u = (θ1−2θ2, θ2−4), with Jacobian 1, the likelihood depends on s = |u|² alone, du = ds dφ/2, and the prior's square
is a parallelogram: for every s the allowed angles φ are a few arcs, whose ends are known. What is left is an integral
over s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from fbar.arrays import FloatArray
from fbar.checks import finite_number, positive_number
from fbar.problems.benchmark import Recipe
from fbar.question.points import Points
from fbar.question.priors import Density, Prior
from fbar.question.priors.marginals import Uniform
from fbar.question.problem import Problem
from fbar.question.truth import Nodes, Truth

EDGE = 50.0
_NORMALS = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 2.0], [-1.0, -2.0]])
_OFFSETS = np.array([EDGE - 4, EDGE + 4, EDGE - 8, EDGE + 8])
"""The square in u: a·u ≤ b."""

_LENGTH = np.sqrt((_NORMALS**2).sum(axis=1))
_DISTANCE = _OFFSETS / _LENGTH
_DIRECTION = np.arctan2(_NORMALS[:, 1], _NORMALS[:, 0])
_CORNERS = np.array([[a - 2 * b, b - 4] for a in (-EDGE, EDGE) for b in (-EDGE, EDGE)])
LARGEST = float((_CORNERS**2).sum(axis=1).max())
BREAKS = tuple(sorted({*(_DISTANCE**2).tolist(), *(_CORNERS**2).sum(axis=1).tolist()}))
"""Where the arcs change in number."""


def squared_radius(t: Points) -> FloatArray:
    return np.asarray((t["theta1"] - 2 * t["theta2"]) ** 2 + (t["theta2"] - 4) ** 2)


def simulate(t: Points, rng: np.random.Generator) -> FloatArray:
    return np.asarray(squared_radius(t) + rng.standard_normal(t.rows))


@lru_cache(maxsize=8)
def gauss_legendre(size: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(size)


def log_kernel(s: FloatArray, y: float, tolerance: float) -> FloatArray:
    """log N(y | s, 1), or log P(|s + N(0, 1) − y| ≤ ε)."""
    if tolerance == 0:
        return np.asarray(-((y - s) ** 2) / 2 - math.log(2 * math.pi) / 2)
    near = np.abs(y - s)  # Φ(ε − |y−s|) − Φ(−ε − |y−s|), the larger term first
    upper, lower = log_ndtr(tolerance - near), log_ndtr(-tolerance - near)
    return np.asarray(upper + np.log1p(-np.exp(lower - upper)))


def arcs(s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each s the begin and length of eight arcs, of length 0 where the circle is outside the prior's square."""
    r = np.sqrt(s)[:, None]
    half = np.arccos(np.clip(_DISTANCE / np.maximum(r, 1e-300), -1.0, 1.0))
    ends = np.sort(np.mod(np.concatenate([_DIRECTION - half, _DIRECTION + half], axis=1), 2 * math.pi), axis=1)
    length = np.diff(ends, axis=1, append=ends[:, :1] + 2 * math.pi)
    middle = ends + length / 2
    u = r[..., None] * np.stack([np.cos(middle), np.sin(middle)], axis=-1)
    allowed = (u @ _NORMALS.T <= _OFFSETS).all(axis=-1)
    return ends, np.where(allowed, length, 0.0)


def theta_at(s: FloatArray, angle: FloatArray) -> tuple[FloatArray, FloatArray]:
    r = np.sqrt(s)
    second = 4 + r * np.sin(angle)
    return r * np.cos(angle) + 2 * second, second


class RingPosterior(Nodes):
    """The exact posterior for data y; with a tolerance that of ABC, |y' − y| ≤ ε."""

    def __init__(self, y: float, tolerance: float = 0.0) -> None:
        self.y, self.tolerance = y, tolerance
        # Where the kernel is above e^−45 of its largest value.
        best = min(max(0.0, y), LARGEST)
        reach = math.sqrt(90 + (best - y) ** 2) + tolerance
        self._low, self._high = max(0.0, y - reach), min(LARGEST, y + reach)
        inner = {*BREAKS, y - tolerance, y + tolerance}
        self._edges = [self._low, *sorted(b for b in inner if self._low < b < self._high), self._high]
        self._top = float(log_kernel(np.array([best]), y, tolerance)[0])
        fine, coarse = self._nodes(96, 20), self._nodes(64, 14)
        self.log_evidence = self._top + math.log(float(fine[1].sum()) / (2 * EDGE) ** 2)
        words = "one integral over the squared radius, arcs of angles known in closed form"
        super().__init__([fine, coarse], words, error="refinement")

    def _nodes(self, radial: int, angular: int) -> tuple[Points, FloatArray]:
        (x, w), (a, v) = gauss_legendre(radial), gauss_legendre(angular)
        columns: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        for low, high in zip(self._edges[:-1], self._edges[1:], strict=True):
            # s = low + (high − low) sin²: arcs that open like a square root are smooth in it.
            t = (x + 1) * math.pi / 4
            s = low + (high - low) * np.sin(t) ** 2
            ds = w * (math.pi / 4) * (high - low) * np.sin(2 * t)
            begin, length = arcs(s)
            row, arc = np.nonzero(length > 0)
            angle = begin[row, arc, None] + length[row, arc, None] * (a + 1) / 2
            kernel = np.exp(log_kernel(s, self.y, self.tolerance) - self._top)
            weight = (ds * kernel / 2)[row, None] * length[row, arc, None] * v / 2
            theta1, theta2 = theta_at(np.broadcast_to(s[row, None], angle.shape), angle)
            columns.append((theta1.ravel(), theta2.ravel(), weight.ravel()))
        theta1, theta2, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
        kept = weight > 0
        return Points({"theta1": theta1[kept], "theta2": theta2[kept]}), weight[kept]

    def log_density(self, points: Points) -> FloatArray:
        inside = (np.abs(points["theta1"]) <= EDGE) & (np.abs(points["theta2"]) <= EDGE)
        value = log_kernel(squared_radius(points), self.y, self.tolerance) - 2 * math.log(2 * EDGE)
        return np.where(inside, value - self.log_evidence, -np.inf)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """s by the inverse of its distribution function, then an angle uniform on its arcs."""
        s = np.maximum(self._radial.ppf(rng.random(size)), 0.0)
        begin, length = arcs(s)
        total = np.cumsum(length, axis=1)
        at = rng.random(size) * total[:, -1]
        arc = np.minimum((at[:, None] >= total).sum(axis=1), length.shape[1] - 1)
        rows = np.arange(size)
        angle = begin[rows, arc] + at - (total[rows, arc] - length[rows, arc])
        return Points(dict(zip(("theta1", "theta2"), theta_at(s, angle), strict=True)))

    @property
    def _radial(self) -> Density:
        def density(s: FloatArray) -> FloatArray:
            s = np.asarray(s, dtype=np.float64)
            open_ = arcs(s.ravel())[1].sum(axis=1).reshape(s.shape)
            return np.asarray(np.exp(log_kernel(s, self.y, self.tolerance) - self._top) * open_)

        return Density(density, self._low, self._high, breaks=self._edges[1:-1])


def truth_at(y: FloatArray, tolerance: float) -> Truth:
    return RingPosterior(float(y), tolerance).truth()


def _reference() -> Callable[[FloatArray], RingPosterior]:
    return lambda y: RingPosterior(float(y))


def recipe() -> Recipe:
    """The catalogue's problem: any data y*, and the true posterior for each."""
    return Recipe(
        "filippi",
        "a ring of two parameters around (8, 4) (figure S5)",
        "Filippi, Barnes, Cornebise & Stumpf 2013",
        Prior(theta1=Uniform(-EDGE, EDGE), theta2=Uniform(-EDGE, EDGE)),
        simulate,
        (),
        _reference(),
        seed=207,
        truth_at=truth_at,
        acceptance=lambda theta, y, tolerance: np.exp(log_kernel(squared_radius(theta), float(y), tolerance)),
    )


def filippi(tolerance: float = 1.0) -> Problem:
    """Figure S5, with the posterior of section S7.1: y* = 0, accepted where |y| ≤ ε.

    In u = (θ1−2θ2, θ2−4) the acceptance probability depends on r = |u| alone, and ABC's posterior at the tolerance
    has mean (8, 4) and covariance E[r²]/2 · ((5, 2), (2, 1)), one integral over r. (The prior's edges, over 17
    units away along θ1, hold no mass.) `recipe` has the truth for any y*.
    """
    tolerance = finite_number(positive_number(tolerance, "tolerance"), "tolerance")

    def p_star(t: Points, eps: float) -> FloatArray:
        m = squared_radius(t)
        return np.asarray(ndtr(eps - m) - ndtr(-eps - m))

    # s = r²: E[r²] = ∫ s P(|s + N(0,1)| ≤ ε) ds / ∫ P ds, smooth and bounded by its Gaussian tail.
    x, w = gauss_legendre(400)
    s = (x + 1) / 2 * (tolerance + 12)
    p = ndtr(tolerance - s) - ndtr(-tolerance - s)
    half = float((w * s * p).sum() / (w * p).sum()) / 2
    return Problem(
        Prior(theta1=Uniform(-50, 50), theta2=Uniform(-50, 50)),
        simulate,
        observed=0.0,
        p_star=p_star,
        truth={
            "mean:theta1": 8.0,
            "mean:theta2": 4.0,
            "variance:theta1": 5 * half,
            "variance:theta2": half,
            "covariance:theta1,theta2": 2 * half,
        },
    )
