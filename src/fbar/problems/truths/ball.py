"""The truth of ABC with a ball of data, for coordinates that are independent given a component.

x_i = θ_i + N(0, σ²), independent priors p(θ_i), accepted where D = Σ (x_i − x*_i)² ≤ ε². The Laplace transform of D is
a product over coordinates, E e^(−sD) = Π φ_i(s),

    φ_i(s) = ∫ p(θ) (1 + 2sσ²)^(−1/2) exp(−s (θ − x*_i)²/(1 + 2sσ²)) dθ ,

and with f(θ_i) under the integral of one of them it is that of E[f(θ_i); D]. The inverse at ε² of φ(s)/s gives
E[f(θ_i); D ≤ ε²], an integral along a parabola through the saddle point on the real axis, on which the trapezoidal rule
converges geometrically. Nothing is drawn and no dimension is too many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.truths.transport import listed
from fbar.question.truth import Truth

Complex = npt.NDArray[np.complex128]
HOW = "numerical inversion of the Laplace transform of the squared distance"


@dataclass(frozen=True)
class Component:
    """x_i ~ N(θ_i, σ²) with probability ``weight``; θ_i at nodes (d, n), with the logs of their prior weights."""

    weight: float
    variance: float
    theta: FloatArray
    log_prior: FloatArray


def truth_in_ball(
    names: Sequence[str], components: Callable[[int], Sequence[Component]], x: FloatArray, tolerance: float
) -> Truth:
    """Means and second moments of every coordinate; the error is the change when steps and panels are halved.

    ``components(refine)`` has ``refine`` times as many panels of nodes.
    """
    coarse, _ = _moments(components(1), x, tolerance, 1)
    fine, deviation = _moments(components(2), x, tolerance, 2)
    error = np.abs(fine - coarse)
    if not (np.isfinite(fine).all() and np.isfinite(deviation).all() and (error < 1e-3 * deviation).all()):
        raise InputError(f"the truth of ABC for these data at tolerance {tolerance:g} cannot be computed")
    return listed(names, fine, deviation, error, HOW)


def _factors(component: Component, x: FloatArray, s: Complex) -> tuple[Complex, Complex]:
    """log φ_i(s), shape (d, n_s), and the moments E_s θ_i^k = φ_i^(θ^k)/φ_i, shape (4, d, n_s)."""
    a = s / (1 + 2 * s * component.variance)
    power = (component.theta - x[:, None]) ** 2
    exponent = component.log_prior[:, :, None] - power[:, :, None] * a
    top = exponent.real.max(axis=1, keepdims=True)
    w = np.exp(exponent - top)
    total = w.sum(axis=1)
    rows = np.stack([(w * component.theta[:, :, None] ** k).sum(axis=1) / total for k in (1, 2, 3, 4)])
    return np.log(total) + top[:, 0] - 0.5 * np.log(1 + 2 * s * component.variance), rows


def _log_transform(components: Sequence[Component], x: FloatArray) -> Callable[[Complex], Any]:
    """log E e^(−sD), by components, and their moments."""

    def value(s: Complex) -> tuple[Complex, list[Complex]]:
        parts = [_factors(component, x, s) for component in components]
        logs = [np.log(c.weight) + log_phi.sum(axis=0) for c, (log_phi, _) in zip(components, parts, strict=True)]
        return np.array(logs), [rows for _, rows in parts]

    return value


def _moments(
    components: Sequence[Component], x: FloatArray, tolerance: float, refine: int
) -> tuple[FloatArray, FloatArray]:
    transform = _log_transform(components, x)
    c = tolerance**2

    def height(log_s: float) -> float:
        s = np.exp(log_s)
        logs, _ = transform(np.array([s + 0j]))
        return float(s * c - log_s + np.log(np.exp(logs.real - logs.real.max()).sum()) + logs.real.max())

    grid = np.linspace(-12, 30, 85) - np.log(c)
    start = grid[int(np.argmin([height(t) for t in grid]))]
    best = minimize_scalar(height, bounds=(start - 0.6, start + 0.6), method="bounded", options={"xatol": 1e-4})
    saddle = float(np.exp(best.x))
    # The step follows the curvature at the saddle: height'' in log s is (s σ_saddle)², plus what the slope leaves.
    h = 1e-2
    bend = (height(best.x + h) - 2 * height(best.x) + height(best.x - h)) / h**2
    width = saddle / np.sqrt(max(bend, 1e-6))
    step = min(width, saddle) / (4 * refine)
    base = height(best.x)
    # The transform is at most of order one but inside the circle with the diameter [−1/(2σ²), 0]; a parabola
    # s − 2σ²y² + iy, or a straighter one, passes that by and goes to the left, where e^(sε²) falls.
    curve = min(0.25 / max(width, saddle), *(2 * component.variance for component in components))
    total: Any = 0.0
    start_index, block = 0, 64
    while True:
        y = (np.arange(start_index, start_index + block) + 0.5) * step
        s = saddle - curve * y**2 + 1j * y
        ds = (1j - 2 * curve * y) * step / (2j * np.pi)
        logs, rows = transform(s)
        terms = np.exp(s * c - base + logs) / s * ds  # the other half of the contour is the conjugate
        powers = np.stack([np.concatenate([np.ones_like(r[:1]), r]) for r in rows])  # (component, 1 + 4, d, n_s)
        total = total + 2 * (terms[:, None, None] * powers).real.sum(axis=(0, -1))
        start_index += block
        if np.abs(terms).sum(axis=0)[-8:].max() < 1e-16 * np.abs(total[0]).max() or start_index > 100_000:
            break
    rows_out = total[1:] / total[0]
    value = rows_out[:2]
    deviation = np.sqrt(np.maximum([rows_out[1] - value[0] ** 2, rows_out[3] - value[1] ** 2], 0.0))
    return value, deviation
