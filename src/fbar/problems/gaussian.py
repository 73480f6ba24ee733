"""Gaussian location problems whose posteriors are products of known marginals."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from fbar.checks import FloatArray
from fbar.points import Points
from fbar.priors import Prior
from fbar.problems.benchmark import Recipe
from fbar.truth import Known, Reference, Truth

SOURCE = "the sbibm benchmark (Lueckmann et al. 2021)"
VARIANCE = 0.1
NAMES = tuple(f"theta{i}" for i in range(1, 11))


class NormalPosterior(Reference):
    """Independent normals N(m_i, v)."""

    how = "closed form"

    def __init__(self, centre: FloatArray, variance: float) -> None:
        self.centre, self.variance = centre, variance

    def truth(self) -> Truth:
        known, v = [], self.variance
        for name, m in zip(NAMES, self.centre.tolist(), strict=True):
            known.append(Known(f"mean:{name}", m, 0.0, math.sqrt(v)))
            known.append(Known(f"second_moment:{name}", m * m + v, 0.0, math.sqrt(4 * m * m * v + 2 * v * v)))
        return Truth(known, self.how)

    def log_density(self, points: Points) -> FloatArray:
        sd = math.sqrt(self.variance)
        parts = [stats.norm.logpdf(points[name], m, sd) for name, m in zip(NAMES, self.centre, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        z = self.centre + math.sqrt(self.variance) * rng.standard_normal((size, len(NAMES)))
        return Points({name: z[:, i] for i, name in enumerate(NAMES)})


def _simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    centre = np.column_stack([theta[name] for name in NAMES])
    return centre + math.sqrt(VARIANCE) * rng.standard_normal(centre.shape)


def gaussian_linear() -> Recipe:
    prior = Prior(**{name: stats.norm(0, math.sqrt(VARIANCE)) for name in NAMES})
    return Recipe(
        "gaussian-linear",
        "the mean of a Gaussian in ten dimensions, Gaussian prior",
        SOURCE,
        prior,
        _simulate,
        (10,),
        lambda x: NormalPosterior(x / 2, VARIANCE / 2),
        seed=101,
    )


RECIPES = {"gaussian-linear": gaussian_linear}
