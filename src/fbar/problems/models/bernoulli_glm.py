"""A logistic regression of a hundred coin flips on a stimulus: from the sufficient statistics, or from the flips.

y_t ~ Bernoulli(logistic((Vθ)_t)), t = 1 … 100, where V has a column of ones and the stimulus at lags 0 … 8. The
likelihood depends on x = Vᵀy alone,

    log p(θ|x) = xᵀθ − Σ_t log(1 + e^((Vθ)_t)) − ½ θᵀB⁻¹θ + constant ,

log-concave, with tails as light as the prior's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, gammaincinv, gammaln, ndtr, ndtri

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.truths.transport import Transported, columns, moment_truth, scrambles
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Truth

FLIPS, LAGS = 100, 9
NAMES = tuple(f"theta{i}" for i in range(1, LAGS + 2))
STIMULUS_SEED = 42
FREEDOM = 25.0
LOG2_SIZE, REPLICATES = 15, 32
SOURCE = "the sbibm benchmark (Lueckmann et al. 2021)"


@lru_cache(maxsize=1)
def design() -> FloatArray:
    """V, shape (100, 10). The stimulus is of numpy's legacy generator, as the benchmark's own."""
    stimulus = np.random.RandomState(STIMULUS_SEED).normal(size=FLIPS)
    v = np.ones((FLIPS, LAGS + 1))
    for lag in range(LAGS):
        v[:, 1 + lag] = np.concatenate([np.zeros(lag), stimulus[: FLIPS - lag]])
    return v


@lru_cache(maxsize=1)
def precision() -> FloatArray:
    """B⁻¹: ½ for the offset; FᵀF with F = D² + diag(√(j/9)) for the filter, which makes it smooth."""
    difference = np.eye(LAGS) - np.eye(LAGS, k=-1)
    f = difference @ difference + np.diag(np.sqrt(np.arange(LAGS) / LAGS))
    result = np.zeros((LAGS + 1, LAGS + 1))
    result[0, 0] = 0.5
    result[1:, 1:] = f.T @ f
    return result


@lru_cache(maxsize=1)
def factor() -> FloatArray:
    """The lower Cholesky factor of B."""
    return np.asarray(np.linalg.cholesky(np.linalg.inv(precision())))


def softplus(eta: FloatArray) -> FloatArray:
    """Σ_t log(1 + e^(η_t)), with one logarithm: each factor is at most 2, and 2¹⁰⁰ is a number."""
    return np.asarray(np.maximum(eta, 0.0).sum(axis=1) + np.log(np.prod(1 + np.exp(-np.abs(eta)), axis=1)))


@dataclass(frozen=True)
class Normal:
    """N(mean, sd²) with a mean for each row: a parameter of the prior given those before it."""

    mean: FloatArray
    sd: float
    discrete: bool = False

    @property
    def support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.mean + self.sd * ndtri(u))

    def cdf(self, x: Any) -> FloatArray:
        return np.asarray(ndtr((x - self.mean) / self.sd))

    def logpdf(self, x: Any) -> FloatArray:
        return np.asarray(-0.5 * ((x - self.mean) / self.sd) ** 2 - math.log(self.sd) - 0.5 * math.log(2 * math.pi))


@dataclass(frozen=True)
class Given:
    """θ_k given θ_1 … θ_{k−1} under N(0, B): with θ = Lz its mean is Σ_{j<k} L_kj z_j and its deviation L_kk."""

    index: int

    def __call__(self, earlier: Mapping[str, Any]) -> Normal:
        k, chol = self.index, factor()
        before = np.stack([np.asarray(earlier[name], dtype=np.float64) for name in NAMES[:k]])
        z = solve_triangular(chol[:k, :k], before, lower=True)
        return Normal(chol[k, :k] @ z, float(chol[k, k]))


def _prior() -> Prior:
    first: Any = Normal(np.zeros(()), float(factor()[0, 0]))
    return Prior({NAMES[0]: first, **{NAMES[k]: Given(k) for k in range(1, LAGS + 1)}})


class GlmPosterior(Transported):
    """The posterior given x: importance sampling from a Student-t with its mean and covariance.

    An x that no hundred flips give has the same formula, and a proper posterior.
    """

    how = f"Student-t importance sampling, {REPLICATES} scrambles of 2^{LOG2_SIZE} Sobol points and their mirror images"
    names = NAMES
    dimension = LAGS + 2

    def __init__(self, x: FloatArray) -> None:
        self.x = x
        theta = self._mode()
        v, p = design(), expit(design() @ theta)
        self.centre = theta
        self.root = _inverse_root(precision() + (v.T * (p * (1 - p))) @ v)
        pilot = [self.transport(unit) for unit in scrambles(self.dimension, 12, 2, seed=3)]
        all_theta = np.concatenate([t for t, _ in pilot])
        w = np.concatenate([log_w for _, log_w in pilot])
        w = np.exp(w - w.max())
        w /= w.sum()
        self.centre = w @ all_theta
        away = all_theta - self.centre
        self.root = np.linalg.cholesky((away.T * w) @ away)

    def _log_target(self, theta: FloatArray) -> FloatArray:
        """log p(θ|x) without its constant."""
        quadratic = np.einsum("nd,nd->n", theta @ precision(), theta)
        return np.asarray(theta @ self.x - softplus(theta @ design().T) - 0.5 * quadratic)

    def _mode(self) -> FloatArray:
        """Newton's method with halved steps; the function is concave."""
        v, inverse = design(), precision()
        theta = np.zeros(LAGS + 1)
        for _ in range(200):
            p = expit(v @ theta)
            slope = self.x - v.T @ p - inverse @ theta
            step = np.linalg.solve(inverse + (v.T * (p * (1 - p))) @ v, slope)
            here = float(self._log_target(theta[None])[0])
            size = 1.0
            while size > 1e-10 and float(self._log_target((theta + size * step)[None])[0]) < here:
                size /= 2
            theta = theta + size * step
            if np.abs(size * step).max() <= 1e-10 * (1 + np.abs(theta).max()):
                break
        return theta

    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """θ = centre + root·z/√(g/ν), z normal and g χ²_ν; the log weights keep the constant of the proposal."""
        nu, d = FREEDOM, LAGS + 1
        z = ndtri(unit[:, :d]) / np.sqrt(2 * gammaincinv(nu / 2, unit[:, d]) / nu)[:, None]
        theta = self.centre + z @ self.root.T
        log_q = -(nu + d) / 2 * np.log1p((z**2).sum(axis=1) / nu) - np.log(np.abs(np.diag(self.root))).sum()
        log_q += gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * math.log(nu * math.pi)
        return theta, self._log_target(theta) - log_q

    def _mirrored(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each point and its mirror image about the centre, in pieces that stay in the processor's cache."""
        mirror = unit.copy()
        mirror[:, :-1] = 1 - mirror[:, :-1]
        both = np.concatenate([unit, mirror])
        pieces = [self.transport(both[i : i + 2048]) for i in range(0, len(both), 2048)]
        return np.concatenate([theta for theta, _ in pieces]), np.concatenate([log_w for _, log_w in pieces])

    @cached_property
    def _solved(self) -> tuple[Truth, float]:
        parts = [self._mirrored(unit) for unit in scrambles(self.dimension, LOG2_SIZE, REPLICATES, seed=5)]
        log_w = np.concatenate([log_w for _, log_w in parts])
        log_z = float(np.logaddexp.reduce(log_w)) - math.log(len(log_w))
        return moment_truth(NAMES, parts, self.how), log_z

    def truth(self) -> Truth:
        return self._solved[0]

    def log_density(self, points: Points) -> FloatArray:
        return self._log_target(columns(NAMES, points)) - self._solved[1]


def _inverse_root(matrix: FloatArray) -> FloatArray:
    """R with R Rᵀ = matrix⁻¹."""
    return np.asarray(solve_triangular(np.linalg.cholesky(matrix), np.eye(len(matrix)), lower=True).T)


def _flips(theta: Points, rng: np.random.Generator) -> FloatArray:
    p = expit(columns(NAMES, theta) @ design().T)
    return np.asarray(rng.random(p.shape) < p, dtype=np.float64)


def _sufficient(theta: Points, rng: np.random.Generator) -> FloatArray:
    return np.asarray(_flips(theta, rng) @ design())


def _check_flips(y: FloatArray) -> None:
    if not np.isin(y, (0.0, 1.0)).all():
        bad = y[~np.isin(y, (0.0, 1.0))][0]
        raise InputError(f"the data of bernoulli-glm-raw are zeros and ones; got {bad:g}")


def bernoulli_glm() -> Recipe:
    return Recipe(
        "bernoulli-glm",
        "a smooth filter in logistic regression, from its sufficient statistics",
        SOURCE,
        _prior(),
        _sufficient,
        (LAGS + 1,),
        GlmPosterior,
        seed=107,
    )


def bernoulli_glm_raw() -> Recipe:
    """The distance is Euclidean over the hundred flips, the root of the number that differ."""
    return Recipe(
        "bernoulli-glm-raw",
        "a smooth filter in logistic regression, from a hundred flips",
        SOURCE,
        _prior(),
        _flips,
        (FLIPS,),
        lambda y: GlmPosterior(y @ design()),
        seed=108,
        check_data=_check_flips,
    )
