"""Figure 1: the asymptotic variance is the right shape at N = 100 and precise at N = 1000."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fbar import theory
from fbar.methods import Allocation
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.problems import two_hypotheses
from fbar.question import targets
from fbar.running import drive
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (100, 1000)
SHARES = np.arange(1, 100) / 100
PAPER_TRIALS = 1000


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("fig1")
    problem = two_hypotheses()
    target = targets.probability("theta == 1", name="indicator")
    prior, p_star = problem.finite.probabilities, problem.p_star
    assert p_star is not None
    truth = theory.posterior(prior, p_star)
    f = [1.0, 0.0]
    trials = options.number_of_trials(PAPER_TRIALS)
    seeds = Seeds.of(options.seed)
    for b, budget in enumerate(BUDGETS):
        for i, share in enumerate(SHARES):
            n1 = round(share * budget)
            counts = np.array([n1, budget - n1])
            run = Allocation(counts=counts, rounds=1).start(
                problem, target, seeds.trial(b * len(SHARES) + i), trials=trials
            )
            drive(run, history=False)
            weights = run.posterior().weights
            where = {
                "setting": "fixed-counts",
                "target": "indicator",
                "n": budget,
                "x_name": "n1/N",
                "x": share,
            }
            record.add_errors((weights[:, 0] - truth[0]) ** 2, **where)
            divergence = theory.phi_divergence(weights, truth, theory.kullback_leibler)
            record.add_errors(divergence / theory.kl_scale(truth), quantity="kl_scaled", **where)
            record.add("asymptotic_mse", float(theory.variance(prior, p_star, f, counts)), **where)
            options.progress((b * len(SHARES) + i + 1) / (len(BUDGETS) * len(SHARES)))
    for setting, shares in (("min-mse", theory.min_mse(prior, p_star, f)), ("posterior", truth)):
        for theta, share in zip((1, 2), shares, strict=True):
            record.add("allocation", share, setting=setting, x_name="theta", x=theta)
    _claims(record)
    return record


def _claims(record: FigureRecord) -> None:
    middle = slice(9, 90)
    for budget in BUDGETS:
        _, mse, error = record.curve("x", quantity="mse", n=budget)
        _, theory_mse, _ = record.curve("x", quantity="asymptotic_mse", n=budget)
        ratio = float((mse / theory_mse)[middle].mean())
        spread = math.sqrt(((error / theory_mse)[middle] ** 2).sum()) / len(mse[middle])
        word = "same scale and shape" if budget == 100 else "precise"
        allowed = 1.5 if budget == 100 else 1.05
        record.claim(
            f"MSE / asymptotic variance at N = {budget}, mean over 0.1 ≤ n1/N ≤ 0.9",
            f"1 ({word})",
            ratio,
            spread,
            rule=f"within a factor {allowed:g}",
            agrees=1 / allowed < ratio < allowed,
        )
    _, kl, error = record.curve("x", quantity="kl_scaled", n=1000)
    _, mse, _ = record.curve("x", quantity="mse", n=1000)
    ratio = float((kl / mse)[middle].mean())
    record.claim(
        "scaled KL / MSE at N = 1000, mean over 0.1 ≤ n1/N ≤ 0.9",
        "1 (excellent)",
        ratio,
        rule="within 10%",
        agrees=abs(ratio - 1) < 0.1,
    )
    optimum = record.one(quantity="allocation", setting="min-mse", x=1.0).value
    posterior = record.one(quantity="allocation", setting="posterior", x=1.0).value
    record.claim(
        "distance of the optimal n1/N from the posterior",
        "far",
        posterior - optimum,
        rule="> 0.5",
        agrees=posterior - optimum > 0.5,
    )
    quartiles = [record.one(quantity=f"mse_p{p}", n=100, x=0.99).value for p in (25, 75)]
    all_one = (1 - posterior) ** 2
    record.claim(
        "quartiles at N = 100, n1/N = 0.99, over the squared error of p̂(θ1) = 1",
        "1",
        float(np.mean(quartiles) / all_one),
        rule="equal",
        agrees=bool(np.allclose(quartiles, all_one)),
    )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, letter, panels

    figure, axes = panels(1, 2, width=8.0, height=3.4)
    optimum = record.one(quantity="allocation", setting="min-mse", x=1.0).value
    posterior = record.one(quantity="allocation", setting="posterior", x=1.0).value
    for ax, budget in zip(axes[0], BUDGETS, strict=True):
        for quantity, colour, marker, label in (
            ("mse", COLOURS["prior"], "o", "MSE of the indicator"),
            ("kl_scaled", COLOURS["posterior"], "D", "KL divergence, scaled"),
        ):
            x, value, _ = record.curve("x", quantity=quantity, n=budget)
            low = record.curve("x", quantity=f"{quantity}_p25", n=budget)[1]
            high = record.curve("x", quantity=f"{quantity}_p75", n=budget)[1]
            ax.vlines(x, np.maximum(low, 1e-12), high, color=colour, alpha=0.25, lw=1)
            ax.plot(
                x,
                value,
                marker,
                ms=3,
                mfc="none" if marker == "D" else colour,
                color=colour,
                label=label,
                mew=0.7,
            )
        x, line, _ = record.curve("x", quantity="asymptotic_mse", n=budget)
        ax.plot(x, line, color=COLOURS["max-ess"], label="asymptotic variance")
        ax.axvline(optimum, color="#d6569b", ls="--", lw=1.2, label="optimum")
        ax.axvline(posterior, color=COLOURS["min-unnormalised-mse"], ls=":", lw=1.6, label="posterior")
        top = record.curve("x", quantity="mse", n=budget)[1].max()
        ax.set(yscale="log", xlabel=r"$n_1/N$", xlim=(0, 1), ylim=(0.02 * line.min(), 2.5 * max(top, line.max())))
    axes[0, 0].set_ylabel("squared error")
    letter(axes, [f"$N = {budget}$" for budget in BUDGETS])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


EXPERIMENT = Experiment("fig1", "Two hypotheses: MSE, KL divergence and the asymptotic variance", compute, draw)
