"""The SIR epidemic of the sbibm benchmark: a narrow posterior of two parameters, integrated by cubature."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from scipy.special import gammaln

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.truths.cubature import PlanePosterior
from fbar.problems.truths.ode import solve
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Reference

POPULATION = 1e6
TESTED = 1000
TIMES = np.arange(0.0, 154.0, 17.0)
LOG_MEDIAN = np.log([0.4, 0.125])
LOG_SD = np.array([0.5, 0.2])
NAMES = ("beta", "gamma")
REACH = 60.0
"""The posterior is integrated where |z| is below it, in standard deviations of the prior."""

ODE_ERROR = 1e-6
"""What the errors of the differential equation's solution change in a posterior mean, in its standard deviations."""


def _rate(state: FloatArray, theta: FloatArray) -> FloatArray:
    """d log(S/N) = −β I/N, d log(I/N) = β S/N − γ."""
    s, i = np.exp(np.minimum(state, 1.0))
    beta, gamma = theta
    return np.stack([-beta * i, beta * s - gamma])


def log_infected(beta: FloatArray, gamma: FloatArray) -> FloatArray:
    """log(I/N) at the ten times, shape (n, 10)."""
    start = np.array([math.log1p(-1 / POPULATION), -math.log(POPULATION)])
    return np.minimum(solve(_rate, start, np.stack([beta, gamma]), TIMES)[:, :, 1], -1e-15)


def simulate(theta: Points, rng: np.random.Generator) -> FloatArray:
    share = np.exp(log_infected(theta["beta"], theta["gamma"]))
    return rng.binomial(TESTED, share).astype(np.float64)


def log_likelihood(x: FloatArray, beta: FloatArray, gamma: FloatArray) -> FloatArray:
    """Σ_t log Binomial(x_t | 1000, I(t)/N), in logarithms throughout: I/N can be below the smallest number."""
    log_p = log_infected(beta, gamma)
    log_q = np.log1p(-np.exp(log_p))
    constant = (gammaln(TESTED + 1.0) - gammaln(x + 1) - gammaln(TESTED - x + 1)).sum()
    return np.asarray(np.nan_to_num(constant + log_p @ x + log_q @ (TESTED - x), nan=-np.inf))


def reference(x: FloatArray) -> Reference:
    def theta(z: FloatArray) -> FloatArray:
        return np.asarray(np.exp(LOG_MEDIAN + LOG_SD * z))

    def log_density(z: FloatArray) -> FloatArray:
        t = theta(z)
        return np.asarray(log_likelihood(x, t[:, 0], t[:, 1]) - (z**2).sum(axis=1) / 2 - math.log(2 * math.pi))

    def to_z(points: Points) -> tuple[FloatArray, FloatArray]:
        """z and log |dz/dθ|."""
        log_theta = np.log(np.column_stack([points[name] for name in NAMES]))
        return (log_theta - LOG_MEDIAN) / LOG_SD, -log_theta.sum(axis=1) - np.log(LOG_SD).sum()

    return PlanePosterior(log_density, theta, to_z, NAMES, reach=REACH, floor=ODE_ERROR)


def summary(x: FloatArray) -> FloatArray:
    """2 √1000 arcsin √(x/1000): counts with noise of variance about 1 wherever they lie."""
    return np.asarray(2 * math.sqrt(TESTED) * np.arcsin(np.sqrt(x / TESTED)))


def check_data(x: FloatArray) -> None:
    bad = (x < 0) | (x > TESTED) | (x != np.rint(x))
    if bad.any():
        raise InputError(f"the data of sir must be whole numbers from 0 to {TESTED}; got {x[bad][0]:g}")


def sir() -> Recipe:
    prior = Prior(
        beta=stats.lognorm(LOG_SD[0], scale=0.4),
        gamma=stats.lognorm(LOG_SD[1], scale=0.125),
    )
    return Recipe(
        "sir",
        "an epidemic of two rates, ten noisy counts of the infected",
        "the sbibm benchmark (Lueckmann et al. 2021)",
        prior,
        simulate,
        (10,),
        reference,
        seed=201,
        summary=summary,
        sufficient=True,
        check_data=check_data,
    )
