"""Ordinary differential equations for a whole batch of parameters at once, each row with steps of its own.

The explicit Runge-Kutta pair of order 8 with error estimates of orders 5 and 3 (Hairer, Nørsett & Wanner 1993, DOP853)
in numpy, over rows that step, are accepted and finish independently of one another: a result does not depend on the
batch that a row came in.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import DOP853

from fbar.arrays import FloatArray

Rate = Callable[[FloatArray, FloatArray], FloatArray]

_STAGES = 12
_A: list[FloatArray] = [np.array(DOP853.A[s, :s]) for s in range(_STAGES)]
_B = np.array(DOP853.B)
_E = np.stack([DOP853.E5, DOP853.E3])

CHUNK = 2048
"""Rows that are solved together: the stages of a step then stay in the processor's cache."""

MOST_STEPS = 50_000


def solve(
    rate: Rate, start: FloatArray, parameters: FloatArray, times: FloatArray, *, tolerance: float = 1e-9
) -> FloatArray:
    """The states at rising ``times``, the first of which is the start's: shape (n, times, d).

    Parameters
    ----------
    rate
        ``rate(state, parameters)`` with arrays (d, m) and (p, m) gives the derivatives (d, m); it does not depend on
        time.
    start
        (d,), the same for all rows.
    parameters
        (p, n).
    tolerance
        The largest absolute error of a state in one step. States are best given as logarithms: the tolerance is then
        relative.

    A row that needs more than ``MOST_STEPS`` steps is NaN.
    """
    n = parameters.shape[1]
    result = np.full((n, len(times), len(start)), np.nan)
    for begin in range(0, n, CHUNK):
        part = slice(begin, min(begin + CHUNK, n))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            _solve(rate, start, parameters[:, part], times, tolerance, result[part])
    return result


def _solve(
    rate: Rate, start: FloatArray, parameters: FloatArray, times: FloatArray, tolerance: float, result: FloatArray
) -> None:
    d, n = len(start), parameters.shape[1]
    row, par = np.arange(n), parameters
    y = np.repeat(start[:, None], n, axis=1)
    result[:, 0] = start
    t, ahead = np.full(n, times[0]), np.ones(n, dtype=np.int64)
    f = rate(y, par)
    h = 0.05 / (1.0 + np.abs(f).max(axis=0))
    for _ in range(MOST_STEPS):
        m = row.size
        left = times[ahead] - t
        clipped = h >= left
        step = np.where(clipped, left, h)
        k = np.empty((_STAGES + 1, d, m))
        flat = k.reshape(_STAGES + 1, d * m)
        k[0] = f
        for s in range(1, _STAGES):
            k[s] = rate(y + step * (_A[s] @ flat[:s]).reshape(d, m), par)
        new = y + step * (_B @ flat[:_STAGES]).reshape(d, m)
        k[_STAGES] = rate(new, par)
        fifth, third = ((_E @ flat).reshape(2, d, m) ** 2).sum(axis=1) / tolerance**2
        error = step * fifth / np.sqrt(np.maximum((fifth + 0.01 * third) * d, 1e-300))
        good = error < 1.0  # not a number: too long a step
        factor = np.where(np.isfinite(error), np.clip(0.9 * np.maximum(error, 1e-10) ** -0.125, 0.2, 8.0), 0.1)
        h = np.where(good & clipped, np.maximum(h, step * factor), step * factor)
        y, f = np.where(good, new, y), np.where(good, k[_STAGES], f)
        there = good & clipped
        t = np.where(there, times[ahead], np.where(good, t + step, t))
        if there.any():
            at = np.flatnonzero(there)
            result[row[at], ahead[at]] = y[:, at].T
            ahead[at] += 1
            alive = ahead < len(times)
            if not alive.all():
                if not alive.any():
                    return
                row, par, y, f, t, ahead, h = (
                    row[alive],
                    par[:, alive],
                    y[:, alive],
                    f[:, alive],
                    t[alive],
                    ahead[alive],
                    h[alive],
                )
    result[row] = np.nan
