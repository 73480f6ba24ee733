"""Table 3: the allocations that optimise each score, and how efficient they are for the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbar.paper.fig2 import recommended, scores
from fbar.paper.record import Experiment, FigureRecord, Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    "max-acceptance": ("Maximize acceptance rate", 0.0),
    "ibs": ("Inverse binomial sampling", 1.11),
    "max-ess": ("Maximize ESS", 0.62),
    "min-unnormalised-mse": ("Minimize unnormalized MSE", 0.68),
    "min-mse": ("Minimize expectation MSE", 1.23),
}


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("table3")
    for setting, shares in recommended().items():
        for theta, share in zip((1, 2), shares, strict=True):
            record.add("allocation", share, setting=setting, x_name="theta", x=theta)
        efficiency = float(scores(shares)["relative_efficiency", "indicator"])
        record.add("relative_efficiency", efficiency, setting=setting, target="indicator")
        if setting in PAPER:
            text, paper = PAPER[setting]
            record.claim(
                f"{text}: efficiency",
                f"{paper:g}",
                efficiency,
                rule="rounds to it",
                agrees=round(efficiency, 2) == paper,
            )
    options.progress(1.0)
    return record


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, panels

    figure, axes = panels(1, 1, width=5.4, height=2.6)
    ax = axes[0, 0]
    settings = list(PAPER)[::-1]
    values = [record.one(setting=s, quantity="relative_efficiency").value for s in settings]
    ax.barh(range(len(settings)), values, color=[COLOURS[s] for s in settings], height=0.62)
    for y, (setting, value) in enumerate(zip(settings, values, strict=True)):
        ax.text(
            value + 0.02,
            y,
            f"{value:.2f}  (paper {PAPER[setting][1]:g})",
            va="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    ax.set_yticks(range(len(settings)), [LABELS[s] for s in settings])
    ax.axvline(1, color="#999999", lw=0.8, zorder=0)
    ax.set(xlabel="efficiency relative to rejection sampling", xlim=(0, 1.8))
    return figure


EXPERIMENT = Experiment("table3", "Two hypotheses: what each score recommends", compute, draw)
