"""Beyond the paper: panels (f), (i) and (l) of figure S5 with estimates at the data, from the same simulations.

In the paper's panels every ABC-SMC is equally far from the true covariance: what is left is the bias of the tolerance,
whatever the effective sample size. The runs here are those of figure S5, seed for seed. Each of them is estimated once
as ABC does it (the last round, and all rounds) and once at the data, by regression on all of its simulations
(`fbar.estimation.at_data`). Beside the errors, the coverage of nominal 95% intervals of the three entries of the
covariance: an interval of ABC is about ABC's posterior at the last tolerance, one at the data about the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.at_data import AtData
from fbar.estimation.posterior import Posterior
from fbar.methods.smc.schedules import Tolerances
from fbar.paper.figS5 import CHEAP, ENTRIES, METHODS, NOMINAL, NUMBERS, TARGETS, abc_numbers, finished_run
from fbar.paper.record import Experiment, FigureRecord, Options
from fbar.paper.trials import run_trials
from fbar.problems import load
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS, QUICK_TRIALS = 40, 10
"""Fewer than the paper's 100: an estimate at the data takes about a second for each run."""

COVARIANCE = TARGETS[2:]
TRUTH = np.array([load("filippi").with_observed(0.0).truth(target)[0] for target in COVARIANCE])
"""Of the true posterior, by quadrature."""

WEIGHTS = ("last", "ess")
"""How ABC's answers weigh the rounds."""

EXTRA = 17
"""Numbers of a trial beyond figure S5's: for the mixture of all rounds whether each interval covers (3); at the data
values, standard errors, biases and whether each interval covers (3 each), effective and counted simulations."""

LAST = 1.0
"""The last tolerance."""


def _covered(posterior: Posterior) -> list[float]:
    intervals = [posterior.expect(target).interval() for target in COVARIANCE]
    return [float(low <= truth <= high) for (low, high), truth in zip(intervals, TRUTH, strict=True)]


def trial_runner(setting: str, budget: int) -> Callable[[Seeds], list[float]]:
    """A trial: the numbers of figure S5, then those beyond it."""

    def trial(seeds: Seeds) -> list[float]:
        run = finished_run(setting, seeds)
        numbers = [*abc_numbers(run), *_covered(run.reweighted("mixture"))]
        posterior = AtData().posterior(run.all_simulations())
        estimates = [posterior.expect(target) for target in COVARIANCE]
        numbers += [estimate.value for estimate in estimates]
        numbers += [estimate.standard_error for estimate in estimates]
        numbers += [estimate.bias or 0.0 for estimate in estimates]
        return [*numbers, *_covered(posterior), float(posterior.ess), float(posterior.accepted)]

    return trial


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("beyond-figS5")
    first_look = options.quick and options.trials is None
    trials = QUICK_TRIALS if first_look else options.number_of_trials(TRIALS)
    results = run_trials(__name__, [(setting, NOMINAL) for setting in METHODS], trials, options)
    final: dict[str, FloatArray] = {}
    for setting in METHODS:
        _add_abc(record, setting, results[setting, NOMINAL], final)
        _add_at_data(record, setting, results[setting, NOMINAL], final)
    _relative(record, final)
    _claims(record)
    record.notes += [
        "the runs are those of figS5; errors are squared Frobenius norms, about the covariance of the true posterior",
        f"{trials} trials; coverage is that of nominal 95% intervals, over the three entries of the covariance",
        "rejection has 11 simulations within the last tolerance, too few for an estimate at the data to be better",
    ]
    return record


def _errors(covariance: FloatArray) -> FloatArray:
    return np.asarray((ENTRIES * (covariance - TRUTH) ** 2).sum(axis=1))


def _add_abc(record: FigureRecord, setting: str, results: FloatArray, final: dict[str, FloatArray]) -> None:
    schedule = METHODS[setting].schedule
    assert isinstance(schedule, Tolerances)
    width = 2 + NUMBERS * len(CHEAP)
    for index, epsilon in enumerate(schedule.values):
        part = results[:, index * width : (index + 1) * width]
        record.add_mean("simulations", part[:, 0], setting=setting, epsilon=epsilon)
        for weights in WEIGHTS:
            values = part[:, 2 + NUMBERS * CHEAP.index(weights) :][:, :NUMBERS]
            where: dict[str, Any] = {"setting": f"{setting}/{weights}", "epsilon": epsilon}
            errors = _errors(values[:, 2:5])
            record.add_errors(errors, target="covariance", **where)
            record.add_mean("ess", values[:, 6], **where)
            if epsilon == LAST:
                final[f"{setting}/{weights}"] = np.column_stack([errors, values[:, 5] / part[:, 0], values[:, 6]])
    _add_coverage(record, results[:, -EXTRA:][:, :3], f"{setting}/mixture")


def _add_at_data(record: FigureRecord, setting: str, results: FloatArray, final: dict[str, FloatArray]) -> None:
    """At the data: the tolerance is 0."""
    extra = results[:, -EXTRA:]
    value, error, bias, covered = (extra[:, 3 * k : 3 * k + 3] for k in range(1, 5))
    ess, counted = extra[:, 15], extra[:, 16]
    where: dict[str, Any] = {"setting": f"{setting}/at-data", "epsilon": 0.0}
    errors = _errors(value)
    record.add_errors(errors, target="covariance", **where)
    record.add_mean("ess", ess, **where)
    for target, k in zip(COVARIANCE, range(3), strict=True):
        record.add_mean("standard_error", error[:, k], target=target.name, **where)
        record.add_mean("bias", bias[:, k], target=target.name, **where)
        record.add_errors((value[:, k] - TRUTH[k]) ** 2, target=target.name, **where)
    _add_coverage(record, covered, f"{setting}/at-data")
    tolerances = METHODS[setting].schedule
    assert isinstance(tolerances, Tolerances)
    simulations = results[:, (len(tolerances.values) - 1) * (2 + NUMBERS * len(CHEAP))]
    final[f"{setting}/at-data"] = np.column_stack([errors, counted / simulations, ess])


def _add_coverage(record: FigureRecord, covered: FloatArray, setting: str) -> None:
    """Of each entry, and of all three, whose trials are the units: the entries of one trial go together."""
    for target, k in zip(COVARIANCE, range(3), strict=True):
        record.add_mean("coverage", covered[:, k], setting=setting, target=target.name)
    record.add_mean("coverage", covered.mean(axis=1), setting=setting, target="covariance")


def _relative(record: FigureRecord, final: dict[str, FloatArray]) -> None:
    """Precision, share of simulations that count, and ESS, each over those of rejection at ε = 1."""
    base = final["rejection/last"]
    for setting, table in final.items():
        if setting == "rejection/ess":
            continue
        where: dict[str, Any] = {"setting": setting, "trials": len(table)}
        ours, theirs = table[:, 0], base[:, 0]
        value, error = _ratio(theirs, ours)
        record.add("relative_precision", value, standard_error=error, target="covariance", **where)
        for column, quantity in ((1, "relative_acceptance"), (2, "relative_ess")):
            spread = table[:, column].std(ddof=1) / math.sqrt(len(table))
            scale = base[:, column].mean()
            record.add(quantity, table[:, column].mean() / scale, standard_error=spread / scale, **where)
    for setting in METHODS:
        value, error = _ratio(final[f"{setting}/ess"][:, 0], final[f"{setting}/at-data"][:, 0])
        record.add("gain", value, setting=setting, target="covariance", standard_error=error, trials=len(base))


def _ratio(over: FloatArray, under: FloatArray) -> tuple[float, float]:
    """Of two means, with its standard error."""
    ratio = float(over.mean() / under.mean())
    return ratio, ratio * math.sqrt(sum((e.std(ddof=1) / e.mean()) ** 2 / len(e) for e in (over, under)))


def _claims(record: FigureRecord) -> None:
    for setting in METHODS:
        row = record.one(quantity="simulations", setting=setting, epsilon=LAST)
        record.claim(
            f"simulations in all, {setting}", "≈ 34,000", row.value, row.standard_error, rule="within 10%",
            agrees=abs(row.value / NOMINAL - 1) < 0.1,
        )  # fmt: skip
    smc = [setting for setting in METHODS if setting != "rejection"]
    mse = {s: record.one(quantity="mse", setting=f"{s}/ess", target="covariance", epsilon=LAST).value for s in smc}
    record.claim(
        "MSE of the true covariance, ABC-SMC (all rounds), the largest over the smallest", "≈ 1",
        max(mse.values()) / min(mse.values()), rule="< 2", agrees=max(mse.values()) < 2 * min(mse.values()),
    )  # fmt: skip
    for setting in smc:
        row = record.one(quantity="gain", setting=setting)
        record.claim(
            f"MSE of the true covariance, {setting}, ABC (all rounds) over at the data", "– (bias remains)",
            row.value, row.standard_error, rule="≥ 5", agrees=row.value >= 5,
        )  # fmt: skip
    for setting in smc:
        row = record.one(quantity="coverage", setting=f"{setting}/mixture", target="covariance")
        record.claim(
            f"coverage of the true covariance, {setting}, ABC (all rounds)", "– (bias significant)",
            row.value, row.standard_error, rule="< 0.5", agrees=row.value < 0.5,
        )  # fmt: skip
    for setting in METHODS:
        row = record.one(quantity="coverage", setting=f"{setting}/at-data", target="covariance")
        assert row.standard_error is not None
        record.claim(
            f"coverage of the true covariance, {setting}, at the data", "0.95 (nominal)",
            row.value, row.standard_error, rule="> 0.92 less 3 errors",
            agrees=row.value > 0.92 - 3 * row.standard_error,
        )  # fmt: skip


# ---------------------------------------------------------------- the picture

AT_DATA = 0.55
"""Where the axis of tolerances has the data."""


def draw(record: FigureRecord) -> Figure:
    from matplotlib.lines import Line2D

    from fbar.paper.style import COLOURS, LABELS, MARKERS, letter, panels

    figure, axes = panels(2, 2, width=8.6, height=7.2)
    for setting in METHODS:
        _draw_errors(axes[0, 0], record, setting, COLOURS[setting], MARKERS[setting])
        for ax, quantity in ((axes[0, 1], "relative_acceptance"), (axes[1, 0], "relative_ess")):
            _draw_scores(ax, record, setting, quantity, COLOURS[setting], MARKERS[setting])
    _draw_coverage(axes[1, 1], record, [LABELS[setting] for setting in METHODS])
    errors = axes[0, 0]
    errors.set(xscale="log", yscale="log", xlabel="tolerance ε", ylabel="MSE")
    errors.set_xticks([100, 10, 1, AT_DATA], ["100", "10", "1", "at the\ndata"])
    errors.minorticks_off()
    errors.invert_xaxis()
    for ax in (axes[0, 1], axes[1, 0]):
        ends = np.array([0.8, max(*ax.get_xlim(), *ax.get_ylim())])
        ax.plot(ends, ends, color="#8c564b", lw=1, zorder=0)
        ax.set(xscale="log", yscale="log", xlabel="relative precision")
    axes[0, 1].set_ylabel("relative acceptance")
    axes[1, 0].set_ylabel("relative ESS")
    letter(axes, ["error of the true covariance", "acceptance, true covariance", "ESS, true covariance", "coverage"])
    handles = [Line2D([], [], color=COLOURS[s], marker=MARKERS[s], label=LABELS[s].replace("\n", " ")) for s in METHODS]
    handles += [
        Line2D([], [], color="#555555", marker="o", ls="", mfc="white", label="ABC, last round"),
        Line2D([], [], color="#555555", marker="*", ls="", ms=8, label="ABC, all rounds"),
        Line2D([], [], color="#555555", marker="D", ls="", ms=7, label="at the data"),
        Line2D([], [], color="#8c564b", lw=1, label="equal improvement"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _draw_errors(ax: Any, record: FigureRecord, setting: str, colour: str, marker: str) -> None:
    for weights in WEIGHTS:
        if setting == "rejection" and weights == "ess":
            continue
        where = {"setting": f"{setting}/{weights}", "target": "covariance"}
        epsilon, value, _ = record.curve("epsilon", quantity="mse", **where)
        look: dict[str, Any] = {"marker": marker, "mfc": "white"}
        if weights == "ess":
            look = {"marker": "*", "ms": 8, "ls": "--"}
        ax.plot(epsilon, value, color=colour, lw=1, **look)
    row = record.one(quantity="mse", setting=f"{setting}/at-data", target="covariance")
    ax.errorbar(AT_DATA, row.value, row.standard_error, color=colour, marker="D", ms=7, capsize=2)


def _draw_scores(ax: Any, record: FigureRecord, setting: str, quantity: str, colour: str, marker: str) -> None:
    looks: dict[str, dict[str, Any]] = {
        "last": {"marker": marker, "mfc": "white"},
        "ess": {"marker": "*", "ms": 9},
        "at-data": {"marker": "D"},
    }
    for weights, look in looks.items():
        rows = record.select(quantity="relative_precision", setting=f"{setting}/{weights}")
        if rows:
            score = record.one(quantity=quantity, setting=f"{setting}/{weights}")
            ax.errorbar(
                rows[0].value, score.value, score.standard_error, rows[0].standard_error,
                color=colour, capsize=1.5, lw=0.8, **look,
            )  # fmt: skip


def _draw_coverage(ax: Any, record: FigureRecord, labels: list[str]) -> None:
    from fbar.paper.style import COLOURS

    for place, setting in enumerate(METHODS):
        for shift, name, marker in ((-0.12, "mixture", "*"), (0.12, "at-data", "D")):
            row = record.one(quantity="coverage", setting=f"{setting}/{name}", target="covariance")
            ax.errorbar(
                place + shift, row.value, row.standard_error, color=COLOURS[setting], marker=marker,
                ms=9 if marker == "*" else 6, capsize=2,
            )  # fmt: skip
    ax.axhline(0.95, color="#bbbbbb", lw=0.8, zorder=0)
    ax.set_xticks(range(len(labels)), [label.replace(", ", ",\n") for label in labels])
    ax.set(ylim=(-0.05, 1.05), ylabel="coverage of 95% intervals")


EXPERIMENT = Experiment("beyond-figS5", "Figure S5 with estimates at the data", compute, draw)
