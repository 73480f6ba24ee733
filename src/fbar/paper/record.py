"""The data behind a figure: tidy rows, and the paper's claims and our values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import positive_integer
from fbar.errors import InputError
from fbar.estimation.estimate import shorthand
from fbar.system.csv_cells import write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """One number of a figure.

    ``n`` counts simulations; ``x`` is the horizontal axis where that is something else; ``epsilon`` the tolerance
    that the number belongs to.
    """

    experiment: str
    setting: str
    target: str
    n: int | None
    x_name: str
    x: float | None
    quantity: str
    value: float
    standard_error: float | None
    trials: int | None
    epsilon: float | None = None


@dataclass(frozen=True)
class PaperClaim:
    """What the paper claims, what we find, and whether the two agree by the stated rule."""

    experiment: str
    text: str
    paper: str
    value: float
    standard_error: float | None
    rule: str
    agrees: bool

    @property
    def ours(self) -> str:
        if self.standard_error is None:
            return f"{self.value:.4g}"
        return shorthand(self.value, self.standard_error)


@dataclass(frozen=True)
class Options:
    """How an experiment is run.

    ``trials`` replaces the paper's own number, ``quick`` takes a twentieth of it (at least 100). ``workers`` is the
    number of processes, by default one for each processor; it changes no result.
    """

    trials: int | None = None
    quick: bool = False
    seed: int = 1
    text_likelihood: bool = False
    as_published: bool = False
    workers: int | None = None
    progress: Callable[[float], None] = field(default=lambda _: None, compare=False)

    def number_of_trials(self, papers: int) -> int:
        if self.trials is not None:
            if positive_integer(self.trials, "trials") < 2:
                raise InputError("trials must be at least 2 to have a standard error; got 1")
            return self.trials
        return max(100, papers // 20) if self.quick else papers


class FigureRecord:
    """The rows and claims of one experiment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []
        self.claims: list[PaperClaim] = []
        self.notes: list[str] = []

    def add(
        self,
        quantity: str,
        value: float,
        *,
        setting: str = "",
        target: str = "",
        n: int | None = None,
        x_name: str = "",
        x: float | None = None,
        standard_error: float | None = None,
        trials: int | None = None,
        epsilon: float | None = None,
    ) -> None:
        self.rows.append(
            Row(
                self.name,
                setting,
                target,
                n,
                x_name,
                None if x is None else float(x),
                quantity,
                float(value),
                None if standard_error is None else float(standard_error),
                trials,
                None if epsilon is None else float(epsilon),
            )
        )

    def add_mean(self, quantity: str, values: FloatArray, **where: Any) -> None:
        """The mean of a number over trials, with its standard error."""
        error = values.std(ddof=1) / math.sqrt(len(values))
        self.add(quantity, values.mean(), standard_error=error, trials=len(values), **where)

    def add_errors(self, squared_errors: FloatArray, *, quantity: str = "mse", **where: Any) -> None:
        """The mean of squared errors over trials with its standard error, and the quartiles.

        Trials without any acceptance have no estimate (NaN); they are left out, and their share is a row
        of its own.
        """
        defined = squared_errors[~np.isnan(squared_errors)]
        trials = len(defined)
        error = defined.std(ddof=1) / math.sqrt(trials) if trials > 1 else math.nan
        self.add(quantity, defined.mean(), standard_error=error, trials=trials, **where)
        for percentile in (25, 75):
            self.add(f"{quantity}_p{percentile}", np.percentile(defined, percentile), trials=trials, **where)
        if quantity == "mse":
            self.add("undefined_share", 1 - trials / len(squared_errors), trials=len(squared_errors), **where)

    def claim(
        self,
        text: str,
        paper: str,
        value: float,
        standard_error: float | None = None,
        *,
        rule: str,
        agrees: bool,
    ) -> None:
        self.claims.append(PaperClaim(self.name, text, paper, float(value), standard_error, rule, bool(agrees)))

    def select(self, **wanted: Any) -> list[Row]:
        """The rows whose columns have the wanted values."""
        return [row for row in self.rows if all(getattr(row, name) == value for name, value in wanted.items())]

    def curve(self, axis: str, **wanted: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The selected rows as arrays: the axis (``"x"``, ``"n"``, ``"epsilon"``), values and standard errors."""
        rows = self.select(**wanted)
        where = np.array([getattr(row, axis) for row in rows], dtype=np.float64)
        value = np.array([row.value for row in rows])
        error = np.array([np.nan if row.standard_error is None else row.standard_error for row in rows])
        return where, value, error

    def one(self, **wanted: Any) -> Row:
        """The only row with the wanted values."""
        (row,) = self.select(**wanted)
        return row

    def as_dict(self) -> dict[str, Any]:
        """Rows and claims as JSON values; what is not a finite number is null."""

        def plain(item: Row | PaperClaim) -> dict[str, Any]:
            values = asdict(item)
            return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}

        rows, claims = [plain(row) for row in self.rows], [plain(claim) for claim in self.claims]
        return {"rows": rows, "claims": claims, "notes": self.notes}

    def write_csv(self, path: Path) -> None:
        write_rows(path, [f.name for f in fields(Row)], map(_csv_cells, self.rows))


def _csv_cells(row: Row) -> Iterable[Any]:
    for f in fields(Row):
        value = getattr(row, f.name)
        yield "" if value is None else value


@dataclass(frozen=True)
class Experiment:
    """One figure or table: how to compute its data, and how to draw them."""

    name: str
    title: str
    compute: Callable[[Options], FigureRecord]
    draw: Callable[[FigureRecord], Figure] | None
