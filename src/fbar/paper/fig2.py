"""Figure 2: other scores poorly match the precision of the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbar import theory
from fbar.arrays import FloatArray
from fbar.designs.allocation import RULES
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.problems import two_hypotheses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = np.arange(1, 100) / 100
HALF = np.array([0.5, 0.5])
F = np.array([1.0, 0.0])


def scores(shares: FloatArray) -> dict[tuple[str, str], FloatArray]:
    """Each (quantity, target) at the shares (..., 2), relative to rejection sampling's n1/N = ½."""
    problem = two_hypotheses()
    prior, p_star = problem.finite.probabilities, problem.p_star
    assert p_star is not None

    return {
        ("acceptance_rate", ""): theory.acceptance_rate(p_star, shares) / theory.acceptance_rate(p_star, HALF),
        ("ess_per_simulation", ""): theory.expected_ess(prior, p_star, shares)
        / theory.expected_ess(prior, p_star, HALF),
        ("relative_efficiency", "indicator"): theory.variance(prior, p_star, F, HALF)
        / theory.variance(prior, p_star, F, shares),
        ("relative_efficiency", "unnormalised-posterior"): theory.unnormalised_variance(prior, p_star, HALF)
        / theory.unnormalised_variance(prior, p_star, shares),
    }


def recommended() -> dict[str, FloatArray]:
    """The shares that each rule of table 3 recommends here."""
    problem = two_hypotheses()
    prior, p_star = problem.finite.probabilities, problem.p_star
    assert p_star is not None
    return {name: rule(prior, p_star, F) for name, rule in RULES.items()}


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("fig2")
    grid = np.stack([SHARES, 1 - SHARES], axis=-1)
    for (quantity, target), values in scores(grid).items():
        for x, value in zip(SHARES, values, strict=True):
            record.add(quantity, value, setting="fixed-counts", target=target, x_name="n1/N", x=x)
    for setting, shares in recommended().items():
        for (quantity, target), value in scores(shares).items():
            record.add(quantity, float(value), setting=setting, target=target, x_name="n1/N", x=shares[0])
    options.progress(1.0)
    _claims(record)
    return record


def _claims(record: FigureRecord) -> None:
    def value(setting: str, quantity: str, target: str = "") -> float:
        return record.one(setting=setting, quantity=quantity, target=target).value

    ess = value("max-ess", "ess_per_simulation")
    record.claim(
        "effective sample size at the max-ESS allocation",
        "1.18",
        ess,
        rule="rounds to it",
        agrees=round(ess, 2) == 1.18,
    )
    precision = value("max-ess", "relative_efficiency", "indicator")
    record.claim(
        "precision at the max-ESS allocation",
        "0.62",
        precision,
        rule="rounds to it",
        agrees=round(precision, 2) == 0.62,
    )
    others = [s for s in RULES if s not in ("min-mse", "ibs", "prior")]
    best = max(value(s, "relative_efficiency", "indicator") for s in others)
    ibs = value("ibs", "relative_efficiency", "indicator")
    record.claim(
        "best precision of the strategies in the literature other than IBS",
        "< 1 (only IBS beats rejection)",
        best,
        rule="< 1 < IBS",
        agrees=best < 1 < ibs,
    )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, panels

    figure, axes = panels(1, 1, width=5.4, height=3.6)
    ax = axes[0, 0]
    for quantity, target, colour, dashes, label in (
        ("acceptance_rate", "", COLOURS["prior"], ":", "acceptance rate"),
        ("ess_per_simulation", "", COLOURS["posterior"], (0, (6, 2, 1, 2, 1, 2)), "effective sample size"),
        (
            "relative_efficiency",
            "unnormalised-posterior",
            COLOURS["min-unnormalised-mse"],
            "-.",
            "unnormalised precision",
        ),
        ("relative_efficiency", "indicator", COLOURS["max-ess"], "-", "precision (1/MSE)"),
    ):
        x, value, _ = record.curve("x", quantity=quantity, target=target, setting="fixed-counts")
        ax.plot(x, value, color=colour, ls=dashes, label=label)
    ibs = record.one(setting="ibs", quantity="relative_efficiency", target="indicator")
    ax.axvline(ibs.x, color=COLOURS["ibs"], lw=1, ls="--", label="inverse binomial sampling")
    ax.axhline(1, color="#bbbbbb", lw=0.8, zorder=0)
    ax.set(xlabel=r"$n_1/N$", ylabel="score relative to rejection sampling", xlim=(0, 1), ylim=(0, 1.8))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


EXPERIMENT = Experiment("fig2", "Two hypotheses: scores against the share of simulations", compute, draw)
