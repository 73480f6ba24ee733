"""Targeted runs and the problems that several tests use."""

from __future__ import annotations

import numpy as np
from scipy import stats

import fbar
from fbar import problems

EXPONENTIAL = problems.load("two-sided-exponential")
"""θ ~ U(−40, 60), p(x*|θ) = exp(−|θ|): Z = 0.02, mean 0, second moment 2."""
THETA = fbar.mean("theta")


def gauss(theta, rng):
    return theta["a"] + 0.5 * rng.standard_normal(theta.rows)


def normal(simulate=gauss, observed=0.5, **options):
    """a ~ N(0, 1), x = a + N(0, 0.25)."""
    return fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), simulate, observed=observed, **options)


A = fbar.mean("a")


def ask(problem, targets, budget, seed=1, **options):
    infer = {name: options.pop(name) for name in ("run", "workers", "block_size", "progress") if name in options}
    return fbar.infer(problem, targets, method=fbar.Targeted(**options), budget=budget, seed=seed, **infer)


def until(run, round):
    """Drive a run to the start of a round."""
    while run.round < round:
        run.tell(*[(batch, fbar.simulate(run.problem, batch)) for batch in run.ask()])
    return run


NESTED = problems.load("nested-models")
Z = np.linspace(-9, 9, 40_001)
