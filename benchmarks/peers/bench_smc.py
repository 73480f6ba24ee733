"""ABC-SMC beside pyABC: simulations, squared error, CPU seconds and memory on the problem of figure S5.

The same schedule (15 tolerances from 160 to 1), 800 accepted a round, one core. Every repeat runs in a process of its
own and becomes one row of a CSV; rows that are there are not run again, so that an interrupted run goes on:

    make bench-peers                                      # everything, for about two hours
    python benchmarks/peers/bench_smc.py --report         # the table of what there is

CPU seconds are those of the run alone (imports, compilation and the start of the process are left out).
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import importlib
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np

TOLERANCES = (160, 120, 80, 60, 40, 30, 20, 15, 10, 8, 6, 4, 3, 2, 1)
ACCEPTED = 800
COLUMNS = ("method", "repeat", "simulations", "cpu_seconds", "peak_mib", "m1", "m2", "v11", "v12", "v22")
RESULTS = Path(__file__).with_name("smc.csv")


def _weighted(theta: np.ndarray, weights: np.ndarray) -> list[float]:
    """Mean and covariance of weighted particles (n, 2)."""
    w = weights / weights.sum()
    mean = w @ theta
    centred = theta - mean
    covariance = (w[:, None] * centred).T @ centred
    return [*mean, covariance[0, 0], covariance[0, 1], covariance[1, 1]]


def run_pyabc(kind: str, repeat: int) -> tuple[int, list[float]]:
    import logging

    import pyabc
    from pyabc.transition import LocalTransition, MultivariateNormalTransition

    logging.getLogger("ABC").setLevel(logging.ERROR)
    np.random.seed(repeat)  # noqa: NPY002 - pyABC draws from it
    noise = np.random.default_rng(repeat)

    def simulate(theta):
        t1, t2 = theta["t1"], theta["t2"]
        return {"y": (t1 - 2 * t2) ** 2 + (t2 - 4) ** 2 + noise.standard_normal()}

    abc = pyabc.ABCSMC(
        simulate,
        pyabc.Distribution(t1=pyabc.RV("uniform", -50, 100), t2=pyabc.RV("uniform", -50, 100)),
        lambda x, x0: abs(x["y"] - x0["y"]),
        population_size=ACCEPTED,
        transitions=LocalTransition(k=50) if kind == "local" else MultivariateNormalTransition(),
        eps=pyabc.ListEpsilon(list(TOLERANCES)),
        sampler=pyabc.sampler.SingleCoreSampler(),
    )
    abc.new("sqlite://", {"y": 0.0})
    history = abc.run(max_nr_populations=len(TOLERANCES))
    frame, weights = history.get_distribution(m=0)
    return int(history.total_nr_simulations), _weighted(frame[["t1", "t2"]].to_numpy(), np.asarray(weights))


METHODS = {
    "pyabc-mvn": lambda repeat: run_pyabc("mvn", repeat),
    "pyabc-local": lambda repeat: run_pyabc("local", repeat),
}


def measure(method: str, repeat: int) -> list[float]:
    """One repeat, in this process: simulations, CPU seconds, peak memory and the estimates."""
    before = time.process_time()
    simulations, estimates = METHODS[method](repeat)
    cpu = time.process_time() - before
    return [simulations, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, *estimates]


def _child(pipe, method: str, repeat: int) -> None:
    pipe.send(measure(method, repeat))


def in_own_process(method: str, repeat: int) -> list[float]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(there, method, repeat))
    process.start()
    there.close()
    row = here.recv()
    process.join()
    return row


def stored(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def collect(path: Path, methods: list[str], repeats: int) -> None:
    done = {(row["method"], int(row["repeat"])) for row in stored(path)}
    new = not path.exists()
    for method in {method.split("-")[0] for method in methods}:
        importlib.import_module(method)  # before the clock starts
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        for repeat in range(repeats):
            for method in methods:
                if (method, repeat) in done:
                    continue
                row = in_own_process(method, repeat)
                writer.writerow([method, repeat, *(f"{value:.10g}" for value in row)])
                file.flush()
                print(f"{method} {repeat + 1}/{repeats}: {row[1]:.2f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="print the table of the stored rows and run nothing")
    given = parser.parse_args()
    if not given.report:
        collect(given.out, given.methods, given.repeats)


if __name__ == "__main__":
    main()
