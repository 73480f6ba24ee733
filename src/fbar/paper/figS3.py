"""Figure S3: adapting to the optimal allocation reaches its accuracy."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fbar import theory
from fbar.arrays import FloatArray
from fbar.estimation.cells import ActualCounts
from fbar.methods import AdaptiveAllocation, AdaptivePosterior, Importance, Method
from fbar.methods.finite.adaptive import PSEUDO_COUNT
from fbar.methods.finite.allocation import oracle_shares
from fbar.methods.finite.cells import CellRun
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.problems import ten_values
from fbar.question import targets
from fbar.question.problem import Problem
from fbar.running import drive
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = tuple(2**power for power in range(7, 16))
PAPER_TRIALS = 1000
SETTINGS = ("prior", "adaptive-posterior", "adaptive-min-mse", "min-mse-oracle")
TARGET = targets.mean("theta")


def method(setting: str, problem: Problem, budget: int) -> Method:
    """The four strategies, with the paper's settings."""
    if setting == "prior":
        return Importance("prior", weighting="actual", pseudo_count=PSEUDO_COUNT, rounds=1)
    if setting == "adaptive-posterior":
        return AdaptivePosterior(rounds=16)
    if setting == "adaptive-min-mse":
        return AdaptiveAllocation("plug-in", rounds=16)
    q = theory.normalise(oracle_shares("min-mse", problem, [TARGET]) + 1 / math.sqrt(budget))
    return Importance(q, weighting="actual", pseudo_count=PSEUDO_COUNT, rounds=1)


@lru_cache(maxsize=4)
def squared_errors(options: Options) -> dict[tuple[str, int], tuple[FloatArray, FloatArray, FloatArray]]:
    """For each setting and budget: squared errors, estimated variances and acceptance rates over the trials."""
    problem = ten_values("text" if options.text_likelihood else "figures")
    truth = problem.truth(TARGET)[0]
    trials = options.number_of_trials(PAPER_TRIALS)
    seeds = Seeds.of(options.seed)
    results = {}
    jobs = [(setting, budget) for setting in SETTINGS for budget in BUDGETS]
    for index, (setting, budget) in enumerate(jobs):
        run = method(setting, problem, budget).start(problem, TARGET, seeds.trial(index), budget, trials=trials)
        assert isinstance(run, CellRun)
        drive(run, history=False)
        # The paper's own error estimate, its plug-in variance as it stands.
        estimate = ActualCounts(PSEUDO_COUNT, plug_in=True)(run.cells).expect(TARGET)
        results[setting, budget] = (
            np.square(estimate.value - truth),
            np.asarray(estimate.variance),
            np.asarray(estimate.accepted) / budget,
        )
        options.progress((index + 1) / len(jobs))
    return results


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("figS3")
    results = squared_errors(options)
    for budget in BUDGETS:
        oracle = results["min-mse-oracle", budget][0].mean()
        for setting in SETTINGS:
            squared, _, rate = results[setting, budget]
            where = {"setting": setting, "target": "mean", "n": budget}
            record.add_errors(squared, **where)
            mse = record.one(quantity="mse", **where)
            assert mse.standard_error is not None
            record.add(
                "relative_mse",
                mse.value / oracle,
                standard_error=mse.standard_error / oracle,
                trials=mse.trials,
                **where,
            )
            record.add("acceptance_rate", rate.mean(), trials=mse.trials, **where)
    options.progress(1.0)
    _claims(record)
    return record


def _ratio(record: FigureRecord, top: str, bottom: str, n: int) -> tuple[float, float]:
    a, b = (record.one(quantity="mse", setting=setting, n=n) for setting in (top, bottom))
    assert a.standard_error is not None
    assert b.standard_error is not None
    ratio = a.value / b.value
    return ratio, ratio * math.hypot(a.standard_error / a.value, b.standard_error / b.value)


def _claims(record: FigureRecord) -> None:
    small, large = BUDGETS[0], BUDGETS[-1]
    ratio, error = _ratio(record, "adaptive-min-mse", "prior", small)
    record.claim(
        f"MSE of adaptive-min-mse over prior at N = {small}",
        "≈ 1 (no improvement yet)",
        ratio,
        error,
        rule="10% and 3 errors",
        agrees=abs(ratio - 1) < 0.1 + 3 * error,
    )
    ratio, error = _ratio(record, "adaptive-min-mse", "min-mse-oracle", large)
    record.claim(
        f"MSE of adaptive-min-mse over the oracle at N = {large}",
        "≈ 1 (matches)",
        ratio,
        error,
        rule="10% and 3 errors",
        agrees=abs(ratio - 1) < 0.1 + 3 * error,
    )
    ratio, error = _ratio(record, "adaptive-posterior", "prior", large)
    record.claim(
        f"MSE of adaptive-posterior over prior at N = {large}",
        "> 1 (performs poorly)",
        ratio,
        error,
        rule="> 1 by 3 errors",
        agrees=ratio > 1 + 3 * error,
    )

    record.notes.append(
        "at N = 128 deterministic counts beat multinomial ones before anything is learned, so adaptive-min-mse gains"
    )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, MARKERS, letter, panels

    figure, axes = panels(1, 2, width=8.0, height=3.3)
    for place, setting in enumerate(SETTINGS):
        look = {"color": COLOURS[setting], "marker": MARKERS[setting], "label": LABELS[setting]}
        n, mse, error = record.curve("n", quantity="mse", setting=setting)
        axes[0, 0].errorbar(n, mse, error, lw=1.2, **look)
        n, ratio, error = record.curve("n", quantity="relative_mse", setting=setting)
        axes[0, 1].errorbar(n * 1.04 ** (place - 1.5), ratio, error, lw=1.0, capsize=2, **look)
    axes[0, 0].set(xscale="log", yscale="log", xlabel="simulations $N$", ylabel="MSE")
    axes[0, 1].set(xscale="log", xlabel="simulations $N$", ylabel="MSE relative to the oracle")
    axes[0, 1].set_ylim(0)
    axes[0, 1].axhline(1, color="#bbbbbb", lw=0.8, zorder=0)
    for ax in axes[0]:
        ax.set_xscale("log", base=2)
    axes[0, 0].legend()
    letter(axes, ["mean squared error", "relative to the oracle"])
    return figure


EXPERIMENT = Experiment("figS3", "Ten values: adaptive allocation", compute, draw)
