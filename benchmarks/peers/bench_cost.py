"""What a simulation costs beside the simulator: fbar with its ledger on, and pyABC, on the same problem.

Five parameters, five summaries, a vectorised simulator that costs next to nothing, a million simulations; then a
simulator that takes a millisecond, with one worker and with two. In one run, on one machine:

    python benchmarks/peers/bench_cost.py           # about two minutes
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import logging
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

import fbar

NAMES = [f"t{i}" for i in range(5)]
TOLERANCE = 0.8
SIMULATIONS = 1_000_000


def simulate(theta, rng):
    return np.stack([theta[name] for name in NAMES], axis=1) + 0.5 * rng.standard_normal((theta.rows, 5))


@fbar.each
def slow(theta, rng):
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass
    return np.array([theta[name] for name in NAMES]) + 0.5 * rng.standard_normal(5)


def problem(simulator) -> fbar.Problem:
    return fbar.Problem(fbar.Prior({name: stats.norm() for name in NAMES}), simulator, observed=np.zeros(5))


def cost_of_fbar() -> None:
    wide = fbar.Prior({name: stats.norm(0, 1.2) for name in NAMES})
    for method in (fbar.Rejection(tolerance=TOLERANCE), fbar.Importance(wide, tolerance=TOLERANCE)):
        for recorded in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                run = Path(directory) / "run" if recorded else None
                start = time.perf_counter()
                fbar.infer(
                    problem(simulate),
                    fbar.mean("t0"),
                    method=method,
                    budget=SIMULATIONS,
                    seed=1,
                    run=run,
                    progress=False,
                )
                seconds = time.perf_counter() - start
            name = f"fbar {type(method).__name__.lower()}, ledger {'on' if recorded else 'off'}"
            print(f"{name:<44} {1e6 * seconds / SIMULATIONS:>10.2f} µs a simulation", flush=True)


def cost_of_pyabc(simulations: int = 4000) -> None:
    import pyabc

    logging.getLogger("ABC").setLevel(logging.ERROR)
    noise = np.random.default_rng(1)

    def one(theta):
        return {"y": np.array([theta[name] for name in NAMES]) + 0.5 * noise.standard_normal(5)}

    abc = pyabc.ABCSMC(
        one,
        pyabc.Distribution(**{name: pyabc.RV("norm", 0, 1) for name in NAMES}),
        lambda x, y: float(np.sqrt(((x["y"] - y["y"]) ** 2).sum())),
        population_size=max(10, int(simulations * 0.0082)),
        eps=pyabc.ListEpsilon([TOLERANCE]),
        sampler=pyabc.sampler.SingleCoreSampler(),
    )
    abc.new("sqlite://", {"y": np.zeros(5)})
    start = time.perf_counter()
    history = abc.run(max_nr_populations=1)
    seconds = time.perf_counter() - start
    used = int(history.total_nr_simulations)
    print(f"{'pyABC rejection, single core':<44} {1e6 * seconds / used:>10.2f} µs a simulation ({used} of them)")


def speed_of_workers(simulations: int = 8000) -> None:
    times = {}
    for workers in (1, 2):
        start = time.perf_counter()
        fbar.infer(
            problem(slow), fbar.mean("t0"), method=fbar.Rejection(tolerance=2.0), budget=simulations, seed=1,
            workers=workers, block_size=50, progress=False,
        )  # fmt: skip
        times[workers] = time.perf_counter() - start
        print(f"{f'fbar, 1 ms a simulation, {workers} worker(s)':<44} {times[workers]:>10.2f} s", flush=True)
    print(f"{'speed of two workers over one':<44} {times[1] / times[2]:>10.2f}")


def main() -> None:
    cost_of_fbar()
    try:
        cost_of_pyabc()
    except ImportError:
        print("pyABC is not installed here; make bench-peers runs it")
    speed_of_workers()


if __name__ == "__main__":
    main()
