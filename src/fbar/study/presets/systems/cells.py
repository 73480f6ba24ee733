"""A row for each cell of the preset "systems": b², how often intervals held, ESS, acceptance rate and seconds.

Seconds are the median over runs, which other programs on the machine disturb less than the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fbar.errors import InputError
from fbar.study.contenders import COST
from fbar.study.paired import mean_and_error
from fbar.study.ranking import ERROR
from fbar.study.results import StudyResult
from fbar.study.tables import Row
from fbar.study.trials import TrialRecord

COVERAGE, ESS, RATE = "coverage", "ess", "acceptance-rate"


def table(results: Mapping[str, StudyResult]) -> list[Row]:
    """From the results of some studies or of all."""
    return [row for name, result in results.items() for row in _rows(name, result)]


def _rows(study: str, result: StudyResult) -> list[Row]:
    found: list[Row] = []
    for cell in result.cells:
        records = [record for _, record in result.records(*cell.key)]
        answered = [record for record in records if record.status != "failed"]
        squares = result.values(ERROR, *cell.key)
        capped = np.minimum(squares[np.isfinite(squares)], 1.0)
        mean, error = mean_and_error(capped)
        found.append(
            {
                "study": study,
                "problem": cell.problem,
                "method": cell.method,
                "budget": cell.budget,
                "trials": len(records),
                "failed": len(records) - len(answered),
                "b2": _short(mean),
                "b2_error": _short(error),
                **{name: _short(_mean(result, name, cell.key)) for name in (COVERAGE, ESS, RATE)},
                "seconds": _short(float(np.median([record.seconds for record in answered])) if answered else math.nan),
                "cost": _short(_cost(answered)),
            }
        )
    return found


def _cost(records: Sequence[TrialRecord]) -> float:
    """What a trial's simulations cost on average, in real ones, where costs were given with the problem."""
    costs = [record.told[COST] for record in records if COST in record.told]
    return float(np.mean(costs)) if costs else math.nan


def _mean(result: StudyResult, score: str, key: tuple[str, str, int]) -> float:
    if score not in result.scores:
        return math.nan
    try:
        values = result.values(score, *key)
    except InputError:
        return math.nan
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _short(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else ""
