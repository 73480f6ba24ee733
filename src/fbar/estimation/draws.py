"""The weighted average of accepted draws, with its error bars (sections 1.2.2, S5.1 and S5.2 of the paper).

f̂ = Σ w a f / Σ w a over simulations, w = p/q (e:importance_sampling_expectation; with w = 1
e:rejection_sampling_expectation). To first order its error is Σ z with z = w a ψ / Σ w a, and the
variance of that sum follows from how the θ were drawn; see `fbar.designs.schemes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED, ONE_CARRIES, all_rejected, carried
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.estimation.strata import Clustered
from fbar.question.outcomes import Seen
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.targets.quantiles import Inversion, Sides
from fbar.weights import normalised


@dataclass(frozen=True, eq=False)
class Draws:
    """The accepted simulations of a run, and what is needed of the others.

    ``weight`` is a, the acceptance weight; ``log_w`` log p/q with the strata's factors in it. ``cluster`` and
    ``stratum`` are numbered over all rounds, ``stratum_sizes`` are the c_s with the rejected draws counted, and
    ``scheme`` names how the draws were placed. ``row`` numbers them among the simulations that the run keeps. Where
    one q made all draws, it is ``design``, and ``log_ratio`` is log p/q at any points; a draw that the prior cannot
    make has the weight zero and log_w = −∞. Where ``relative``, log_w is known up to a constant (of each stratum) only.
    """

    problem: Problem
    points: Points
    weight: FloatArray
    log_w: FloatArray
    simulations: int
    scheme: str
    stratum_sizes: IntArray
    stratum: IntArray
    cluster: IntArray | None
    seen: Seen
    row: IntArray | None = None
    design: Distribution | None = None
    log_ratio: Callable[[Points], FloatArray] | None = None
    relative: bool = False

    def accepted(self) -> Draws:
        """Without the draws of weight zero."""
        if (self.weight > 0).all():
            return self
        rows = np.flatnonzero(self.weight)
        cluster = None if self.cluster is None else self.cluster[rows]
        return replace(
            self,
            points=self.points.take(rows),
            weight=self.weight[rows],
            log_w=self.log_w[rows],
            stratum=self.stratum[rows],
            cluster=cluster,
            row=None if self.row is None else self.row[rows],
        )

    def require_acceptances(self) -> None:
        if not self.weight.any():
            problem = self.problem
            raised = problem.compares_numbers or (problem.has_summaries and problem.arguments["distance"] is not None)
            raise all_rejected(self.simulations, self.seen, tolerance=raised)


def recorded_columns(
    parts: Sequence[tuple[int, Mapping[str, npt.NDArray[Any]]]], rows: IntArray
) -> dict[str, npt.NDArray[Any]]:
    """What simulators recorded, at some rows of blocks: pairs (simulations, recorded outputs), one after the other."""
    names = dict.fromkeys(name for _, recorded in parts for name in recorded)
    # A block whose simulations all failed has none; its rows are never among those that are asked for.
    return {n: np.concatenate([own.get(n, np.full(size, np.nan)) for size, own in parts])[rows] for n in names}


@dataclass(frozen=True, eq=False)
class DrawErrors(ErrorModel):
    """Error bars of a weighted average of draws, by the variance between clusters within strata."""

    sample: Draws
    weights: FloatArray
    one_carries = ONE_CARRIES

    @property
    def draws(self) -> Draws:
        return self.sample

    @property
    def draw_weights(self) -> FloatArray:
        return self.weights

    @property
    def ess(self) -> float:
        """(Σw)²/Σw² over the accepted simulations (section 1.2.2, e:ESS)."""
        return float(1 / (self.weights**2).sum())

    def contributions(self, influence: FloatArray) -> FloatArray:
        """z = w a ψ / Σ w a of every draw."""
        return self.weights[:, None] * influence

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        draws = self.draws
        z = self.contributions(influence)
        parts = Clustered.of(z, draws.stratum, draws.cluster, draws.stratum_sizes)
        covariance = parts.covariance
        unseen = self._unseen(z)
        diagonal = np.maximum(np.diagonal(covariance), 0.0) + unseen
        np.fill_diagonal(covariance, diagonal)
        return ErrorBars(covariance, self._df(parts, diagonal, unseen), self._doubts(z, diagonal))

    def inversion(self, below: BoolArray, given: BoolArray | None, variance: float, df: float) -> Inversion:
        if self.draws.scheme != "independent" or self.draws.cluster is not None:
            return Inversion(variance, df)
        rows = slice(None) if given is None else given
        sides = Sides(self.weights[rows], below[rows])
        return Inversion(variance + sides.unseen, sides.df, sides.carried, carried(self.one_carries))

    def _unseen(self, z: FloatArray) -> FloatArray:
        """What is added to the variances for simulations that were not seen yet; nothing by default."""
        return np.zeros(z.shape[1])

    def _df(self, parts: Clustered, variance: FloatArray, unseen: FloatArray) -> FloatArray:
        """Satterthwaite's degrees of freedom: 2V̂² over the variance of V̂, a sum of independent parts."""
        draws = self.draws
        most = max(1.0, draws.weight.size - 1.0)
        if draws.scheme == "sobol":
            return np.full(variance.shape, float((draws.stratum_sizes - 1).sum()))
        if draws.scheme == "independent":
            part = np.square(parts.zeta**2).sum(axis=0) + unseen**2  # a fourth power takes ten times as long
        else:
            part = (parts.within**2).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = 2 * variance**2 / part
        return np.asarray(np.clip(np.nan_to_num(df, nan=1.0, posinf=most), 1.0, most))

    def _doubts(self, z: FloatArray, variance: FloatArray) -> tuple[tuple[Any, str], ...]:
        few = np.full(variance.shape, self.draws.weight.size < FEW_ACCEPTED)
        square = z**2
        with np.errstate(divide="ignore", invalid="ignore"):
            one = square.max(axis=0) / square.sum(axis=0)
        return (
            (few, FEW_WERE_ACCEPTED),
            (one > self.one_carries, carried(self.one_carries)),
            (
                ~(variance > 0),
                "the accepted simulations all give the same value of this target, so its error is unknown",
            ),
        )


@dataclass(frozen=True)
class WeightedAverage:
    """Self-normalised importance weights, in log space."""

    needs_rejected = False

    def __call__(self, draws: Draws) -> Posterior:
        draws.require_acceptances()
        draws = draws.accepted()
        weights = normalised(draws.log_w, draws.weight)
        errors = DrawErrors(draws, weights)
        accepted = float(draws.weight.sum())
        return Posterior(draws.points, weights, errors, draws.simulations, accepted)
