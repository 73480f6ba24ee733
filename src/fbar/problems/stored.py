"""Observations and truths that were computed once, as small text files in ``data/``.

``make truths`` (``python -m fbar.problems.store``) computes them again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fbar.question.truth import Known, Truth


@dataclass(frozen=True)
class Stored:
    """One observation. ``tolerances`` by the share accepted from the prior, ``truths_at`` by tolerance."""

    parameters: Mapping[str, Any]
    observed: Any
    truth: Truth | None = None
    tolerances: Mapping[float, float] = field(default_factory=dict)
    truths_at: Mapping[float, Truth] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "parameters": dict(self.parameters),
            "observed": self.observed,
            "truth": None if self.truth is None else _written(self.truth),
            "tolerances": {str(level): tolerance for level, tolerance in self.tolerances.items()},
            "truths_at": {str(tolerance): _written(truth) for tolerance, truth in self.truths_at.items()},
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Stored:
        return cls(
            given["parameters"],
            given["observed"],
            None if given["truth"] is None else _read(given["truth"]),
            {float(level): tolerance for level, tolerance in given["tolerances"].items()},
            {float(tolerance): _read(truth) for tolerance, truth in given["truths_at"].items()},
        )


def _written(truth: Truth) -> dict[str, Any]:
    rows = {
        item.name: [item.value, item.standard_error, None if math.isnan(item.deviation) else item.deviation]
        for item in truth.values()
    }
    return {"how": truth.how, "targets": rows}


def _read(given: Mapping[str, Any]) -> Truth:
    known = [
        Known(name, float(value), float(error), math.nan if deviation is None else float(deviation))
        for name, (value, error, deviation) in given["targets"].items()
    ]
    return Truth(known, given["how"])


@lru_cache(maxsize=64)
def read(name: str) -> Mapping[int, Stored]:
    """What is stored of a problem's observations, by their number; empty where nothing is."""
    file = files("fbar.problems").joinpath("data", f"{name}.json")
    if not file.is_file():
        return {}
    return {int(i): Stored.from_dict(given) for i, given in json.loads(file.read_text())["observations"].items()}
