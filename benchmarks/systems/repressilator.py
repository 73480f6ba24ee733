"""The repressilator of Prescott & Baker (2020): exact stochastic simulation, and τ-leaping with the same noise.

Three genes repress each other in a ring. With m_i molecules of mRNA and p_i of protein, the reactions are transcription
at the rate 1 + 1000 K^n/(K^n + p_j^n), p_j the protein that represses gene i, the decay of mRNA at m_i, translation at
5 m_i and the decay of proteins at 5 p_i; at first there are no mRNA and 40, 20 and 60 proteins. The prior has n uniform
in (1, 4) and K in (10, 30); the data are all six numbers at the times 0, 1, …, 10 of one simulation at n = 2, K = 20,
the distance is the Euclidean one over 10, and the tolerance is 50 for both simulators. All of this is theirs, read from
the program that accompanies their paper.

Each reaction fires when a Poisson process of rate 1 does, in the time ∫ rate dt ("internal time", Anderson & Kurtz).
Both simulators share these processes as far as the number of firings in bins of internal time, of length `BIN`, which
are drawn from a row's own noise. The exact simulator places the firings of a bin at random within it; τ-leaping takes
steps of 0.01 and spreads them evenly. There we depart from Prescott & Baker, whose steps are adaptive, and whose exact
simulator fills in what the τ-leaps left open; and states are read off at the times, where they interpolate between
firings. The step and the lengths of bins were chosen after about ten trials on fewer draws, for a large gain.

``python benchmarks/systems/repressilator.py [DRAWS]`` writes ``multifidelity_claims.csv``. As in their section 4 both
simulators run at every draw from the prior, and continuation probabilities are chosen and applied afterwards:
*early accept/reject* has the best η₁ and η₂, *early rejection* the best η₂ with η₁ = 1, *early decision* the best
η₁ = η₂, and *rejection* runs the exact simulator at every draw. ``gain`` is the effective sample size (Σw)²/Σw² per CPU
second over that of rejection, with its standard deviation over `REPEATS` repetitions. Theirs are read off their figure
2, for one data set; they count the cost of τ-leaping for rejection too, which is in ``gain_as_theirs``. Ours has four.
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
from fbar.methods.worth.multifidelity import Shares
from fbar.question.simulators.fidelities import RowNoise

PROTEINS = np.array([40.0, 20.0, 60.0])
BASE, ALPHA, BETA, END, STEP = 1.0, 1000.0, 5.0, 10, 0.01
REACTIONS = 12
REPRESSOR, REPRESSED = np.array([2, 0, 1]), np.array([1, 2, 0])
"""Gene i is repressed by protein REPRESSOR[i], and protein i represses gene REPRESSED[i]."""

BIN, BINS = np.repeat([2.5, 12.5], 6), 800
"""Length of bins, shorter for mRNA than for proteins, and their number; what comes after them is not shared."""

CHANGE = (
    np.concatenate([np.eye(3), -np.eye(3), np.zeros((6, 3))]),
    np.concatenate([np.zeros((6, 3)), np.eye(3), -np.eye(3)]),
)
"""What each reaction does to the mRNA and to the proteins."""


def bins_of(noise, rows):
    """How often each reaction fires in each bin: shape (rows, reactions, bins)."""
    found = np.empty((rows, REACTIONS, BINS), dtype=np.uint8)
    for j in range(REACTIONS):
        found[:, j] = np.searchsorted(stats.poisson.cdf(np.arange(100), BIN[j]), noise.uniform(BINS))
    return found


def exact(theta, rng, noise):
    """Next reactions, those of all rows at once; rows that are done leave the batch."""
    n = theta.rows
    bins, power, half = bins_of(noise, n), theta["n"].copy(), theta["K"] ** theta["n"]
    m, p = np.zeros((3, n)), np.repeat(PROTEINS[:, None], n, axis=1)
    hill = half / (half + p**power)
    seen, number = np.empty((n, END + 1, 6)), np.arange(n)
    clock, due = np.zeros(n), np.zeros(n)
    internal, index, left = (np.zeros((REACTIONS, n)) for _ in range(3))
    at = np.zeros((REACTIONS, n))
    index -= 1

    def next_firing(j, row, when):
        """The next firing of reaction j[i] in row[i] after the internal time when[i]."""
        k, rest, begin, length = index[j, row], left[j, row], when.copy(), BIN[j]
        empty = np.flatnonzero(rest == 0)
        while empty.size:
            k[empty] += 1
            begin[empty] = k[empty] * length[empty]
            inside = k[empty] < BINS
            drawn = rng.poisson(length[empty])
            taken = bins[number[row[empty]], j[empty], np.minimum(k[empty], BINS - 1).astype(np.int64)]
            rest[empty] = np.where(inside, taken, drawn)
            empty = empty[rest[empty] == 0]
        end = (k + 1) * length
        index[j, row], left[j, row] = k, rest - 1
        return begin + (end - begin) * (1 - rng.random(len(row)) ** (1 / rest))

    for j in range(REACTIONS):
        at[j] = next_firing(np.full(n, j), np.arange(n), np.zeros(n))
    events = 0
    rate = np.empty((REACTIONS, n))
    while number.size:
        rate = rate[:, : number.size]
        rate[:3], rate[3:6], rate[6:9], rate[9:] = BASE + ALPHA * hill, m, BETA * m, BETA * p
        with np.errstate(divide="ignore", invalid="ignore"):
            wait = (at - internal) / rate
        j = wait.argmin(axis=0)
        here = np.arange(number.size)
        step = wait[j, here]
        after = clock + step
        while (passed := np.flatnonzero(after >= due)).size:
            seen[number[passed], due[passed].astype(np.int64)] = np.concatenate([m[:, passed], p[:, passed]]).T
            due[passed] += 1
            due[due > END] = math.inf
        internal += rate * step
        clock = after
        m += CHANGE[0][j].T
        p += CHANGE[1][j].T
        changed = np.flatnonzero(j >= 6)
        protein = j[changed] % 3
        gene = REPRESSED[protein]
        hill_part = half[changed]
        hill[gene, changed] = hill_part / (hill_part + p[protein, changed] ** power[changed])
        at[j, here] = next_firing(j, here, at[j, here])
        events += 1
        if events % 64 == 0 and (done := np.isinf(due)).any():
            keep = ~done
            number, power, half, clock, due = (a[keep] for a in (number, power, half, clock, due))
            m, p, hill, internal, index, left, at = (
                np.ascontiguousarray(a[:, keep]) for a in (m, p, hill, internal, index, left, at)
            )
    return seen[:, 1:].reshape(n, -1)


def leaping(theta, rng, noise):
    """τ-leaps with the firings of the shared processes, evenly spread over each bin."""
    n = theta.rows
    bins = bins_of(noise, n)
    total = np.zeros((n * REACTIONS, BINS + 1), dtype=np.float64)
    np.cumsum(bins.reshape(n * REACTIONS, BINS), axis=1, out=total[:, 1:])
    total = total.ravel()
    base, length = np.arange(n * REACTIONS) * (BINS + 1), np.tile(BIN, n)

    def fired(internal):
        scaled = internal / length
        whole = np.minimum(scaled.astype(np.int64), BINS - 1)
        low, high = total[base + whole], total[base + whole + 1]
        inside = np.minimum(scaled - whole, 1.0)
        return np.floor(low + inside * (high - low) + length * np.maximum(scaled - BINS, 0.0))

    power, half = theta["n"][:, None], (theta["K"] ** theta["n"])[:, None]
    m, p = np.zeros((n, 3)), np.repeat(PROTEINS[None], n, axis=0)
    internal, before = np.zeros((n, REACTIONS)), np.zeros((n, REACTIONS))
    seen, rate = np.empty((n, END, 6)), np.empty((n, REACTIONS))
    each = round(1 / STEP)
    for k in range(END * each):
        rate[:, :3] = BASE + ALPHA * half / (half + p[:, REPRESSOR] ** power)
        rate[:, 3:6], rate[:, 6:9], rate[:, 9:] = m, BETA * m, BETA * p
        internal += STEP * rate
        now = fired(internal.ravel()).reshape(n, REACTIONS)
        change, before = now - before, now
        m = np.maximum(m + change[:, :3] - change[:, 3:6], 0.0)
        p = np.maximum(p + change[:, 6:9] - change[:, 9:], 0.0)
        if (k + 1) % each == 0:
            seen[:, (k + 1) // each - 1] = np.concatenate([m, p], axis=1)
    return seen.reshape(n, -1)


TOLERANCE, DATA_SETS, BATCH, REPEATS = 50.0, 4, 1000, 200
PRIOR = fbar.Prior(n=stats.uniform(1, 3), K=stats.uniform(10, 20))
THEIRS = {"early accept/reject": 2.07 / 0.87, "early decision": 1.98 / 0.87, "early rejection": 1.73 / 0.87}
"""Gains over rejection, from the means of the distributions of their figure 2."""


def observed(seed):
    """Data set ``seed``, from 0 on: an exact simulation at n = 2, K = 20."""
    at = fbar.Points({"n": [2.0], "K": [20.0]})
    return exact(at, np.random.default_rng(seed), RowNoise([seed + 1]))[0]


def distance(x, data):
    return np.sqrt(((x - data) ** 2).sum(axis=1)) / END


def problem(costs, seed=0):
    """With the given CPU seconds of a τ-leap and of an exact simulation."""
    cheap, real = costs
    pair = fbar.Fidelities(exact, leaping, shares_noise=True, cheap_cost=cheap)
    return fbar.Problem(PRIOR, pair, observed(seed), distance=distance, cost=real)


def both(draws):
    """τ-leaps and exact simulations at draws from the prior, and the CPU seconds of each, in batches of `BATCH`."""
    rng = np.random.default_rng(2020)
    cheap, real, spent = [], [], np.zeros(2)
    for _ in range(0, draws, BATCH):
        theta = PRIOR.sample(BATCH, rng=rng)
        seeds = rng.integers(2**63, size=BATCH)
        for k, (simulate, out) in enumerate(((leaping, cheap), (exact, real))):
            begun = time.process_time()
            out.append(simulate(theta, rng, RowNoise(seeds)))
            spent[k] += time.process_time() - begun
    return np.concatenate(cheap), np.concatenate(real), spent / (len(cheap) * BATCH)


def strategies(shares):
    """Continuation probabilities by name."""
    grid = np.exp(np.linspace(math.log(0.01), 0, 200))
    decision = min(grid, key=lambda eta: shares.inefficiency(eta, eta))
    return {
        "early accept/reject": shares.best(),
        "early decision": (decision, decision),
        "early rejection": shares.best(near=1.0),
    }


def claims(draws):
    cheap, real, (cost_cheap, cost_real) = both(draws)
    print(f"{cost_cheap * 1e3:.3g} ms and {cost_real * 1e3:.3g} ms", flush=True)
    rng, rows = np.random.default_rng(1), []
    for seed in range(DATA_SETS):
        data = observed(seed)
        a, b = distance(cheap, data) <= TOLERANCE, distance(real, data) <= TOLERANCE
        shares = Shares(
            float((a & b).mean()),
            float((a & ~b).mean()),
            float((b & ~a).mean()),
            cost_cheap,
            cost_real * float(a.mean()),
            cost_real * float((~a).mean()),
        )
        rejection = float(b.sum()) / (len(b) * cost_real)
        for name, (near, far) in strategies(shares).items():
            eta = np.where(a, near, far)
            found = []
            for _ in range(REPEATS):
                ran = rng.random(len(b)) < eta
                w = a + np.where(ran, (b * 1.0 - a) / eta, 0.0)
                found.append(w.sum() ** 2 / (w**2).sum() / (len(b) * cost_cheap + ran.sum() * cost_real))
            gain = np.mean(found) / rejection
            rows.append(
                {
                    "data": seed,
                    "algorithm": name,
                    "claim": f"{THEIRS[name]:.2f} times the effective samples per second of rejection",
                    "gain": f"{gain:.3g}",
                    "gain_sd": f"{np.std(found) / rejection:.2g}",
                    "gain_as_theirs": f"{gain * (1 + cost_cheap / cost_real):.3g}",
                    "near": f"{near:.2g}",
                    "far": f"{far:.2g}",
                    "accepted_by_exact": f"{b.mean():.3g}",
                    "by_leaping": f"{a.mean():.3g}",
                    "by_both": f"{(a & b).mean():.3g}",
                    "cost_ratio": f"{cost_real / cost_cheap:.3g}",
                }
            )
            print(rows[-1], flush=True)
    return rows


def main(draws: int = 10_000) -> None:
    rows = claims(draws)
    with Path(__file__).with_name("multifidelity_claims.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
