"""Beyond the paper: the algorithms that it names, ranked by acceptance rate, by ESS, and by the error of E[f].

The paper shows for one problem at a time that the acceptance rate and the effective sample size are not measures of
error (sections 1.2.1 and 1.2.2, figures 2, 3, 5 and S5). Here all algorithms run on the problem of figure S5 and on one
of sbibm's, with the same number of simulations and the same tolerance where they have one, and for two functions f each
the error is b² = MSE/var(f|x*) about the **true** posterior.

Two scores disagree on a pair of algorithms if both order it significantly, in opposite ways. The tests are those of
studies (`fbar.study.ranking`: paired over trials, Holm's correction over all pairs of a ranking), at `LEVEL` divided by
the number of rankings, so that the chance of any wrong verdict in the whole figure is at most `LEVEL`. The uncertainty
of a place is that of resampled trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.posterior import Posterior
from fbar.methods.registry import find
from fbar.paper.record import Experiment, FigureRecord, Options, Row
from fbar.question.targets import Target
from fbar.running import drive
from fbar.seeds import Purpose, Seeds
from fbar.study.contenders import Contender
from fbar.study.posed import Posed
from fbar.study.presets.base import loaded
from fbar.study.ranking import ERROR, Ranking
from fbar.study.results import StudyResult
from fbar.study.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGET = 10_000
TRIALS, QUICK_TRIALS = 60, 10

LEVEL = 0.05
"""The chance of any wrong verdict."""

SHARE = 1e-3
"""The share of the prior's simulations that the tolerance accepts."""

FUNCTIONS = {
    "filippi": ("mean:theta1", "probability:theta1 > 10"),
    "gaussian-mixture": ("mean:theta1", "probability:theta1 > -9"),
}
"""Two for each problem: a mean, and the probability of a tail."""

RATE, ESS = SCORES = ("acceptance-rate", "ess")
AT_TOLERANCE = ("rejection", "smc", "pmc", "adaptive-weights", "smc-replicas", "mcmc", "multilevel")
WITHOUT_TOLERANCE = ("synthetic-likelihood", "synthetic-likelihood-mcmc")
TARGETED = ("targeted, f₁", "targeted, f₂")
DEFAULT = "default"
METHODS = (*AT_TOLERANCE, *TARGETED, *WITHOUT_TOLERANCE, DEFAULT)

WITHOUT_SCORE: dict[str, tuple[str, ...]] = {RATE: WITHOUT_TOLERANCE, ESS: ("multilevel",), ERROR: ()}
"""A synthetic likelihood accepts no simulations, and multilevel ABC has weights of both signs."""

RESAMPLED = 1000


# ---------------------------------------------------------------- the algorithms


@dataclass(frozen=True)
class TargetedAt:
    """Targeted draws for one of the two functions."""

    index: int

    def __call__(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Posterior:
        method = find("targeted").make().at_tolerance(posed.tolerance)
        run = method.start(posed, [targets[self.index]], seeds, posed.budget)
        drive(run, history=False)
        return run.posterior()


@dataclass(frozen=True)
class AsCalled:
    """`fbar.infer` as a user calls it, with a method that has no tolerance, or without one."""

    method: str | None = None

    def __call__(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Posterior:
        from fbar.running.api import infer

        seed = int(seeds.generator(Purpose.DESIGN, 0, 0).integers(2**63))
        found = infer(posed, list(targets), method=self.method, budget=posed.budget, seed=seed, progress=False)
        return found.posterior


def contenders() -> list[str | Contender]:
    targeted = [Contender(name, question=TargetedAt(index)) for index, name in enumerate(TARGETED)]
    called = [Contender(name, question=AsCalled(name)) for name in WITHOUT_TOLERANCE]
    return [*AT_TOLERANCE, *targeted, *called, Contender(DEFAULT, question=AsCalled())]


def study(name: str, trials: int, seed: int) -> Study:
    scores, targets = (ERROR, *SCORES), list(FUNCTIONS[name])
    return Study(loaded([name]), contenders(), BUDGET, trials, scores, seed, targets=targets, tolerance=SHARE)


# ---------------------------------------------------------------- rankings


@dataclass(frozen=True)
class Column:
    """What a problem's algorithms are ranked by: a score, or the error of one of the functions."""

    problem: str
    score: str
    target: str = ""

    def values(self, result: StudyResult) -> FloatArray:
        """One row for each trial, one column for each algorithm; NaN where the score is not defined."""
        target = self.target or None
        found = [result.values(self.score, self.problem, name, BUDGET, target) for name in METHODS]
        has = [name not in WITHOUT_SCORE[self.score] for name in METHODS]
        return np.where(has, np.column_stack(found), np.nan)

    def ranking(self, result: StudyResult) -> Ranking:
        """Of the algorithms that have the score."""
        without = WITHOUT_SCORE[self.score]
        trials = {key: record for key, record in result.trials.items() if key[0].method not in without}
        part = StudyResult(trials, result.arenas, result.scores, result.settings)
        return part.ranking(self.score, target=self.target or None, level=LEVEL / len(COLUMNS))

    @property
    def quantity(self) -> str:
        return {ERROR: "b2", RATE: "acceptance_rate", ESS: "ess"}[self.score]


COLUMNS = tuple(
    column
    for problem, targets in FUNCTIONS.items()
    for column in (*(Column(problem, s) for s in SCORES), *(Column(problem, ERROR, t) for t in targets))
)


def places(values: FloatArray, *, lowest_first: bool) -> FloatArray:
    """The place of each algorithm by its mean over trials, from 1; NaN for those without the score."""
    found = np.full(values.shape[1], np.nan)
    scored = np.flatnonzero(np.isfinite(values).any(axis=0))
    means = np.nanmean(values[:, scored], axis=0)
    order = np.argsort(means if lowest_first else -means, kind="stable")
    found[scored[order]] = 1 + np.arange(scored.size)
    return found


def resampled_places(values: FloatArray, *, lowest_first: bool) -> FloatArray:
    """Places in `RESAMPLED` resamples of the trials; the same resamples for every column of a problem."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(values), size=(RESAMPLED, len(values)))
    return np.array([places(values[draw], lowest_first=lowest_first) for draw in draws])


def agreement(first: FloatArray, second: FloatArray) -> float:
    """Kendall's τ of two lists of places, over the algorithms that both have: 1 if they agree, −1 if they oppose."""
    both = np.isfinite(first) & np.isfinite(second)
    a, b = first[both], second[both]
    above = np.triu_indices(len(a), 1)
    signs = np.sign(a[:, None] - a[None, :]) * np.sign(b[:, None] - b[None, :])
    return float(signs[above].mean())


# ---------------------------------------------------------------- the numbers


def compute(options: Options) -> FigureRecord:
    record = FigureRecord("beyond-systems")
    first_look = options.quick and options.trials is None
    trials = QUICK_TRIALS if first_look else options.number_of_trials(TRIALS)
    for index, name in enumerate(FUNCTIONS):

        def progress(share: float, done: int, whole: int, index: int = index) -> None:
            options.progress((index + share) / len(FUNCTIONS))

        add_rankings(record, name, study(name, trials, options.seed).run(workers=options.workers, progress=progress))
    _claims(record)
    record.notes += [
        f"{trials} trials of {BUDGET:,} simulations each; b² is about the true posterior, and methods with a tolerance "
        f"accept at the one that {SHARE:.1%} of the prior's simulations reach",
        f"the chance of any wrong verdict on a pair is at most {LEVEL:.0%} (Holm's method, {len(COLUMNS)} rankings)",
        "synthetic likelihoods have no acceptance rate and multilevel ABC, whose weights have both signs, has no ESS; "
        "that of Markov chains is from their autocorrelation",
    ]
    return record


def add_rankings(record: FigureRecord, problem: str, result: StudyResult) -> None:
    columns = [column for column in COLUMNS if column.problem == problem]
    _add_scores(record, result, columns)
    _add_disagreements(record, result, columns)


def _add_scores(record: FigureRecord, result: StudyResult, columns: Sequence[Column]) -> None:
    """Means over trials, places and their 95% intervals, and the agreement of places with those by error."""
    now, again = {}, {}
    for column in columns:
        values, lowest = column.values(result), column.score == ERROR
        now[column] = places(values, lowest_first=lowest)
        again[column] = resampled_places(values, lowest_first=lowest)
        low, high = np.percentile(again[column], [2.5, 97.5], axis=0, method="nearest")  # NaN without the score
        for k, method in enumerate(METHODS):
            if math.isnan(now[column][k]):
                continue
            where: dict[str, Any] = {"setting": f"{column.problem}/{method}", "target": column.target, "n": BUDGET}
            record.add_mean(column.quantity, values[np.isfinite(values[:, k]), k], **where)
            for name, place in (("place", now[column]), ("place_low", low), ("place_high", high)):
                record.add(f"{name}_by_{column.quantity}", place[k], trials=len(values), **where)
    for score in columns[: len(SCORES)]:
        for error in columns[len(SCORES) :]:
            spread = np.std([agreement(a, b) for a, b in zip(again[score], again[error], strict=True)])
            where = {"setting": f"{score.problem}/{score.quantity}", "target": error.target}
            tau = agreement(now[score], now[error])
            record.add("kendall_tau", tau, standard_error=float(spread), trials=len(values), n=BUDGET, **where)


def _add_disagreements(record: FigureRecord, result: StudyResult, columns: Sequence[Column]) -> None:
    """Of the pairs that have both scores: how many these order in the same way, in opposite ways, or not both."""
    rankings = {column: column.ranking(result) for column in columns}
    errors = columns[len(SCORES) :]
    pairs = [(score, error) for score in columns[: len(SCORES)] for error in errors] + [(errors[0], errors[1])]
    for first, second in pairs:
        counts = {"same": 0, "opposite": 0, "undecided": 0}
        where: dict[str, Any] = {"target": second.target, "n": BUDGET, "trials": result.number_of_trials}
        name = f"{first.problem}/{first.target or first.quantity}"
        by_error = {(v.first, v.second): v for v in rankings[second].verdicts}
        for u in rankings[first].verdicts:
            v = by_error[u.first, u.second]
            if u.better is None or v.better is None:
                counts["undecided"] += 1
                continue
            counts["same" if u.better == v.better else "opposite"] += 1
            if u.better != v.better:
                over, log_error = v.comparison.ratio, v.comparison.log_error
                ratio = over if v.better == v.second else 1 / over
                words = f"{name}/{u.better} before {v.better}"
                record.add("opposite_ratio", ratio, setting=words, standard_error=ratio * log_error, **where)
        for kind, count in counts.items():
            record.add(f"pairs_{kind}", count, setting=name, **where)


def _claims(record: FigureRecord) -> None:
    words = {"acceptance_rate": "acceptance rate", "ess": "ESS"}
    for problem, targets in FUNCTIONS.items():
        for score, spelled in words.items():
            for target in targets:
                where = {"setting": f"{problem}/{score}", "target": target}
                opposite = record.one(quantity="pairs_opposite", **where).value
                record.claim(
                    f"{problem}: pairs that the {spelled} and the error of {target} order in opposite ways",
                    "– (no measure of error)", opposite, rule="≥ 1", agrees=opposite >= 1,
                )  # fmt: skip
        worst = _worst(record, problem)
        if worst is not None:
            record.claim(
                f"{problem}: largest ratio of b² of the algorithm that a score prefers to that of the other", "> 1",
                worst.value, worst.standard_error, rule="> 1", agrees=worst.value > 1,
            )  # fmt: skip


def _worst(record: FigureRecord, problem: str) -> Row | None:
    found = [
        row
        for row in record.select(quantity="opposite_ratio")
        if any(row.setting.startswith(f"{problem}/{score}/") for score in ("acceptance_rate", "ess"))
    ]
    return max(found, key=lambda row: row.value, default=None)


# ---------------------------------------------------------------- the picture

SAME, OPPOSITE, UNDECIDED = "#0072B2", "#D55E00", "#c9ced6"

FORMULAS = {
    "mean:theta1": "E[θ₁]",
    "probability:theta1 > 10": "P(θ₁ > 10)",
    "probability:theta1 > -9": "P(θ₁ > −9)",
}
TITLES = {"filippi": "problem of figure S5", "gaussian-mixture": "Gaussian mixture of sbibm"}


def draw(record: FigureRecord) -> Figure:
    from fbar.plot.look import Picture

    figure = Picture(figsize=(8.6, 10.2), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(4, 4, 1.9))
    for index, problem in enumerate(FUNCTIONS):
        ax = figure.add_subplot(grid[index, :])
        _draw_places(ax, record, [column for column in COLUMNS if column.problem == problem])
        ax.set_title(f"({'ab'[index]}) {TITLES[problem]}: places, with their 95% intervals", loc="left", pad=12)
    for index, problem in enumerate(FUNCTIONS):
        ax = figure.add_subplot(grid[2, index])
        _draw_pairs(ax, record, problem)
        ax.set_title(f"({'cd'[index]}) pairs, {TITLES[problem]}", loc="left")
    return figure


def _draw_places(ax: Any, record: FigureRecord, columns: Sequence[Column]) -> None:
    """A line for each algorithm through its places, with bars for the places of 95% of the resampled trials."""
    from fbar.plot.look import method_look

    steps = np.linspace(0, 1, 40)
    smooth = steps**2 * (3 - 2 * steps)
    for index, method in enumerate(METHODS):
        look = method_look("targeted" if method in TARGETED else method, METHODS)
        colour, second = look["color"], method == TARGETED[1]
        size, face = 10 if look["marker"] == "*" else 6.5, "white" if second else colour
        beside = 0.016 * (index - (len(METHODS) - 1) / 2)  # bars of different algorithms do not cover each other
        known: dict[int, float] = {}
        for x, column in enumerate(columns):
            where: dict[str, Any] = {"setting": f"{column.problem}/{method}", "target": column.target}
            if not record.select(quantity=column.quantity, **where):
                continue
            known[x], low, high = (
                record.one(quantity=f"{place}_by_{column.quantity}", **where).value
                for place in ("place", "place_low", "place_high")
            )
            if low < high:
                ends = [x + beside, x + beside], [low, high]
                ax.plot(*ends, color=colour, lw=2.2, alpha=0.45, solid_capstyle="round", zorder=1)
            ax.plot(x, known[x], color=colour, marker=look["marker"], ms=size, mfc=face, ls="", zorder=3)
        for x, after in zip(list(known)[:-1], list(known)[1:], strict=True):
            line = known[x] + (known[after] - known[x]) * smooth
            ax.plot(x + (after - x) * steps, line, color=colour, lw=1.5, ls="--" if second else "-", alpha=0.85)
        ax.text(max(known) + 0.11, known[max(known)], method, ha="left", va="center", color=colour, fontsize=8.5)
        if 0 in known:
            ax.text(-0.11, known[0], method, ha="right", va="center", color=colour, fontsize=8.5)
    headings = ["acceptance rate", "ESS", *(f"error of {FORMULAS[c.target]}" for c in columns[len(SCORES) :])]
    ax.set_xticks(range(len(columns)), headings, fontsize=9)
    ax.xaxis.tick_top()
    ax.set(xlim=(-0.75, len(columns) - 0.1), ylim=(len(METHODS) + 0.5, 0.5))
    ax.set_yticks([])
    _without_frame(ax)


def _draw_pairs(ax: Any, record: FigureRecord, problem: str) -> None:
    """How many pairs of algorithms two rankings order in opposite ways, in the same way, or not both."""
    first, second = FUNCTIONS[problem]
    rows = [(name, target) for name in ("acceptance_rate", "ess") for target in (first, second)] + [(first, second)]
    words = {"acceptance_rate": "acceptance rate", "ess": "ESS", first: FORMULAS[first]}
    kinds = (("opposite", OPPOSITE, "opposite ways"), ("same", SAME, "the same way"), ("undecided", UNDECIDED, "open"))
    for y, (name, target) in enumerate(rows):
        where = {"setting": f"{problem}/{name}", "target": target}
        counts = {kind: record.one(quantity=f"pairs_{kind}", **where).value for kind, _, _ in kinds}
        left = 0.0
        for kind, colour, label in kinds:
            ax.barh(y, counts[kind], left=left, color=colour, height=0.7, label=label if y == 0 else None)
            if kind != "opposite" and counts[kind] > 1:
                middle, ink = left + counts[kind] / 2, "white" if kind == "same" else "#444444"
                ax.text(middle, y, f"{counts[kind]:.0f}", ha="center", va="center", color=ink, fontsize=8)
            left += counts[kind]
        ax.text(left + 1, y, f"{counts['opposite']:.0f} opposite", va="center", color=OPPOSITE, fontsize=8)
    ax.set_yticks(range(len(rows)), [f"{words[name]}, {FORMULAS[target]}" for name, target in rows])
    ax.invert_yaxis()
    ax.set_xticks([])
    ax.set_xlim(0, 1.25 * len(METHODS) * (len(METHODS) - 1) / 2)
    _without_frame(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.35, -0.01), ncols=3, handlelength=1, columnspacing=1)


def _without_frame(ax: Any) -> None:
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


EXPERIMENT = Experiment("beyond-systems", "The algorithms that the paper names, ranked by three scores", compute, draw)
