"""The claims on stopping: runs towards a precision end before their limit, near what was forecast."""

from __future__ import annotations

import math

import numpy as np

from fbar.study.presets.base import Claim
from fbar.study.presets.infer.studies import FORECAST_AT
from fbar.study.results import StudyResult


def stopping_claims(result: StudyResult) -> list[Claim]:
    claims = []
    for cell in result.cells:
        records = [r for _, r in result.records(*cell.key) if r.status == "ok"]
        stopped = [r for r in records if r.told.get("stopped") == 1.0]
        spent = np.array([r.simulations for r in stopped]) if stopped else np.array([math.nan])
        low, middle, high = np.quantile(spent, [0.05, 0.5, 0.95])
        found = f"{len(stopped)} of {len(records)} after {middle:,.0f} simulations (mostly {low:,.0f} to {high:,.0f})"
        forecast = [r for r in stopped if "forecast" in r.told]
        if forecast:
            ends = np.quantile([r.simulations / r.told["forecast"] for r in forecast], [0.05, 0.5, 0.95])
            inside = sum(r.told["forecast_low"] <= r.simulations <= r.told["forecast_high"] for r in forecast)
            found += (
                f"; {ends[1]:.2f} ({ends[0]:.2f} to {ends[2]:.2f}) times the forecast after {FORECAST_AT:,}, inside "
                f"its 80% interval in {inside} of {len(forecast)}"
            )
        text = "stopping: a run towards a precision ends before its limit, nearly always"
        claims.append(Claim(text, cell.problem, found, bool(records) and len(stopped) >= 0.95 * len(records)))
    return claims
