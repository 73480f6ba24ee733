"""Figure S2: optimising the distribution of simulations for a target improves its accuracy."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from fbar import theory
from fbar.arrays import FloatArray
from fbar.methods import Allocation
from fbar.methods.finite.allocation import oracle_shares
from fbar.paper.figS1 import GENERIC, TITLES, named_targets
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.problems import discretised_gaussian
from fbar.running import drive
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = tuple(10**power for power in range(3, 9))
VIOLIN_BUDGET = 10**7
PAPER_TRIALS = 10_000
SETTINGS = (*GENERIC, "min-mse")


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("figS2")
    problem = discretised_gaussian()
    wanted = named_targets(problem)
    trials = options.number_of_trials(PAPER_TRIALS)
    k = problem.finite.size
    seeds = Seeds.of(options.seed)

    # One run for each allocation and budget; those that do not depend on f serve all four targets.
    jobs = [(setting, tuple(wanted), budget) for setting in GENERIC for budget in BUDGETS]
    jobs += [("min-mse", (name,), budget) for name in wanted for budget in BUDGETS]

    def job(index: int) -> dict[str, FloatArray]:
        setting, names, budget = jobs[index]
        method = Allocation(setting, floor=1, rounds=1)
        run = method.start(problem, wanted[names[0]], seeds.trial(index), budget + k, trials=trials)
        drive(run, history=False)
        posterior = run.posterior()
        return {
            name: ((posterior.value(wanted[name]) - problem.truth(wanted[name])) ** 2).sum(axis=-1) for name in names
        }

    errors: dict[tuple[str, str, int], FloatArray] = {}
    with ThreadPoolExecutor(2) as pool:
        for index, result in enumerate(pool.map(job, range(len(jobs)))):
            setting, _, budget = jobs[index]
            errors.update({(setting, name, budget): squared for name, squared in result.items()})
            options.progress((index + 1) / len(jobs))

    prior, p_star = problem.finite.probabilities, problem.p_star
    assert p_star is not None
    for name, target in wanted.items():
        f = target.components(problem.points).T
        for setting in SETTINGS:
            shares = oracle_shares(setting, problem, [target])
            for budget in BUDGETS:
                where = {"setting": setting, "target": name, "n": budget + k}
                record.add_errors(errors[setting, name, budget], **where)
                record.add("asymptotic_mse", theory.variance(prior, p_star, f, 1 + shares * budget).sum(), **where)
        _violins(record, name, {s: errors[s, name, VIOLIN_BUDGET] for s in SETTINGS}, VIOLIN_BUDGET + k, trials)
        _claims(record, name, {s: errors[s, name, VIOLIN_BUDGET] for s in SETTINGS})
        ibs = theory.variance(prior, p_star, f, theory.inverse_binomial(p_star)).sum()
        best = theory.variance(prior, p_star, f, oracle_shares("min-mse", problem, [target])).sum()
        record.claim(
            f"{name}: asymptotic MSE of inverse binomial sampling over the optimum",
            "orders of magnitude",
            ibs / best,
            rule="> 100",
            agrees=ibs / best > 100,
        )
    _claims_between(record)
    record.notes.append(
        "posterior leaves the tails a handful of simulations even at N = 10^8, so that it is not at its 1/N rate yet"
    )
    return record


def _violins(record: FigureRecord, target: str, errors: dict[str, FloatArray], n: int, trials: int) -> None:
    """Densities of log10 of the squared error over trials, on a grid that the settings of a target share."""
    logs = {setting: np.log10(np.maximum(squared, 1e-300)) for setting, squared in errors.items()}
    everything = np.concatenate(list(logs.values()))
    edges = np.linspace(np.quantile(everything, 0.002), np.quantile(everything, 0.9995), 61)
    for setting, values in logs.items():
        density, _ = np.histogram(values, bins=edges, density=True)
        for x, value in zip((edges[1:] + edges[:-1]) / 2, density, strict=True):
            record.add(
                "log10_error_density",
                value,
                setting=setting,
                target=target,
                n=n,
                x_name="log10_squared_error",
                x=x,
                trials=trials,
            )


def _ratio(top: FloatArray, bottom: FloatArray) -> tuple[float, float]:
    """Ratio of two means from independent trials, with its standard error."""
    ratio = float(top.mean() / bottom.mean())
    relative = [float(a.std(ddof=1) / a.mean() / math.sqrt(len(a))) for a in (top, bottom)]
    return ratio, ratio * math.hypot(*relative)


def _claims(record: FigureRecord, target: str, errors: dict[str, FloatArray]) -> None:
    others = {s: _ratio(errors[s], errors["min-mse"]) for s in GENERIC}
    best, (ratio, error) = min(others.items(), key=lambda item: item[1][0])
    record.claim(
        f"{target}: MSE of the best other allocation ({best}) over min-mse, N = 10^7",
        "≥ 1",
        ratio,
        error,
        rule="> 1 less 3 errors",
        agrees=ratio > 1 - 3 * error,
    )
    if target == "posterior":
        ratio, error = others["min-unnormalised-mse"]
        record.claim(
            "posterior: MSE of min-unnormalised-mse over min-mse",
            "≈ 1",
            ratio,
            error,
            rule="5% and 3 errors",
            agrees=abs(ratio - 1) < 0.05 + 3 * error,
        )
    ratio, error = others["posterior"]
    record.claim(
        f"{target}: MSE of posterior over min-mse",
        "> 1 (inefficient)",
        ratio,
        error,
        rule="> 1 by 3 errors",
        agrees=ratio > 1 + 3 * error,
    )


def _claims_between(record: FigureRecord) -> None:
    for settings, which in (
        (("posterior",), "posterior"),
        ([s for s in SETTINGS if s != "posterior"], "others"),
    ):
        slopes = []
        for target in TITLES:
            for setting in settings:
                n, mse, _ = record.curve("n", quantity="mse", setting=setting, target=target)
                slopes.append(float(np.polyfit(np.log10(n[2:]), np.log10(mse[2:]), 1)[0]))
        farthest = max(slopes, key=lambda slope: abs(slope + 1))
        record.claim(
            f"log-log slope of MSE against N from 10^5, the one farthest from −1 ({which})",
            "-1 (the same 1/N rate)",
            farthest,
            rule="within 0.05",
            agrees=abs(farthest + 1) < 0.05,
        )
    gap = {}
    for target in TITLES:
        best = record.one(quantity="mse", setting="min-mse", target=target, n=VIOLIN_BUDGET + 101).value
        gap[target] = record.one(quantity="mse", setting="prior", target=target, n=VIOLIN_BUDGET + 101).value / best
    largest = max(gap, key=lambda name: gap[name])
    record.claim(
        f"largest gap between prior and min-mse ({largest})",
        "interval has the largest gap",
        gap[largest],
        rule="the largest",
        agrees=largest == "interval",
    )


def draw(record: FigureRecord) -> Figure:
    from fbar.paper.style import COLOURS, LABELS, MARKERS, letter, panels

    figure, axes = panels(4, 2, width=7.6, height=9.0)
    for (left, right), target in zip(axes, TITLES, strict=True):
        for setting in SETTINGS:
            n, mse, _ = record.curve("n", quantity="mse", setting=setting, target=target)
            left.plot(n, mse, marker=MARKERS[setting], color=COLOURS[setting], label=LABELS[setting], lw=1.2)
        left.set(xscale="log", yscale="log", xlabel="simulations", ylabel="MSE")
        for place, setting in enumerate(SETTINGS):
            x, density, _ = record.curve("x", quantity="log10_error_density", setting=setting, target=target)
            half = 0.42 * density / density.max()
            right.fill_betweenx(x, place - half, place + half, color=COLOURS[setting], alpha=0.6, lw=0)
            mean = record.one(quantity="mse", setting=setting, target=target, n=VIOLIN_BUDGET + 101).value
            right.plot(place, math.log10(mean), "x", color="black", ms=6)
        right.set_xticks(range(len(SETTINGS)), ["prior", "posterior", "max\nESS", "min unn.\nMSE", "min\nMSE"])
        right.set(ylabel=r"$\log_{10}$ squared error")
    names = [title for title in TITLES.values() for _ in range(2)]
    letter(
        axes,
        [f"{name}{': trials at $N = 10^7$, cross: MSE' if i % 2 else ''}" for i, name in enumerate(names)],
    )
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


EXPERIMENT = Experiment("figS2", "Discretised Gaussian: errors of the allocations", compute, draw)
