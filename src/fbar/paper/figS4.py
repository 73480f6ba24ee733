"""Figure S4: the error of an estimate can be estimated from the same simulations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fbar.paper.figS3 import BUDGETS, SETTINGS, squared_errors
from fbar.paper.record import Experiment, FigureRecord, Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 200
"""Trials whose own estimate and error are rows (panel b shows these)."""


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("figS4")
    results = squared_errors(options)
    for setting in SETTINGS:
        for budget in BUDGETS:
            squared, estimated, _ = results[setting, budget]
            # Without any simulation of some value the paper's estimate divides by zero: there is none.
            estimated = np.where(np.isfinite(estimated), estimated, np.nan)
            where = {"setting": setting, "target": "mean", "n": budget}
            record.add_errors(squared, **where)
            record.add_errors(estimated, quantity="mse_estimate", **where)
            for trial in range(min(SHOWN, len(squared))):
                single = {**where, "x_name": "trial", "x": trial, "trials": 1}
                if np.isfinite(estimated[trial]):
                    record.add("squared_error", squared[trial], **single)
                    record.add("variance_estimate", estimated[trial], **single)
    options.progress(1.0)
    for budget, tolerance in ((BUDGETS[0], 1.0), (BUDGETS[-1], 0.1)):
        for setting in SETTINGS:
            mse = record.one(quantity="mse", setting=setting, n=budget)
            estimate = record.one(quantity="mse_estimate", setting=setting, n=budget)
            assert mse.standard_error is not None
            assert estimate.standard_error is not None
            ratio = estimate.value / mse.value
            error = ratio * math.hypot(mse.standard_error / mse.value, estimate.standard_error / estimate.value)
            word = "≈ 1" if budget == BUDGETS[-1] else "≈ 1, less accurate"
            agrees = abs(math.log(ratio)) < math.log1p(tolerance) + 3 * error / ratio
            record.claim(
                f"{setting}: mean estimated over actual MSE at N = {budget}",
                word,
                ratio,
                error,
                rule=f"factor {1 + tolerance:g} and 3 errors",
                agrees=agrees,
            )
    return record


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, MARKERS, letter, panels

    figure, axes = panels(1, 2, width=8.2, height=3.5)
    left, right = axes[0]
    for setting in SETTINGS:
        colour = COLOURS[setting]
        n, mse, _ = record.curve("n", quantity="mse", setting=setting)
        left.plot(n / 1.06, mse, marker=MARKERS[setting], color=colour, ls="none", label=f"{LABELS[setting]}: MSE")
        n, estimate, _ = record.curve("n", quantity="mse_estimate", setting=setting)
        left.plot(
            n * 1.06,
            estimate,
            marker=MARKERS[setting],
            mfc="white",
            color=colour,
            ls="none",
            label=f"{LABELS[setting]}: estimate",
        )
        squared = record.curve("x", quantity="squared_error", setting=setting)[1]
        estimated = record.curve("x", quantity="variance_estimate", setting=setting)[1]
        right.plot(estimated, squared, ".", ms=1.6, color=colour, alpha=0.35, rasterized=True)
    low, high = 1e-6, 10.0
    right.plot([low, high], [low, high], color=COLOURS["min-unnormalised-mse"], label="correct prediction")
    left.set_xscale("log", base=2)
    left.set(yscale="log", xlabel="simulations $N$", ylabel="squared error of the mean")
    right.set(xscale="log", yscale="log", xlabel="estimated variance", ylabel="squared error", ylim=(1e-10, high))
    positive = np.concatenate([record.curve("x", quantity="variance_estimate", setting=s)[1] for s in SETTINGS])
    right.set_xlim(0.5 * positive.min(), 2 * positive.max())
    left.legend(fontsize=6.5)
    right.legend(loc="lower right")
    letter(axes, ["mean over trials", "single trials"])
    return figure


EXPERIMENT = Experiment("figS4", "Ten values: estimated against actual error", compute, draw)
