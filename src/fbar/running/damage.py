"""Warnings about a run whose record is damaged, and about one that was repaired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fbar.ledger import LedgerReader
from fbar.methods import Run
from fbar.results.result import Result


def how_to_repair(ledger: LedgerReader) -> str:
    return (
        f"rerun the original command or fbar resume {ledger.directory}, which simulates the damaged blocks again from "
        "their seeds and restores the run's result"
    )


def damage_of(ledger: LedgerReader, run: Run, *, finished: bool) -> str:
    """A warning about a run that was read only as far as its record is sound; nothing if all of it is."""
    before = ledger.legs[-1].result
    if finished or (before is None and not ledger.damaged_blocks and not ledger.end_is_lost):
        return ""
    what = ledger.damage() or "some recorded blocks are missing"
    of = f" of its {before['simulations']:,}" if before is not None else ""
    return (
        f"{ledger.directory} is damaged: {what}. What follows is not the run's result: it uses only the "
        f"{run.simulations:,}{of} simulations before the damage; {how_to_repair(ledger)}"
    )


def other_estimates(result: Result, before: Mapping[str, Any]) -> str:
    """A warning if a run that was repaired gives other estimates than it had, beyond rounding."""
    now = result.as_dict()["estimates"]
    other = [
        name
        for name, recorded in before["estimates"].items()
        if name in now and not _alike(_numbers(now[name]), _numbers(recorded))
    ]
    if not other:
        return ""
    return (
        f"the damaged blocks were simulated again, and {', '.join(other)} differs from what was recorded: the "
        "simulator has changed, or does not take its random numbers from rng"
    )


def _alike(first: Any, second: Any) -> bool:
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-6, atol=0, equal_nan=True)


def _numbers(estimate: Mapping[str, Any]) -> Any:
    return np.array([estimate["value"], estimate["standard_error"]], dtype=np.float64)
