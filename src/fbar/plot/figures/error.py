"""How the errors fell with the number of simulations, and what halving them takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.checks import choice
from fbar.diagnostics.explanation import halving
from fbar.estimation.estimate import Estimate
from fbar.plot.base import Record, legend, one_run
from fbar.plot.look import MARKS, PALETTE, decimal_ticks, short
from fbar.question.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

MOST_TIMES = 1000.0
"""Times the simulations of the run beyond which a forecast is not drawn."""

FURTHEST = 5.0
"""Times the forecast to which its interval is drawn, at most."""

UNITS = {
    "posterior": "standard error / posterior standard deviation",
    "estimate": "standard error / estimate",
    "none": "standard error",
}


@dataclass(frozen=True, eq=False)
class ErrorLine:
    """The errors of one target in terms of ``unit``; of a vector target its worst component's.

    ``trusted`` are the moments whose error bar is reliable. ``halved`` is where half of the last error would
    be, as a number of simulations with its 80% interval.
    """

    target: str
    unit: float
    simulations: FloatArray
    errors: FloatArray
    trusted: BoolArray
    halved: float | None
    halved_low: float | None
    halved_high: float | None


@dataclass(frozen=True, eq=False)
class Error(Record):
    label: str
    lines: tuple[ErrorLine, ...]
    message: str = ""

    @classmethod
    def of(cls, result: Result, relative: str = "posterior") -> Error:
        """``relative`` to the posterior, to the estimate, or to nothing (``"none"``).

        Relative to the posterior: in units of √(Σ w ψ²), the error of a single draw from it, which is the standard
        deviation of f for a mean. An error of 0.01 is then that of 10,000 independent draws.
        """
        one_run(result)
        label = UNITS[choice(relative, UNITS, "relative=")]
        moments = list(getattr(result, "history", ()))
        if not moments or not result.own:
            why = (
                "no errors were recorded during this run"
                if result.own
                else "errors were recorded only for the run's own estimates"
            )
            return cls(label, (), why)
        lines, left = [], []
        for target in result.targets:
            last = result.posterior.expect(target)
            units = _units(result, target, last, relative)
            worst = int(np.argmax(np.nan_to_num(np.atleast_1d(last.standard_error) / units)))
            found = [(m.simulations, _component(m.estimates, target.name, worst)) for m in moments]
            rows = [(n, e / units[worst], sure) for n, (e, sure) in found if math.isfinite(e) and e > 0]
            if not rows or not math.isfinite(units[worst]):
                left.append(target.name)
                continue
            forecast = halving(result.run, result.posterior, target, last)
            ends = (None,) * 3 if forecast is None else (forecast.more, forecast.low, forecast.high)
            at = [None if n is None else float(n + result.run.simulations) for n in ends]
            n, e, sure = np.array(rows, dtype=np.float64).T
            lines.append(ErrorLine(target.name, float(units[worst]), n, e, sure > 0, *at))
        message = f"not drawn: {', '.join(left)}, whose errors or spread were 0 or not known" if left else ""
        return cls(label, tuple(lines), message if lines else "no error of this run is known")

    @property
    def empty(self) -> bool:
        return not self.lines

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        ax = axes[0]
        for i, line in enumerate(self.lines):
            colour = PALETTE[i % len(PALETTE)]
            n, e, sure = line.simulations, line.errors, line.trusted
            mark: dict[str, Any] = {"color": colour, "marker": MARKS[(i + i // len(PALETTE)) % len(MARKS)]}
            ax.plot(n, e, label=short(line.target), markevery=list(np.flatnonzero(sure)), **mark)
            ax.plot(n[~sure], e[~sure], linestyle="none", fillstyle="none", **mark)
            known = line.halved is not None and line.halved < MOST_TIMES * n[-1]
            end = 4 * n[-1] if line.halved is None or not known else max(line.halved, n[-1])
            x = np.geomspace(n[0], end, 30)
            ax.plot(x, e[-1] * np.sqrt(n[-1] / x), color=colour, linewidth=0.9, linestyle=(0, (4, 3)))
            if known and line.halved is not None and line.halved_low is not None and line.halved_high is not None:
                far = min(line.halved_high, FURTHEST * line.halved)  # one that is hardly known would squeeze the rest
                ax.hlines(e[-1] / 2, line.halved_low, far, color=colour, linewidth=1)
                ax.plot(line.halved, e[-1] / 2, color=colour, marker="|", markersize=11, markeredgewidth=2)
        ax.set(xscale="log", yscale="log", xlabel="simulations")
        ax.set_title(self.label, loc="left")
        decimal_ticks(ax.xaxis)
        decimal_ticks(ax.yaxis)
        ax.grid(axis="y")
        ax.plot([], [], color=PALETTE[-1], linewidth=0.9, linestyle=(0, (4, 3)), label="∝ 1/√N")
        if not all(line.trusted.all() for line in self.lines):
            ax.plot([], [], color=PALETTE[-1], marker="o", fillstyle="none", linestyle="none", label="unreliable")
        if any(line.halved is not None for line in self.lines):
            ax.plot([], [], color=PALETTE[-1], marker="|", markersize=9, markeredgewidth=2, linewidth=1, label="halved")
        legend(axes, figure, ncols=min(len(self.lines) + 2, 3))


def _units(result: Result, target: Target, last: Estimate, relative: str) -> FloatArray:
    if relative == "none":
        return np.ones(np.size(last.value))
    if relative == "estimate":
        found = np.abs(np.atleast_1d(last.value))
    else:
        posterior = result.posterior.pictured
        weights = posterior.weights / posterior.weights.sum()
        square = target.influence(posterior.points, weights) ** 2
        found = np.sqrt(np.maximum((weights[:, None] * square).sum(axis=0), 0.0))
    return np.where(found > 0, found, np.nan)


def _component(estimates: Any, name: str, which: int) -> tuple[float, bool]:
    """The standard error of a target's component at that time, and whether it is trusted; NaN if it was asked later."""
    for estimate in estimates:
        if estimate.name == name:
            error, trusted = np.broadcast_arrays(np.atleast_1d(estimate.standard_error), estimate.trusted)
            return float(error[which]), bool(trusted[which])
    return math.nan, False
