"""Gaussian location problems whose posteriors are products, or mixtures of products, of known marginals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import chndtr, ndtri

from fbar.arrays import FloatArray
from fbar.checks import non_negative_number
from fbar.problems.benchmark import Recipe
from fbar.problems.truths import truncated
from fbar.problems.truths.ball import Component, truth_in_ball
from fbar.problems.truths.transport import Transported, columns, listed, named
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.priors.marginals import Uniform
from fbar.question.truth import Reference, Truth

SOURCE = "the sbibm benchmark (Lueckmann et al. 2021)"
VARIANCE = 0.1
"""Of the noise in ten dimensions, and of the Gaussian prior: a variance, not a standard deviation."""

NAMES = tuple(f"theta{i}" for i in range(1, 11))
PAIR = NAMES[:2]
WIDE, NARROW = 1.0, 0.1
"""Standard deviations of the two components of gaussian-mixture."""


class NormalPosterior(Transported):
    """Independent normals N(m_i, v)."""

    how = "closed form"
    names = NAMES
    dimension = len(NAMES)

    def __init__(self, centre: FloatArray, variance: float) -> None:
        self.centre, self.variance = centre, variance

    def truth(self) -> Truth:
        m, v = self.centre, self.variance
        deviation = np.stack([np.full_like(m, math.sqrt(v)), np.sqrt(4 * m**2 * v + 2 * v**2)])
        return listed(NAMES, np.stack([m, m**2 + v]), deviation, None, self.how)

    def log_density(self, points: Points) -> FloatArray:
        sd = math.sqrt(self.variance)
        parts = [stats.norm.logpdf(points[name], m, sd) for name, m in zip(NAMES, self.centre, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.centre + math.sqrt(self.variance) * ndtri(unit), np.zeros(len(unit))

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        return named(NAMES, self.centre + math.sqrt(self.variance) * rng.standard_normal((size, len(NAMES))))


class BoxPosterior(Transported):
    """A mixture of products of normals N(x_i, s_c²), each cut to [−edge, edge].

    With a uniform prior on the box and x ~ Σ_c w_c N(θ, s_c² I), component c of the posterior has the weight
    w_c Π_i P(|N(x_i, s_c²)| ≤ edge), normalised.
    """

    how = "closed form"

    def __init__(self, names: Sequence[str], x: FloatArray, edge: float, sds: Sequence[float]) -> None:
        self.names, self.x, self.edge, self.sds = tuple(names), x, edge, tuple(sds)
        self.dimension = len(names) + (len(sds) > 1)
        log_mass = np.array([truncated.log_mass((-edge - x) / sd, (edge - x) / sd).sum() for sd in sds])
        self.log_evidence = float(np.logaddexp.reduce(log_mass) - math.log(len(sds)))
        """log ∫_box Σ_c w_c N(x; θ, s_c² I) dθ, with equal w_c."""
        self.weights = np.exp(log_mass - np.logaddexp.reduce(log_mass))

    def truth(self) -> Truth:
        nodes = [truncated.weighted(self.x, sd, -self.edge, self.edge)[:2] for sd in self.sds]
        theta = np.concatenate([theta for theta, _ in nodes], axis=1)
        w = np.concatenate([share * w for share, (_, w) in zip(self.weights, nodes, strict=True)], axis=1)
        value = np.stack([(w * theta).sum(axis=1), (w * theta**2).sum(axis=1)])
        spread = [(w * (theta**k - value[k - 1][:, None]) ** 2).sum(axis=1) for k in (1, 2)]
        return listed(self.names, value, np.sqrt(spread), None, self.how)

    def log_density(self, points: Points) -> FloatArray:
        theta = columns(self.names, points)
        parts = [stats.norm.logpdf(theta, self.x, sd).sum(axis=1) - math.log(len(self.sds)) for sd in self.sds]
        inside = (np.abs(theta) <= self.edge).all(axis=1)
        return np.where(inside, np.logaddexp.reduce(parts, axis=0) - self.log_evidence, -np.inf)

    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        sd = np.array(self.sds)[np.searchsorted(np.cumsum(self.weights)[:-1], unit[:, -1], side="right")][:, None]
        t = truncated.ppf(unit[:, : len(self.x)], (-self.edge - self.x) / sd, (self.edge - self.x) / sd)
        return np.clip(self.x + sd * t, -self.edge, self.edge), np.zeros(len(unit))


def _simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    centre = columns(NAMES, theta)
    return centre + math.sqrt(VARIANCE) * rng.standard_normal(centre.shape)


def _simulate_mixture(theta: Points, rng: np.random.Generator) -> FloatArray:
    centre = columns(PAIR, theta)
    sd = np.where(rng.random(len(centre)) < 0.5, WIDE, NARROW)
    return centre + sd[:, None] * rng.standard_normal(centre.shape)


def _mixture_acceptance(theta: Points, x: FloatArray, tolerance: float) -> FloatArray:
    """P(|x′ − x| ≤ ε|θ): |x′ − x|²/s² is noncentral χ² with two degrees of freedom in each component."""
    square = ((columns(PAIR, theta) - x) ** 2).sum(axis=1)
    return np.asarray(sum(chndtr((tolerance / sd) ** 2, 2, square / sd**2) for sd in (WIDE, NARROW)) / 2)


def _normal_component(x: FloatArray, refine: int) -> Component:
    """The prior N(0, 0.1) at nodes that reach over both ends of what tilting it by the data can give, 0 and x/2."""
    sd = math.sqrt(VARIANCE)
    low, high = np.minimum(0, x / 2) - 10 * sd, np.maximum(0, x / 2) + 10 * sd
    panels = refine * int(np.ceil((high - low).max() / (6 * sd)))
    theta, log_w = _panels(low, high, panels)
    return Component(1.0, VARIANCE, theta, log_w + stats.norm.logpdf(theta, 0, sd))


def _panels(low: FloatArray, high: FloatArray, panels: int) -> tuple[FloatArray, FloatArray]:
    """Composite Gauss–Legendre nodes between low and high (d,), and the logs of their weights: shape (d, n)."""
    x, w = truncated.gauss_legendre(20)
    unit = ((np.arange(panels)[:, None] + x) / panels).ravel()
    width = (high - low)[:, None]
    return low[:, None] + width * unit, np.log(width) + np.log(np.tile(w / panels, panels))


def _linear_truth_at(x: FloatArray, tolerance: float) -> Truth:
    if non_negative_number(tolerance, "tolerance") == 0:
        return NormalPosterior(x / 2, VARIANCE / 2).truth()
    return truth_in_ball(NAMES, lambda refine: [_normal_component(x, refine)], x, tolerance)


def _box_truth_at(reference: BoxPosterior, tolerance: float) -> Truth:
    if non_negative_number(tolerance, "tolerance") == 0:
        return reference.truth()
    ends = np.full(len(reference.x), reference.edge)

    def components(refine: int) -> list[Component]:
        made = []
        for sd in reference.sds:
            theta, log_w = _panels(-ends, ends, refine * int(np.ceil(reference.edge / (3 * sd))))
            made.append(Component(1 / len(reference.sds), sd**2, theta, log_w))
        return made

    return truth_in_ball(reference.names, components, reference.x, tolerance)


def _uniform_reference(x: FloatArray) -> BoxPosterior:
    return BoxPosterior(NAMES, x, 1.0, [math.sqrt(VARIANCE)])


def _mixture_reference(x: FloatArray) -> BoxPosterior:
    return BoxPosterior(PAIR, x, 10.0, [WIDE, NARROW])


def gaussian_linear() -> Recipe:
    """θ ~ N(0, 0.1 I), x ~ N(θ, 0.1 I) in ten dimensions: θ|x ~ N(x/2, 0.05 I)."""

    def reference(x: FloatArray) -> Reference:
        return NormalPosterior(x / 2, VARIANCE / 2)

    return Recipe(
        "gaussian-linear",
        "the mean of a Gaussian in ten dimensions, Gaussian prior",
        SOURCE,
        Prior(**{name: stats.norm(0, math.sqrt(VARIANCE)) for name in NAMES}),
        _simulate,
        (10,),
        reference,
        seed=101,
        truth_at=_linear_truth_at,
    )


def gaussian_linear_uniform() -> Recipe:
    """θ ~ U[−1, 1]¹⁰, x ~ N(θ, 0.1 I): θ_i|x ~ N(x_i, 0.1) cut to [−1, 1]."""
    return Recipe(
        "gaussian-linear-uniform",
        "the mean of a Gaussian in ten dimensions, uniform prior",
        SOURCE,
        Prior(**{name: Uniform(-1, 1) for name in NAMES}),
        _simulate,
        (10,),
        _uniform_reference,
        seed=102,
        truth_at=lambda x, tolerance: _box_truth_at(_uniform_reference(x), tolerance),
    )


def gaussian_mixture() -> Recipe:
    """θ ~ U[−10, 10]², x ~ ½ N(θ, I) + ½ N(θ, 0.01 I)."""
    return Recipe(
        "gaussian-mixture",
        "the common mean of a wide and a narrow Gaussian in two dimensions",
        SOURCE,
        Prior(**{name: Uniform(-10, 10) for name in PAIR}),
        _simulate_mixture,
        (2,),
        _mixture_reference,
        seed=103,
        acceptance=_mixture_acceptance,
        truth_at=lambda x, tolerance: _box_truth_at(_mixture_reference(x), tolerance),
    )
