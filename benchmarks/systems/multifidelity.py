"""Multifidelity ABC on a network of Kuramoto oscillators: what the cheap simulator and learned proposals gain.

``python benchmarks/systems/multifidelity.py [RUNS [COVERAGE_RUNS [PROBLEM …]]]`` writes ``multifidelity.csv`` beside
this file; with problems given, only their rows are replaced.

Prescott & Baker (2021) claim that the gains of multifidelity and of proposals that are learned amplify each other when
both are used together. Their example is a network of 256 oscillators whose cheap version is the equation of Ott &
Antonsen (2008) for infinitely many. This is a smaller analogue with the same priors: 128 oscillators, and three
summaries of the order parameter R(t). The only random numbers are the oscillators' frequencies, which the cheap
simulator does not have, so that there are none to share.

A second problem, "shared noise", is a noisy decay in 256 or in 8 time steps that use the same noise, like a
stochastic process and its coarser discretisation; the target is the rate, and the cost the number of steps.

A third, "repressilator", is the example of Prescott & Baker (2020), see ``repressilator.py``; the target is E[n], and
the data are its first data set. It takes an hour or more, and is not in the stored table; what continuation
probabilities gain there is in ``multifidelity_claims.csv``.

Four algorithms estimate E[K]: draws from the prior or from learned proposals, with the real simulator only or with
both. ``efficiency`` is 1/(variance × cost), with the variance between runs, and in ``efficiency_reported`` that of the
error bars; costs are CPU seconds of simulations. ``gain`` is relative to rejection sampling.

The stored table was put together from several executions with the same settings: 10 runs on the oscillators, to which
12 were added (seeds 10 to 21) for learned proposals, after the first 10 scattered less than their error bars say; and
12 runs on the second problem. A variance between n runs has a relative error of √(2/(n − 1)), 0.3 to 0.5 here.

``multifidelity_coverage.csv`` has how often 95% intervals held, and how many of them were called reliable, on a problem
with a known answer: θ ~ N(0, 1), a datum of N(θ, 1) at 1, and a cheap simulator of N(0.95 θ + 0.05, 1) that shares the
noise.
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

OUT = Path(__file__).with_suffix(".csv")

OSCILLATORS, END, STEP = 128, 15.0, 0.1
HALF_WIDTH = 2.8
"""Phases are spread evenly over twice this angle at first."""

TIMES = np.arange(0.0, END + STEP / 2, STEP)
TRUTH = {"K": 2.0, "omega": math.pi / 3, "gamma": 0.1}
PROBLEMS = ("oscillators", "shared noise")
BUDGETS = {"real": 2000, "both": 30_000}


def summaries(order, velocity):
    """The squared mean of R, R early on, and the velocity of the phase in turns per unit of time."""
    early = order[:, len(TIMES) // 8]
    return np.stack([order.mean(axis=1) ** 2, early, velocity / (2 * math.pi)], axis=1)


def network(theta, rng):
    """φ_i' = ω_i + K R sin(Φ − φ_i), in the frame that turns with the median frequency (Heun's rule)."""
    coupling, gamma = theta["K"][:, None], theta["gamma"][:, None]
    frequency = gamma * rng.standard_cauchy(size=(theta.rows, OSCILLATORS))
    phase = np.broadcast_to(np.linspace(-HALF_WIDTH, HALF_WIDTH, OSCILLATORS), frequency.shape).copy()

    def slope(phase):
        c, s = np.cos(phase), np.sin(phase)
        x, y = c.mean(axis=1, keepdims=True), s.mean(axis=1, keepdims=True)
        return frequency + coupling * (y * c - x * s), x[:, 0], y[:, 0]

    order, turned, last = np.empty((theta.rows, len(TIMES))), np.zeros(theta.rows), np.zeros(theta.rows)
    for k in range(len(TIMES)):
        first, x, y = slope(phase)
        order[:, k] = np.hypot(x, y)
        angle = np.arctan2(y, x)
        turned += (angle - last + math.pi) % (2 * math.pi) - math.pi
        last = angle
        second, _, _ = slope(phase + STEP * first)
        phase += STEP / 2 * (first + second)
    return summaries(order, theta["omega"] + turned / END)


def mean_field(theta, rng):
    """R' = (K/2 − γ) R − K R³/2, solved in closed form; the phase turns with the median frequency."""
    rate, cubic = theta["K"] / 2 - theta["gamma"], theta["K"] / 2
    begin = math.sin(HALF_WIDTH) / HALF_WIDTH
    growth = np.exp(-2 * rate[:, None] * TIMES)
    square = rate[:, None] / (cubic[:, None] + (rate[:, None] / begin**2 - cubic[:, None]) * growth)
    return summaries(np.sqrt(np.maximum(square, 0.0)), theta["omega"])


def seconds_each(simulate, prior, rows):
    """CPU seconds of a simulation, in a batch as runs have them."""
    theta, rng = prior.sample(rows, rng=np.random.default_rng(1)), np.random.default_rng(2)
    simulate(theta, rng)
    begun = time.process_time()
    for _ in range(3):
        simulate(theta, rng)
    return (time.process_time() - begun) / (3 * rows)


def oscillators():
    prior = fbar.Prior(K=stats.uniform(1, 2), omega=stats.uniform(-2 * math.pi, 4 * math.pi), gamma=stats.uniform(0, 1))
    truth = fbar.Points({name: [value] for name, value in TRUTH.items()})
    observed = network(truth, np.random.default_rng(2021))[0]
    real, cheap = seconds_each(network, prior, 256), seconds_each(mean_field, prior, 256)
    pair = fbar.Fidelities(network, mean_field, cheap_cost=cheap)
    return fbar.Problem(prior, pair, observed, cost=real), fbar.mean("K"), real, cheap


def decay(steps):
    """A noisy decay from 10, observed halfway and at the end, in a number of time steps."""

    def simulate(theta, rng, noise):
        shocks = noise.normal(256).reshape(theta.rows, steps, -1).sum(axis=2) / 16
        x, seen = np.full(theta.rows, 10.0), []
        for k in range(steps):
            x = x * np.exp(-theta["rate"] / steps) + shocks[:, k]
            seen.append(x)
        return np.stack([seen[steps // 2 - 1], seen[-1]], axis=1)

    return simulate


def shared_noise():
    pair = fbar.Fidelities(decay(256), decay(8), shares_noise=True, cheap_cost=8.0)
    problem = fbar.Problem(fbar.Prior(rate=stats.uniform(0, 3)), pair, [6.1, 3.5], cost=256.0)
    return problem, fbar.mean("rate"), 256.0, 8.0


def repressilator_pair(runs=3, rows=1000):
    """Costs are CPU seconds in batches of a thousand."""
    import repressilator

    _, _, (cheap, real) = repressilator.both(runs * rows)
    return repressilator.problem((cheap, real)), fbar.mean("n"), real, cheap


def compare(name, problem, target, real, cheap, tolerance, runs, budgets=None):
    """Rows of the table for one problem."""
    methods = {
        ("prior", "real"): fbar.Rejection(tolerance=tolerance),
        ("prior", "both"): fbar.Multifidelity(tolerance, defence=0.999),
        ("learned", "real"): fbar.Targeted(tolerance=tolerance),
        ("learned", "both"): fbar.Multifidelity(tolerance),
    }
    rows = []
    for (proposals, simulators), method in methods.items():
        budget = (budgets or BUDGETS)[simulators]
        found, errors, costs, shares = [], [], [], []
        for seed in range(runs):
            result = fbar.infer(problem, target, budget=budget, method=method, seed=seed, progress=False)
            found.append(result.estimates[0].value)
            errors.append(result.estimates[0].standard_error)
            costs.append(result.run.spent_cost)
            shares.append((costs[-1] - result.run.simulations * cheap) / (real - cheap) / result.run.simulations)
        variance, cost = float(np.var(found, ddof=1)), float(np.mean(costs))
        reported = float(np.mean(np.square(errors)))
        rows.append(
            {
                "problem": name,
                "proposals": proposals,
                "simulators": simulators,
                "runs": runs,
                "mean": float(np.mean(found)),
                "its_error": math.sqrt(variance / runs),
                "error_between_runs": math.sqrt(variance),
                "error_reported": math.sqrt(reported),
                "cost": cost,
                "share_of_real_simulations": float(np.mean(shares)),
                "efficiency": 1 / (variance * cost),
                "efficiency_reported": 1 / (reported * cost),
            }
        )
        print(rows[-1], flush=True)
    for row in rows:
        row["gain"] = row["efficiency"] / rows[0]["efficiency"]
        row["gain_reported"] = row["efficiency_reported"] / rows[0]["efficiency_reported"]
        row["cost_ratio"] = real / cheap
    return rows


def rows_of(name, runs):
    if name == "oscillators":
        return compare(name, *oscillators(), 0.2, runs)
    if name == "shared noise":
        return compare(name, *shared_noise(), 0.5, runs)
    return compare(name, *repressilator_pair(), 50.0, runs, {"real": 600, "both": 6000})


def main(runs: int, *names: str) -> None:
    rows = [row for name in names or PROBLEMS for row in rows_of(name, runs)]
    rows = [{name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows]
    if names:
        with OUT.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["problem"] not in names] + rows
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def noisy(slope, shift):
    return lambda theta, rng, noise: slope * theta["theta"] + shift + noise.normal(1)[:, 0]


def coverage(runs: int, tolerance: float = 0.5) -> None:
    pair = fbar.Fidelities(noisy(1.0, 0.0), noisy(0.95, 0.05), shares_noise=True, cheap_cost=1.0)
    problem = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), pair, 1.0, cost=50.0)
    grid = np.linspace(-8, 8, 20_001)
    accepted = stats.norm.cdf(1 + tolerance - grid) - stats.norm.cdf(1 - tolerance - grid)
    mass = np.cumsum(stats.norm.pdf(grid) * accepted)
    mass /= mass[-1]
    truth = {
        "mean:theta": float(np.diff(mass, prepend=0.0) @ grid),
        "quantile:theta,0.9": float(np.interp(0.9, mass, grid)),
        "probability:theta > 1": float(1 - np.interp(1.0, grid, mass)),
    }
    targets = [fbar.mean("theta"), fbar.quantile("theta", 0.9), fbar.probability("theta > 1")]
    rows = []
    for budget in (500, 2000):
        held, reliable = dict.fromkeys(truth, 0), {name: [] for name in truth}
        for seed in range(runs):
            result = fbar.infer(
                problem, targets, budget=budget, method=fbar.Multifidelity(tolerance), seed=seed, progress=False
            )
            for estimate in result.estimates:
                low, high = estimate.interval(0.95)
                inside = low <= truth[estimate.name] <= high
                held[estimate.name] += inside
                if estimate.trusted:
                    reliable[estimate.name].append(inside)
        for name in truth:
            rows.append(
                {
                    "budget": budget,
                    "target": name,
                    "runs": runs,
                    "held": f"{held[name] / runs:.3f}",
                    "reliable": len(reliable[name]),
                    "held_if_reliable": f"{np.mean(reliable[name]):.3f}" if reliable[name] else "",
                }
            )
            print(rows[-1], flush=True)
    with OUT.with_name("multifidelity_coverage.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 10, *given[2:])
    if not given[2:]:
        coverage(int(given[1]) if given[1:] else 100)
