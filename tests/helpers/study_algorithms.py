"""Algorithms, good and bad, that the tests of studies give to score."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import fbar
from fbar.study import BudgetExceeded, Study


def half_of_it(problem, budget, rng):
    """Rejection with half its budget."""
    theta = problem.prior.sample(budget // 2, rng=rng)
    return theta.take(np.flatnonzero(problem.matches(theta, rng)))


def all_of_it(problem, budget, rng):
    theta = problem.prior.sample(budget, rng=rng)
    return theta.take(np.flatnonzero(problem.matches(theta, rng)))


def too_much(problem, budget, rng):
    problem.matches(problem.prior.sample(budget, rng=rng), rng)
    problem.matches(problem.prior.sample(1, rng=rng), rng)


def swallows(problem, budget, rng):
    """Goes on as if nothing had happened."""
    theta = problem.prior.sample(budget, rng=rng)
    held = problem.matches(theta, rng)
    try:
        problem.matches(problem.prior.sample(5, rng=rng), rng)
    except BudgetExceeded:
        return theta.take(np.flatnonzero(held))


def nothing(problem, budget, rng):
    return None


def broken(problem, budget, rng):
    raise ZeroDivisionError("a bug of mine")


def leaves(problem, budget, rng):
    sys.exit(3)


def estimates_alone(problem, budget, rng):
    theta = problem.prior.sample(budget, rng=rng)
    x = theta["theta"][problem.matches(theta, rng)]
    return {"mean:theta": (x.mean(), x.std() / np.sqrt(len(x)))}


def same(first, second):
    """Whether two results are the same but for the time they took (as text, in which NaN equals itself)."""
    return [
        {key: repr(replace(record, seconds=0.0)) for key, record in result.trials.items()} for result in (first, second)
    ] == [{key: repr(replace(record, seconds=0.0)) for key, record in first.trials.items()}] * 2


def run(*arguments, **options):
    return Study(*arguments, **options).run(workers=1, progress=False)


def own_problem(noise, truth):
    return fbar.Problem(
        fbar.Prior(theta=fbar.question.priors.marginals.Uniform(0, 1)),
        lambda t, rng: t["theta"] + rng.normal(0, noise, t.rows),
        0.5,
        truth={"mean:theta": truth},
    )
