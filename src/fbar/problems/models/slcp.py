"""SLCP, a simple likelihood with a complex posterior, alone and among distractors.

Four draws of N(m, S), m = (θ1, θ2), S = [[s1² + δ, ρ s1 s2], [ρ s1 s2, s2² + δ]] with s1 = θ3², s2 = θ4² (so that S
has θ3⁴), ρ = tanh θ5, δ = 10⁻⁶; every θ is uniform on [−3, 3]. With the mean ȳ of the four and their scatter
W = Σ (y − ȳ)(y − ȳ)ᵀ,

    p(x|θ) ∝ |S|^(−3/2) exp(−tr(S⁻¹W)/2) · N(m; ȳ, S/4) ,

so that m is a normal cut to its box, given S. The posterior is the same for either sign of θ3 and of θ4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.problems.benchmark import Recipe
from fbar.problems.truths.slcp_posterior import EDGE, JITTER, NAMES, SlcpPosterior
from fbar.problems.truths.transport import columns
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.priors.marginals import Uniform

DATA, DISTRACTORS = 8, 92
MIXTURE_SEED = 42
SOURCE = "the sbibm benchmark (Lueckmann et al. 2021), from Papamakarios et al. 2019"


def _simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    t = columns(NAMES, theta)
    s1, s2, rho = t[:, 2] ** 2, t[:, 3] ** 2, np.tanh(t[:, 4])
    first = np.sqrt(s1**2 + JITTER)  # the Cholesky factor of S
    cross = rho * s1 * s2 / first
    second = np.sqrt(s2**2 + JITTER - cross**2)
    z = rng.standard_normal((len(t), 4, 2))
    x = np.empty_like(z)
    x[:, :, 0] = t[:, 0, None] + first[:, None] * z[:, :, 0]
    x[:, :, 1] = t[:, 1, None] + cross[:, None] * z[:, :, 0] + second[:, None] * z[:, :, 1]
    return x.reshape(len(t), DATA)


@lru_cache(maxsize=1)
def distractors() -> tuple[FloatArray, FloatArray, IntArray]:
    """Locations (20, 92) and factors (20, 92, 92) of the t₂ mixture, and the permutation of the hundred data.

    From numpy's legacy generator, whose numbers the benchmark's own data rest on.
    """
    old = np.random.RandomState(MIXTURE_SEED)
    locations = np.array([15 * old.normal(size=DISTRACTORS) for _ in range(20)])
    factors = np.empty((20, DISTRACTORS, DISTRACTORS))
    for factor in factors:
        factor[:] = 3 * np.tril(old.normal(size=(DISTRACTORS, DISTRACTORS)))
        factor += 3 * np.diag(np.exp(old.normal(size=DISTRACTORS)))
    return locations, factors, old.permutation(DATA + DISTRACTORS)


def _simulate_distractors(theta: Points, rng: np.random.Generator) -> FloatArray:
    locations, factors, order = distractors()
    x = np.empty((theta.rows, DATA + DISTRACTORS))
    x[:, :DATA] = _simulate(theta, rng)
    which = rng.integers(len(locations), size=theta.rows)
    z = rng.standard_normal((theta.rows, DISTRACTORS))
    scale = np.sqrt(rng.chisquare(2, theta.rows) / 2)
    for k in range(len(locations)):
        rows = np.flatnonzero(which == k)
        x[rows, DATA:] = locations[k] + (z[rows] @ factors[k].T) / scale[rows, None]
    return x[:, order]


def without_distractors(x: FloatArray) -> FloatArray:
    """The eight data among the hundred."""
    inside = np.empty(DATA + DISTRACTORS)
    inside[distractors()[2]] = x
    return inside[:DATA]


def _prior() -> Prior:
    return Prior(**{name: Uniform(-EDGE, EDGE) for name in NAMES})


def slcp() -> Recipe:
    return Recipe(
        "slcp",
        "five parameters of four draws of a Gaussian in two dimensions; four symmetric modes",
        SOURCE,
        _prior(),
        _simulate,
        (DATA,),
        SlcpPosterior,
        seed=105,
    )


def slcp_distractors() -> Recipe:
    """The distance is Euclidean over all hundred numbers, of which 92 say nothing of θ: this is the problem's point."""

    def reference(x: FloatArray) -> Any:
        return SlcpPosterior(without_distractors(x))

    return Recipe(
        "slcp-distractors",
        "slcp's eight numbers hidden among 92 that say nothing",
        SOURCE,
        _prior(),
        _simulate_distractors,
        (DATA + DISTRACTORS,),
        reference,
        seed=106,
    )
