"""Which simulations carry an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.diagnostics.explanation import VALUES, explain, target_of
from fbar.estimation.at_data import PosteriorAtData
from fbar.plot.base import Record, legend, one_run
from fbar.plot.look import GREEN, POSTERIOR, PRIOR, decimal_ticks, short
from fbar.question.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

STEPS = 300
"""Points of a curve, at most."""

MOST_POINTS = 2000
"""Simulations in the scatter: those with the largest shares."""


@dataclass(frozen=True, eq=False)
class Influence(Record):
    """The share of the variance in its ``k`` largest parts, and the share of the weight in its ``k`` largest.

    ``what`` are single simulations, or values of θ on a finite space; ``number`` is how many there are. ``half`` is how
    many account for half of the variance, ``largest`` is the largest share. ``theta`` and ``shares`` are single parts,
    by the ``parameter`` that explains most of them.
    """

    target: str
    what: str
    number_of_parts: int
    k: IntArray
    variance: FloatArray
    weight: FloatArray
    half: int
    largest: float
    parameter: str | None
    theta: FloatArray
    shares: FloatArray
    message: str = ""

    @classmethod
    def of(cls, result: Result, target: str | Target | None = None) -> Influence:
        """``target`` is one of the run's by its name, the first by default, or any other."""
        one_run(result)
        run, posterior = result.run, result.posterior
        known = {one.name: one for one in result.targets}
        if target is None:
            asked = result.targets[0]
        else:
            asked = known[target] if isinstance(target, str) and target in known else target_of(run, target)
        what, square, weights = posterior.parts_in_words, None, np.maximum(posterior.weights, 0.0)
        points = posterior.points
        parts = posterior.value_parts(asked)
        if parts is not None:
            what = VALUES
            square = parts[0].sum(axis=-1)
        else:
            z = posterior.contributions(asked)
            square = None if z is None else (z**2).sum(axis=1)
        if square is not None and isinstance(posterior, PosteriorAtData):  # single simulations, not their draws
            first = posterior.parts.first
            square, points, weights = square[first], points.take(first), posterior.as_simulated()[1]
        if square is None or not (np.isfinite(square).all() and square.sum() > 0):
            nothing, message = np.empty(0), f"which simulations carry {asked.name} is not known"
            return cls(
                asked.name, what, 0, np.empty(0, np.int64), nothing, nothing, 0, 0.0, None, nothing, nothing, message
            )
        share = square / square.sum()
        k = np.unique(np.geomspace(1, share.size, min(STEPS, share.size)).round().astype(np.int64))
        curve, weight = (np.cumsum(np.sort(part)[::-1])[k - 1] for part in (share, weights / weights.sum()))
        half = int(np.searchsorted(np.cumsum(np.sort(share)[::-1]), 0.5)) + 1
        numeric = [name for name in run.problem.prior.names if points[name].dtype.kind in "biuf"]
        parameter = explain(run, posterior, asked).parameter or (numeric[0] if numeric else None)
        theta = shares = np.empty(0)
        if parameter is not None and points[parameter].dtype.kind in "biuf":
            rows = np.flatnonzero(points.present(parameter))
            rows = rows[np.argsort(-share[rows], kind="stable")[:MOST_POINTS]]
            theta, shares = points[parameter][rows].astype(np.float64), share[rows]
        else:
            parameter = None
        return cls(asked.name, what, share.size, k, curve, weight, half, float(share.max()), parameter, theta, shares)

    @property
    def empty(self) -> bool:
        return self.number_of_parts == 0

    @property
    def grid(self) -> tuple[int, int]:
        return 1, 1 if self.parameter is None else 2

    @property
    def size(self) -> tuple[float, float]:
        return (4.2 if self.parameter is None else 7.2), 3.0

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        ax = axes[0]
        ax.plot(self.k, self.variance, color=POSTERIOR, label="of the variance", drawstyle="steps-post")
        ax.plot(self.k, self.weight, color=GREEN, label="of the weight", drawstyle="steps-post")
        equal = self.k / self.number_of_parts
        ax.plot(self.k, equal, color=PRIOR, linewidth=1, linestyle=(0, (4, 3)), label="if all were equal")
        ax.plot(self.half, 0.5, color=POSTERIOR, marker="o")
        ax.set(ylim=(0, 1.02), ylabel="share of the k largest", xlabel=f"k of {self.number_of_parts:,} {self.what}")
        if self.number_of_parts > 20:
            ax.set_xscale("log")
            decimal_ticks(ax.xaxis)
        ax.grid(axis="y")
        ax.set_title(short(self.target), loc="left")
        if self.parameter is not None:
            other = axes[1]
            few = self.theta.size <= 100
            size, alpha = (30, 0.9) if few else (10, 0.5)
            other.scatter(
                self.theta, self.shares, s=size, color=POSTERIOR, alpha=alpha, linewidths=0, rasterized=not few
            )
            other.set(xlabel=short(self.parameter), ylabel="share of the variance", ylim=(0, None))
            each = "one value of θ" if self.what == VALUES else "one simulation"
            other.set_title(f"each point is {each}", loc="left")
            other.grid(axis="y")
        legend(axes[:1], figure)
