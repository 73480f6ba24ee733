"""Rounds of ABC-SMC combined by one over the estimated variance of each, for each target by itself (section S7).

Rounds in which few particles were accepted are left out. The weights are estimates from the same particles: a round
that happened to see little spread gets too much weight. How far that moves an estimate is compared with its error bar.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.doubts import FEW_ACCEPTED
from fbar.estimation.draws import DrawErrors, Draws
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.targets import Target
from fbar.weights import normalised

SELF_INFLUENCE = 0.25
"""By how many standard errors particles may influence their own weights before it is a reason for doubt."""


class InverseVariancePosterior(Posterior):
    """Each target's own combination of the rounds' estimates, by one over their estimated variances."""

    inverts = False

    def __init__(self, draws: Draws) -> None:
        weights = normalised(draws.log_w, draws.weight)
        super().__init__(
            draws.points, weights, DrawErrors(draws, weights), draws.simulations, float(draws.weight.sum())
        )
        groups = [np.flatnonzero(draws.stratum == number) for number in np.unique(draws.stratum)]
        enough = [rows for rows in groups if rows.size >= FEW_ACCEPTED]
        self._groups = enough or [max(groups, key=len)]

    def _parts(self, target: Target) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Values (rounds, m), weights of the rounds (rounds, m), and each round's z = w ψ (rows, m)."""
        values, variances, z = [], [], []
        for rows in self._groups:
            points, w = self.points.take(rows), self.weights[rows] / self.weights[rows].sum()
            psi = target.influence(points, w)
            values.append(target.value(points, w))
            z.append(w[:, None] * psi)
            variances.append((z[-1] ** 2).sum(axis=0))
        with np.errstate(divide="ignore"):
            precision = 1 / np.array(variances)
        precision = np.where(np.isfinite(precision), precision, 0.0)
        total = precision.sum(axis=0)
        share = np.where(total > 0, precision / np.where(total > 0, total, 1.0), 1 / len(values))
        return np.array(values), share, z

    def value(self, target: Target) -> FloatArray:
        values, share, _ = self._parts(target)
        return np.asarray((share * np.where(share > 0, values, 0.0)).sum(axis=0))

    def contributions(self, target: Target) -> FloatArray:
        _, share, z = self._parts(target)
        column = np.zeros((self.points.rows, share.shape[1]))
        for part, rows, own in zip(share, self._groups, z, strict=True):
            column[rows] = np.where(part > 0, part * own, 0.0)
        return column

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        columns = [self.contributions(target) for target in targets]
        influence = np.concatenate(columns, axis=1) / self.weights[:, None]  # whose z are those of the combination
        assert self.errors is not None
        bars = self.errors.error_bars(influence)
        # A round that happened to see little spread has a small estimated variance and a large say.
        shift = np.concatenate([self.value(target) - Posterior.value(self, target) for target in targets])
        text = (
            "rounds weighted by one over their estimated variance disagree with rounds weighted by their effective "
            f"sample size by more than {SELF_INFLUENCE:g} standard errors: a known bias; use weights='mixture'"
        )
        doubt = np.abs(shift) > SELF_INFLUENCE * bars.standard_error
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (doubt, text)))
