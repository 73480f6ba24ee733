"""Algorithms of pyABC for a study of fbar (run with pyABC 0.13.0; `make test-peers`).

    Study("gaussian-linear", {"rejection": "rejection", "pyabc-local": pyabc_smc("local")}, budgets=2000)

How a run of pyABC and a study's budget and tolerance are brought together:

- *Tolerance.* ε falls as pyABC's `MedianEpsilon` lets it (from a sample of the prior, which costs simulations too), but
  never below the study's tolerance, where pyABC would overshoot it.
- *Budget.* pyABC looks at `max_total_nr_simulations` between populations. A sampler of our own, which is pyABC's place
  for such things, stops at the last simulation that the budget allows.
- *What is left when the tolerance is reached.* pyABC would stop. Here the population at the tolerance goes on to the
  budget's end, so that all simulations count (``spend="budget"``); ``spend="population"`` stops as pyABC does.
- *A budget that ends within a population.* The last complete population is the answer, as in pyABC, though its ε is
  larger than the study's tolerance; the error that comes from it is part of the score. Not even a first one: the trial
  is scored as one that learned nothing (`NoPosterior`).

Transitions have pyABC's own defaults. `LocalTransition` takes the covariance of a quarter of the population around each
particle: with few particles in many dimensions (40 in ten) it is singular, and pyABC ends with "The total population
weight is zero"; the study counts such a trial as failed.

pyABC simulates one parameter set at a time (its parallelism is over processes), so nothing is batched. It draws from
numpy's global random numbers: they are seeded from the trial's, and put back afterwards.
"""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager

import numpy as np
import pyabc
from working_space import distances, population_size, to_theta

import fbar

TRANSITIONS = {"normal": pyabc.MultivariateNormalTransition, "local": pyabc.LocalTransition}

logging.getLogger("ABC").setLevel(logging.ERROR)


def pyabc_smc(transition="normal", population=None, spend="budget"):
    """ABC-SMC of pyABC with its `MultivariateNormalTransition` ("normal") or its `LocalTransition` ("local")."""
    if transition not in TRANSITIONS or spend not in ("budget", "population"):
        raise fbar.InputError("transition is 'normal' or 'local', spend is 'budget' or 'population'")

    def algorithm(problem, budget, rng):
        if not problem.has_summaries:
            raise fbar.InputError("the data of this problem are an event: no ε can fall; use pyabc_rejection()")
        eps = FallsTo(problem.tolerance)
        return _run(problem, rng, eps, TRANSITIONS[transition](), population_size(population, budget), spend)

    return algorithm


def pyabc_rejection():
    """One population from the prior at the study's tolerance, until the budget ends."""

    def algorithm(problem, budget, rng):
        eps = pyabc.ListEpsilon([problem.tolerance])
        return _run(problem, rng, eps, pyabc.MultivariateNormalTransition(), 1, "budget")

    return algorithm


def _run(problem, rng, eps, transition, population, spend):
    names = [f"z{i}" for i in range(problem.prior.dimension)]

    def simulate(parameter):
        z = np.array([[parameter[name] for name in names]])
        return {"distance": float(distances(problem, z, rng)[0])}

    sampler = WithinBudget(problem, eps, spend)
    with _global_numbers_from(rng):
        abc = pyabc.ABCSMC(
            simulate,
            StandardNormal(names),
            lambda x, x_0: x["distance"],  # the problem's own, computed where the simulation is
            population_size=population,
            transitions=transition,
            eps=eps,
            sampler=sampler,
        )
        abc.new("sqlite://", {"distance": 0.0})  # its record, in memory
        try:
            abc.run(minimum_epsilon=problem.tolerance, max_total_nr_simulations=problem.budget)
        except AssertionError as error:  # in many dimensions its local densities can overflow, and all weights be zero
            if "population weight is zero" not in str(error):
                raise
    if not sampler.complete:
        raise fbar.NoPosterior(f"no population was complete after {problem.spent} simulations")
    z = np.array([[particle.parameter[name] for name in names] for particle in sampler.complete])
    return to_theta(problem, z), np.array([particle.weight for particle in sampler.complete])


class StandardNormal(pyabc.DistributionBase):
    """The prior of the working space: `pyabc.Distribution` of N(0, 1) variables, without a scipy call for each."""

    def __init__(self, names):
        self.names = names

    def rvs(self, *args, **kwargs):
        return pyabc.Parameter(dict(zip(self.names, np.random.standard_normal(len(self.names)), strict=True)))  # noqa: NPY002

    def pdf(self, x):
        return math.exp(-0.5 * sum(x[name] ** 2 for name in self.names)) / (2 * math.pi) ** (len(self.names) / 2)


class FallsTo(pyabc.MedianEpsilon):
    """The median of the last population's distances, and not below the tolerance."""

    def __init__(self, tolerance):
        super().__init__()
        self.tolerance = tolerance

    def __call__(self, t):
        return max(super().__call__(t), self.tolerance)


class WithinBudget(pyabc.SingleCoreSampler):
    """Samples one after the other, and no more than the problem's budget; keeps the last complete population."""

    def __init__(self, problem, eps, spend):
        super().__init__()
        self.problem, self.eps, self.spend = problem, eps, spend
        self.complete = []

    def sample_until_n_accepted(self, n, simulate_one, t, *, max_eval=np.inf, all_accepted=False, ana_vars=None):
        calibrating = all_accepted  # a sample of the prior that the first ε is taken from
        last = not calibrating and self.eps(t) <= self.problem.tolerance
        wanted = math.inf if last and self.spend == "budget" else n
        before, sample = self.problem.spent, self._create_empty_sample()
        while sample.n_accepted < wanted and self.problem.left:
            sample.append(simulate_one())
        self.nr_evaluations_ = self.problem.spent - before
        if not calibrating and sample.n_accepted >= n and any(p.weight > 0 for p in sample.accepted_particles):
            self.complete = sample.accepted_particles
        sample.ok = sample.n_accepted == n  # else pyABC ends its run here
        return sample


@contextmanager
def _global_numbers_from(rng):
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, size=4, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
