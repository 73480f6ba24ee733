"""The surrogate's posterior, and weighted points that stand for it.

A simulation at θ comes within the tolerance with probability Φ((h − f(θ))/σ), where h is the transformed tolerance, f
the expected transformed distance and σ² its noise. Averaged over what is not known of f it is

    L(θ) = Φ((h − μ(θ))/√(v(θ) + σ²)),

the likelihood of Gutmann & Corander (2016, equation 47) and the mean of Järvenpää et al. (2019, lemma 3.1). Points come
from a mixture of Student distributions that is fitted to p Lᵝ, with β raised to 1 as fast as the weights allow, mixed
with the prior, and have the weights p L/q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from fbar.arrays import FloatArray
from fbar.designs.proposals import Learned
from fbar.designs.proposals.student import fit
from fbar.designs.schemes import scrambled
from fbar.methods.surrogates.gaussian_process import GaussianProcess, Prediction
from fbar.question.space import Particles, Space
from fbar.weights import effective_size, normalised

FIRST = 512
"""Points of the prior that the first mixture is fitted to, and points of each further one."""

DEFENCE = 0.2
"""The share of points that come from the prior."""

INFLATION = 1.5
"""What the covariances of a fitted mixture are multiplied by, about."""

STEPS = 12
"""Mixtures that are fitted, at most."""

LEAST_ESS = 0.1
"""The share of the points whose effective number the next β keeps, at least."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Points of a posterior of the surrogate, with what is known there.

    ``log_ratio`` is log p/q, ``log_likelihood`` log L, ``threshold`` h.
    """

    prediction: Prediction
    log_ratio: FloatArray
    log_likelihood: FloatArray
    threshold: float

    @property
    def x(self) -> FloatArray:
        return self.prediction.x

    @property
    def weights(self) -> FloatArray:
        """Normalised p L/q."""
        return normalised(self.log_ratio + self.log_likelihood)

    @property
    def accepted_share(self) -> float:
        """The mean of L over the prior."""
        return float(np.exp(self.log_ratio + self.log_likelihood).mean())

    @property
    def ess(self) -> float:
        return effective_size(self.weights)


def prior_points(space: Space, size: int, rng: np.random.Generator) -> FloatArray:
    """Evenly spread points of the prior."""
    return space.parts[0].from_unit(scrambled(size, space.dimension, rng))


@dataclass(frozen=True)
class Threshold:
    """h: as it was ``given``, or else min μ (Gutmann & Corander 2016, section 5.3).

    It is at ``least`` as large as what simulations support, since μ may be extrapolated to less than any distance.
    """

    given: float | None
    least: float

    def at(self, lowest: float) -> float:
        """h, for the smallest μ that was found."""
        return max(lowest, self.least) if self.given is None else self.given


def sampled(
    process: GaussianProcess, space: Space, threshold: Threshold, size: int, rng: np.random.Generator
) -> Sampled:
    """Points of the surrogate's posterior, about as many as ``size``."""
    x = prior_points(space, FIRST, rng)
    here = process.at(x)
    lowest = min(process.least_simulated, float(here.mean.min()))
    found = weighted(process, here, np.zeros(len(x)), threshold.at(lowest))
    reached = 0.0
    for _ in range(STEPS):
        reached = _next_power(found, reached)
        mixture = fit(found.x, normalised(found.log_ratio + reached * found.log_likelihood), rng, inflation=INFLATION)
        proposal = Learned(space, np.ones(1), (mixture,), DEFENCE)
        last = reached == 1.0
        particles = proposal.from_unit(scrambled(size if last else FIRST, proposal.unit_dimension, rng))
        here = process.at(particles.x)
        lowest = min(lowest, float(here.mean.min()))
        ratio = space.log_prior(particles) - proposal.log_density(particles)
        found = weighted(process, here, ratio, threshold.at(lowest))
        if last and found.ess > LEAST_ESS * size:
            break
    return found


def weighted(process: GaussianProcess, here: Prediction, ratio: FloatArray, threshold: float) -> Sampled:
    """Points with their log p/q as those of a posterior."""
    likelihood = log_ndtr((threshold - here.mean) / np.sqrt(here.variance + process.noise))
    return Sampled(here, ratio, likelihood, threshold)


def _next_power(found: Sampled, reached: float) -> float:
    """The largest β, to two digits or so, at which the weights p Lᵝ/q are still those of enough points."""

    def enough(power: float) -> bool:
        weights = normalised(found.log_ratio + power * found.log_likelihood)
        return effective_size(weights) >= LEAST_ESS * len(weights)

    if enough(1.0):
        return 1.0
    low, high = reached, 1.0
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, min(1.0, reached + 1 / STEPS))


def particles_of(x: FloatArray) -> Particles:
    """Points as particles of the only model."""
    return Particles(np.zeros(len(x), dtype=np.int64), x)
