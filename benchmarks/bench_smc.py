"""ABC-SMC: how time and memory grow with the number of particles a round.

One round's densities are the cost: n accepted particles, each against the n of the round before. Exact sums grow as n²;
with ``centres=2000`` the proposal itself has so many centres, its density is as exact, and the cost grows as n. Every
line runs in a process of its own, for its peak memory; compiled code is warm. The ratios are what counts:

    python benchmarks/bench_smc.py                # up to 10⁵ particles, about two minutes
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time

import numpy as np
from scipy import stats

import fbar
from fbar.designs.proposals import Perturbed, as_perturbation
from fbar.question.space import Space

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def densities(size: int, centres: int | None, threads: int) -> tuple[float, float, float]:
    """Wall and CPU seconds for one round's proposal and its densities, and peak memory in MiB."""
    from fbar.designs.proposals import sums

    sums.os.cpu_count = lambda: threads  # type: ignore[attr-defined]
    space = Space(fbar.Prior(a=stats.norm(), b=stats.norm(), c=stats.norm()))
    rng = np.random.default_rng(0)

    def once(n: int) -> tuple[float, float]:
        particles, new = space.draw(rng, n), space.draw(rng, n)
        wall, cpu = time.perf_counter(), time.process_time()
        q = Perturbed(
            space, particles, np.ones(n), rng.random(n), perturbation=as_perturbation("olcm"), next_tolerance=0.5,
            jump=0.0, most=centres, rng=rng,
        )  # fmt: skip
        assert np.isfinite(q.log_density(new)).all()
        return time.perf_counter() - wall, time.process_time() - cpu

    once(500)
    return *once(size), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def error_of_centres(runs: int = 60) -> None:
    """What resampled centres do to the answer: the same problem with 1000 particles a round, 100 and all as centres."""
    from fbar.problems import filippi

    problem, target = filippi(), fbar.mean("theta1")
    print(f"\n{'centres':>8} {'MSE of mean:theta1':>22} {'mean squared error bar':>24} {'simulations':>12}")
    for centres in (None, 100):
        method = fbar.SMC((160, 40, 10, 3, 1), accepted=1000, centres=centres)
        errors, bars, simulations = [], [], []
        for seed in range(runs):
            run = method.start(problem, target, seed)
            fbar.drive(run)
            estimate = run.posterior().expect(target)
            errors.append((estimate.value - 8) ** 2)
            bars.append(estimate.variance)
            simulations.append(run.simulations)
        spread = np.std(errors, ddof=1) / np.sqrt(runs)
        line = f"{centres or 'all':>8} {np.mean(errors):>14.2e} ({spread:.0e}) {np.mean(bars):>24.2e}"
        print(f"{line} {np.mean(simulations):>12.0f}")


def main() -> None:
    context = multiprocessing.get_context("spawn")
    print(
        f"{'particles':>9} {'centres':>8} {'threads':>8} {'wall s':>9} {'CPU s':>9} {'ns a pair':>10} {'peak MiB':>9}"
    )
    for centres, threads in ((None, 1), (None, 2), (2000, 1)):
        for size in SIZES:
            with context.Pool(1) as pool:
                wall, cpu, peak = pool.apply(densities, (size, centres, threads))
            pairs = size * min(size, centres or size)
            name = "all" if centres is None else str(centres)
            print(
                f"{size:>9} {name:>8} {threads:>8} {wall:>9.3f} {cpu:>9.3f} {1e9 * cpu / pairs:>10.2f} {peak:>9.0f}",
                flush=True,
            )
    error_of_centres()


if __name__ == "__main__":
    sys.exit(main())
