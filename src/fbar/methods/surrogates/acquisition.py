"""Where to simulate next: batches of points, chosen one after the other as if those before had been simulated.

*Lower confidence bound* (Gutmann & Corander 2016, equations 45 and 46; Cox & John 1992): the minimum of μ − η_t √v with
η_t² = 2 log(t^{2d+2} π²/(3 ε)), ε = 0.1, after t simulations in d dimensions. Within a batch the variances are those
that the points before leave, and the means stay (Desautels, Krause & Burdick 2014).

*Expected integrated variance* (Järvenpää, Gutmann, Pleska, Vehtari & Marttinen 2019, proposition 3.2): the point that
leaves least of ∫ p(θ) var[Φ((h − f(θ))/σ)] dθ on average. With τ²(θ) what simulations take off v(θ), the variance that
is expected to be left at θ is

    2 T(a, √((σ² + v − τ²)/(σ² + v + τ²))) − 2 T(a, σ/√(σ² + 2v)),   a = (h − μ)/√(σ² + v),

with Owen's function T. It holds for any number of simulations at once, and so for a batch. The integral is a sum over
points of the prior and of the surrogate's posterior.

Candidates are points of the prior and of the surrogate's posterior too, since in a batch the best point of some hundred
is as good as the minimiser.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import owens_t

from fbar.arrays import FloatArray
from fbar.methods.surrogates.gaussian_process import GaussianProcess
from fbar.methods.surrogates.sampling import Sampled, Threshold, prior_points, sampled
from fbar.question.space import Space

EPSILON = 0.1
"""ε_η: the smaller, the more the bound explores."""

CANDIDATES = {"lcb": (256, 256), "eiv": (32, 96)}
"""Candidates from the prior and from the surrogate's posterior."""

INTEGRATED = 192
"""Points that the variance is integrated over, from the surrogate's posterior mixed with the prior."""

ACQUISITIONS = ("lcb", "eiv")


def next_points(
    acquisition: str,
    process: GaussianProcess,
    space: Space,
    threshold: Threshold,
    batch: int,
    rng: np.random.Generator,
) -> FloatArray:
    """The next batch of points, shape (batch, d)."""
    from_prior, from_posterior = CANDIDATES[acquisition]
    known = sampled(process, space, threshold, from_posterior + INTEGRATED, rng)
    candidates = np.concatenate([prior_points(space, from_prior, rng), known.x[:from_posterior]])
    if acquisition == "lcb":
        return lower_confidence_bound(process, candidates, batch)
    return integrated_variance(process, candidates, known, from_posterior, batch)


def lower_confidence_bound(process: GaussianProcess, candidates: FloatArray, batch: int) -> FloatArray:
    """The candidates of least μ − η_t √v, each given the ones before."""
    here, (t, d) = process.at(candidates), process.x.shape
    chosen = []
    for pending in range(batch):
        eta = math.sqrt(2 * ((2 * d + 2) * math.log(t + pending) + math.log(math.pi**2 / (3 * EPSILON))))
        chosen.append(int(np.argmin(here.mean - eta * np.sqrt(here.variance))))
        here.condition(chosen[-1], process.noise)
    return np.asarray(candidates[chosen])


def integrated_variance(
    process: GaussianProcess, candidates: FloatArray, known: Sampled, first: int, batch: int
) -> FloatArray:
    """The candidates that leave least of the integrated variance, each given the ones before.

    ``known`` are points of the surrogate's posterior with their weights, from the ``first`` one on to integrate over.
    """
    points, ratio = known.x[first:], np.exp(known.log_ratio[first:])
    size, noise = len(points), process.noise
    here = process.at(np.concatenate([points, candidates]))
    covariance = here.block(slice(0, size), slice(size, None))
    mean, variance = here.mean[:size], here.variance[:size].copy()
    a = ((known.threshold - mean) / np.sqrt(noise + variance))[:, None]
    removed = np.zeros(size)  # τ² of the points chosen so far
    chosen = []
    for _ in range(batch):
        tau = removed[:, None] + covariance**2 / (here.variance[size:] + noise)
        tau = np.minimum(tau, variance[:, None])
        total = (noise + variance)[:, None]
        left = ratio @ owens_t(a, np.sqrt((total - tau) / (total + tau)))
        best = int(np.argmin(left))
        chosen.append(best)
        root = here.condition(size + best, noise)
        removed = np.minimum(removed + root[:size] ** 2, variance)
        covariance -= np.outer(root[:size], root[size:])
    return np.asarray(candidates[chosen])
