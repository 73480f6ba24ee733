"""Figure S1: the optimal distribution of simulations depends strongly on the target function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbar.arrays import FloatArray
from fbar.methods.finite.allocation import oracle_shares
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.problems import discretised_gaussian
from fbar.question import targets
from fbar.question.problem import Problem
from fbar.question.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GENERIC = ("prior", "posterior", "max-ess", "min-unnormalised-mse")
TITLES = {
    "posterior": "posterior",
    "mean": "mean",
    "second-moment": "second moment",
    "interval": r"$P(|\theta| < 2)$",
}


def named_targets(problem: Problem) -> dict[str, Target]:
    """The four target functions of the figure by their names in its rows."""
    return {
        "posterior": targets.probabilities(problem.points),
        "mean": targets.mean("theta"),
        "second-moment": targets.second_moment("theta"),
        "interval": targets.probability("abs(theta) < 2"),
    }


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("figS1")
    problem = discretised_gaussian()
    wanted = named_targets(problem)
    theta = problem.points["theta"]

    def add(setting: str, target: str, shares: FloatArray) -> None:
        for x, share in zip(theta, shares, strict=True):
            record.add("allocation", share, setting=setting, target=target, x_name="theta", x=x)

    for setting in GENERIC:
        add(setting, "", oracle_shares(setting, problem, [wanted["mean"]]))
    for name, target in wanted.items():
        add("min-mse", name, oracle_shares("min-mse", problem, [target]))
    options.progress(1.0)

    normalised = record.curve("x", setting="min-mse", target="posterior")[1]
    unnormalised = record.curve("x", setting="min-unnormalised-mse")[1]
    apart = 0.5 * float(np.abs(normalised - unnormalised).sum())
    record.claim(
        "share of simulations that differ between targeting the normalised and the unnormalised posterior",
        "nearly identical",
        apart,
        rule="< 0.05",
        agrees=apart < 0.05,
    )
    return record


def draw(record: FigureRecord) -> Figure:
    from matplotlib.gridspec import GridSpec

    from fbar.paper.style import COLOURS, LABELS, letter, panels

    figure, axes = panels(1, 1, width=8.0, height=4.2)
    axes[0, 0].remove()
    grid = GridSpec(2, 4, figure=figure, width_ratios=[1, 1, 1, 1])
    wide = figure.add_subplot(grid[:, :2])
    small = [figure.add_subplot(grid[i // 2, 2 + i % 2]) for i in range(4)]
    for setting, dashes in zip(GENERIC, ("--", "-.", ":", "-"), strict=True):
        x, share, _ = record.curve("x", setting=setting)
        wide.plot(x, share, ls=dashes, color=COLOURS[setting], label=LABELS[setting])
    wide.legend()
    wide.set(xlabel=r"$\theta$", ylabel="share of simulations")
    for ax, target in zip(small, TITLES, strict=True):
        x, share, _ = record.curve("x", setting="min-mse", target=target)
        ax.fill_between(x, share, step="mid", color=COLOURS["min-mse"], alpha=0.25, lw=0)
        ax.plot(x, share, color=COLOURS["min-mse"], drawstyle="steps-mid", lw=1)
        ax.set(xlabel=r"$\theta$")
    for ax in [wide, *small]:
        ax.set_ylim(0)
    wide.set_ylim(0, 0.055)
    letter([wide, *small], ["independent of $f$", *TITLES.values()])
    return figure


EXPERIMENT = Experiment("figS1", "Discretised Gaussian: optimal allocations", compute, draw)
