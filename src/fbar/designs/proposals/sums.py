"""Sums of kernels: Σ_j v_j K(L_j (x_i − c_j)) for many points and centres, the O(N²) of ABC-SMC.

These are the cost of ABC-SMC. Both forms below do the same floating-point operations in the same order, exponential
function included, so that installing numba changes the speed and no bit of a result. Memory is linear: points go
through in rows of `ROWS`, centres one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from fbar.arrays import FloatArray

ROWS = 512
"""Points that are carried through all centres together; their working arrays stay in the processor's cache."""

NUMPY_ROWS = 4096
"""The same without numba, where calls cost more than the cache saves."""

THREADED = 30_000_000
"""Evaluations from which a sum is shared among threads."""

FARTHEST = 708.0
"""exp(−708) is the smallest normal number; centres farther away count as being there."""

# exp(−q) by Cody and Waite's reduction to |r| ≤ ln(2)/2 and a Taylor polynomial: within 2 units in the last place.
LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 · 2⁵²: adding it rounds a double to a whole number, kept in its lowest bits
E2, E3, E4, E5, E6, E7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
E8, E9, E10, E11, E12, E13 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800


def normal_sums(x: FloatArray, centres: FloatArray, whitening: FloatArray, factors: FloatArray) -> FloatArray:
    """Σ_j v_j exp(−|L_j (x_i − c_j)|²), shape (n,).

    ``x`` (n, d), ``centres`` (m, d), ``whitening`` lower triangular, (m, d, d) or (1, d, d) for all, ``factors`` (m,).
    """
    columns = np.ascontiguousarray(x.T)
    arrays = [np.ascontiguousarray(array) for array in (centres, whitening, factors)]
    return _shared(compiled("normal") or normal_numpy, columns, arrays)


def box_sums(x: FloatArray, centres: FloatArray, half: FloatArray, factors: FloatArray) -> FloatArray:
    """Σ_j v_j 1{|x_i − c_j| ≤ h in every coordinate}, shape (n,); ``half`` (d,)."""
    columns = np.ascontiguousarray(x.T)
    arrays = [np.ascontiguousarray(array) for array in (centres, half, factors)]
    return _shared(compiled("box") or box_numpy, columns, arrays)


def _shared(function: Callable[..., None], x: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """Rows are independent of each other: threads fill parts of the result, each its own."""
    n = x.shape[1]
    out = np.zeros(n)
    threads = min(os.cpu_count() or 1, n * len(arrays[0]) // THREADED + 1)
    if threads == 1:
        function(x, *arrays, out)
        return out
    step = -(-n // threads)
    parts = [slice(first, first + step) for first in range(0, n, step)]
    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(function, np.ascontiguousarray(x[:, part]), *arrays, out[part]) for part in parts]
        for future in done:
            future.result()
    return out


# ---------------------------------------------------------------- numpy


def normal_numpy(
    x: FloatArray, centres: FloatArray, whitening: FloatArray, factors: FloatArray, out: FloatArray
) -> None:
    d, n = x.shape
    for first in range(0, n, NUMPY_ROWS):
        rows = slice(first, min(first + NUMPY_ROWS, n))
        part, total = x[:, rows], out[rows]
        for j in range(len(centres)):
            white = whitening[j] if len(whitening) > 1 else whitening[0]
            difference = part - centres[j][:, None]
            q = np.zeros(part.shape[1])
            for a in range(d):
                y = white[a, 0] * difference[0]
                for b in range(1, a + 1):
                    y += white[a, b] * difference[b]
                q += y * y
            total += factors[j] * _exp_minus(q)


def _exp_minus(q: FloatArray) -> FloatArray:
    v = -np.minimum(q, FARTHEST)
    t = v * LOG2_E + ROUND
    k = t - ROUND
    r = (v - k * LN2_HIGH) - k * LN2_LOW
    p = E13 * r + E12
    for coefficient in (E11, E10, E9, E8, E7, E6, E5, E4, E3, E2, 1.0, 1.0):
        p = p * r + coefficient
    power: FloatArray = ((t.view(np.int64) + 1023) << 52).view(np.float64)
    return p * power


def box_numpy(x: FloatArray, centres: FloatArray, half: FloatArray, factors: FloatArray, out: FloatArray) -> None:
    d, n = x.shape
    for first in range(0, n, NUMPY_ROWS):
        rows = slice(first, min(first + NUMPY_ROWS, n))
        part, total = x[:, rows], out[rows]
        for j in range(len(centres)):
            inside = np.abs(part[0] - centres[j, 0]) <= half[0]
            for a in range(1, d):
                inside &= np.abs(part[a] - centres[j, a]) <= half[a]
            total += np.where(inside, factors[j], 0.0)


# ---------------------------------------------------------------- numba: the same, row by row


def _normal_loop(
    x: FloatArray, centres: FloatArray, whitening: FloatArray, factors: FloatArray, out: FloatArray
) -> None:
    d, n = x.shape
    difference = np.empty((d, ROWS))
    y = np.empty(ROWS)
    q = np.empty(ROWS)
    total = np.empty(ROWS)
    for first in range(0, n, ROWS):
        size = min(ROWS, n - first)
        for i in range(size):
            total[i] = out[first + i]
        for j in range(len(centres)):
            white = whitening[j if len(whitening) > 1 else 0]
            if d == 2:  # the loops below in one
                c0, c1, w00, w10, w11 = centres[j, 0], centres[j, 1], white[0, 0], white[1, 0], white[1, 1]
                for i in range(size):
                    first_difference = x[0, first + i] - c0
                    y0 = w00 * first_difference
                    y1 = w10 * first_difference + w11 * (x[1, first + i] - c1)
                    q[i] = y0 * y0 + y1 * y1
            else:
                for a in range(d):
                    c = centres[j, a]
                    for i in range(size):
                        difference[a, i] = x[a, first + i] - c
                for i in range(size):
                    q[i] = 0.0
                for a in range(d):
                    w = white[a, 0]
                    for i in range(size):
                        y[i] = w * difference[0, i]
                    for b in range(1, a + 1):
                        w = white[a, b]
                        for i in range(size):
                            y[i] += w * difference[b, i]
                    for i in range(size):
                        q[i] += y[i] * y[i]
            factor = factors[j]
            for i in range(size):
                v = -min(q[i], FARTHEST)
                t = v * LOG2_E + ROUND
                k = t - ROUND
                r = (v - k * LN2_HIGH) - k * LN2_LOW
                p = E13 * r + E12
                p = p * r + E11
                p = p * r + E10
                p = p * r + E9
                p = p * r + E8
                p = p * r + E7
                p = p * r + E6
                p = p * r + E5
                p = p * r + E4
                p = p * r + E3
                p = p * r + E2
                p = p * r + 1.0
                p = p * r + 1.0
                bits = np.float64(t).view(np.int64)
                power = np.int64((bits + 1023) << 52).view(np.float64)
                total[i] += factor * (p * power)
        for i in range(size):
            out[first + i] = total[i]


def _box_loop(x: FloatArray, centres: FloatArray, half: FloatArray, factors: FloatArray, out: FloatArray) -> None:
    d, n = x.shape
    inside = np.empty(ROWS)
    for first in range(0, n, ROWS):
        size = min(ROWS, n - first)
        for j in range(len(centres)):
            for i in range(size):
                inside[i] = factors[j]
            for a in range(d):
                c, h = centres[j, a], half[a]
                for i in range(size):
                    inside[i] = inside[i] if abs(x[a, first + i] - c) <= h else 0.0
            for i in range(size):
                out[first + i] += inside[i]


_LOOPS: dict[str, Callable[..., None]] = {"normal": _normal_loop, "box": _box_loop}


@lru_cache(maxsize=8)
def compiled(name: str) -> Callable[..., None] | None:
    """A loop compiled by numba (kept on disk for the next process), or None where numba is not installed."""
    try:
        import numba
    except ImportError:
        return None
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        function: Callable[..., None] = numba.njit(cache=True, **options)(_LOOPS[name])
    except RuntimeError:  # no room on disk to keep it
        function = numba.njit(**options)(_LOOPS[name])
    return function
