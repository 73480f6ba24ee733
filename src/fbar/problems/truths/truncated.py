"""Normal distributions cut to an interval, in logs: right in the middle and any number of deviations out."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri_exp

from fbar.arrays import FloatArray

DROP = 40.0
"""What lies e⁻⁴⁰ below the largest is left out of an integral."""

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


@lru_cache(maxsize=32)
def gauss_legendre(size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(size)
    return (x + 1) / 2, w / 2


def log_mass(low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
    """log(Φ(high) − Φ(low)); −∞ for an empty interval."""
    a, b = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    flip = a + b > 0  # the left tail keeps its digits
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result = np.asarray(np.log(np.maximum(ndtr(b) - ndtr(a), 0.0)))
        hard = ~(b > -20) | ((b - a) * (1 + np.abs(a)) < 1e-2)
        if hard.any():
            result[hard] = _log_mass_far(a[hard], b[hard])
        return result


def _log_mass_far(a: FloatArray, b: FloatArray) -> FloatArray:
    la, lb = log_ndtr(a), log_ndtr(b)
    wide = lb + np.log(-np.expm1(la - lb))
    # a narrow interval: the difference of two equal logs has no digits left, the density at its middle has all
    narrow = -0.5 * (a + b) ** 2 / 4 - LOG_ROOT_2PI + np.log(b - a)
    close = (b - a) * (1 + np.abs(a)) < 1e-5
    return np.asarray(np.where(b > a, np.where(close, narrow, wide), -np.inf))


def ppf(u: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
    """The inverse of the distribution function of a standard normal cut to [low, high]."""
    u, a, b = np.broadcast_arrays(*(np.asarray(given, dtype=np.float64) for given in (u, low, high)))
    flip = a + b > 0
    v, s, t = np.where(flip, 1 - u, u), np.where(flip, -b, a), np.where(flip, -a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = ndtri_exp(np.minimum(np.logaddexp(np.log1p(-v) + log_ndtr(s), np.log(v) + log_ndtr(t)), 0.0))
    z = np.clip(z, s, t)
    return np.asarray(np.where(flip, -z, z))


def effective(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The part of [low, high] where exp(−t²/2) is at least e⁻⁴⁰ of its largest value there."""
    a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    reach_up = np.sqrt(np.maximum(a, 0.0) ** 2 + 2 * DROP)
    reach_down = np.sqrt(np.minimum(b, 0.0) ** 2 + 2 * DROP)
    return np.maximum(a, -reach_down), np.minimum(b, reach_up)


def nodes(low: npt.ArrayLike, high: npt.ArrayLike, size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes t (..., size) in [low, high] and the logs of weights that integrate under the standard normal density."""
    a, b = effective(low, high)
    x, w = gauss_legendre(size)
    width = np.maximum(b - a, 0.0)[..., None]
    t = a[..., None] + width * x
    with np.errstate(divide="ignore"):
        return t, np.log(w) + np.log(width) - t**2 / 2 - LOG_ROOT_2PI


def moments(mean: FloatArray, sd: npt.ArrayLike, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Of N(mean, sd²) cut to [low, high]: E θ, E θ², E θ³, E θ⁴ (rows), and the log of the mass before the cut.

    By 96 Gauss–Legendre nodes, right to rounding: closed forms lose their digits in the tails.
    """
    theta, w, log_total = weighted(mean, sd, low, high)
    return np.stack([(w * theta**k).sum(axis=-1) for k in (1, 2, 3, 4)]), log_total


def weighted(
    mean: FloatArray, sd: npt.ArrayLike, low: float, high: float, size: int = 96
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """N(mean, sd²) cut to [low, high] as nodes and weights (..., size) of sum one, and its log mass before the cut."""
    centre, spread = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64))
    t, log_w = nodes((low - centre) / spread, (high - centre) / spread, size)
    theta = np.clip(centre[..., None] + spread[..., None] * t, low, high)
    top = log_w.max(axis=-1, keepdims=True)
    w = np.exp(log_w - top)
    total = w.sum(axis=-1, keepdims=True)
    return theta, w / total, np.asarray((np.log(total) + top)[..., 0])


def significant(log_f: Any, low: float, high: float, drop: float = DROP, grid: int = 257) -> tuple[float, float] | None:
    """The part of [low, high] that holds the integral of exp(log_f), which has one mode; None where it is zero.

    A grid keeps what lies within ``drop`` of the largest value and one cell more on each side, and is laid anew over
    what it kept, until that is most of it.
    """
    for _ in range(60):
        t = np.linspace(low, high, grid)
        values = log_f(t)
        top = values.max()
        if top == -np.inf:
            return None
        kept = np.flatnonzero(values >= top - drop)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, grid - 1)
        done = last - first > grid // 3 or t[last] - t[first] <= 4 * np.spacing(max(abs(low), abs(high)))
        low, high = float(t[first]), float(t[last])
        if done:
            break
    return low, high
