"""Beyond the paper: what stratified and quasi-random draws add to the four designs of figures 3 and 5.

Stratifying θ removes at most the share r of the variance, r = E[ψ² p*·p/q] / E[ψ² p/q] over the posterior, since the
outcome of a simulation stays random: the gain is at most 1/(1−r). Beside the gain, the coverage of nominal 95%
intervals, over all trials with an estimate and over those whose estimate is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.designs.optimal import log_weights, reference
from fbar.methods import Importance
from fbar.paper.four_designs import SETTINGS
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.paper.trials import run_trials
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.running import drive
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {"fig3": "mean", "fig5": "model-1"}
SCHEMES = ("independent", "stratified", "sobol")
BUDGETS = (2**10, 2**13)
TRIALS = 500
DESIGNS = SETTINGS


def _parts(figure: str, design: str) -> tuple[Problem, Target, Distribution]:
    module = import_module(f"fbar.paper.{figure}")
    return module.PROBLEM, module.TARGET, module.design(design)


def trial_runner(setting: str, budget: int) -> Callable[[Seeds], list[float]]:
    """A trial that gives the estimate, its standard error, whether the interval covers, and whether it is trusted."""
    figure, design, scheme = setting.split("/")
    problem, target, q = _parts(figure, design)
    truth = float(problem.truth(target)[0])
    method = Importance(q, scheme, rounds=1)

    def trial(seeds: Seeds) -> list[float]:
        run = method.start(problem, target, seeds, budget, block_size=2**15)
        drive(run, history=False)
        estimate = run.posterior().expect(target)
        low, high = estimate.interval()
        return [estimate.value, estimate.standard_error, float(low <= truth <= high), float(estimate.trusted)]

    return trial


def largest_gain(problem: Problem, target: Target, q: Distribution) -> float:
    """1/(1−r), the most that stratifying θ can gain."""
    points, weights = reference(problem)
    psi = target.influence(points, weights)[:, 0]
    part = weights * psi**2 * np.exp(log_weights(problem.prior, q, points))
    r = float((part * problem.acceptance_probability(points)).sum() / part.sum())
    return 1 / (1 - r)


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("beyond-continuous")
    trials = options.number_of_trials(TRIALS)
    for figure in FIGURES:
        for design in DESIGNS:
            _parts(figure, design)  # made before the workers start
    cells = [
        (f"{figure}/{design}/{scheme}", budget)
        for figure in FIGURES
        for design in DESIGNS
        for scheme in SCHEMES
        for budget in BUDGETS
    ]
    results = run_trials(__name__, cells, trials, options)
    for figure, target_name in FIGURES.items():
        for design in DESIGNS:
            problem, target, q = _parts(figure, design)
            truth, bound = float(problem.truth(target)[0]), largest_gain(problem, target, q)
            for budget in BUDGETS:
                plain = (results[f"{figure}/{design}/independent", budget][:, 0] - truth) ** 2
                for scheme in SCHEMES:
                    values = results[f"{figure}/{design}/{scheme}", budget]
                    where: dict[str, Any] = {
                        "setting": f"{figure}/{design}/{scheme}",
                        "target": target_name,
                        "n": budget,
                    }
                    _add(record, values, truth, plain, bound, where)
    _claims(record)
    return record


def _add(record: FigureRecord, values: Any, truth: float, plain: Any, bound: float, where: dict[str, Any]) -> None:
    squared = (values[:, 0] - truth) ** 2
    record.add_errors(squared, **where)
    defined = values[~np.isnan(values[:, 0])]
    record.add("mse_estimate", float((defined[:, 1] ** 2).mean()), trials=len(defined), **where)
    a, b = plain[~np.isnan(plain)], squared[~np.isnan(squared)]
    gain = float(a.mean() / b.mean())
    error = gain * math.sqrt(a.var() / a.mean() ** 2 / len(a) + b.var() / b.mean() ** 2 / len(b))
    if not where["setting"].endswith("/independent"):
        record.add("gain", gain, standard_error=error, trials=len(b), **where)
        record.add("largest_gain_of_strata", bound, **where)
    trusted = defined[defined[:, 3] > 0]
    for name, rows in (("coverage", defined), ("coverage_trusted", trusted)):
        if len(rows):
            share = float(rows[:, 2].mean())
            spread = math.sqrt(max(share * (1 - share), 1e-4) / len(rows))
            record.add(name, share, standard_error=spread, trials=len(rows), **where)
    record.add("trusted_share", len(trusted) / len(values), trials=len(values), **where)


def _claims(record: FigureRecord) -> None:
    n = BUDGETS[-1]
    for figure in FIGURES:
        for scheme in ("stratified", "sobol"):
            row = record.one(quantity="gain", setting=f"{figure}/targeted/{scheme}", n=n)
            bound = record.one(quantity="largest_gain_of_strata", setting=f"{figure}/targeted/{scheme}", n=n).value
            assert row.standard_error is not None
            record.claim(
                f"{figure}, targeted: gain of {scheme} over independent draws, N = {n}",
                f"at most {bound:.2f} (theory)",
                row.value,
                row.standard_error,
                rule="theory and 3 errors",
                agrees=row.value < bound + 3 * row.standard_error,
            )
        worst = min(
            (
                row
                for row in record.select(quantity="coverage_trusted", n=n)
                if row.setting.startswith(figure) and "/posterior/" not in row.setting
            ),
            key=lambda row: row.value,
        )
        assert worst.standard_error is not None
        record.claim(
            f"{figure}: lowest coverage of 95% intervals ({worst.setting.removeprefix(figure + '/')}), N = {n}",
            "0.95 (nominal)",
            worst.value,
            worst.standard_error,
            rule="> 0.92 less 3 errors",
            agrees=worst.value > 0.92 - 3 * worst.standard_error,
        )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, letter, panels

    figure, axes = panels(2, 2, width=8.4, height=5.8)
    n = BUDGETS[-1]
    for column, name in enumerate(FIGURES):
        top, bottom = axes[0, column], axes[1, column]
        for place, design in enumerate(DESIGNS):
            colour = COLOURS[design]
            for shift, scheme, marker in ((-0.12, "stratified", "s"), (0.12, "sobol", "o")):
                row = record.one(quantity="gain", setting=f"{name}/{design}/{scheme}", n=n)
                top.errorbar(place + shift, row.value, row.standard_error, color=colour, marker=marker, capsize=2)
            bound = record.one(quantity="largest_gain_of_strata", setting=f"{name}/{design}/sobol", n=n).value
            top.hlines(bound, place - 0.3, place + 0.3, color=colour, lw=1, ls="--")
            for shift, scheme, marker in ((-0.2, "independent", "D"), (0.0, "stratified", "s"), (0.2, "sobol", "o")):
                rows = record.select(quantity="coverage", setting=f"{name}/{design}/{scheme}", n=n)
                for row in rows:
                    bottom.errorbar(
                        place + shift,
                        row.value,
                        row.standard_error,
                        color=colour,
                        marker=marker,
                        mfc="white",
                        capsize=2,
                    )
        for ax in (top, bottom):
            ax.set_xticks(range(len(DESIGNS)), [LABELS[design] for design in DESIGNS])
        top.axhline(1, color="#bbbbbb", lw=0.8, zorder=0)
        bottom.axhline(0.95, color="#bbbbbb", lw=0.8, zorder=0)
        bottom.set_ylim(min(0.85, bottom.get_ylim()[0]), 1.0)
    axes[0, 0].set_ylabel("gain over independent draws")
    axes[1, 0].set_ylabel("coverage of 95% intervals")
    letter(
        axes,
        [
            "figure 3: squares stratified, circles Sobol",
            "figure 5 (dashed: most that strata can gain)",
            "coverage, figure 3 (diamonds: independent)",
            "coverage, figure 5",
        ],
    )
    return figure


EXPERIMENT = Experiment("beyond-continuous", "Stratified and quasi-random draws", compute, draw)
