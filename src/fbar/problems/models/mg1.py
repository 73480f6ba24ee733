"""The M/G/1 queue of which only departures are seen, with its exact likelihood.

Service times are uniform on [θ1, θ2], customers arrive as a Poisson process of rate θ3 to a queue that is empty at time
0, and the data are the times y_i between departures (Heggland & Frigessi 2004; with ABC Blum & François 2010).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy import stats
from scipy.special import gammainc

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.problems.models.conditional import UniformBetween
from fbar.problems.truths.cubature import Cubature
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.truth import Reference

NAMES = ("theta1", "theta2", "theta3")
SIZE = 20
WIDTH = 10.0
FASTEST = 1 / 3
CHUNK = 2000


def simulate(theta: Points, rng: np.random.Generator, size: int = SIZE) -> FloatArray:
    n = theta.rows
    arrival = np.cumsum(rng.standard_exponential((n, size)), axis=1) / np.maximum(theta["theta3"], 1e-12)[:, None]
    low = theta["theta1"][:, None]
    service = low + (theta["theta2"][:, None] - low) * rng.random((n, size))
    gaps = np.empty((n, size))
    before = np.zeros(n)
    for i in range(size):
        now = np.maximum(arrival[:, i], before) + service[:, i]
        gaps[:, i] = now - before
        before = now
    return gaps


def log_likelihood(y: FloatArray, theta: FloatArray) -> FloatArray:
    """log p(y|θ), for theta (n, 3).

    With departures x_i = y_1 + … + y_i and arrivals v_i, the service u_i = x_i − max(v_i, x_{i−1}) lies in [θ1, θ2]
    where v_i ≤ h_i = x_i − θ1 and, if y_i > θ2, also v_i ≥ l_i = x_i − θ2; if y_i < θ1 nowhere. So

        p(y|θ) = (θ2 − θ1)^−n P(l_i ≤ v_i ≤ h_i, i = 1 … n)

    for the first n points of a Poisson process: N(h_i) ≥ i and N(l_i) ≤ i − 1. Since y_i > θ2 where there is an l_i,
    h_{i−1} ≤ x_{i−1} < l_i < h_i: the times come in this order for every θ, N(l_i) is i − 1 exactly, and the
    distribution of N, all counts of n or more as one, is carried from each h_i to the next (Noé 1972). All terms are
    positive.
    """
    parts = [_log_likelihood(y, *theta[i : i + CHUNK].T) for i in range(0, len(theta), CHUNK)]
    return np.concatenate(parts) if parts else np.empty(0)


def _log_likelihood(y: FloatArray, theta1: FloatArray, theta2: FloatArray, theta3: FloatArray) -> FloatArray:
    n, rows = len(y), len(theta1)
    departures = np.cumsum(y)
    state = np.zeros((n + 1, rows))  # state[k]: P(N = k, all so far), over exp(log_scale)
    state[0] = 1.0
    log_scale = np.zeros(rows)
    now = np.zeros(rows)
    for i in range(n):  # before customer i + 1: N ≥ i
        late = y[i] > theta2
        if late.any():
            low = departures[i] - theta2
            kept = np.exp(-theta3 * np.maximum(low - now, 0.0))
            state[i] = np.where(late, state[i] * kept, state[i])
            state[i + 1 :] *= ~late
            now = np.where(late, low, now)
        high = departures[i] - theta1
        state[i:] = _forward(state[i:], theta3 * np.maximum(high - now, 0.0))
        state[i] = 0.0
        now = high
        peak = state[i + 1 :].max(axis=0)
        peak = np.where(peak > 0, peak, 1.0)
        state[i + 1 :] /= peak
        log_scale += np.log(peak)
    with np.errstate(divide="ignore"):
        result = log_scale + np.log(state[n]) - n * np.log(theta2 - theta1)
    return np.where((y.min() >= theta1) & (theta2 > theta1), result, -np.inf)


def _forward(state: FloatArray, mean: FloatArray) -> FloatArray:
    """The counts after a Poisson number more; the last row stands for itself and all above."""
    most = len(state) - 1
    if most == 0:
        return state
    new = np.zeros_like(state)
    term = np.exp(-mean)
    terms = []
    for j in range(most):
        new[j:most] += term * state[: most - j]
        terms.append(term)
        term = term * mean / (j + 1)
    tail = gammainc(most, mean)  # P(at least `most` more), then downwards by positive terms
    new[most] = state[most]
    for j in range(most, 0, -1):
        new[most] += state[most - j] * tail
        tail = tail + terms[j - 1]
    return new


def _panels(y: FloatArray) -> list[tuple[float, float, float | None, float | None]]:
    """Where the likelihood is smooth: ranges of θ1 with ranges of θ2 between θ1, data and θ1 + 10.

    It jumps where θ2 crosses a y_i, below which customer i cannot have waited. (None: θ1, and θ1 + 10.)
    """
    largest = min(float(y.min()), WIDTH)
    values = np.unique(y).tolist()
    edges = sorted({0.0, largest, *(v - WIDTH for v in values if 0 < v - WIDTH < largest)})
    result: list[tuple[float, float, float | None, float | None]] = []
    for a, b in pairwise(edges):
        inner = [v for v in values if v - WIDTH <= a]
        result += [(a, b, left, right) for left, right in pairwise([None, *inner, None])]
    return result


def reference(y: FloatArray) -> Reference:
    panels = _panels(y)
    nan = float("nan")
    table = np.array([[nan if v is None else v for v in panel] for panel in panels])
    log_prior = -2 * math.log(WIDTH) - math.log(FASTEST)

    def integrand(at: FloatArray, panel: IntArray) -> tuple[FloatArray, FloatArray]:
        a, b, left, right = table[panel].T
        # θ1 lies close below the least y and θ2, if above all of them, close to the largest: more nodes there.
        theta1 = b - (b - a) * (1 - at[:, 0]) ** 3
        left = np.where(np.isnan(left), theta1, left)
        right = np.where(np.isnan(right), theta1 + WIDTH, right)
        last = np.isnan(table[panel, 3])
        theta2 = left + (right - left) * np.where(last, at[:, 1] ** 2, at[:, 1])
        theta = np.column_stack([theta1, theta2, FASTEST * at[:, 2]])
        with np.errstate(divide="ignore"):
            jacobian = np.log(3 * (b - a) * (1 - at[:, 0]) ** 2) + math.log(FASTEST)
            jacobian += np.log(np.maximum(right - left, 0.0) * np.where(last, 2 * at[:, 1], 1.0))
        return log_likelihood(y, theta) + log_prior + jacobian, theta

    def log_density(points: Points) -> FloatArray:
        theta = np.column_stack([points[name] for name in NAMES])
        theta1, theta2, theta3 = theta.T
        inside = (theta1 >= 0) & (theta1 <= WIDTH) & (theta2 > theta1) & (theta2 <= theta1 + WIDTH)
        inside &= (theta3 >= 0) & (theta3 <= FASTEST)
        result = np.full(points.rows, -np.inf)
        result[inside] = log_likelihood(y, theta[inside]) + log_prior
        return result

    # The departures per time, the likely size of a rate that is not larger than the services allow.
    rate = y.size / float(y.sum()) / FASTEST
    cuts = [0.0, *(c for c in (0.6 * rate, 1.8 * rate, 5 * rate) if c < 0.8), 1.0]
    low = np.array([[0.0, 0.0, c] for _ in panels for c in cuts[:-1]])
    high = np.array([[1.0, 1.0, c] for _ in panels for c in cuts[1:]])
    which = np.repeat(np.arange(len(panels)), len(cuts) - 1)
    return Cubature(integrand, low, high, NAMES, panel=which, order=5, tolerance=1e-5, log_density=log_density)


def summary(y: FloatArray) -> FloatArray:
    """Logarithms of the smallest, the quartiles and the largest of the times."""
    return np.log(np.quantile(y, [0, 0.25, 0.5, 0.75, 1], axis=1).T)


def check_data(y: FloatArray) -> None:
    if (y <= 0).any():
        raise InputError(f"the data of mg1 are times between departures, greater than 0; got {y[y <= 0][0]:g}")


def mg1() -> Recipe:
    prior = Prior(
        theta1=stats.uniform(0, WIDTH),
        theta2=lambda t: UniformBetween(t["theta1"], t["theta1"] + WIDTH),
        theta3=stats.uniform(0, FASTEST),
    )
    return Recipe(
        "mg1",
        "a queue of which only the departures are seen",
        "Heggland & Frigessi 2004; Blum & François 2010",
        prior,
        simulate,
        (SIZE,),
        reference,
        seed=205,
        summary=summary,
        check_data=check_data,
    )
