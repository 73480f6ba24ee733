"""Efficiency curves: a score against the number of simulations, its rate, and what a wanted score costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import finite_number, positive_number, shown
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand

if TYPE_CHECKING:
    from fbar.study.results import StudyResult

FAR = 10.0
"""How far beyond its budgets a curve is carried on, as a factor."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean score of a method on a problem at each budget, and log score = intercept + rate · log N."""

    problem: str
    method: str
    score: str
    budgets: FloatArray
    values: FloatArray
    errors: FloatArray
    rate: float
    rate_error: float
    intercept: float
    covariance: FloatArray

    def needed(self, value: float) -> tuple[float, float]:
        """The number of simulations that brings the mean score to a value, and its standard error.

        From the fitted line. NaN where it would be extrapolated by more than a factor of ten beyond the budgets, or
        where the score does not fall.
        """
        value = finite_number(positive_number(value, "the wanted score"), "the wanted score")
        if not self.rate < 0:
            return math.nan, math.nan
        log_n = (math.log(value) - self.intercept) / self.rate
        if not math.log(self.budgets.min() / FAR) <= log_n <= math.log(self.budgets.max() * FAR):
            return math.nan, math.nan
        gradient = np.array([-1.0, -log_n]) / self.rate
        error = math.sqrt(max(0.0, float(gradient @ self.covariance @ gradient)))
        return math.exp(log_n), math.exp(log_n) * error

    def __str__(self) -> str:
        parts = ", ".join(
            f"{n:,.0f}: {shorthand(v, e)}" for n, v, e in zip(self.budgets, self.values, self.errors, strict=True)
        )
        rate = f"; rate {shorthand(self.rate, self.rate_error)}" if math.isfinite(self.rate) else ""
        return f"{self.problem} {self.method}: {parts}{rate}"


def curve(result: StudyResult, score: str, problem: str, method: str, target: str | None = None) -> Curve:
    budgets, values, errors = [], [], []
    for budget in sorted({cell.budget for cell in result.cells}):
        v = result.values(score, problem, method, budget, target)
        v = v[np.isfinite(v)]
        if len(v) < 2:
            continue
        budgets.append(float(budget))
        values.append(float(v.mean()))
        errors.append(float(v.std(ddof=1)) / math.sqrt(len(v)))
    n, mean, error = np.array(budgets), np.array(values), np.array(errors)
    rate = rate_error = intercept = math.nan
    covariance = np.full((2, 2), math.nan)
    usable = (mean > 0) & (error > 0) if n.size else np.zeros(0, dtype=bool)
    if usable.sum() >= 2:
        intercept, rate, covariance = fitted_line(np.log(n[usable]), np.log(mean[usable]), (error / mean)[usable])
        rate_error = math.sqrt(covariance[1, 1])
    return Curve(problem, method, result.label(score, target), n, mean, error, rate, rate_error, intercept, covariance)


def fitted_line(x: FloatArray, y: FloatArray, error: FloatArray) -> tuple[float, float, FloatArray]:
    """Weighted least squares; where the points scatter more than their errors say, the errors grow with them."""
    design = np.column_stack([np.ones_like(x), x]) / error[:, None]
    covariance: FloatArray = np.asarray(np.linalg.inv(design.T @ design), dtype=np.float64)
    coefficients = covariance @ design.T @ (y / error)
    if x.size > 2:
        chi2 = float((((y - coefficients[0] - coefficients[1] * x) / error) ** 2).sum()) / (x.size - 2)
        covariance = covariance * max(1.0, chi2)
    return float(coefficients[0]), float(coefficients[1]), covariance


def relative(curves: list[Curve], reference: str, value: float | None = None) -> list[dict[str, Any]]:
    """How many simulations each method needs for what the reference needs one for, at the same score.

    The score is ``value``, or what the reference has at its largest budget.
    """
    known = list(dict.fromkeys(c.method for c in curves))
    if not isinstance(reference, str) or reference not in known:
        raise InputError(f"the reference method {shown(reference)} is not in the study; known: {', '.join(known)}")
    rows = []
    for base in (c for c in curves if c.method == reference):
        wanted = float(base.values[-1]) if value is None else value
        n0, e0 = base.needed(wanted)
        for other in (c for c in curves if c.problem == base.problem):
            n, e = other.needed(wanted)
            same = other.method == reference
            error = 0.0 if same else n / n0 * math.hypot(e / n, e0 / n0)
            rows.append(
                {
                    "problem": base.problem,
                    "method": other.method,
                    "score": wanted,
                    "simulations": n,
                    "standard_error": e,
                    "relative": 1.0 if same else n / n0,
                    "relative_error": error,
                }
            )
    return rows
