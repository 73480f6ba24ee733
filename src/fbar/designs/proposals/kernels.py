"""Perturbation kernels of ABC-SMC (section S7 of the paper; Filippi et al. 2013), each with its exact density."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import between, choice, flag, positive_integer, shown, store_number
from fbar.designs.proposals.sums import box_sums, normal_sums
from fbar.errors import FbarError, InputError

FLAT = 1e-12
"""A covariance is singular when a direction's variance, given the others, is below this share of its whole variance."""

BORROWED = 0.01
"""The share of the whole population's covariance that a singular local one is given."""


class Degenerate(FbarError):
    """A population from which no kernel can be fitted."""


@dataclass(frozen=True, eq=False)
class Population:
    """Accepted particles: continuous coordinates (n, d), normalised weights, distances."""

    x: FloatArray
    weights: FloatArray
    distance: FloatArray

    def covariance(self) -> FloatArray:
        return weighted_covariance(self.x, self.weights)


def weighted_covariance(x: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ w (x − x̄)(x − x̄)ᵀ for normalised weights over the last but one axis."""
    return _covariance([x[..., a] for a in range(x.shape[-1])], weights)


def _covariance(columns: list[FloatArray], weights: FloatArray) -> FloatArray:
    """The same from the coordinates one by one, each contiguous."""
    d = len(columns)
    result = np.empty((*weights.shape[:-1], d, d))
    centred = [column - (weights * column).sum(axis=-1, keepdims=True) for column in columns]
    for a in range(d):
        scaled = weights * centred[a]
        for b in range(a + 1):
            result[..., a, b] = result[..., b, a] = (scaled * centred[b]).sum(axis=-1)
    return result


class Components(ABC):
    """A kernel around each centre."""

    @abstractmethod
    def perturb(self, which: IntArray, rng: np.random.Generator) -> FloatArray:
        """A move from each of the given centres, shape (n, d)."""

    @abstractmethod
    def log_mixture(self, x: FloatArray, weights: FloatArray, only: IntArray | slice) -> FloatArray:
        """log Σ_j w_j K_j(x) over some of the centres."""

    @abstractmethod
    def log_height(self) -> FloatArray:
        """Each kernel's log density at its own centre."""

    @abstractmethod
    def arrays(self) -> dict[str, FloatArray]:
        """What it is made of, apart from the weights; `restored` makes the same of it."""

    @abstractmethod
    def restored(self, arrays: dict[str, FloatArray]) -> Components:
        """The kernels of recorded arrays."""


class NormalComponents(Components):
    """N(c_j, A_j A_jᵀ); one factor for all centres, or one each."""

    def __init__(self, centres: FloatArray, factor: FloatArray) -> None:
        self.centres, self.factor = centres, factor
        d = centres.shape[1]
        self._whitening: FloatArray = np.asarray(np.linalg.inv(factor) * math.sqrt(0.5), dtype=np.float64)
        diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
        self._height = -np.log(diagonal).sum(axis=-1) - d / 2 * math.log(2 * math.pi)

    def perturb(self, which: IntArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal((which.size, self.centres.shape[1]))
        factor = self.factor[which if len(self.factor) > 1 else np.zeros_like(which)]
        return np.asarray(np.einsum("iab,ib->ia", factor, noise))

    def log_mixture(self, x: FloatArray, weights: FloatArray, only: IntArray | slice) -> FloatArray:
        whitening = self._whitening[only] if len(self._whitening) > 1 else self._whitening
        with np.errstate(divide="ignore"):
            log_factor = np.log(weights[only]) + self.log_height()[only]
            top = log_factor.max()
            return np.asarray(top + np.log(normal_sums(x, self.centres[only], whitening, np.exp(log_factor - top))))

    def log_height(self) -> FloatArray:
        return np.broadcast_to(self._height, (len(self.centres),))

    def arrays(self) -> dict[str, FloatArray]:
        return {"at": self.centres, "factor": self.factor}

    def restored(self, arrays: dict[str, FloatArray]) -> Components:
        return NormalComponents(arrays["at"], arrays["factor"])


class BoxComponents(Components):
    """Uniform on c_j ± half width."""

    def __init__(self, centres: FloatArray, half: FloatArray) -> None:
        self.centres, self.half = centres, half
        self._height = -float(np.log(2 * half).sum())

    def perturb(self, which: IntArray, rng: np.random.Generator) -> FloatArray:
        return (2 * rng.random((which.size, self.half.size)) - 1) * self.half

    def log_mixture(self, x: FloatArray, weights: FloatArray, only: IntArray | slice) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(self._height + np.log(box_sums(x, self.centres[only], self.half, weights[only])))

    def log_height(self) -> FloatArray:
        return np.full(len(self.centres), self._height)

    def arrays(self) -> dict[str, FloatArray]:
        return {"at": self.centres, "half": self.half}

    def restored(self, arrays: dict[str, FloatArray]) -> Components:
        return BoxComponents(arrays["at"], arrays["half"])


class Perturbation(ABC):
    """How particles move between rounds. Continuous coordinates only; discrete ones jump, see `Perturbed`."""

    looks_ahead = False
    """Whether the kernel depends on the next round's tolerance."""

    @abstractmethod
    def fit(self, population: Population, centres: IntArray, next_tolerance: float) -> Components:
        """The kernels around the chosen rows of a population."""

    def least(self, dimension: int) -> int:
        """The smallest population it can be fitted to."""
        return dimension + 1


def _spread(population: Population) -> FloatArray:
    """The population's covariance, refused if it is flat in some direction."""
    covariance = population.covariance()
    if _flat(covariance[None])[0]:
        distinct, d = len(np.unique(population.x, axis=0)), population.x.shape[1]
        raise Degenerate(
            f"{distinct} distinct particles do not span {d} dimension{'s' if d > 1 else ''}, so no perturbation kernel "
            "can be fitted; keep more particles per round (accepted=), or remove parameters that depend on each other"
        )
    return covariance


def _variances(population: Population) -> FloatArray:
    """The diagonal of the population's covariance, refused if a coordinate has only one value."""
    variance = np.diagonal(population.covariance())
    if not (variance > 0).all():
        raise Degenerate(
            "the particles do not differ in every coordinate, so a normal kernel has no width; keep more particles per "
            "round (accepted=)"
        )
    return np.diag(variance)


def _flat(covariances: FloatArray) -> Any:
    """Which covariances are singular, by the pivots of their Cholesky factors relative to their diagonals."""
    variance = np.diagonal(covariances, axis1=-2, axis2=-1)
    bad: Any = ~(variance > 0).all(axis=-1)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    correlation = covariances / (scale[..., :, None] * scale[..., None, :])
    bad |= np.linalg.eigvalsh(np.where(bad[:, None, None], np.eye(variance.shape[-1]), correlation))[:, 0] < FLAT
    return bad


def _factors(covariances: FloatArray, whole: FloatArray) -> FloatArray:
    """Cholesky factors; a flat covariance borrows from the whole population's."""
    try:
        factor = _cholesky(covariances)
        pivot = np.diagonal(factor, axis1=-2, axis2=-1) ** 2
        if (pivot > FLAT * np.diagonal(covariances, axis1=-2, axis2=-1)).all():
            return factor
    except np.linalg.LinAlgError:
        pass
    bad = _flat(covariances)
    repaired = np.where(bad[:, None, None], (1 - BORROWED) * covariances + BORROWED * whole, covariances)
    return _cholesky(repaired)


def _cholesky(covariances: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)


@dataclass(frozen=True)
class UniformKernel(Perturbation):
    """Each coordinate uniformly within ± a share of the population's range, half of it by default (the paper's)."""

    share: float = 0.5

    def __post_init__(self) -> None:
        store_number(self, "share", between(self.share, 1e-9, 100, "share of the range"))

    def fit(self, population: Population, centres: IntArray, next_tolerance: float) -> Components:
        half = self.share * np.ptp(population.x, axis=0)
        if not (half > 0).all():
            raise Degenerate(
                "the particles do not differ in every coordinate, so a uniform kernel has no width; keep more "
                "particles a round (accepted=)"
            )
        return BoxComponents(population.x[centres], half)

    def least(self, dimension: int) -> int:
        return 2


@dataclass(frozen=True)
class NormalKernel(Perturbation):
    """Multivariate normal with ``scale`` times the population's covariance, 2 by default (Beaumont et al. 2009).

    ``componentwise`` moves each coordinate by itself, with ``scale`` times its variance.
    """

    scale: float = 2.0
    componentwise: bool = False

    def __post_init__(self) -> None:
        store_number(self, "scale", between(self.scale, 1e-18, 1e4, "scale of the covariance"))
        flag(self.componentwise, "componentwise")

    def fit(self, population: Population, centres: IntArray, next_tolerance: float) -> Components:
        covariance = self.scale * (_variances(population) if self.componentwise else _spread(population))
        return NormalComponents(population.x[centres], _cholesky(covariance)[None])


@dataclass(frozen=True)
class LocalNormalKernel(Perturbation):
    """Multivariate normal with the weighted covariance of the nearest neighbours, 50 by default (the paper's).

    ``scaled`` measures nearness in units of the population's standard deviations; without it, in the parameters'
    own, as the paper does.
    """

    neighbours: int = 50
    scale: float = 1.0
    scaled: bool = True

    def __post_init__(self) -> None:
        if positive_integer(self.neighbours, "neighbours") < 2:
            raise InputError(f"neighbours must be at least 2; got {self.neighbours}")
        store_number(self, "scale", between(self.scale, 1e-18, 1e4, "scale of the covariance"))
        flag(self.scaled, "scaled")

    def fit(self, population: Population, centres: IntArray, next_tolerance: float) -> Components:
        from scipy.spatial import cKDTree  # a quarter of the time that `import fbar` would take

        whole = _spread(population)
        x = population.x / np.sqrt(np.diagonal(whole)) if self.scaled else population.x
        _, near = cKDTree(x).query(x[centres], k=min(self.neighbours, len(x)))
        weights = population.weights.take(near)
        total = weights.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / near.shape[1])
        covariances = _covariance([population.x[:, a].take(near) for a in range(x.shape[1])], weights)
        return NormalComponents(population.x[centres], _factors(self.scale * covariances, self.scale * whole))


@dataclass(frozen=True)
class OptimalLocalKernel(Perturbation):
    """Filippi et al.'s optimal local covariance matrix (OLCM).

    Around θ_j: Σ_i ω_i (θ_i − θ_j)(θ_i − θ_j)ᵀ over the particles that the next tolerance would accept, the kernel that
    minimises the Kullback–Leibler divergence to them. If there are fewer of these than dimensions, over all particles.
    """

    looks_ahead = True

    def fit(self, population: Population, centres: IntArray, next_tolerance: float) -> Components:
        whole = _spread(population)
        weights = np.where(population.distance <= next_tolerance, population.weights, 0.0)
        if np.count_nonzero(weights) <= population.x.shape[1]:
            weights = population.weights
        weights = weights / weights.sum()
        mean = (weights[:, None] * population.x).sum(axis=0)
        away = population.x[centres] - mean
        covariances = weighted_covariance(population.x, weights) + away[:, :, None] * away[:, None, :]
        return NormalComponents(population.x[centres], _factors(covariances, whole))


PERTURBATIONS: dict[str, Perturbation] = {
    "uniform": UniformKernel(),
    "normal": NormalKernel(),
    "local-normal": LocalNormalKernel(),
    "olcm": OptimalLocalKernel(),
}


def as_perturbation(given: str | Perturbation) -> Perturbation:
    if isinstance(given, str):
        return PERTURBATIONS[choice(given, PERTURBATIONS, "perturbation kernel")]
    if not isinstance(given, Perturbation):
        raise InputError(
            f"perturbation must be one of {', '.join(PERTURBATIONS)}, or such as LocalNormalKernel(30); got "
            f"{shown(given)}"
        )
    return given
