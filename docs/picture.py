"""The picture of the README and the front page: what is asked of the boarding school's influenza, and what comes back.

    python docs/picture.py            # writes docs/_static/boarding-school.svg

The numbers are those of real runs, the first of them that of `make run`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import fbar
from fbar.plot.look import BLUE, INK, OBSERVED, RC, method_look

ROOT = Path(__file__).parent.parent
TOLERANCE, SIMULATIONS = 80, 400_000


def model():
    spec = importlib.util.spec_from_file_location("influenza", ROOT / "examples" / "influenza.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recording(flu):
    """The same problem, whose simulator records the counts of all days too."""

    def epidemic(theta, rng):
        made = flu.epidemic(theta, rng)
        return {**made, **{f"day{i + 1}": column for i, column in enumerate(made["x"].T)}}

    days = [f"day{i + 1}" for i in range(len(flu.IN_BED))]
    problem = flu.problem
    return days, fbar.Problem(
        problem.prior, epidemic, observed=flu.IN_BED, derived=problem.derived, records=["peak", *days]
    )


def results(flu):
    days, problem = recording(flu)
    methods = {
        "targeted": ("targeted", fbar.Targeted(tolerance=TOLERANCE), None),
        "ABC-SMC": ("smc", fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=TOLERANCE), accepted=500), 500),
        "rejection": ("rejection", fbar.Rejection(tolerance=TOLERANCE), None),
    }
    found = {
        name: (
            method_look(look)["color"],
            fbar.infer(problem, flu.targets, method=method, budget=SIMULATIONS, seed=1, block_size=block),
        )
        for name, (look, method, block) in methods.items()
    }
    return days, found


def quantiles(values, weights, levels):
    order = np.argsort(values)
    return np.interp(levels, np.cumsum(weights[order]) - weights[order] / 2, values[order])


def draw(flu, days, found):
    figure = Figure(figsize=(8.6, 2.9), layout="constrained")
    figure.patch.set_facecolor("white")
    left, *others = figure.subplots(1, 3, width_ratios=[1.5, 1, 1])
    posterior = found["targeted"][1].posterior
    at = np.arange(1, len(days) + 1)
    band = np.array([quantiles(posterior.points[day], posterior.weights, [0.025, 0.25, 0.75, 0.975]) for day in days]).T
    left.fill_between(at, band[0], band[3], color=BLUE, alpha=0.2, linewidth=0, label="95% of accepted runs")
    left.fill_between(at, band[1], band[2], color=BLUE, alpha=0.4, linewidth=0, label="half of them")
    left.plot(at, flu.IN_BED, "o", color=OBSERVED, markersize=4, label="boys in bed, 1978")
    left.set(xlabel="day", title="The data and the model", ylim=(0, 400), xticks=[1, 4, 7, 10, 13])
    left.legend(loc="upper right", handlelength=1.2, borderaxespad=0)
    asked = (("mean:R0", "$R_0$, mean"), ("mean:peak", "the peak's day, mean"))
    for ax, (target, title) in zip(others, asked, strict=True):
        for row, (name, (colour, result)) in enumerate(reversed(found.items())):
            estimate = result[target]
            low, high = estimate.interval()
            ax.plot([low, high], [row, row], color=colour, linewidth=3, solid_capstyle="butt")
            ax.plot(estimate.value, row, "o", color=colour, markersize=6)
            where = {"transform": ax.get_yaxis_transform(), "color": INK, "fontsize": 8.5}
            ax.text(0.04, row + 0.25, f"{name}  {estimate}", **where)
        ax.set(title=title, yticks=[], ylim=(-0.4, 2.7))
        ax.margins(x=0.25)
        ax.spines["left"].set_visible(False)
    others[0].set_xlabel(f"{SIMULATIONS:,} simulations each, tolerance {TOLERANCE}; 95% intervals", loc="left")
    return figure


def main():
    flu = model()
    days, found = results(flu)
    path = ROOT / "docs" / "_static" / "boarding-school.svg"
    path.parent.mkdir(exist_ok=True)
    with mpl.rc_context(RC):
        figure = draw(flu, days, found)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        print(f"wrote {path.relative_to(ROOT)}")
    for name, (_, result) in found.items():
        print(f"{name}: {result['mean:R0']}, {result['mean:peak']}, {result.accepted:,.0f} accepted")
    return figure


if __name__ == "__main__":
    main()
