"""Other processors round otherwise: what is the same on them, and that a recorded run can go on there."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.finite.cells import CellRun
from fbar.methods.smc import SMCRun
from fbar.methods.targeted import TargetedRun
from fbar.methods.targeted.at_data import TargetedAtDataRun
from other_processor import ASKED, OLD, environment

pytestmark = pytest.mark.arithmetic

FEW, WHOLE = 2500, 6000
METHODS = ("rejection", "targeted", "chosen", "at-data", "smc", "allocation", "summaries")


def test_the_other_processor_is_another_one() -> None:
    """In the run that `make test-arithmetic` makes: what was to be switched off is off."""
    if ASKED not in os.environ:
        pytest.skip("this is the processor as it is; `make test-arithmetic` runs as another one")
    from numpy._core import _multiarray_umath as numpys
    from threadpoolctl import threadpool_info

    assert os.environ[ASKED]
    assert not any(numpys.__cpu_features__[name] for name in os.environ[ASKED].split())
    blas = {info["architecture"] for info in threadpool_info() if info["internal_api"] == "openblas"}
    assert not OLD or blas <= {OLD}, blas


# ---------------------------------------------------------------- the runs


def asked(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts of a problem and the options of a run, for each kind of proposal that is fitted."""
    x = np.linspace(0.5, 1.5, 7)

    def simulate(theta: fbar.Points, rng: np.random.Generator) -> Any:
        return np.exp(theta["a"])[:, None] * x + theta["b"][:, None] * rng.standard_normal((theta.rows, x.size))

    parts = {"prior": fbar.Prior(a=stats.norm(0, 1), b=stats.lognorm(0.5)), "simulate": simulate, "observed": 1.5 * x}
    options: dict[str, Any] = {"budget": WHOLE}
    if name == "allocation":  # values that are alike by symmetry: rounding alone tells them apart
        parts["prior"] = fbar.Finite(a=np.linspace(-1, 1, 8))
        parts["simulate"] = lambda theta, rng: np.exp(theta["a"] ** 2) + rng.standard_normal(theta.rows)
        parts["observed"] = 1.2
    if name == "smc":
        options = {"method": fbar.SMC(fbar.QuantileSchedule(0.4, tolerance=2.5), accepted=900)}
    elif name == "summaries":
        options |= {"summaries": fbar.LearnedSummaries(simulations=2000), "tolerance": 0.5}
    elif name == "chosen":
        options["method"] = fbar.Targeted(tolerance="chosen")
    elif name != "at-data":
        options |= {"tolerance": 0.3 if name == "allocation" else 2.0}
    if name == "rejection":
        options["method"] = "rejection"
    return parts, options


def infer(name: str, directory: Path | None, most: float = math.inf) -> dict[str, Any]:
    """What a run gave, or would have given had it not been interrupted, and how many simulations it made."""
    parts, options = asked(name)
    count = 0

    def simulate(theta: fbar.Points, rng: np.random.Generator) -> Any:
        nonlocal count
        if count + theta.rows > most:
            raise KeyboardInterrupt
        count += theta.rows
        return parts["simulate"](theta, rng)

    problem = fbar.Problem(parts["prior"], simulate, parts["observed"])
    probed = count  # a problem tries its simulator when it is made
    options |= {"seed": 1, "block_size": 100, "run": None if directory is None else directory / name, "progress": False}
    try:
        result = fbar.infer(problem, fbar.mean("a"), **options)
    except KeyboardInterrupt:
        return {"count": count - probed}
    estimate = result["mean:a"]
    return {
        "count": count - probed,
        "value": float(estimate.value),
        "error": float(estimate.standard_error),
        "simulations": int(result.simulations),
        "accepted": int(result.accepted),
    }


# ---------------------------------------------------------------- by recorded proposals


def coarse(state: dict[str, Any], whole: bool) -> dict[str, Any]:
    """A round's state as bad arithmetic would have it: off by a ten-thousandth, or by one simulation."""
    found = {name: array * (1 - 1e-4) if array.dtype.kind == "f" else array for name, array in state.items()}
    if whole:
        found["plan"] = plan = state["plan"].copy()
        plan[plan.argmax()] -= 1
        plan[plan.argmin()] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["targeted", "chosen", "at-data", "smc", "allocation"])
def test_a_run_that_is_replayed_follows_the_proposals_that_are_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arithmetic far worse than any, which would make it another run."""
    whole = infer(name, tmp_path)
    for kind in (TargetedRun, TargetedAtDataRun, SMCRun, CellRun):

        def badly(self: Any, end: Any = kind._end_round) -> None:
            end(self)
            state = None if self.finished else self.round_state()
            if state is not None:
                self.restore_round(coarse(state, isinstance(self, CellRun)))

        monkeypatch.setattr(kind, "_end_round", badly)
    assert infer(name, None)["value"] != pytest.approx(whole["value"], rel=1e-9), "bad arithmetic changes nothing"
    assert infer(name, tmp_path) == {**whole, "count": 0}


# ---------------------------------------------------------------- in processes of their own


def elsewhere(task: str, directory: Path, other: bool) -> dict[str, dict[str, Any]]:
    here = {name: value for name, value in os.environ.items() if name not in environment()}
    told = {**here, **environment()} if other else here
    told["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, __file__, task, str(directory)]
    done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.processes
@pytest.mark.skipif(not environment(), reason="numpy has nothing to choose by processor here")
def test_a_recorded_run_goes_on_elsewhere_and_does_not_fork(tmp_path: Path) -> None:
    """Begun on one processor, ended on another: as a whole run on the first, up to rounding, and nothing twice."""
    whole, begun = elsewhere("alone", tmp_path, False), elsewhere("begin", tmp_path, False)
    ended, there = elsewhere("end", tmp_path, True), elsewhere("alone", tmp_path, True)
    assert list(whole) == list(METHODS)
    for name in METHODS:
        assert 0 < begun[name]["count"] <= FEW
        assert "value" not in begun[name]
        assert ended[name]["count"] == whole[name]["count"] - begun[name]["count"], name
        for key in ("simulations", "accepted"):
            assert ended[name][key] == whole[name][key], name
        for key in ("value", "error"):
            assert ended[name][key] == pytest.approx(whole[name][key], rel=1e-9), name
            assert there["rejection"][key] == pytest.approx(whole["rejection"][key], rel=1e-9)
        # A run of its own there may take another way where proposals are fitted; it is as good.
        errors = math.hypot(there[name]["error"], whole[name]["error"])
        assert abs(there[name]["value"] - whole[name]["value"]) < 5 * errors


if __name__ == "__main__":
    task, directory = sys.argv[1], Path(sys.argv[2])
    most = FEW if task == "begin" else math.inf
    print(json.dumps({name: infer(name, None if task == "alone" else directory, most) for name in METHODS}))
