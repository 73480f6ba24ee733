"""What a study found: tidy rows, rankings, curves, score against score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import choice, one_line, positive_integer, shown, text
from fbar.checks import path as as_path
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.estimation.estimate import shorthand
from fbar.results.markup import paragraph
from fbar.results.notebook import joined, table
from fbar.running.replication import Found
from fbar.scores import Scene, as_score, posterior_deviation, summarise
from fbar.scores.expectation import MOST_TRUTH_ERROR
from fbar.study import tables
from fbar.study.curves import Curve, curve, relative
from fbar.study.paired import mean_and_error
from fbar.study.ranking import ERROR, Ranking, rank
from fbar.study.tables import Row
from fbar.study.trials import Arena, Cell, TrialRecord
from fbar.study.versus import Versus, versus

if TYPE_CHECKING:
    import pandas as pd


class StudyResult:
    """The records of a study's trials, and the questions they answer."""

    def __init__(
        self,
        trials: Found[Cell, TrialRecord],
        arenas: Mapping[str, Arena],
        scores: Sequence[str],
        settings: Mapping[str, Any],
    ) -> None:
        self.trials, self.arenas, self.scores, self.settings = trials, dict(arenas), list(scores), dict(settings)
        self._scenes = {name: Scene(arena.scored, arena.targets) for name, arena in self.arenas.items()}
        self.cells: list[Cell] = list(dict.fromkeys(cell for cell, _ in trials))
        self.number_of_trials = 1 + max((trial for _, trial in trials), default=-1)

    # ------------------------------------------------------------ tidy rows

    def rows(self) -> list[Row]:
        """One row for each trial, score and component."""
        return tables.rows(self)

    def trial_rows(self) -> list[Row]:
        """One row for each trial: how it went."""
        return tables.trial_rows(self)

    def estimate_rows(self) -> list[Row]:
        """One row for each trial and target: the estimate, its own error, and the truth."""
        return tables.estimate_rows(self)

    def to_pandas(self, table: str = "scores") -> pd.DataFrame:
        """The rows as a data frame: ``"scores"``, ``"trials"``, ``"estimates"`` or ``"summary"``."""
        choice(table, TABLES, "table")
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "table") from None
        return pd.DataFrame(TABLES[table](self))

    # ------------------------------------------------------------ one number a trial

    def direction(self, score: str) -> str:
        choice(score, self.scores, "score", "in this study")
        return as_score(score).better

    def label(self, score: str, target: str | None = None) -> str:
        what = text(score, "score")
        if target is not None:
            text(target, "target")
        if score == ERROR:
            known = [self._variance_known(name, target) for name in self.arenas]
            what = "b² (MSE / posterior variance)" if any(known) else "MSE"
            what += " (plain MSE where that variance is not known)" if any(known) and not all(known) else ""
        return what if target is None else f"{what} of {target}"

    def _variance_known(self, problem: str, target: str | None) -> bool:
        asked = [item for item in self.arenas[problem].targets if target in (None, item.name)]
        return all(math.isfinite(self.deviation(problem, item.name)) for item in asked)

    def contenders(self) -> list[str]:
        """The names of the methods."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    def _problem(self, problem: str) -> str:
        return choice(problem, self.arenas, "problem", "in this study")

    def statuses(self, problem: str, method: str, budget: int) -> list[str]:
        return [record.status for _, record in self.records(problem, method, budget)]

    def records(self, problem: str, method: str, budget: int) -> list[tuple[int, Any]]:
        cell = Cell(
            self._problem(problem),
            choice(method, self.contenders(), "method", "in this study"),
            positive_integer(budget, "budget"),
        )
        if cell not in self.cells:
            budgets = ", ".join(f"{n:,}" for n in sorted({known.budget for known in self.cells}))
            raise InputError(f"budget must be one of the study's, {budgets}; got {shown(budget)}")
        return [(t, self.trials[cell, t]) for t in range(self.number_of_trials) if (cell, t) in self.trials]

    def components(self, score: str, problem: str) -> list[str]:
        """The parts that a score has on a problem, such as the targets."""
        choice(score, self.scores, "score", "in this study")
        self._problem(problem)
        found: dict[str, None] = {}
        for (cell, _), record in self.trials.items():
            if cell.problem == problem:
                found.update(dict.fromkeys(record.scores.get(score, ())))
        return list(found)

    def values(self, score: str, problem: str, method: str, budget: int, target: str | None = None) -> FloatArray:
        """One number per trial, NaN where it failed or the score is not defined.

        The mean over the components, or a single component. The MSE is divided by the variance of f under the true
        posterior first, so that targets can be compared: b², whose inverse is the number of independent posterior draws
        that would be as accurate.
        """
        choice(score, self.scores, "score", "in this study")
        names = self.components(score, problem)
        if target is not None:
            names = [choice(target, names, "component", f"of {shown(score)}")]
        elif "" in names:  # the score itself; others are further views of it
            names = [""]
        scale = np.array([self._scale(score, problem, name, len(names)) for name in names])
        result = []
        for _, record in self.records(problem, method, budget):
            parts = record.scores.get(score)
            if parts is None or any(name not in parts for name in names) or not names:
                result.append(math.nan)
            else:
                result.append(float(np.mean([parts[name] for name in names] / scale)))
        return np.array(result)

    def _scale(self, score: str, problem: str, name: str, components: int) -> float:
        if score != ERROR:
            return 1.0
        deviation = self.deviation(problem, name)
        if math.isfinite(deviation):
            return deviation**2
        if components == 1:  # nothing to be put together with
            return 1.0
        raise InputError(
            f"{problem}: the posterior variance of {shown(name)} is not known, and the errors of several "
            "targets cannot be combined without it; name one target"
        )

    def deviation(self, problem: str, name: str) -> float:
        """The standard deviation of f under the true posterior; NaN where it is not known."""
        known = {target.name: target for target in self.arenas[self._problem(problem)].targets}
        target = known[choice(name, known, "target", f"of {problem}")]
        try:
            return posterior_deviation(target, self._scenes[problem])
        except InputError:
            return math.nan

    def truth_is_too_rough(self, problem: str, method: str, budget: int, target: str | None = None) -> bool:
        """Whether the truth's own squared error is over 1% of the mean score, which would then be about the truth."""
        value = self.values(ERROR, problem, method, budget, target)
        value = value[np.isfinite(value)]
        names = self.components(ERROR, problem) if target is None else [target]
        if not value.size or not names:
            return False
        scene = self._scenes[problem]
        own = np.mean(
            [
                float(scene.problem.truth_error(item)[0]) ** 2 / self._scale(ERROR, problem, item.name, len(names))
                for item in scene.targets
                if item.name in names
            ]
        )
        return bool(own > MOST_TRUTH_ERROR * (float(value.mean()) + own))

    # ------------------------------------------------------------ summaries

    def summary(self) -> list[Row]:
        """By problem, method, budget, score and component: the mean over trials with its standard error.

        For the MSE also its parts, bias² and variance, b², and the equivalent number of independent posterior draws.
        """
        result = []
        for cell in self.cells:
            records = self.records(*cell.key)
            status = [record.status for _, record in records]
            for score in self.scores:
                for component in self.components(score, cell.problem):
                    values = np.array(
                        [
                            record.scores[score][component]
                            for _, record in records
                            if component in record.scores.get(score, {})
                        ]
                    )
                    mean, error = mean_and_error(values)
                    row = {
                        "problem": cell.problem,
                        "method": cell.method,
                        "budget": cell.budget,
                        "score": score,
                        "component": component,
                        "trials": len(values),
                        "failed": status.count("failed"),
                        "from_prior": status.count("prior"),
                        "mean": mean,
                        "standard_error": error,
                    }
                    if score == ERROR:
                        row |= self._error_parts(cell, component)
                    result.append(row)
        return result

    def _error_parts(self, cell: Cell, target: str) -> Row:
        scene = self._scenes[cell.problem]
        asked = next(item for item in scene.targets if item.name == target)
        truth, own = float(scene.problem.truth(asked)[0]), float(scene.problem.truth_error(asked)[0])
        records = [record for _, record in self.records(*cell.key) if target in record.estimates]
        errors = [record.estimates[target][0] - truth for record in records]
        try:
            found = summarise(errors, own, self.deviation(cell.problem, target))
        except InputError as error:  # too few trials, or a truth that is not good enough
            return {"note": str(error)}
        keys = ("bias", "bias_error", "bias2", "variance", "b2", "b2_error", "draws", "draws_error")
        return {**{key: getattr(found, key) for key in keys}, "note": ""}

    def ranking(self, score: str = ERROR, *, target: str | None = None, level: float = 0.05) -> Ranking:
        """Which method is better, and how certain that is: see `Ranking`."""
        return rank(self, score, target, level)

    def curve(self, problem: str, method: str, score: str = ERROR, *, target: str | None = None) -> Curve:
        return curve(self, score, problem, method, target)

    def curves(self, score: str = ERROR, *, target: str | None = None) -> list[Curve]:
        """Score against budget for each problem and method."""
        pairs = dict.fromkeys((cell.problem, cell.method) for cell in self.cells)
        return [curve(self, score, problem, method, target) for problem, method in pairs]

    def efficiency(self, reference: str, score: str = ERROR, *, value: float | None = None) -> list[Row]:
        """Simulations that each method needs for the same score, relative to a reference method."""
        return relative(self.curves(score), reference, value)

    def against(self, x: str, y: str = ERROR, *, level: float = 0.05) -> Versus:
        """One score against another: where ``x`` misleads about ``y``."""
        return versus(self, x, y, level)

    def calibration(self) -> list[Row]:
        """Ranks over fresh data, by parameter: p-values of uniformity, and how often intervals contained the truth."""
        return tables.calibration(self)

    def failures(self) -> list[Row]:
        """What went wrong, and how often: one row for each method and message."""
        return tables.failures(self)

    def undefined(self) -> list[Row]:
        """Scores that a method or problem does not have, with the reason."""
        return tables.undefined(self)

    # ------------------------------------------------------------ out

    def write(self, directory: str | Path) -> list[Path]:
        """``scores.csv``, ``estimates.csv``, ``trials.csv``, ``summary.csv``, ``ranking.csv`` and ``pairs.csv``."""
        directory = as_path(directory, "directory")
        found: dict[str, list[Row]] = {name: make(self) for name, make in TABLES.items()}
        if ERROR in self.scores and self.number_of_trials > 1:
            ranking = self.ranking()
            found |= {"ranking": ranking.as_rows(), "pairs": ranking.pair_rows()}
        paths = []
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, rows in found.items():
                paths.append(directory / f"{name}.csv")
                tables.write_csv(paths[-1], rows)
        except OSError as error:
            raise FbarError(f"cannot write to {one_line(directory)}: {error.strerror or error}") from None
        return paths

    def report(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write one HTML file: rankings, curves, score against score, every table. It opens from disk."""
        from fbar.results.report import report_study

        return report_study(self, path, title=title)

    def __repr__(self) -> str:
        return f"<study of {len(self.cells)} cells, {self.number_of_trials} trials each>"

    def _repr_html_(self) -> str:
        rows = []
        for cell in self.cells:
            status = self.statuses(*cell.key)
            told = [f"{status.count('failed')} failed"] if "failed" in status else []
            told += [f"{status.count('prior')} scored with the prior"] if "prior" in status else []
            means = [self._mean(score, cell) for score in self.scores]
            rows.append([cell.problem, f"{cell.budget:,}", cell.method, *means, ", ".join(told)])
        columns = ["problem", "budget", "method", *(self.label(score) for score in self.scores), ""]
        numbers = (1, *range(3, 3 + len(self.scores)))
        words = f"{self.number_of_trials:,} trials of each; means over trials with their standard errors"
        return joined(table(columns, rows, numbers), paragraph(words))

    def _mean(self, score: str, cell: Cell) -> str:
        try:
            values = self.values(score, *cell.key)
        except InputError:  # the errors of several targets that cannot be put together
            return "–"
        mean, error = mean_and_error(values)
        return "–" if math.isnan(mean) else shorthand(mean, error)

    def __str__(self) -> str:
        lines = []
        for row in self.summary():
            name = f" {row['component']}" if row["component"] else ""
            head = f"{row['problem']} {row['method']} {row['budget']:,} {row['score']}{name}"
            lines.append(f"{head}: {shorthand(row['mean'], row['standard_error'])}")
        return "\n".join(lines)


TABLES: dict[str, Any] = {
    "scores": StudyResult.rows,
    "trials": StudyResult.trial_rows,
    "estimates": StudyResult.estimate_rows,
    "summary": StudyResult.summary,
}
