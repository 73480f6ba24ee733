"""Figure 4: the best distribution depends on how θ is drawn and how expectations are estimated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.designs.optimal import NAMED
from fbar.designs.schemes import Independent, Scheme, Stratified
from fbar.estimation import KernelRegression, WeightedAverage
from fbar.methods import Importance
from fbar.methods.draws import DrawRun
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.paper.trials import run_trials
from fbar.problems import ramp
from fbar.question import targets
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.running import drive
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = ramp()
TARGET = targets.probability("theta < 0.5")
BUDGET = 1000
PAPER_TRIALS = 1000
SETTINGS = ("posterior", "stratified-design-independent", "prior", "max-ess", "targeted", "stratified")


@dataclass(frozen=True)
class DrawnOnce(Stratified):
    """As published: one set of stratified θ for all trials, which shows the error given these θ alone."""

    def unit(self, block: int, sizes: Sequence[int], dimension: int, rng: np.random.Generator) -> FloatArray:
        return super().unit(block, sizes, dimension, np.random.default_rng(4))


@lru_cache(maxsize=8)
def design(setting: str) -> Distribution:
    name = "stratified" if setting == "stratified-design-independent" else setting
    return NAMED[name](PROBLEM, (TARGET,), 0.0)


def trial_runner(setting: str, budget: int, as_published: bool = False) -> Callable[[Seeds], list[float]]:
    """A trial that gives the weighted average and the kernel regression of the same simulations."""
    regression = KernelRegression("paper", panels=1)
    scheme: Scheme = Independent()
    if setting == "stratified":
        scheme = DrawnOnce() if as_published else Stratified()
    if as_published:
        regression = KernelRegression("paper", rule="gauss-legendre", split=False, scale=1.0)
    method = Importance(design(setting), scheme, regression, rounds=1)

    def trial(seeds: Seeds) -> list[float]:
        run = method.start(PROBLEM, TARGET, seeds, budget)
        assert isinstance(run, DrawRun)
        drive(run, history=False)
        average = WeightedAverage()(run.draws())
        return [float(average.value(TARGET)[0]), float(run.posterior().value(TARGET)[0])]

    return trial


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("fig4")
    trials = options.number_of_trials(PAPER_TRIALS)
    cells = [(setting, BUDGET) for setting in SETTINGS]
    for setting in SETTINGS:
        design(setting)  # made before the workers start
    results = run_trials(__name__, cells, trials, options, as_published=options.as_published)
    truth = float(PROBLEM.truth(TARGET)[0])
    errors: dict[str, FloatArray] = {}
    for setting in SETTINGS:
        for column, suffix in ((0, ""), (1, "/kernel-regression")):
            errors[setting + suffix] = (results[setting, BUDGET][:, column] - truth) ** 2
    for name, squared in errors.items():
        where: dict[str, Any] = {"setting": name, "target": "indicator", "n": BUDGET}
        record.add_errors(squared, **where)
        logs = np.log10(np.maximum(squared, 1e-300))
        for percentile in (5, 25, 50, 75, 95):
            record.add(f"log10_error_p{percentile}", np.percentile(logs, percentile), trials=len(logs), **where)
    grid = np.linspace(0.001, 0.999, 999)
    for setting in ("stratified", "targeted"):
        for x, q in zip(grid, np.exp(design(setting).logpdf(Points({"theta": grid}))), strict=True):
            record.add("density", q, setting=setting, x_name="theta", x=x)
    _claims(record, errors)
    return record


def _ratio(errors: dict[str, FloatArray], top: str, bottom: str) -> tuple[float, float]:
    a, b = errors[top], errors[bottom]
    ratio = float(a.mean() / b.mean())
    return ratio, ratio * float(np.hypot(a.std() / a.mean(), b.std() / b.mean()) / np.sqrt(len(a)))


def _claims(record: FigureRecord, errors: dict[str, FloatArray]) -> None:
    averages = [setting for setting in SETTINGS if setting != "stratified"]
    best = min(averages, key=lambda setting: errors[setting].mean())
    value, error = _ratio(errors, best, "stratified")
    record.claim(
        f"MSE of the best independent design ({best}) over stratified, weighted averages",
        "> 1 (stratified is best)",
        value,
        error,
        rule="> 1 by 3 errors",
        agrees=value > 1 + 3 * error,
    )
    value, error = _ratio(errors, "max-ess", "prior")
    record.claim(
        "MSE of max-ess over prior, weighted averages",
        "≥ 1 (no better than rejection)",
        value,
        error,
        rule="> 1 less 3 errors",
        agrees=value > 1 - 3 * error,
    )
    for setting in averages:
        value, error = _ratio(errors, f"{setting}/kernel-regression", setting)
        record.claim(
            f"{setting}: MSE of kernel regression over weighted average",
            "< 1 (improves)",
            value,
            error,
            rule="< 1 by 3 errors",
            agrees=value < 1 - 3 * error,
        )
    regressions = [f"{setting}/kernel-regression" for setting in averages]
    value, error = _ratio(errors, max(regressions, key=lambda name: errors[name].mean()), "stratified")
    record.claim(
        "MSE of the worst kernel regression over stratified's weighted average",
        "≈ 1 (nearly the same)",
        value,
        error,
        rule="below 2",
        agrees=value < 2,
    )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, letter, panels

    figure, axes = panels(1, 2, width=9.0, height=3.8, width_ratios=[1, 2.1])
    left, right = axes[0]
    for setting, dashes in (("stratified", "-"), ("targeted", "--")):
        x, q, _ = record.curve("x", quantity="density", setting=setting)
        label = "for stratified draws" if setting == "stratified" else "for independent draws"
        left.plot(x, q, ls=dashes, color=COLOURS[setting], label=label)
    left.set(xlabel=r"$\theta$", ylabel="$q$", ylim=(0, None))
    left.legend()
    for place, setting in enumerate(SETTINGS):
        for shift, suffix in ((-0.19, ""), (0.19, "/kernel-regression")):
            rows = {row.quantity: row.value for row in record.select(setting=setting + suffix, n=BUDGET)}
            box = {
                "med": rows["log10_error_p50"],
                "q1": rows["log10_error_p25"],
                "q3": rows["log10_error_p75"],
                "whislo": rows["log10_error_p5"],
                "whishi": rows["log10_error_p95"],
                "mean": math.log10(rows["mse"]),
            }
            colour = COLOURS[setting]
            right.bxp(
                [box],
                positions=[place + shift],
                widths=0.32,
                showfliers=False,
                showmeans=True,
                patch_artist=True,
                boxprops={"facecolor": colour, "alpha": 0.75 if not suffix else 0.35, "edgecolor": colour},
                medianprops={"color": "black"},
                meanprops={"marker": "x", "markeredgecolor": "black", "markersize": 5},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
    right.set_xticks(range(len(SETTINGS)), [LABELS[s].replace(" draws", "") for s in SETTINGS], fontsize=7.5)
    right.set(ylabel=r"$\log_{10}$ squared error")
    letter(axes, ["targeted designs", "left: weighted average, right (pale): kernel regression; cross: MSE"])
    return figure


EXPERIMENT = Experiment("fig4", "Stratified draws and kernel regression", compute, draw)
