"""Explanations of estimates on a finite space, value by value of θ.

The parts V̂_i of the cells stand for α_i/n_i, and any other allocation n_i′ has Σ α_i/n_i′, the best one (Σ √α_i)²/N
(section S3.1 of the paper).
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray
from fbar.diagnostics.explanation.data import VALUES, Alternative, Region, Shares, alternative
from fbar.diagnostics.explanation.regions import carriers_of
from fbar.estimation.cells import Cells, ExpectedCounts
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.finite.cells import CellRun
from fbar.question.targets import Target

MOST_VALUES = 6
"""Values of θ that have a row; the others have one together."""


def of_cells(posterior: Posterior, cells: Cells, target: Target, run: Run) -> Shares:
    """Which values of θ contribute to the error of an estimate."""
    found = posterior.value_parts(target)
    if found is None:
        return Shares()
    parts, spreads = found
    square = parts.sum(axis=-1)
    if not (np.isfinite(square).all() and square.sum() > 0):
        return Shares()
    counts = simulations_in(cells)
    columns = [posterior.weights, counts / counts.sum(), cells.hits / cells.hits.sum(), square / square.sum()]
    order = np.argsort(-square, kind="stable")
    shown = np.sort(order[:MOST_VALUES])
    rows = [(cells.points.label(i), [float(column[i]) for column in columns]) for i in shown.tolist()]
    rest = order[MOST_VALUES:]
    if rest.size:
        rows.append((f"{rest.size} other values", [float(column[rest].sum()) for column in columns]))
    regions = tuple(Region(words, *shares) for words, shares in rows)
    carriers = carriers_of(VALUES, square, cells.points, run.problem.prior.names)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(square > 0, (spreads * parts**2).sum(axis=-1) / square**2, 0.0)
    others = _other_allocations(posterior, cells, square, spread, target, run)
    return Shares(None, regions, carriers, others)


def simulations_in(cells: Cells) -> FloatArray:
    return np.asarray(cells.counts if cells.spent is None else cells.spent, dtype=np.float64)


def _other_allocations(
    posterior: Posterior, cells: Cells, part: FloatArray, spread: FloatArray, target: Target, run: Run
) -> tuple[Alternative, ...]:
    """Σ α_i/n_i′ for other n_i′, with α_i = n_i V̂_i; ``spread`` are the relative variances of the V̂_i."""
    n, total, prior = cells.counts, float(cells.simulations), cells.prior
    p = np.where(cells.few_hits_or_misses, cells.jeffreys, cells.hits / np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.where(cells.hits > 0, cells.squares / np.where(cells.hits > 0, cells.hits, 1.0), 1.0) * p
    single = np.maximum(second - p**2, 1e-12) / second  # 1 − p for an indicator: var(a)/E[a²]
    estimator = run.estimator if isinstance(run, CellRun) else None
    expected = n.sum() * estimator.q * single if isinstance(estimator, ExpectedCounts) else np.maximum(n, 1)
    alpha = part * expected
    achieved = float(np.sum(posterior.expect(target).variance))
    ways: list[tuple[str, FloatArray]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        if not (isinstance(estimator, ExpectedCounts) and np.allclose(estimator.q, prior)):
            ways.append(("rejection (draws from the prior)", alpha / single / prior))
        ways.append(("simulations in the posterior's proportions", alpha / posterior.weights))
        root = np.sqrt(alpha)
        ways.append(("the best allocation for this target", root * root.sum()))
    found = []
    for words, terms in ways:
        each = np.where(alpha > 0, terms, 0.0) / total
        variance = float(each.sum())
        if not math.isfinite(variance):
            continue  # values that matter would get no simulation
        share = each / variance - part / part.sum()
        found.append(alternative(words, variance, achieved, math.sqrt(float((spread * share**2).sum()))))
    return tuple(found)
