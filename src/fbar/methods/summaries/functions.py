"""What the regressions predict: the functions of θ that the targets depend on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.methods.summaries.regressions import REGRESSIONS
from fbar.question.points import Points
from fbar.question.targets import Target


def functions(targets: Sequence[Target], points: Points) -> tuple[list[str], FloatArray]:
    """The functions of θ that the targets depend on, with names, and their values (n, c).

    A target's components; for one that is conditional on its parameters' model, these within the model and the model's
    indicator; and the influence function under the prior, which for a (co)variance is the product. What does not vary
    and what is a multiple of another function is left out.
    """
    names: list[str] = []
    kept: list[FloatArray] = []
    kept_standard: list[FloatArray] = []
    uniform = np.full(points.rows, 1 / points.rows)
    for target in targets:
        given = target.given(points)
        found = target.components(points)
        if given is not None:
            if not given.any():
                raise InputError(f"target {shown(target.name)} needs parameters that no simulation of the pilot has")
            centre = found[given].mean(axis=0)
            found = np.hstack([np.where(given[:, None], found - centre, 0.0), given[:, None].astype(np.float64)])
        if target.smooth:
            found = np.hstack([found, target.influence(points, uniform).reshape(points.rows, -1)])
        if not np.isfinite(found).all():
            raise InputError(f"target {shown(target.name)} is not finite at all parameters of the pilot")
        own = 0
        for column in found.T:
            spread = float(column.std())
            if not spread > 1e-12 * float(np.abs(column).max()):
                continue
            standard = (column - column.mean()) / spread
            if any(abs(float(standard @ other)) > (1 - 1e-9) * len(column) for other in kept_standard):
                continue
            own += 1
            names.append(target.name if own == 1 else f"{target.name} ({own})")
            kept.append(column)
            kept_standard.append(standard)
    if not kept:
        raise InputError("the targets do not vary among the pilot's simulations; there is nothing to learn for them")
    return names, np.stack(kept, axis=1)


def out_of_fold(kind: str, x: FloatArray, y: FloatArray, folds: int, seed: int) -> FloatArray:
    """Every row's prediction by a regression that was fitted without its fold.

    Draws are independent: each k-th row makes a fold.
    """
    predicted = np.empty_like(y)
    fold = np.arange(len(x)) % folds
    for k in range(min(folds, len(x))):
        predicted[fold == k] = REGRESSIONS[kind](x[fold != k], y[fold != k], seed).predict(x[fold == k])
    return predicted
