"""What figures 3 and 5 share: four designs, their effective sample sizes and errors against the budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.designs.optimal import log_weights, reference, true_posterior
from fbar.paper.record import FigureRecord
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = tuple(2**power for power in range(7, 16))
SETTINGS = ("prior", "posterior", "max-ess", "targeted")
PAPER_TRIALS = 1000
POSTERIOR_NOTE = (
    "drawn from the posterior, rare acceptances of enormous weight carry the asymptotic variance; "
    "budgets up to 2^15 hardly meet them, so the observed MSE lies below it"
)


def asymptotic_variance(problem: Problem, target: Target, design: Distribution) -> float:
    """N var(f̂) for independent draws (section S5.1, e:independent_sampling_variance), by quadrature.

    ∫ ψ² p²/q p* / Z² = E_posterior[ψ² p/q] / Z.
    """
    points, weights = reference(problem)
    psi = target.influence(points, weights)
    p_over_q = np.exp(log_weights(problem.prior, design, points))
    mean = float((weights[:, None] * psi**2 * p_over_q[:, None]).sum())
    return mean / true_posterior(problem)[1]


def add_rows(
    record: FigureRecord,
    results: dict[tuple[str, int], FloatArray],
    truth: float,
    target: str,
    asymptotic: dict[str, float],
) -> None:
    """The rows of panels (b), (c) and (d) from trials of (estimate, effective sample size)."""
    for budget in BUDGETS:
        reference_mse = float(np.nanmean((results["targeted", budget][:, 0] - truth) ** 2))
        for setting in SETTINGS:
            where: dict[str, Any] = {"setting": setting, "target": target, "n": budget}
            values = results[setting, budget]
            record.add_errors((values[:, 0] - truth) ** 2, **where)
            mse = record.one(quantity="mse", **where)
            assert mse.standard_error is not None
            record.add(
                "relative_mse",
                mse.value / reference_mse,
                standard_error=mse.standard_error / reference_mse,
                trials=mse.trials,
                **where,
            )
            ess = values[:, 1][~np.isnan(values[:, 1])] / budget
            error = ess.std(ddof=1) / math.sqrt(len(ess))
            record.add("ess_per_simulation", ess.mean(), standard_error=error, trials=len(ess), **where)
            if setting in asymptotic:
                record.add("asymptotic_mse", asymptotic[setting] / budget, **where)


def ratio(record: FigureRecord, quantity: str, top: str, bottom: str, budgets: tuple[int, ...]) -> tuple[float, float]:
    """The mean over budgets of a ratio between settings, with its standard error."""
    values, variances = [], []
    for n in budgets:
        a, b = (record.one(quantity=quantity, setting=setting, n=n) for setting in (top, bottom))
        assert a.standard_error is not None
        assert b.standard_error is not None
        values.append(a.value / b.value)
        variances.append((a.standard_error / b.value) ** 2 + (a.value * b.standard_error / b.value**2) ** 2)
    return float(np.mean(values)), math.sqrt(sum(variances)) / len(values)


def draw_panels(record: FigureRecord, density_label: str, x_range: tuple[float, float], error_label: str) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, MARKERS, letter, panels

    figure, axes = panels(2, 2, width=8.0, height=6.2)
    (a, b), (c, d) = axes
    for place, (setting, dashes) in enumerate(zip(SETTINGS, ("--", "-.", ":", "-"), strict=True)):
        look = {"color": COLOURS[setting], "label": LABELS[setting]}
        x, q, _ = record.curve("x", quantity="density", setting=setting)
        a.plot(x, q, ls=dashes, **look)
        shift = 1.05 ** (place - 1.5)
        marked = {**look, "marker": MARKERS[setting], "lw": 1.0, "capsize": 2}
        n, ess, error = record.curve("n", quantity="ess_per_simulation", setting=setting)
        shown = n >= (200 if setting == "prior" and record.name == "fig3" else 0)
        b.errorbar(n[shown] * shift, ess[shown], error[shown], **marked)
        n, mse, error = record.curve("n", quantity="mse", setting=setting)
        c.errorbar(n[shown], mse[shown], error[shown], **marked)
        rows = record.curve("n", quantity="asymptotic_mse", setting=setting)
        c.plot(rows[0], rows[1], color=COLOURS[setting], lw=0.8, alpha=0.5, ls=(0, (1, 1)))
        n, relative, error = record.curve("n", quantity="relative_mse", setting=setting)
        d.errorbar(n[shown] * shift, relative[shown], error[shown], **marked)
    a.set(xlim=x_range, xlabel=density_label, ylabel="$q$")
    a.set_ylim(0)
    for ax in (b, c, d):
        ax.set_xscale("log", base=2)
        ax.set_xlabel("simulations $N$")
    b.set(yscale="log", ylabel="ESS / $N$")
    c.set(yscale="log", ylabel=error_label)
    d.set(yscale="log", ylabel="MSE relative to targeted")
    d.axhline(1, color="#bbbbbb", lw=0.8, zorder=0)
    letter(
        axes,
        [
            "sampling distributions",
            "effective sample size",
            "MSE (dotted: asymptotic)",
            "relative MSE (bars: numerator's error)",
        ],
    )
    for ax in (b, d):
        ax.yaxis.set_minor_formatter("")
    a.legend(loc="upper right", fontsize=7)
    figure.legend(*b.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
