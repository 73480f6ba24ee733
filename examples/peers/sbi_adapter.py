"""The ABC algorithms of sbi for a study of fbar (run with sbi 0.27.0 and torch 2.13.0; `make test-peers`).

    Study("gaussian-linear", {"rejection": "rejection", "sbi-smc": sbi_smcabc()}, budgets=2000)

How a run of sbi and a study's budget and tolerance are brought together:

- *Budget.* `MCABC` and `SMCABC` are given a number of simulations and keep to it.
- *Tolerance.* `MCABC` takes ε. `SMCABC` has no last ε: its ε falls until the simulations end. It is given the distance
  max(Δ, tolerance), and lets ε fall by quantiles of it (`distance_based_decay`): so ε comes down to the study's
  tolerance exactly, and stays there.
- *What is left when the tolerance is reached.* `SMCABC` draws one population after the other, and its answer is the
  last. Here all complete populations at the tolerance are the answer, each with the same weight (``pooled=True``), so
  that all simulations count; ``pooled=False`` gives the last alone, as sbi does. (Weights by effective size would be
  biased where populations are small: one that missed a tail looks the more effective.)
- *A budget that ends within a population.* It is discarded and the one before is the answer (sbi's
  ``use_last_pop_samples=False``). sbi's default fills it up with particles of the one before, and weighs these as if
  they had been drawn from the newer proposal, which they were not. Where the tolerance was not reached, the answer is
  the last complete population at a larger ε; the error that comes from it is part of the score.
- *Weights.* sbi returns the particles; their weights are in its summary, as logarithms.

sbi simulates whole batches, and so do we. torch's random numbers are seeded from the trial's, and put back afterwards.
"""

from __future__ import annotations

import numpy as np
import torch
from sbi.inference import MCABC, SMCABC
from working_space import distances, population_size, to_theta

import fbar

BATCH = 10_000
FAR = 1e30
"""The distance of a simulation that failed: sbi's schedules need finite ones."""


def sbi_mcabc(adjusted=False):
    """Rejection (`MCABC`) at the study's tolerance; ``adjusted`` by sbi's linear regression, in the working space."""
    torch.set_num_threads(1)  # trials run side by side, and sums must not depend on the number of threads

    def algorithm(problem, budget, rng):
        if adjusted and not problem.has_summaries:
            raise fbar.InputError("the data of this problem are an event: there is nothing to regress on")
        space = Space(problem, rng)
        with torch.random.fork_rng():
            torch.manual_seed(_seed(rng))
            sampler = MCABC(space.simulate, space.prior, **space.settings)
            # MCABC accepts Δ < ε, studies Δ ≤ ε.
            eps = float(np.nextafter(problem.tolerance, np.inf))
            try:
                z = sampler(space.observed, num_simulations=budget, eps=eps, lra=adjusted)
            except AssertionError as error:
                if "No parameters accepted" not in str(error):
                    raise
                raise fbar.NoPosterior(f"none of {budget} simulations was accepted") from None
        return to_theta(problem, z), np.ones(len(z))

    return algorithm


def sbi_smcabc(population=None, pooled=True, *, quantile=0.2, kernel="gaussian", variant="C", scale=0.5, first=5):
    """ABC-SMC (`SMCABC`).

    Its settings are those of the sbibm benchmark (Lueckmann et al. 2021) by default: ``quantile`` for the next ε,
    ``variant`` C (Beaumont et al. 2009), kernels of ``scale`` times the covariance, a ``first`` sample of five times
    the population.
    """
    torch.set_num_threads(1)

    def algorithm(problem, budget, rng):
        if not problem.has_summaries:
            raise fbar.InputError("the data of this problem are an event: no ε can fall; use sbi_mcabc()")
        size = population_size(population, budget)
        space = Space(problem, rng)
        with torch.random.fork_rng():
            torch.manual_seed(_seed(rng))
            settings = {"kernel": kernel, "algorithm_variant": variant, **space.settings}
            sampler = SMCABC(space.simulate, space.prior, **settings)
            _, summary = sampler(
                space.observed,
                num_particles=size,
                num_initial_pop=min(budget, first * size),
                num_simulations=budget,
                epsilon_decay=quantile,
                distance_based_decay=True,
                kernel_variance_scale=scale,
                use_last_pop_samples=False,
                return_summary=True,
            )
        return _answer(problem, summary, pooled)

    return algorithm


def _answer(problem, summary, pooled):
    populations = [
        (np.asarray(z, dtype=np.float64), np.exp(np.asarray(log_weights, dtype=np.float64)), float(eps))
        for z, log_weights, eps in zip(summary["particles"], summary["weights"], summary["epsilons"], strict=True)
    ]
    # A population that the budget did not suffice for stands there as a copy of the one before, under its own ε.
    if len(populations) > 1 and np.array_equal(populations[-1][0], populations[-2][0]):
        populations.pop()
    kept = [item for item in populations if item[2] <= problem.tolerance] if pooled else []
    kept = kept or populations[-1:]
    weights = np.concatenate([w / w.sum() for _, w, _ in kept])
    return to_theta(problem, np.concatenate([z for z, _, _ in kept])), weights


class Space:
    """The problem as sbi sees it: a prior, a simulator of batches, observed data, and a distance, as tensors."""

    def __init__(self, problem, rng):
        self.problem, self.rng = problem, rng
        size = problem.prior.dimension
        self.prior = torch.distributions.MultivariateNormal(torch.zeros(size), torch.eye(size))
        data = np.asarray(problem.observed if problem.has_summaries else 0.0, dtype=np.float64)
        self.shape, self.observed = data.shape, torch.from_numpy(data.reshape(1, -1))
        self.settings = {
            "distance": self.distance,
            "requires_iid_data": False,
            "simulation_batch_size": BATCH,
            "show_progress_bars": False,
        }

    def simulate(self, z):
        """Summary statistics of a batch, one row each; not a number where a simulation failed."""
        problem = self.problem
        if not problem.has_summaries:
            return torch.from_numpy(distances(problem, z, self.rng)[:, None])
        theta = to_theta(problem, z)
        found = problem.outcomes(problem.simulate(theta, self.rng), theta.rows)
        summaries = np.asarray(found.summaries, dtype=np.float64).reshape(theta.rows, -1)
        if found.failure is not None:
            summaries = np.where(found.failure[:, None] == 0, summaries, np.nan)
        return torch.from_numpy(summaries)

    def distance(self, observed, x):
        """max(Δ, tolerance), with the problem's own Δ."""
        rows = x.numpy()
        if not self.problem.has_summaries:
            return x[:, 0]
        result = np.full(len(rows), FAR)
        good = np.isfinite(rows).all(axis=1)
        if good.any():
            result[good] = self.problem.distance(rows[good].reshape(-1, *self.shape))
        return torch.from_numpy(np.clip(np.nan_to_num(result, nan=FAR), self.problem.tolerance, FAR))


def _seed(rng):
    return int(rng.integers(2**63))
