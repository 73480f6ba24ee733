"""What it costs to keep every simulation: the same run recorded and not recorded, in turn.

The simulator is as cheap as they come: vectorised, 3 parameters, 4 summaries. Prints microseconds a simulation with and
without the ledger, their difference (at most 3 is promised), and their ratio; the median of several pairs.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

import fbar

PAIRS = 7
CASES = {
    "rejection, blocks by default": {"method": fbar.Rejection(tolerance=1.0), "budget": 500_000},
    "rejection, blocks of 100": {"method": fbar.Rejection(tolerance=1.0), "budget": 100_000, "block_size": 100},
    "targeted, blocks by default": {"method": fbar.Targeted(tolerance=1.0), "budget": 200_000},
    "smc, blocks by default": {"method": fbar.SMC([4.0, 2.0, 1.0], accepted=10_000)},
}


def simulate(theta, rng):
    means = np.stack([theta["a"], theta["b"], theta["c"], theta["a"] + theta["b"]], axis=1)
    return means + rng.standard_normal(means.shape)


PROBLEM = fbar.Problem(
    fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1), c=stats.norm(0, 1)), simulate, observed=np.zeros(4)
)


def microseconds(case: dict, run: Path | None) -> float:
    begun = time.perf_counter()
    result = fbar.infer(PROBLEM, fbar.mean("a"), **case, seed=1, run=run, progress=False)
    return 1e6 * (time.perf_counter() - begun) / result.simulations


def main() -> None:
    print(f"{'case':<32} {'without':>9} {'with':>9} {'cost':>9}  µs a simulation; {'ratio':>6}")
    for name, case in CASES.items():
        pairs = []
        for _ in range(PAIRS):
            directory = Path(tempfile.mkdtemp())
            pairs.append((microseconds(case, None), microseconds(case, directory / "run")))
            shutil.rmtree(directory)
        without, kept = (statistics.median(column) for column in zip(*pairs, strict=True))
        cost = statistics.median(kept - without for without, kept in pairs)
        print(f"{name:<32} {without:9.2f} {kept:9.2f} {cost:9.2f}  {'':<18} {kept / without:6.2f}")


if __name__ == "__main__":
    main()
