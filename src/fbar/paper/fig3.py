"""Figure 3: sampling from a distribution targeting f(θ) = θ yields lower error than generic strategies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fbar.designs.optimal import NAMED
from fbar.methods import Importance
from fbar.paper.four_designs import (
    BUDGETS,
    PAPER_TRIALS,
    POSTERIOR_NOTE,
    SETTINGS,
    add_rows,
    asymptotic_variance,
    draw_panels,
    ratio,
)
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.paper.trials import estimate_and_ess, run_trials
from fbar.problems import two_sided_exponential
from fbar.question import targets
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = two_sided_exponential()
TARGET = targets.mean("theta")


@lru_cache(maxsize=8)
def design(setting: str) -> Distribution:
    return NAMED[setting](PROBLEM, (TARGET,), 0.0)


def trial_runner(setting: str, budget: int) -> Callable[[Seeds], list[float]]:
    return estimate_and_ess(PROBLEM, Importance(design(setting), rounds=1), TARGET, budget)


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("fig3")
    trials = options.number_of_trials(PAPER_TRIALS)
    cells = [(setting, budget) for setting in SETTINGS for budget in BUDGETS]
    designs = {setting: design(setting) for setting in SETTINGS}  # made before the workers start
    results = run_trials(__name__, cells, trials, options)
    asymptotic = {setting: asymptotic_variance(PROBLEM, TARGET, q) for setting, q in designs.items()}
    add_rows(record, results, float(PROBLEM.truth(TARGET)[0]), "mean", asymptotic)
    grid = np.linspace(-15, 15, 301)
    for setting, found in designs.items():
        for x, q in zip(grid, np.exp(found.logpdf(Points({"theta": grid}))), strict=True):
            record.add("density", q, setting=setting, x_name="theta", x=x)
    _claims(record)
    return record


def _claims(record: FigureRecord) -> None:
    large = BUDGETS[-4:]
    value, error = ratio(record, "ess_per_simulation", "targeted", "prior", BUDGETS[1:])
    record.claim(
        "ESS of targeted over prior, mean over N ≥ 2^8", "~ 3", value, error, rule="2 to 4.5", agrees=2 < value < 4.5
    )
    value, error = ratio(record, "ess_per_simulation", "max-ess", "targeted", BUDGETS[1:])
    record.claim(
        "ESS of max-ess over targeted, mean over N ≥ 2^8", "~ 4", value, error, rule="3 to 5", agrees=3 < value < 5
    )
    value, error = ratio(record, "mse", "max-ess", "targeted", large)
    record.claim(
        "MSE of max-ess over targeted, N ≥ 2^12", "~ 2", value, error, rule="1.5 to 2.5", agrees=1.5 < value < 2.5
    )
    value, error = ratio(record, "mse", "posterior", "prior", BUDGETS[-2:])
    record.claim(
        "MSE of posterior over prior, N ≥ 2^14",
        "≥ 1 (prior as good or better)",
        value,
        error,
        rule="> 1 less 3 errors",
        agrees=value > 1 - 3 * error,
    )
    small = record.one(quantity="undefined_share", setting="prior", n=128)
    chance = (1 - 0.02) ** 128
    record.claim(
        "share of prior's trials at N = 128 without any acceptance (left out of its means)",
        f"{chance:.3f} = 0.98^128",
        small.value,
        (chance * (1 - chance) / (small.trials or 1)) ** 0.5,
        rule="3 errors",
        agrees=abs(small.value - chance) < 3 * (chance / (small.trials or 1)) ** 0.5,
    )
    record.notes.append(POSTERIOR_NOTE)
    record.notes.append("ESS per simulation of targeted has no limit: it falls with log N")


def draw(record: FigureRecord) -> Figure:
    return draw_panels(record, r"$\theta$", (-12, 12), "MSE of the mean")


EXPERIMENT = Experiment("fig3", "One continuous parameter: four designs", compute, draw)
