"""Estimated likelihoods: how often error bars hold, the error b², and what the methods' own papers claim.

``python benchmarks/systems/estimated_likelihoods.py [RUNS]`` writes ``estimated_likelihoods.csv`` beside this file.

- Price, Drovandi, Lee & Nott (2018): the posterior of the unbiased synthetic likelihood does not depend on the number R
  of simulations at each θ; with mean and covariance plugged in, it is too wide when R is small.
- van Opheusden, Acerbi & Ma (2020): the log-likelihood by inverse binomial sampling has no bias, and a variance below
  π²/6 for each trial.
- Turner & Sederberg (2014): densities from simulations recover the posterior of independent data.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.methods.worth.until_match import Matches

OUT = Path(__file__).with_suffix(".csv")


def moments(theta, rng):
    x = theta["theta"][:, None] + rng.normal(size=(theta.rows, 30))
    return np.stack([x.mean(axis=1), np.log(x.var(axis=1, ddof=1))], axis=1)


def normal_moments():
    return fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), moments, [1.0, 0.1]), 30 / 31, 1 / 31


def fifty_numbers():
    data = stats.norm.ppf((np.arange(50) + 0.5) / 50) + 0.7
    problem = fbar.Problem(
        fbar.Prior(theta=stats.norm(0, 1)),
        lambda t, rng: t["theta"][:, None] + rng.normal(size=(t.rows, 50)),
        data,
    )
    return problem, 0.7 * 50 / 51, 1 / 51


def coin():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0, 1)),
        lambda t, rng: (rng.random((t.rows, 8)) < t["theta"][:, None]).astype(int),
        np.array([1, 0, 1, 1, 0, 1, 1, 1]),
    )
    return problem, 7 / 10, 7 * 3 / (100 * 11)


def noisy_likelihood():
    def estimate(theta, rng):
        return stats.norm.logpdf(1.0, theta["theta"], 1.0) + 2 * rng.normal(size=theta.rows) - 2

    return fbar.with_likelihood(fbar.Prior(theta=stats.norm(0, 1)), estimate), 0.5, 0.5


CASES = [
    ("normal moments", normal_moments, 4000, fbar.SyntheticLikelihood()),
    ("normal moments", normal_moments, 4000, fbar.SyntheticLikelihood(replicates=8)),
    ("normal moments", normal_moments, 4000, fbar.SyntheticLikelihood(replicates=50)),
    ("normal moments", normal_moments, 4000, fbar.SyntheticLikelihood("gaussian", replicates=8)),
    ("normal moments", normal_moments, 4000, fbar.SyntheticLikelihood("gaussian", replicates=50)),
    ("fifty numbers", fifty_numbers, 10_000, fbar.DensityApproximation()),
    ("eight flips", coin, 10_000, fbar.UntilMatch()),
    ("eight flips", coin, 10_000, fbar.UntilMatch("log-likelihood")),
    ("noisy likelihood", noisy_likelihood, 4000, fbar.PseudoMarginal()),
]


def measured(make, budget, method, runs):
    problem, centre, variance = make()
    targets = [fbar.mean("theta"), fbar.variance("theta")]
    held, errors, spread, seconds = [], [], [], 0.0
    for seed in range(runs):
        begun = time.perf_counter()
        run = method.start(problem, targets, seed, budget)
        fbar.drive(run)
        first, second = run.posterior().expect(targets)
        seconds += time.perf_counter() - begun
        low, high = first.interval(0.95)
        held.append(low <= centre <= high)
        errors.append((first.value - centre) ** 2 / variance)
        spread.append(second.value / variance)
    return {
        "runs": runs,
        "held": round(float(np.mean(held)), 3),
        "b2": f"{np.mean(errors):.3g}",
        "variance_over_true": round(float(np.mean(spread)), 3),
        "its_error": round(float(np.std(spread) / math.sqrt(runs)), 3),
        "seconds": round(seconds / runs, 3),
    }


def inverse_binomial(n=20_000):
    """The bias of the log-likelihood of a trial and its variance, at p = 0.1 and 0.5."""
    rng, rows = np.random.default_rng(1), []
    for p in (0.1, 0.5):
        matched = rng.random((n, 400, 1)) < p
        found, variance = Matches("log-likelihood", 1, 10_000, np.ones(1))._log_likelihood(matched)
        centre = found + variance / 2
        rows.append(
            {
                "problem": f"one trial, p = {p}",
                "method": "inverse binomial log-likelihood",
                "budget": 400,
                "runs": n,
                "b2": f"{centre.mean() - math.log(p):.3g}",
                "variance_over_true": round(float(centre.var() / (math.pi**2 / 6)), 3),
                "its_error": round(float(centre.std() / math.sqrt(n)), 3),
            }
        )
    return rows


def main(runs: int = 200) -> None:
    rows = []
    for name, make, budget, method in CASES:
        shown = f"{type(method).__name__}({getattr(method, 'kind', '')!r}, {getattr(method, 'replicates', None)})"
        rows.append({"problem": name, "method": shown, "budget": budget, **measured(make, budget, method, runs)})
        print(rows[-1], flush=True)
    rows += inverse_binomial()
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
