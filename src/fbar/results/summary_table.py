"""The summary of a result as a table, in ArviZ's manner: a row for each parameter and derived quantity.

Of a model choice it has the models with their probabilities, and the quantities within each model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.checks import choice, share
from fbar.errors import FbarError, InputError, MissingExtra
from fbar.estimation.estimate import Estimate, shorthand
from fbar.question.targets import Target, credible_interval, mean, sd, within
from fbar.question.targets.conditions import OneModel
from fbar.question.targets.intervals import KINDS_OF_INTERVAL
from fbar.results.markup import element, paragraph
from fbar.results.models import models_of
from fbar.results.notebook import joined, table
from fbar.results.notebook import warnings as warned
from fbar.results.summary_rows import NUMBERS, Row, aligned, cells, digits, errors, row_of, size
from fbar.system.json_values import as_json
from fbar.system.terminal import clean

if TYPE_CHECKING:
    import pandas

    from fbar.results.result import Result

MOST_NUMBERS = 20_000_000
"""Numbers in the influence functions that are computed at a time, about: points × coordinates × estimates."""

EACH = 4
"""Numbers that are estimated of a quantity: mean, sd and the two ends of the interval."""


@dataclass(frozen=True)
class ModelRows:
    """The quantities within a model, and its probabilities. Without a model choice there is one without a label."""

    rows: tuple[Row, ...]
    label: str = ""
    probability: float = 1.0
    probability_error: float = 0.0
    prior: float = 1.0
    reliability: str = ""

    @property
    def title(self) -> str:
        mark = f" ({self.reliability})" if self.reliability not in ("", "reliable") else ""
        chance = shorthand(self.probability, self.probability_error)
        return f"model {self.label}: probability {chance}{mark}, before the data {self.prior:.4g}"


@dataclass(frozen=True)
class AskedRow:
    """One number of a target that was asked for."""

    name: str
    value: float
    monte_carlo_error: float
    total_error: float
    reliability: str


@dataclass(frozen=True, eq=False)
class SummaryTable:
    """The posterior of every parameter and derived quantity, see ``result.summary``.

    Print it; a notebook shows it as a table. ``models`` has the rows, for a model choice those of each model; ``asked``
    has the run's targets that are not the mean of a row.
    """

    models: tuple[ModelRows, ...]
    level: float
    kind: str
    about: str = ""
    asked: tuple[AskedRow, ...] = ()
    left_out: tuple[str, ...] = ()
    """Parameters without a row, because some of their values are not numbers."""
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, of all models."""
        return tuple(row for model in self.models for row in model.rows)

    def __getitem__(self, name: str) -> Row:
        found = [row for row in self.rows if row.name == name]
        if len(found) > 1:
            raise InputError(f"several models have {name!r}; ask for the summary of one of them (of_model)")
        return found[0] if found else self._missing(name)

    def _missing(self, name: str) -> Row:
        names = {row.name: row for row in self.rows}
        return names[choice(name, names, "quantity")]

    @property
    def interval(self) -> str:
        """The name of the interval."""
        return f"{100 * self.level:g}% {'HDI' if self.kind == 'hdi' else 'credible interval'}"

    @property
    def columns(self) -> list[str]:
        return ["", "mean", "sd", self.interval, "MC error", "total error", "reliability"]

    @property
    def legend(self) -> tuple[str, str]:
        """An explanation of the interval (of the quantity) and of the errors (of the estimate)."""
        return self._legend(bool(self.asked))

    def _legend(self, asked: bool) -> tuple[str, str]:
        shown = "mean, or of the estimate that was asked for" if asked else "mean that is shown"
        return (
            f"The interval is where the quantity lies with probability {100 * self.level:g}%, given the data.",
            f"The errors are standard errors of the {shown}: Monte Carlo, and with the bias that may remain.",
        )

    # ------------------------------------------------------------ as text

    def lines(self, most: int | None = None, *, asked: bool = True) -> list[str]:
        """The table's lines, with at most ``most`` rows of quantities, with or without the targets asked for."""
        shown, left = _first(self.models, most)
        texts = aligned([self.columns, *(cells(row) for model in shown for row in model.rows)])
        found = [texts.pop(0)] if self.rows else []
        for model in shown:
            found += [model.title] if model.label else []
            found += [texts.pop(0) for _ in model.rows]
        found += [f"and {left} more"] if left else []
        if asked and self.asked:
            rows = [["asked", "estimate", "MC error", "total error", "reliability"], *map(_asked_cells, self.asked)]
            found += ["", *aligned(rows, (0, 4))]
        found += self._legend(asked and bool(self.asked)) if self.rows else []
        found += [f"without a row, not being numbers everywhere: {', '.join(self.left_out)}"] if self.left_out else []
        return [clean(line) for line in found]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *(clean(f"warning: {text}") for text in self.warnings)])

    def __repr__(self) -> str:
        return f"SummaryTable({', '.join(dict.fromkeys(row.name for row in self.rows))}; {self.interval})"

    def _repr_html_(self) -> str:
        parts: list[str] = []
        for model in self.models:
            parts += [paragraph(element("strong", model.title))] if model.label else []
            parts += [table(self.columns, [cells(row) for row in model.rows], range(1, 6))] if model.rows else []
        if self.asked:
            columns = ["asked", "estimate", "MC error", "total error", "reliability"]
            parts.append(table(columns, [_asked_cells(row) for row in self.asked], range(1, 4)))
        return joined(*parts, warned(self.warnings), paragraph(" ".join(self.legend)))

    # ------------------------------------------------------------ for other programs

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each quantity, by its name; for a model choice by model and name."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "table") from error
        pairs = [(model.label, row) for model in self.models for row in model.rows]
        columns = (*NUMBERS, "reliability")
        values = [[row.as_dict()[name] for name in columns] for _, row in pairs]
        names = [row.name for _, row in pairs]
        if any(model.label for model in self.models):
            index = pandas.MultiIndex.from_arrays([[label for label, _ in pairs], names], names=["model", "quantity"])
            return pandas.DataFrame(values, columns=list(columns), index=index)
        return pandas.DataFrame(values, columns=list(columns), index=names)

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "level": self.level,
            "kind": self.kind,
            "about": self.about,
            "models": [
                {
                    "model": model.label,
                    "probability": as_json(model.probability),
                    "probability_error": as_json(model.probability_error),
                    "prior": model.prior,
                    "reliability": model.reliability,
                    "rows": [row.as_dict() for row in model.rows],
                }
                for model in self.models
            ],
            "left_out": list(self.left_out),
            "warnings": list(self.warnings),
        }

    @staticmethod
    def recorded(found: Mapping[str, Any]) -> SummaryTable:
        """Of what `as_dict` has given."""
        models = tuple(
            ModelRows(
                tuple(Row.recorded(row) for row in model["rows"]),
                model["model"],
                _known(model["probability"]),
                _known(model["probability_error"]),
                float(model["prior"]),
                model["reliability"],
            )
            for model in found["models"]
        )
        return SummaryTable(
            models,
            found["level"],
            found["kind"],
            found["about"],
            left_out=tuple(found["left_out"]),
            warnings=tuple(found["warnings"]),
        )


def summarised(
    result: Result, level: float = 0.95, kind: str = "equal-tailed", only: OneModel | None = None
) -> SummaryTable:
    """The summary of a result, or of ``only`` one model of it."""
    level = share(level, "level")
    choice(kind, KINDS_OF_INTERVAL, "kind of credible interval")
    if np.ndim(result.simulations):
        raise InputError("a summary is of a run without trials; see its estimates")
    choosing = models_of(result.run.problem.prior)
    blocks: list[ModelRows] = []
    left_out: list[str] = []
    warnings: list[tuple[str, str]] = []
    if choosing is None:
        rows = _rows(result, _quantities(result, None, left_out), level, kind, None, warnings)
        blocks.append(ModelRows(rows))
    else:
        models = choosing.all if only is None else [only]
        chances = result.expect([choosing.probability(model) for model in models])
        for model, chance in zip(models, chances, strict=True):
            there = model.mask(result.posterior.points).any()
            names = _quantities(result, model, left_out) if there else []
            rows = _rows(result, names, level, kind, model, warnings)
            prior = choosing.prior(model)
            label, error = str(model.label), float(chance.standard_error)
            blocks.append(ModelRows(rows, label, float(chance.value), error, prior, chance.reliability))
    means = {f"mean:{row.name}" for block in blocks for row in block.rows} if choosing is None else set()
    chosen = set() if choosing is None else {choosing.probability(model).name for model in choosing.all}
    asked = [item for item in result.estimates if item.name not in means | chosen] if only is None else []
    return SummaryTable(
        tuple(blocks),
        level,
        kind,
        result.about,
        tuple(row for item in asked for row in _asked(item, _biased(result))),
        tuple(dict.fromkeys(left_out)),
        (*result.posterior.doubts, *_grouped(warnings, result.posterior.doubts)),
    )


def _grouped(warnings: Iterable[tuple[str, str]], known: Sequence[str]) -> list[str]:
    """Each text once, with the names of the quantities that it is about; without those that are about all."""
    names: dict[str, list[str]] = {}
    for name, text in warnings:
        if text not in known:
            names.setdefault(text, []).append(name)
    return [f"{', '.join(dict.fromkeys(about))}: {text}" for text, about in names.items()]


def _biased(result: Result) -> bool:
    """Whether answers are at a tolerance, and differ from the posterior for that."""
    return not result.is_at_data and bool(result.tolerance)


def _quantities(result: Result, model: OneModel | None, left_out: list[str]) -> list[str]:
    """The parameters and derived quantities that are finite numbers wherever they have to be."""
    points = result.posterior.points
    rows = np.arange(points.rows) if model is None else np.flatnonzero(model.mask(points))
    inside = points.take(rows)
    found = []
    for name in result.run.problem.names:
        if model is not None and (name == model.column or not inside.present(name).any()):
            continue
        column = np.asarray(inside[name])
        if column.dtype.kind in "biuf" and np.isfinite(column.astype(np.float64)).all():
            found.append(name)
        else:
            left_out.append(name)
    return found


def _rows(
    result: Result,
    names: Sequence[str],
    level: float,
    kind: str,
    model: OneModel | None,
    warnings: list[tuple[str, str]],
) -> tuple[Row, ...]:
    points = result.posterior.points
    many = max(1, MOST_NUMBERS // (EACH * points.rows * max(result.run.problem.prior.dimension, 1)))
    found: list[Row] = []
    for first in range(0, len(names), many):
        some = names[first : first + many]
        targets = [target for name in some for target in _targets(name, level, kind, points[name].dtype.kind)]
        estimates = result.expect(targets if model is None else [within(target, model) for target in targets])
        for place, name in enumerate(some):
            centre, spread, interval = estimates[3 * place : 3 * place + 3]
            found.append(row_of(name, centre, spread, interval, _biased(result)))
            where = name if model is None else model.named(name)
            warnings += [(where, text) for text in _texts((centre, spread, interval))]
    return tuple(found)


def _texts(estimates: Iterable[Estimate]) -> list[str]:
    return [text for estimate in estimates for text in estimate.warnings]


def _targets(name: str, level: float, kind: str, dtype: str) -> list[Target]:
    """The density of a whole number does not exist, so that its interval is equal-tailed."""
    of_kind = kind if dtype == "f" else KINDS_OF_INTERVAL[0]
    return [mean(name), sd(name), credible_interval(name, level, kind=of_kind)]


def _asked(estimate: Estimate, biased: bool) -> list[AskedRow]:
    if not np.ndim(estimate.value):
        return [AskedRow(estimate.name, float(estimate.value), *errors(estimate, biased), estimate.reliability)]
    labels = estimate.labels or tuple(map(str, range(np.size(estimate.value))))
    parts = [estimate.component(k) for k in range(np.size(estimate.value))]
    return [
        AskedRow(f"{estimate.name} [{label}]", float(part.value), *errors(part, biased), part.reliability)
        for label, part in zip(labels, parts, strict=True)
    ]


def _asked_cells(row: AskedRow) -> list[str]:
    worst = row.total_error if np.isfinite(row.total_error) else row.monte_carlo_error
    return [row.name, digits(row.value, worst), size(row.monte_carlo_error), size(row.total_error), row.reliability]


def _known(recorded: float | None) -> float:
    return math.nan if recorded is None else float(recorded)


def summary_or_none(result: Result) -> SummaryTable | None:
    """The summary where there is one: not for trials, nor where nothing can be estimated of a quantity."""
    if np.ndim(result.simulations):
        return None
    try:
        return summarised(result)
    except FbarError:
        return None


def _first(models: Sequence[ModelRows], most: int | None) -> tuple[list[ModelRows], int]:
    """The models with the first rows, and how many rows are left out."""
    if most is None or sum(len(model.rows) for model in models) <= most:
        return list(models), 0
    room, found = most, []
    for model in models:
        kept = model.rows[: max(room, 0)]
        room -= len(kept)
        found.append(ModelRows(kept, model.label, model.probability, model.probability_error, model.prior))
    return found, sum(len(model.rows) for model in models) - most
