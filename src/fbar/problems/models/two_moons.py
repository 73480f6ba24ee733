"""Two moons: a posterior of two crescents, thin arcs that the prior's box may cut.

With s = (θ1+θ2)/√2, u = |s| and v = (θ2−θ1)/√2 the data are x = (¼ − u + r cos a, v + r sin a), where
a ~ U(−π/2, π/2) and r ~ N(0.1, 0.01²); the box |θ1|, |θ2| ≤ 1 is the triangle u ≥ 0, u + |v| ≤ √2. The likelihood of x
has a Jacobian 1/r, which du dv = r dr da takes away: in (r, a) the posterior is N(r; 0.1, 0.01²), restricted to the
triangle. A ray of direction a meets the triangle in one interval of r, so r is integrated in closed form and a by
quadrature. The sign of s is as often plus as minus.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import non_negative_number
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.truths import truncated
from fbar.problems.truths.transport import Transported, columns, listed, moment_truth, scrambles
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.priors.marginals import Uniform
from fbar.question.truth import Truth

NAMES = ("theta1", "theta2")
RADIUS, SPREAD, SHIFT = 0.1, 0.01, 0.25
ROOT2 = math.sqrt(2)
PANELS = 24
SMALL = 0.3
"""A tolerance below which the ball of data is easier to draw from than the prior."""


def _interval(a: FloatArray, x1: FloatArray | float, x2: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """The r, in standard deviations from 0.1, with which direction a leads from the data into the triangle.

    u = r cos a − c and v = x2 − r sin a, with c = x1 − ¼; a negative r belongs to data that lie left of the arc.
    """
    c = np.asarray(x1) - SHIFT
    cos, sin = np.cos(a), np.sin(a)
    low, high = c / cos, np.full(np.broadcast(a, c).shape, np.inf)
    for slope, level in ((cos - sin, ROOT2 + c - x2), (cos + sin, ROOT2 + c + x2)):  # u + v ≤ √2 and u − v ≤ √2
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = level / slope
        low = np.where(slope < 0, np.maximum(low, bound), low)
        high = np.where(slope > 0, np.minimum(high, bound), high)
        high = np.where((slope == 0) & (level < 0), -np.inf, high)
    return (low - RADIUS) / SPREAD, (high - RADIUS) / SPREAD


def _log_mass(a: FloatArray, x1: FloatArray | float, x2: FloatArray | float) -> FloatArray:
    return truncated.log_mass(*_interval(a, x1, x2))


def _theta(u: FloatArray, v: FloatArray, sign: FloatArray | float) -> FloatArray:
    return np.stack([(sign * u - v) / ROOT2, (sign * u + v) / ROOT2], axis=-1).clip(-1, 1)


class TwoMoons(Transported):
    """The posterior given x."""

    how = "quadrature over the angle of the arc, closed form over its radius"
    names = NAMES
    dimension = 2

    def __init__(self, x: FloatArray) -> None:
        self.x1, self.x2 = (float(value) for value in x)
        c = self.x1 - SHIFT
        corners = np.array([[c, self.x2 - ROOT2], [c, self.x2 + ROOT2], [c + ROOT2, self.x2]])
        with np.errstate(divide="ignore", invalid="ignore"):
            angles = np.arctan(corners[:, 1] / corners[:, 0])
        edges = np.unique([-math.pi / 2, math.pi / 2, *angles[np.isfinite(angles)].tolist()])
        # Between the directions of the corners the mass along a ray is smooth; only its significant part is kept.
        self.pieces: list[tuple[float, float]] = []
        tops: list[float] = []
        for low, high in pairwise(edges.tolist()):
            inner = 1e-12 * (high - low)
            part = truncated.significant(self._mass, low + inner, high - inner)
            if part is not None:
                self.pieces.append(part)
                tops.append(float(self._mass(np.linspace(*part, 257)).max()))
        if not self.pieces:
            raise InputError(f"the true posterior of two-moons cannot be computed for x = ({self.x1:g}, {self.x2:g})")
        self.pieces = [part for part, top in zip(self.pieces, tops, strict=True) if top > max(tops) - truncated.DROP]

    def _mass(self, a: FloatArray) -> FloatArray:
        return _log_mass(a, self.x1, self.x2)

    def _angles(self, size: int) -> tuple[FloatArray, FloatArray]:
        """Nodes of a, ``size`` in each of the panels, and their weights."""
        x, w = truncated.gauss_legendre(size)
        places = (np.arange(PANELS)[:, None] + x).ravel() / PANELS
        nodes = [low + (high - low) * places for low, high in self.pieces]
        weights = [(high - low) / PANELS * np.tile(w, PANELS) for low, high in self.pieces]
        return np.concatenate(nodes), np.concatenate(weights)

    def _quadrature(self, size: int) -> tuple[FloatArray, FloatArray, float]:
        """E θ and E θ² (rows) for both parameters, their deviations, and log ∫∫ N(r) dr da."""
        a, w = self._angles(size)
        t, log_w = truncated.nodes(*_interval(a, self.x1, self.x2), 4 * size)
        log_w = log_w + np.log(w)[:, None]
        top = float(log_w.max())
        p = np.exp(log_w - top).ravel()
        r = RADIUS + SPREAD * t
        u = (r * np.cos(a)[:, None] - self.x1 + SHIFT).ravel()
        v = (self.x2 - r * np.sin(a)[:, None]).ravel()
        theta = np.stack([_theta(u, v, 1.0), _theta(u, v, -1.0)])
        p = p / p.sum() / 2
        value = np.stack([np.einsum("n,snd->d", p, theta**k) for k in (1, 2)])
        spread = np.stack([np.einsum("n,snd->d", p, (theta**k - value[k - 1]) ** 2) for k in (1, 2)])
        return value, np.sqrt(spread), top + float(np.log(np.exp(log_w - top).sum()))

    @cached_property
    def _solved(self) -> tuple[Truth, float]:
        coarse, _, _ = self._quadrature(12)
        fine, deviation, log_total = self._quadrature(20)
        return listed(NAMES, fine, deviation, np.abs(fine - coarse), self.how), log_total

    def truth(self) -> Truth:
        return self._solved[0]

    def log_density(self, points: Points) -> FloatArray:
        """log of N(±|p|; 0.1, 0.01²)/|p| where p is the way from the arc's centre to x, less its integral."""
        theta = columns(NAMES, points)
        p1 = self.x1 - SHIFT + np.abs(theta.sum(axis=1)) / ROOT2
        p2 = self.x2 - (theta[:, 1] - theta[:, 0]) / ROOT2
        r = np.where(p1 >= 0, 1.0, -1.0) * np.hypot(p1, p2)
        log_normal = -0.5 * ((r - RADIUS) / SPREAD) ** 2 - truncated.LOG_ROOT_2PI - math.log(SPREAD)
        inside = (np.abs(theta) <= 1).all(axis=1)
        with np.errstate(divide="ignore"):  # both signs of s have half of the mass
            return np.where(inside, log_normal - np.log(np.abs(r)) - self._solved[1] - math.log(2), -np.inf)

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cells of a by their left ends and widths, and their cumulated probabilities."""
        size = 2000 // len(self.pieces)
        ends = [np.linspace(low, high, size + 1) for low, high in self.pieces]
        left, width = np.concatenate([e[:-1] for e in ends]), np.concatenate([np.diff(e) for e in ends])
        heights = np.logaddexp(self._mass(left), self._mass(left + width))
        mass = np.exp(heights - heights.max()) * width
        return left, width, np.cumsum(np.maximum(mass / mass.sum(), 1e-7))

    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, width, cumulated = self._cells
        total = cumulated[-1]
        mass = np.diff(cumulated, prepend=0.0)
        sign = np.where(unit[:, 1] < 0.5, 1.0, -1.0)
        place = unit[:, 0] * total
        cell = np.minimum(np.searchsorted(cumulated, place, side="right"), len(left) - 1)
        a = left[cell] + width[cell] * np.clip((place - cumulated[cell] + mass[cell]) / mass[cell], 0, 1)
        low, high = _interval(a, self.x1, self.x2)
        log_w = truncated.log_mass(low, high) - np.log(mass[cell] / width[cell])
        high = np.maximum(low, high)
        r = RADIUS + SPREAD * truncated.ppf((2 * unit[:, 1]) % 1, low, high)
        return _theta(r * np.cos(a) - self.x1 + SHIFT, self.x2 - r * np.sin(a), sign), log_w


def from_ball(x: FloatArray, tolerance: float, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Data evenly from the ball, the angle evenly, the radius from its cut normal, whose mass is the weight."""
    distance, angle = tolerance * np.sqrt(unit[:, 0]), 2 * math.pi * unit[:, 1]
    x1, x2 = x[0] + distance * np.cos(angle), x[1] + distance * np.sin(angle)
    a = math.pi * (unit[:, 2] - 0.5)
    low, high = _interval(a, x1, x2)
    r = RADIUS + SPREAD * truncated.ppf(unit[:, 3], low, np.maximum(low, high))
    u, v = r * np.cos(a) - x1 + SHIFT, x2 - r * np.sin(a)
    return np.concatenate([_theta(u, v, 1.0), _theta(u, v, -1.0)]), np.tile(truncated.log_mass(low, high), 2)


def from_prior(x: FloatArray, tolerance: float, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """θ and the angle evenly; the weight is the probability that the radius leads into the ball, along a chord."""
    theta, a = 2 * unit[:, :2] - 1, math.pi * (unit[:, 2] - 0.5)
    c1 = SHIFT - np.abs(theta.sum(axis=1)) / ROOT2 - x[0]
    c2 = (theta[:, 1] - theta[:, 0]) / ROOT2 - x[1]
    along, across = c1 * np.cos(a) + c2 * np.sin(a), c2 * np.cos(a) - c1 * np.sin(a)
    half = np.sqrt(np.maximum(tolerance**2 - across**2, 0.0))
    return theta, truncated.log_mass((-along - half - RADIUS) / SPREAD, (-along + half - RADIUS) / SPREAD)


def _truth_at(x: FloatArray, tolerance: float) -> Truth:
    """E[f; |x − x*| ≤ ε] by scrambled points: from the ball where it is small, from the prior where it is large."""
    if non_negative_number(tolerance, "tolerance") == 0:
        return TwoMoons(x).truth()
    draw, where = (from_ball, "the ball") if tolerance < SMALL else (from_prior, "the prior")
    parts = [draw(x, tolerance, unit) for unit in scrambles(4, 16, 16, seed=11)]
    if not any(np.isfinite(log_w).any() for _, log_w in parts):
        raise InputError(f"no data of two-moons lie within {tolerance:g} of these")
    return moment_truth(NAMES, parts, f"16 scrambles of 2^16 Sobol points over {where} and the arc")


def _simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    a = rng.uniform(-math.pi / 2, math.pi / 2, theta.rows)
    r = RADIUS + SPREAD * rng.standard_normal(theta.rows)
    first, second = theta["theta1"], theta["theta2"]
    return np.column_stack(
        [r * np.cos(a) + SHIFT - np.abs(first + second) / ROOT2, r * np.sin(a) + (second - first) / ROOT2]
    )


def two_moons() -> Recipe:
    return Recipe(
        "two-moons",
        "two crescents",
        "the sbibm benchmark (Lueckmann et al. 2021), from Greenberg et al. 2019",
        Prior(**{name: Uniform(-1, 1) for name in NAMES}),
        _simulate,
        (2,),
        TwoMoons,
        seed=104,
        truth_at=_truth_at,
    )
