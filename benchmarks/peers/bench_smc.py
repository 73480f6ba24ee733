"""ABC-SMC beside pyABC: simulations, squared error, CPU seconds and memory on the problem of figure S5.

The same schedule (15 tolerances from 160 to 1), 800 accepted a round, one core. Every repeat runs in a process of its
own and becomes one row of a CSV; rows that are there are not run again, so that an interrupted run goes on:

    make bench-peers                                      # everything, for about an hour and a half
    python benchmarks/peers/bench_smc.py --report         # the table of what there is

pyABC's local transition, at its defaults, takes a quarter of the population, 200 particles, for its covariances; ours
takes 50.

CPU seconds are those of the run alone (imports, compilation and the start of the process are left out), from a few
repeats of all methods in turn on a quiet machine.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import importlib
import math
import multiprocessing
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

TOLERANCES = (160, 120, 80, 60, 40, 30, 20, 15, 10, 8, 6, 4, 3, 2, 1)
ACCEPTED = 800
COLUMNS = ("method", "repeat", "simulations", "cpu_seconds", "peak_mib", "m1", "m2", "v11", "v12", "v22")
RESULTS = Path(__file__).with_name("smc.csv")
TIMING = Path(__file__).with_name("smc_timing.csv")


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
        transitions=LocalTransition() if kind == "local" else MultivariateNormalTransition(),
        eps=pyabc.ListEpsilon(list(TOLERANCES)),
        sampler=pyabc.sampler.SingleCoreSampler(),
    )
    abc.new("sqlite://", {"y": 0.0})
    history = abc.run(max_nr_populations=len(TOLERANCES))
    frame, weights = history.get_distribution(m=0)
    return int(history.total_nr_simulations), _weighted(frame[["t1", "t2"]].to_numpy(), np.asarray(weights))


def run_fbar(kernel: str, weights: str, repeat: int) -> tuple[int, list[float]]:
    import fbar
    from fbar.problems import filippi

    run = fbar.SMC(TOLERANCES, accepted=ACCEPTED, perturbation=kernel).start(filippi(), fbar.mean("theta1"), repeat)
    fbar.drive(run)
    posterior = run.reweighted(weights)
    theta = np.stack([posterior.points["theta1"], posterior.points["theta2"]], axis=1)
    return run.simulations, _weighted(theta, posterior.weights)


METHODS = {
    "pyabc-mvn": partial(run_pyabc, "mvn"),
    "pyabc-local": partial(run_pyabc, "local"),
    "fbar-normal/last": partial(run_fbar, "normal", "last"),
    "fbar-normal/mixture": partial(run_fbar, "normal", "mixture"),
    "fbar-local/last": partial(run_fbar, "local-normal", "last"),
    "fbar-local/mixture": partial(run_fbar, "local-normal", "mixture"),
    "fbar-olcm/mixture": partial(run_fbar, "olcm", "mixture"),
}
PAIRS = (
    ("fbar-normal/last", "pyabc-mvn"),
    ("fbar-normal/mixture", "pyabc-mvn"),
    ("fbar-local/last", "pyabc-local"),
    ("fbar-local/mixture", "pyabc-local"),
    ("fbar-olcm/mixture", "pyabc-mvn"),
    ("fbar-olcm/mixture", "pyabc-local"),
)


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
    for method in methods:
        if method.startswith("fbar"):
            METHODS[method](0)  # compiled code is warm
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


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def report(errors_path: Path, timing_path: Path) -> None:
    """Errors from the many repeats; CPU seconds and memory from the repeats that had the machine for themselves."""

    def by_method(path: Path) -> dict[str, np.ndarray]:
        rows = stored(path)
        names = dict.fromkeys(row["method"] for row in rows)
        return {n: np.array([[float(r[c]) for c in COLUMNS[2:]] for r in rows if r["method"] == n]) for n in names}

    tables, timing = by_method(errors_path), by_method(timing_path)
    squared = {n: (t[:, 3] - 8) ** 2 + (t[:, 4] - 4) ** 2 for n, t in tables.items()}
    print(f"{'method':<22} {'repeats':>7} {'simulations':>14} {'MSE of the mean':>20} {'CPU s':>14} {'peak MiB':>9}")
    for name, table in tables.items():
        simulations, mse = mean_and_error(table[:, 0]), mean_and_error(squared[name])
        clock = timing.get(name)
        cpu = "-" if clock is None else "{:.3f} ({:.3f})".format(*mean_and_error(clock[:, 1]))
        memory = "-" if clock is None else f"{clock[:, 2].mean():.0f}"
        print(
            f"{name:<22} {len(table):>7} {simulations[0]:>8.0f} ({simulations[1]:.0f}) "
            f"{mse[0]:>11.2e} ({mse[1]:.0e}) {cpu:>14} {memory:>9}"
        )
    print(f"\n{'ours':<22} {'theirs':<12} {'MSE ratio':>14} {'MSE x N ratio':>14} {'CPU ratio':>12}")
    for ours, theirs in PAIRS:
        if ours not in tables or theirs not in tables:
            continue
        a, b = mean_and_error(squared[theirs]), mean_and_error(squared[ours])
        ratio = a[0] / b[0]
        relative = math.hypot(a[1] / a[0], b[1] / b[0])
        same = ratio * tables[theirs][:, 0].mean() / tables[ours][:, 0].mean()
        cpu = "-"
        if ours in timing and theirs in timing:
            x, y = mean_and_error(timing[theirs][:, 1]), mean_and_error(timing[ours][:, 1])
            cpu = f"{x[0] / y[0]:.0f} ({x[0] / y[0] * math.hypot(x[1] / x[0], y[1] / y[0]):.0f})"
        first, second = f"{ratio:.2f} ({ratio * relative:.2f})", f"{same:.2f} ({same * relative:.2f})"
        print(f"{ours:<22} {theirs:<12} {first:>14} {second:>14} {cpu:>12}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100, help="repeats for the errors")
    parser.add_argument("--timed", type=int, default=5, help="repeats for CPU seconds and memory, methods in turn")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--errors", type=Path, default=RESULTS)
    parser.add_argument("--timing", type=Path, default=TIMING)
    parser.add_argument("--report", action="store_true", help="print the table of the stored rows and run nothing")
    given = parser.parse_args()
    if not given.report:
        collect(given.timing, given.methods, given.timed)
        collect(given.errors, given.methods, given.repeats)
    report(given.errors, given.timing)


if __name__ == "__main__":
    main()
