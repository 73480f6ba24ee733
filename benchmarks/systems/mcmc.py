"""ABC-MCMC with an inflated tolerance: what the acceptance rate is worth, and how often post-corrected intervals hold.

Vihola & Franks (2020) claim that states of chains at a tolerance tuned to an acceptance rate of 0.1, restricted to a
smaller tolerance ε, estimate as well as or better than chains that run at ε themselves, and that their confidence
intervals are reliable. Here with a normal model: θ ~ N(0, 30²), y ~ N(θ, 1), y* = 0, Δ = |y|, and the functions θ and
|θ|, whose expectations at every ε are known by quadrature. A run has 10,000 simulations in 50 chains, or 20,000 in 10,
of which a tenth is the pilot and 27% the burn-in.

Two error bars are compared. fbar's is `fbar.estimation.chains`. Theirs is √(S τ) with S = Σ w² (f − f̂)² over the
chains' states and τ the autocorrelation time of f in the chains at their own tolerance, with normal quantiles.

    python benchmarks/systems/mcmc.py            # about 15 minutes; writes mcmc.csv
    python benchmarks/systems/mcmc.py --quick    # half a minute, only printed
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.estimation.chains import ChainErrors, autocorrelation_times
from fbar.testing import finish

TOLERANCES = (0.02, 0.05, 0.1)
RATES = (0.05, 0.1, 0.3)
COLUMNS = (
    *(
        "chains",
        "budget",
        "chains_at",
        "tolerance",
        "target",
        "runs",
        "chain_tolerance",
        "acceptance",
        "rmse",
        "rmse_se",
    ),
    *("coverage", "coverage_theirs", "coverage_se", "se_sd", "flagged"),
)
PARTS = ((50, 10_000, RATES, TOLERANCES, 100), (10, 20_000, (0.1,), (0.02, 0.1), 60))
"""Chains, simulations, acceptance rates, tolerances that chains run at themselves, and runs."""

PROBLEM = fbar.Problem(
    fbar.Prior(theta=stats.norm(0, 30)),
    lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows),
    observed=0.0,
)
TARGETS = (fbar.mean("theta"), fbar.expectation("abs(theta)"))


def truths(tolerance: float) -> tuple[float, float]:
    """E[θ] and E|θ| under p(θ) P(|y| ≤ ε|θ)."""
    at = np.linspace(0, 12, 60_001)
    weight = stats.norm.pdf(at, 0, 30) * (stats.norm.cdf(tolerance - at) - stats.norm.cdf(-tolerance - at))
    return 0.0, float(weight @ at / weight.sum())


@dataclass
class Seen:
    """What the runs of a setting gave for one target at one tolerance."""

    error: list[float] = field(default_factory=list)
    standard_error: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    held_theirs: list[bool] = field(default_factory=list)
    flagged: list[bool] = field(default_factory=list)


def theirs(run: fbar.Run, posterior: fbar.Posterior, target: fbar.Target, times: float) -> float:
    """√(S τ)."""
    errors = posterior.errors
    assert isinstance(errors, ChainErrors)
    z = errors.states.series(target.influence(posterior.points, posterior.weights))
    return math.sqrt(float((z**2).sum()) * times)


def measure(
    name: str, method: fbar.MCMC, budget: int, tolerances: tuple[float, ...], runs: int
) -> list[tuple[object, ...]]:
    seen = {(tolerance, k): Seen() for tolerance in tolerances for k in range(len(TARGETS))}
    chains, rates = [], []
    for seed in range(runs):
        run = method.start(PROBLEM, TARGETS, seed, budget)
        finish(run)
        chains.append(run.chain_tolerance)
        rates.append(run.moves / run.states().size)
        own = run.posterior_at(run.chain_tolerance)
        assert isinstance(own.errors, ChainErrors)
        series = own.errors.states.series(np.concatenate([t.influence(own.points, own.weights) for t in TARGETS], 1))
        times = autocorrelation_times(series)
        for tolerance in tolerances:
            posterior = run.posterior_at(tolerance)
            for k, (target, truth) in enumerate(zip(TARGETS, truths(tolerance), strict=True)):
                estimate, into = posterior.expect(target), seen[tolerance, k]
                low, high = estimate.interval(0.95)
                away = float(estimate.value) - truth
                into.error.append(away)
                into.standard_error.append(float(estimate.standard_error))
                into.held.append(bool(low <= truth <= high))
                into.held_theirs.append(abs(away) <= 1.96 * theirs(run, posterior, target, float(times[k])))
                into.flagged.append(not estimate.trusted)
    rows: list[tuple[object, ...]] = []
    for (tolerance, k), found in seen.items():
        square = np.square(found.error)
        rmse = math.sqrt(square.mean())
        coverage, other = np.mean(found.held), np.mean(found.held_theirs)
        rows.append(
            (
                *(
                    method.chains,
                    budget,
                    name,
                    tolerance,
                    TARGETS[k].name,
                    runs,
                    f"{np.mean(chains):.3f}",
                    f"{np.mean(rates):.3f}",
                ),
                *(f"{rmse:.4f}", f"{square.std() / math.sqrt(runs) / 2 / rmse:.4f}"),
                *(f"{coverage:.3f}", f"{other:.3f}", f"{math.sqrt(0.05 * 0.95 / runs):.3f}"),
                *(f"{math.sqrt(np.mean(np.square(found.standard_error))) / rmse:.2f}", f"{np.mean(found.flagged):.2f}"),
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = []
    for chains, budget, rates, tolerances, runs in PARTS:
        runs = 2 if quick else runs
        for rate in rates:
            method = fbar.MCMC(tolerance=min(TOLERANCES), chains=chains, acceptance_rate=rate)
            rows += measure(f"rate {rate:g}", method, budget, TOLERANCES, runs)
            print(*rows[-6:], sep="\n", flush=True)
        for tolerance in tolerances:
            method = fbar.MCMC(tolerance, chains=chains, chain_tolerance=tolerance)
            rows += measure("tolerance", method, budget, (tolerance,), runs)
            print(*rows[-2:], sep="\n", flush=True)
    out = sys.stdout if quick else (Path(__file__).parent / "mcmc.csv").open("w", newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)


if __name__ == "__main__":
    main()
