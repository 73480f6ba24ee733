"""The picture of the README and the front page: what is asked of the boarding school's influenza, and what comes back.

    python docs/picture.py            # writes docs/_static/boarding-school.svg

The numbers are those of `make run`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import fbar
from fbar.estimation.estimate import shorthand
from fbar.plot.look import BLUE, GREY, INK, OBSERVED, RC, method_look

ROOT = Path(__file__).parent.parent
SIMULATIONS, SEED = 100_000, 1
EPIDEMICS = 2000
"""Simulated at parameters from the posterior, for the picture of the model."""

COLOURS = {"fbar": "targeted", "ABC-SMC": "smc", "rejection": "rejection"}


def module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def answers(flu, school):
    """fbar's result, and the answers of all methods."""
    result = fbar.infer(flu.problem, flu.targets, budget=SIMULATIONS, seed=SEED)
    ours = school.answer_of(result.as_dict())
    return result, [ours, *school.by_smc(SIMULATIONS, SEED), school.by_rejection(SIMULATIONS, SEED)]


def epidemics(flu, posterior):
    """Counts of epidemics at parameters drawn from the posterior."""
    rng = np.random.default_rng(SEED)
    rows = rng.choice(posterior.weights.size, EPIDEMICS, p=posterior.weights / posterior.weights.sum())
    theta = {name: posterior.points[name][rows] for name in flu.problem.prior.names}
    return flu.epidemic(fbar.Points({**theta, "first": np.full(EPIDEMICS, flu.IN_BED[0])}), rng)["x"]


def draw(flu, school, result, found):
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    figure.patch.set_facecolor("white")
    left, *others = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
    band = np.quantile(epidemics(flu, result.posterior), [0.025, 0.25, 0.75, 0.975], axis=0)
    at = np.arange(1, len(flu.IN_BED) + 1)
    left.fill_between(at, band[0], band[3], color=BLUE, alpha=0.2, linewidth=0, label="95% of epidemics")
    left.fill_between(at, band[1], band[2], color=BLUE, alpha=0.4, linewidth=0, label="half of them")
    left.plot(at, flu.IN_BED, "o", color=OBSERVED, markersize=4, label="boys in bed, 1978")
    left.set(xlabel="day", title="The data, and the model at its posterior", ylim=(0, 440), xticks=[1, 4, 7, 10, 13])
    left.legend(loc="upper right", handlelength=1.2, borderaxespad=0)
    titles = {"mean:R0": "$R_0$, posterior mean", "mean:peak": "day of the peak, posterior mean"}
    for ax, (target, title) in zip(others, titles.items(), strict=True):
        exact, uncertain = school.REFERENCE[target]
        ax.axvspan(exact - 2 * uncertain, exact + 2 * uncertain, color=GREY, alpha=0.25, linewidth=0)
        for row, answer in enumerate(reversed(found)):
            value, error = answer.found[target]
            colour = method_look(next(look for name, look in COLOURS.items() if answer.name.startswith(name)))["color"]
            ax.plot(
                [value - 2 * error, value + 2 * error], [row, row], color=colour, linewidth=3, solid_capstyle="butt"
            )
            ax.plot(value, row, "o", color=colour, markersize=6)
            where = {"transform": ax.get_yaxis_transform(), "color": INK, "fontsize": 8}
            name = answer.name.partition(" (")[0].replace("fbar, about the posterior itself", "fbar")
            ax.text(0.03, row + 0.24, f"{name}  {shorthand(value, error)}", **where)
        ax.set(title=title, yticks=[], ylim=(-0.45, len(found) - 0.3))
        ax.margins(x=0.12)
        ax.spines["left"].set_visible(False)
    others[0].set_xlabel(f"{SIMULATIONS:,} simulations each", loc="left")
    others[1].set_xlabel("± 2 standard errors; grey: likelihood", loc="left")
    return figure


def main():
    flu, school = module("influenza"), module("boarding_school")
    result, found = answers(flu, school)
    path = ROOT / "docs" / "_static" / "boarding-school.svg"
    path.parent.mkdir(exist_ok=True)
    with mpl.rc_context(RC):
        figure = draw(flu, school, result, found)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        print(f"wrote {path.relative_to(ROOT)}")
    return figure


if __name__ == "__main__":
    main()
