"""How often error bars hold, cell by cell: over all runs, and over those that do not warn of their own error bars.

A cell is a problem, a method, a budget and a target. A run is *flagged* where its estimate is not trusted or has no
error bar, and where nothing was accepted (it then has no answer, and holds nothing). Failed ones are counted apart.

The truth of a cell may have an error of its own, t, shared by all of its runs, so that it does not average out. The
coverage that is told adds it to every run's interval, √(half² + (1.96 t)²): right on average over such truths, not for
the one at hand. So a cell is *judged* by the union of the Clopper–Pearson intervals of its coverage for every truth
within 3.3 t (99.9%) of the stored one, with the runs' intervals as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from fbar.arrays import FloatArray
from fbar.study.results import StudyResult

LEVEL = 0.95
SURE = 0.999
"""The level of the interval of a cell's coverage, so that of 200 good cells one in five studies calls one bad."""
SHIFTS = 15


@dataclass(frozen=True)
class Covered:
    """The coverage of one cell.

    ``held`` and ``runs`` count all runs, ``held_unflagged`` and ``unflagged`` those that do not warn. ``low`` and
    ``high`` bound the coverage over unflagged runs. ``truth_ratio`` is the truth's error over the runs' median error
    bar, ``error_ratio`` the root mean square of that error bar over that of the errors.
    """

    study: str
    problem: str
    method: str
    budget: int
    target: str
    runs: int
    failed: int
    held: int
    unflagged: int
    held_unflagged: int
    low: float
    high: float
    b2: float
    b2_error: float
    error_ratio: float
    truth_ratio: float
    simulations: float

    @property
    def coverage(self) -> float:
        return self.held / self.runs if self.runs else math.nan

    @property
    def coverage_unflagged(self) -> float:
        return self.held_unflagged / self.unflagged if self.unflagged else math.nan

    @property
    def flagged(self) -> float:
        """The share of runs that warn."""
        return (self.runs - self.unflagged) / self.runs if self.runs else math.nan

    def as_row(self) -> dict[str, Any]:
        shares = {
            "coverage": self.coverage,
            "coverage_unflagged": self.coverage_unflagged,
            "flagged": self.flagged,
        }
        return {key: _short(value) for key, value in {**asdict(self), **shares}.items()}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def clopper_pearson(held: int, runs: int, level: float = SURE) -> tuple[float, float]:
    """The exact interval of a binomial probability (Clopper & Pearson 1934).

    >>> [round(end, 4) for end in clopper_pearson(8, 10, 0.95)]
    [0.4439, 0.9748]
    """
    tail = (1 - level) / 2
    low = 0.0 if held == 0 else float(betaincinv(held, runs - held + 1, tail))
    high = 1.0 if held == runs else float(betaincinv(held + 1, runs - held, 1 - tail))
    return low, high


def coverage_cells(study: str, result: StudyResult, level: float = LEVEL) -> list[Covered]:
    """Every cell of a study's result."""
    found = []
    for cell in result.cells:
        arena = result.arenas[cell.problem]
        records = [record for _, record in result.records(*cell.key)]
        known = arena.scored.truth()
        for target in arena.targets:
            own = known.get(target.name)
            truth = float(arena.scored.truth(target)[0]) if own is None else own.value
            truth_error = float(arena.scored.truth_error(target)[0]) if own is None else own.standard_error
            kept = [r for r in records if r.status != "failed" and target.name in r.estimates]
            rows = np.array([r.estimates[target.name][:3] for r in kept], dtype=float).reshape(-1, 3)
            sure = np.array([r.status == "ok" and r.estimates[target.name][3] for r in kept], dtype=bool)
            counts = covered(rows[:, 0] - truth, rows[:, 1], rows[:, 2], sure, truth_error, level)
            square = rows[:, 0] - truth
            square = square**2 - truth_error**2
            deviation = result.deviation(cell.problem, target.name)
            claimed = rows[np.isfinite(rows[:, 1]), 1]
            mse = float(square.mean()) if square.size else math.nan
            found.append(
                Covered(
                    study,
                    cell.problem,
                    cell.method,
                    cell.budget,
                    target.name,
                    len(kept),
                    sum(record.status == "failed" for record in records),
                    *counts,
                    mse / deviation**2,
                    _error(square) / deviation**2,
                    math.sqrt(float((claimed**2).mean()) / mse) if claimed.size and mse > 0 else math.nan,
                    truth_error / float(np.median(claimed)) if claimed.size else math.nan,
                    float(np.mean([record.simulations for record in kept])) if kept else math.nan,
                )
            )
    return found


def covered(
    errors: FloatArray,
    claimed: FloatArray,
    df: FloatArray,
    trusted: Sequence[bool] | np.ndarray[Any, Any],
    truth_error: float = 0.0,
    level: float = LEVEL,
) -> tuple[int, int, int, float, float]:
    """Of a cell's runs: how many hold, are unflagged, hold and are unflagged, and the interval of the latter's share.

    ``errors`` are estimates less the truth, ``claimed`` their standard errors, NaN where there is none.
    """
    sure = np.asarray(trusted, dtype=bool) & np.isfinite(claimed) & ~np.isnan(df)
    with np.errstate(invalid="ignore"):
        half = stdtrit(df, 0.5 + level / 2) * claimed
        holds = np.abs(errors) <= np.hypot(half, float(ndtri(0.5 + level / 2)) * truth_error)
    count = int(sure.sum())
    if count == 0:
        return int(holds.sum()), 0, 0, 0.0, 1.0
    reach = float(ndtri(0.5 + SURE / 2)) * truth_error
    shifts = np.linspace(-reach, reach, SHIFTS) if truth_error > 0 else np.zeros(1)
    held = [int((np.abs(errors[sure] - shift) <= half[sure]).sum()) for shift in shifts]
    low, high = clopper_pearson(min(held), count)[0], clopper_pearson(max(held), count)[1]
    return int(holds.sum()), count, int(holds[sure].sum()), low, high


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
