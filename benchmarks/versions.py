"""This version beside an earlier one: are the results the same to the last bit, and is it as fast?

``python benchmarks/versions.py REVISION`` checks the earlier version out into a temporary directory and does the same
runs and studies with both, one after the other and in turns. It prints for each whether the digests of the results are
equal, and the ratio of times (this version over the earlier one, the median of the turns), and ends with 1 if any
result differs. What is digested: values, standard errors, intervals, whether they are trusted, points and weights.

Only names that both versions have may be used here.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TURNS = 5
LEAST_SECONDS = 0.3
"""A shorter run is repeated until it has taken so long."""

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"


# ---------------------------------------------------------------- what is run


def runs() -> dict[str, Callable[[], Any]]:
    """Every run and study by name; each gives what is to be digested."""
    import numpy as np
    from scipy import stats

    import fbar

    def simulate(theta: Any, rng: Any) -> Any:
        noise = rng.normal(size=(theta["a"].size, 2))
        return np.column_stack([theta["a"], theta["a"] * theta["b"]]) + noise

    def failing(theta: Any, rng: Any) -> Any:
        x = simulate(theta, rng)
        x[rng.random(len(x)) < 0.05] = np.nan
        return x

    def epidemic(theta: Any, rng: Any) -> Any:
        extra = np.where(np.asarray(theta["model"]) == "two", np.nan_to_num(np.asarray(theta["c"], float)), 0.0)
        return np.column_stack([theta["a"] + extra, extra]) + rng.normal(size=(theta["a"].size, 2))

    prior = fbar.Prior(a=stats.norm(0, 2), b=stats.uniform(-3, 6))
    two = fbar.Prior(a=stats.norm(0, 1), c=stats.gamma(2))
    choice = fbar.ModelChoice({"one": fbar.Prior(a=stats.norm(0, 1)), "two": two})
    plain = fbar.Problem(prior, simulate, [0.7, -0.4])
    holes = fbar.Problem(prior, failing, [0.7, -0.4])
    models = fbar.Problem(choice, epidemic, [0.9, 0.3])
    counts = fbar.Problem(
        fbar.Finite(theta=np.arange(12)), lambda t, rng: rng.binomial(11, (t["theta"] + 0.5) / 12.0), 4
    )
    several = [
        *(fbar.mean("a"), fbar.second_moment("b"), fbar.variance("a"), fbar.covariance("a", "b")),
        *(fbar.probability("a > 0.5"), fbar.quantile("b", 0.25), fbar.density_at("b", 0.3)),
    ]
    of_cells = [fbar.mean("theta"), fbar.variance("theta"), fbar.probability("theta > 5")]
    elsewhere = fbar.Prior(a=stats.norm(0.5, 1.5), b=stats.uniform(-3, 6))

    def infer(problem: Any, targets: Any, **how: Any) -> Callable[[], Any]:
        return lambda: contents(fbar.infer(problem, targets, seed=7, progress=False, **how))

    drawn = {
        "rejection": {"method": fbar.Rejection(tolerance=0.8)},
        "rejection, Sobol": {"method": fbar.Rejection(scheme="sobol", tolerance=0.8, rounds=4), "budget": 2**17},
        "rejection, strata": {"method": fbar.Rejection(scheme="stratified", tolerance=0.8, kernel="epanechnikov")},
        "importance": {"method": fbar.Importance(q=elsewhere, tolerance=0.8)},
        "smc": {"method": fbar.SMC(accepted=2000)},
        "smc, last round": {"method": fbar.SMC(accepted=2000, weights="last")},
        "smc, scaled": {"method": fbar.SMC(accepted=2000, distance=fbar.Scaled())},
        "smc, given tolerances": {"method": fbar.SMC(schedule=(3.0, 1.5, 0.8), accepted=2000, kernel="epanechnikov")},
        "targeted": {"method": fbar.Targeted(tolerance=0.8)},
        "targeted, tolerance chosen": {"method": fbar.Targeted()},
        "learned summaries": {"summaries": "linear"},
    }
    found = {name: infer(plain, several, **{"budget": 100_000, **how}) for name, how in drawn.items()}
    found |= {
        f"failures, {name}": infer(holes, several, **{"budget": 50_000, **drawn[name]})
        for name in ("rejection", "smc", "targeted", "targeted, tolerance chosen")
    }
    found |= {
        f"model choice, {name}": infer(models, [fbar.model_probability("two"), fbar.mean("a")], budget=50_000, **how)
        for name, how in {
            "rejection": {"method": "rejection", "tolerance": 0.7},
            "smc": {"method": "smc"},
            "targeted": {"method": "targeted", "tolerance": 0.7},
        }.items()
    }
    found |= {
        f"finite, {type(method).__name__}": infer(counts, of_cells, method=method, budget=200_000)
        for method in (
            *(fbar.Rejection(), fbar.Importance(), fbar.Allocation(), fbar.AdaptiveAllocation()),
            *(fbar.AdaptivePosterior(), fbar.InverseBinomial(hits=2)),
        )
    }
    found["doubly robust"] = infer(
        plain, several, method=fbar.Importance(estimator=fbar.DoublyRobust(), tolerance=0.8), budget=3000
    )
    found["two workers"] = infer(plain, several, method=fbar.Targeted(tolerance=0.8), budget=20_000, workers=2)
    found["recorded"] = lambda: recorded(plain, several)
    found["a study"] = lambda: study(
        fbar.Study(["two-hypotheses", "filippi", "two-moons"], ["targeted", "rejection", "smc"], 1000, 5, seed=3)
    )
    found["import fbar"] = lambda: subprocess.run([sys.executable, "-c", "import fbar"], check=True).returncode
    return found


def recorded(problem: Any, targets: Any) -> Any:
    """Recorded, loaded and extended."""
    import fbar

    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        method = fbar.Targeted(tolerance=0.8)
        first = fbar.infer(problem, targets, method=method, budget=50_000, seed=7, progress=False, run=run)
        again = fbar.load(run, problem)
        longer = fbar.extend(run, problem, budget=60_000, progress=False)
        return [contents(result) for result in (first, again, longer)]


def study(made: Any) -> Any:
    rows = made.run(workers=1, progress=False).rows()
    return [sorted((key, repr(value)) for key, value in row.items() if "second" not in key) for row in rows]


def contents(result: Any) -> list[Any]:
    """What a result says."""
    estimates = [
        [float(one.value), float(one.standard_error), bool(one.trusted), *map(float, one.interval())]
        for one in result.estimates
    ]
    points, weights = result.posterior.points, result.posterior.weights
    return [result.simulations, estimates, [[name, points[name].tolist()] for name in points], weights.tolist()]


# ---------------------------------------------------------------- both versions, in turns


def measured(name: str) -> dict[str, Any]:
    """The digest of a run and its seconds, in this process."""
    warnings.simplefilter("ignore")
    work = runs()[name]
    digest = hashlib.sha256(json.dumps(work(), default=str).encode()).hexdigest()
    times = []
    while sum(times) < LEAST_SECONDS:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return {"digest": digest, "seconds": min(times)}


def child(name: str, tree: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "FBAR_STATE_DIR": state}
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed in {tree}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("revision", nargs="?", help="the earlier version, as git names it")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--only", nargs="*", help="some of the runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one)))
        return 0
    if not asked.revision:
        parser.error("which version to compare with? Give a revision, such as a commit")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        before = Path(place) / "before"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", before, asked.revision], cwd=ROOT, check=True)
        try:
            for name in asked.only or runs():
                turns = [(child(name, before), child(name, ROOT)) for _ in range(asked.turns)]
                same = len({one["digest"] for turn in turns for one in turn}) == 1
                ratio = statistics.median(now["seconds"] / then["seconds"] for then, now in turns)
                rows.append([name, "same" if same else "DIFFERENT", f"{ratio:.2f}", f"{turns[-1][1]['seconds']:.3g}"])
                print(f"{name:30} {rows[-1][1]:10} {ratio:5.2f} times the time", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    with asked.out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["run", "results", "ratio of times", "seconds"], *rows])
    return int(any(row[1] != "same" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
