"""Predators and prey, of the sbibm benchmark: four rates, two noisy time series."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.truths.importance import WANTED, ImportancePosterior
from fbar.problems.truths.ode import solve
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Reference

NAMES = ("alpha", "beta", "gamma", "delta")
LOG_MEDIAN = np.array([-0.125, -3.0, -0.125, -3.0])
LOG_SD = 0.5
NOISE = 0.1
START = np.log([30.0, 1.0])
TIMES: FloatArray = 2.1 * np.arange(10.0)
REACH = 60.0
"""The posterior is integrated where |z| is below it, in standard deviations of the prior."""


def _rate(state: FloatArray, theta: FloatArray) -> FloatArray:
    """d log X = α − βY, d log Y = −γ + δX."""
    prey, predators = np.exp(np.minimum(state, 600.0))
    alpha, beta, gamma, delta = theta
    return np.stack([alpha - beta * predators, delta * prey - gamma])


def log_states(theta: FloatArray) -> FloatArray:
    """log X at the ten times, then log Y, shape (n, 20), for ``theta`` (n, 4)."""
    states = solve(_rate, START, np.ascontiguousarray(theta.T), TIMES)
    return np.concatenate([states[:, :, 0], states[:, :, 1]], axis=1)


def simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    log_x = log_states(np.column_stack([theta[name] for name in NAMES]))
    noisy = log_x + NOISE * rng.standard_normal(log_x.shape)
    return np.asarray(np.exp(np.clip(noisy, -700.0, 700.0)))  # a population of 10⁻³⁰⁴ counts as that many


def log_likelihood(x: FloatArray, theta: FloatArray) -> FloatArray:
    log_x = np.log(x)
    z = (log_x - log_states(theta)) / NOISE
    constant = -log_x.sum() - x.size * math.log(NOISE * math.sqrt(2 * math.pi))
    return np.asarray(np.nan_to_num(constant - (z**2).sum(axis=1) / 2, nan=-np.inf))


def reference(x: FloatArray, *, error: float = WANTED) -> Reference:
    def theta(z: FloatArray) -> FloatArray:
        return np.asarray(np.exp(LOG_MEDIAN + LOG_SD * z))

    def log_density(z: FloatArray) -> FloatArray:
        inside = np.abs(z).max(axis=1) < REACH
        result = np.full(len(z), -np.inf)
        prior = -(z[inside] ** 2).sum(axis=1) / 2 - 2 * math.log(2 * math.pi)
        result[inside] = prior + log_likelihood(x, theta(z[inside]))
        return result

    def to_z(points: Points) -> tuple[FloatArray, FloatArray]:
        log_theta = np.log(np.column_stack([points[name] for name in NAMES]))
        return (log_theta - LOG_MEDIAN) / LOG_SD, -log_theta.sum(axis=1) - 4 * math.log(LOG_SD)

    return ImportancePosterior(log_density, theta, to_z, NAMES, error=error)


def check_data(x: FloatArray) -> None:
    if (x <= 0).any():
        raise InputError(f"the data of lotka-volterra must be greater than 0; got {x[x <= 0][0]:g}")


def lotka_volterra() -> Recipe:
    prior = Prior(
        {name: stats.lognorm(LOG_SD, scale=math.exp(m)) for name, m in zip(NAMES, LOG_MEDIAN.tolist(), strict=True)}
    )
    return Recipe(
        "lotka-volterra",
        "predators and prey: four rates, two noisy time series",
        "the sbibm benchmark (Lueckmann et al. 2021)",
        prior,
        simulate,
        (20,),
        reference,
        seed=202,
        summary=np.log,
        sufficient=True,
        check_data=check_data,
    )
