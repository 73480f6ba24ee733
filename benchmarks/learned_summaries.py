"""What summaries learned for the targets gain on data of a hundred numbers: rejection and ABC-SMC.

All have the same number of simulations; a fifth of them teaches, where summaries are learned. Rejection accepts 1% of
the prior's simulations, by the pilot's distances out of fold (for the plain distance, by the problem's own tolerance);
``adjusted`` is its local linear regression adjustment on the learned summaries. ABC-SMC accepts 200 a round, with the
median of their distances the next tolerance, until its simulations are spent; with the plain distance and the linear
regression alone. Two errors,
each the mean over targets and trials, with its standard error: ``b2``, (f̂ − truth)²/posterior variance at the first
observation, where 1 is an error of one posterior standard deviation; and ``of_prior``, (f̂ − truth)²/prior variance in
as many trials over all ten observations, some of which have posteriors so narrow that 1% of the prior is far from them.
``prior`` is the error of the prior's own means. The stored rows have the second command's for boosting there.

    python benchmarks/learned_summaries.py              # 20 + 20 trials of each, about 20 minutes of one core
    python benchmarks/learned_summaries.py --cases bernoulli-glm-raw --summaries boosting --trials 10 --out some.csv
    python benchmarks/learned_summaries.py --trials 4 --summaries plain linear --out some.csv
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import fbar
from fbar.problems import load

SLCP = [fbar.mean("theta1"), fbar.mean("theta2"), *(fbar.second_moment(f"theta{i}") for i in (3, 4))]
CASES = {
    "slcp-distractors": SLCP,
    "bernoulli-glm-raw": [fbar.mean(f"theta{i}") for i in range(1, 11)],
}
SUMMARIES = ("plain", "linear", "boosting", "network")
BUDGET, SHARE, OBSERVATIONS = 10_000, 0.01, 10
COLUMNS = (
    "problem", "method", "summaries", "simulations", "trials", "b2", "b2_se", "of_prior", "of_prior_se", "r_squared",
    "accepted", "seconds",
)  # fmt: skip


@cache
def spread(name: str) -> tuple[list[float], list[float]]:
    """The targets' means and standard deviations under the prior."""
    theta = load(name, 1).prior.sample(200_000, rng=np.random.default_rng(0))
    f = [t.components(theta) for t in CASES[name]]
    return [float(values.mean()) for values in f], [float(values.std()) for values in f]


def error(values: list[float], name: str, observation: int, *, of_prior: bool) -> float:
    truth = [load(name, observation).truth()[target.name] for target in CASES[name]]
    unit = spread(name)[1] if of_prior else [known.deviation for known in truth]
    away = [(value - known.value) / sd for value, known, sd in zip(values, truth, unit, strict=True)]
    return float(np.mean(np.square(away)))


def one(task: tuple[str, str, int, int]) -> list[tuple[str, float, float, float, float]]:
    """For each method: its name, error, R², accepted simulations and seconds; ``observation`` 0 is any of the ten."""
    name, summaries, trial, observation = task
    of_prior = observation == 0
    observation = observation or 1 + trial % OBSERVATIONS
    problem, targets = load(name, observation), CASES[name]
    begun, budget, r_squared = time.perf_counter(), BUDGET, float("nan")
    tolerance = problem.tolerances[SHARE]
    if summaries != "plain":
        size = BUDGET // 5
        problem = fbar.LearnedSummaries(summaries).learn(problem, targets, seed=trial, simulations=size)
        budget, tolerance = budget - size, problem.tolerance_for(SHARE)
        r_squared = float(np.mean(list(problem.r_squared.values())))
    learned = time.perf_counter() - begun
    rows = []
    names = [target.name for target in targets]
    for method in ("rejection", "smc") if summaries in ("plain", "linear") else ("rejection",):
        begun = time.perf_counter()
        if method == "rejection":
            result = fbar.infer(problem, targets, tolerance=tolerance, budget=budget, seed=trial, progress=False)
        else:
            smc = fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=0.0), accepted=200)
            result = fbar.infer(problem, targets, method=smc, budget=budget, seed=trial, progress=False)
        results = {method: result}
        if method == "rejection" and summaries != "plain":
            results["rejection, adjusted"] = result.adjusted()
        seconds = learned + time.perf_counter() - begun
        for label, found in results.items():
            values = [float(found[target].value) for target in names]
            wrong = error(values, name, observation, of_prior=of_prior)
            rows.append((label, wrong, r_squared, float(found.accepted), seconds))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--summaries", nargs="+", default=list(SUMMARIES), choices=SUMMARIES)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    lines: list[dict[str, object]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for name, summaries in product(given.cases, given.summaries):
            if summaries == given.summaries[0]:
                of = [error(spread(name)[0], name, i, of_prior=True) for i in range(1, OBSERVATIONS + 1)]
                first = error(spread(name)[0], name, 1, of_prior=False)
                row = {"problem": name, "method": "prior", "b2": f"{first:.3g}", "of_prior": f"{np.mean(of):.3g}"}
                lines.append(dict(row))
            tasks = [(name, summaries, trial, where) for where in (1, 0) for trial in range(given.trials)]
            answers = list(pool.map(one, tasks))
            for index, (method, *_) in enumerate(answers[0]):
                wrong, r_squared, accepted, seconds = np.array([answer[index][1:] for answer in answers]).T
                means = wrong.reshape(2, -1).mean(axis=1)
                errors = wrong.reshape(2, -1).std(axis=1, ddof=1) / np.sqrt(given.trials)
                line = {
                    "problem": name, "method": method, "summaries": summaries, "simulations": BUDGET,
                    "trials": given.trials, "b2": f"{means[0]:.3g}", "b2_se": f"{errors[0]:.2g}",
                    "of_prior": f"{means[1]:.3g}", "of_prior_se": f"{errors[1]:.2g}",
                    "r_squared": "" if np.isnan(r_squared[0]) else f"{r_squared.mean():.3f}",
                    "accepted": f"{accepted.mean():.0f}", "seconds": f"{seconds.mean():.1f}",
                }  # fmt: skip
                lines.append(line)
                print(" ".join(str(value) for value in line.values()), flush=True)
            with given.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(lines)


if __name__ == "__main__":
    main()
