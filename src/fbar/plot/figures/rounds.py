"""Tolerance, acceptance rate and effective sample size as the run went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.plot.base import Record, one_run
from fbar.plot.look import GREEN, POSTERIOR, SIMULATIONS, decimal_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result


@dataclass(frozen=True, eq=False)
class Rounds(Record):
    """Stages of the run from simulation ``begin`` to ``end``, and the ESS after ``at`` simulations; NaN is unknown."""

    words: tuple[str, ...]
    begin: FloatArray
    end: FloatArray
    tolerance: FloatArray
    rate: FloatArray
    at: FloatArray
    ess: FloatArray
    message: str = ""

    @classmethod
    def of(cls, result: Result) -> Rounds:
        one_run(result)
        stages = [stage for stage in result.run.stages() if stage.simulations]
        end = np.cumsum([stage.simulations for stage in stages], dtype=np.float64)
        size = np.array([stage.simulations for stage in stages], dtype=np.float64)
        tolerance = [
            stage.tolerance if stage.tolerance and np.isfinite(stage.tolerance) else np.nan for stage in stages
        ]
        accepted = [np.nan if stage.accepted is None else stage.accepted for stage in stages]
        known = [(m.simulations, m.ess) for m in getattr(result, "history", ()) if m.ess is not None]
        last = result.posterior.ess
        if last is not None and (not known or known[-1][0] < result.run.simulations):
            known.append((result.run.simulations, last))
        at, ess = np.array(known, dtype=np.float64).reshape(-1, 2).T
        words = tuple(stage.words for stage in stages)
        return cls(words, end - size, end, np.array(tolerance, dtype=np.float64), np.array(accepted) / size, at, ess)

    @property
    def _shown(self) -> list[tuple[str, str, FloatArray]]:
        parts = [("tolerance", SIMULATIONS, self.tolerance), ("acceptance rate", POSTERIOR, self.rate)]
        found = [(label, colour, values) for label, colour, values in parts if np.isfinite(values).any()]
        return [*found, *([("effective sample size", GREEN, self.ess)] if self.ess.size else [])]

    @property
    def empty(self) -> bool:
        return not self._shown

    @property
    def grid(self) -> tuple[int, int]:
        return max(1, len(self._shown)), 1

    @property
    def size(self) -> tuple[float, float]:
        return 6.0, 0.6 + 1.35 * self.grid[0]

    @property
    def options(self) -> dict[str, Any]:
        return {"sharex": True}

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        for ax, (label, colour, values) in zip(axes, self._shown, strict=True):
            if values is self.ess:
                ax.plot(self.at, values, color=colour, marker="o")
            else:
                ax.hlines(values, self.begin, self.end, color=colour, linewidth=2.4)
            positive = values[np.isfinite(values) & (values > 0)]
            if positive.size == np.isfinite(values).sum() and positive.max() > 5 * positive.min():
                ax.set_yscale("log")
                decimal_ticks(ax.yaxis)
            else:
                ax.set_ylim(0, 1.15 * float(np.nanmax(values)) or 1.0)
            ax.set_title(label, loc="left")
            ax.grid(axis="y")
            ax.set_xlim(0, 1.02 * float(max(self.end[-1] if self.end.size else 1.0, 1.0)))
        axes[-1].set_xlabel("simulations")
        axes[-1].xaxis.set_major_formatter("{x:,.0f}")
