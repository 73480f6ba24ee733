"""What is recorded of a targeted run's rounds, by this version and by those before its numbers had names."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.ledger.codec import checksum, pack, unpack
from fbar.methods.aiming.plan import RoundPlan
from fbar.methods.targeted.phases import Descent, Learning, RecordedRound, Sampling, name_of, state_as_now

PROBLEM = fbar.Problem(
    fbar.Prior(a=stats.uniform(-5, 10)),
    lambda theta, rng: theta["a"] + rng.standard_normal(theta.rows),
    observed=1.0,
)
ASKED = {"method": fbar.Targeted(tolerance=0.3), "seed": 1, "progress": False}


def as_once(state):
    """A state as it was recorded when flags and counts were positions of one array."""
    now = RecordedRound.of(state)
    plan = [
        len(RoundPlan.of(now.simulations, 4, 4096, now.evenly).sizes),
        now.simulations,
        now.evenly,
        now.sampling_evenly,
        now.phase == "sampling",
        now.phase != "descent",
    ]
    proposals = {name: array for name, array in state.items() if "/" in name}
    return {"plan": np.array(plan, dtype=np.float64), "tolerances": np.array([now.wanted, now.reached]), **proposals}


@pytest.mark.parametrize("phase", [Descent(1), Learning(), Sampling((), True)])
def test_a_state_of_before_is_read_as_now(phase):
    evenly = isinstance(phase, Sampling)
    recorded = RecordedRound(1024, evenly, name_of(phase), evenly, 0.5, 0.75)
    now = {**recorded.arrays(), "0/shares": np.ones(1)}
    found = state_as_now(as_once(now))
    assert set(found) == set(now)
    assert RecordedRound.of(found) == recorded
    assert state_as_now(now) is now


def test_phases_are_recorded_by_name(tmp_path):
    fbar.infer(PROBLEM, fbar.mean("a"), budget=20_000, run=tmp_path / "run", **ASKED)
    phases = [str(state["phase"]) for state in states(tmp_path / "run").values()]
    assert phases == sorted(phases, key=["descent", "learning", "sampling"].index)
    assert set(phases) == {"descent", "learning", "sampling"}


def states(run: Path):
    with sqlite3.connect(ledger_of(run)) as connection:
        return {round: unpack(payload)[0] for round, payload in connection.execute("SELECT round, payload FROM rounds")}


def ledger_of(run: Path) -> Path:
    [found] = [path for path in run.iterdir() if path.suffix in (".sqlite", ".db")]
    return found


def test_a_run_recorded_before_is_replayed_and_extended(tmp_path, capsys):
    whole = fbar.infer(PROBLEM, fbar.mean("a"), budget=20_000, run=tmp_path / "run", **ASKED)
    again = fbar.infer(PROBLEM, fbar.mean("a"), budget=20_000, run=tmp_path / "other", **ASKED)
    with sqlite3.connect(ledger_of(tmp_path / "other")) as connection:
        for round, state in states(tmp_path / "other").items():
            payload = pack(as_once(state))
            connection.execute(
                "UPDATE rounds SET payload = ?, crc = ? WHERE round = ?", (payload, checksum(round, payload), round)
            )
    again = fbar.load(tmp_path / "other", PROBLEM)
    assert again.warnings == whole.warnings
    assert again["mean:a"].value == whole["mean:a"].value
    more = [fbar.extend(tmp_path / name, PROBLEM, budget=24_000, progress=False) for name in ("run", "other")]
    assert more[0]["mean:a"].value == more[1]["mean:a"].value
    assert "damaged" not in capsys.readouterr().err
    assert not any("damaged" in warning for warning in more[1].warnings)
