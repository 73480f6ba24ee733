"""Simulations that cost something, for tests: their own clock, and simulators that are timed or return costs."""

import numpy as np
from scipy import stats

import fbar
from fbar.question.outcomes import Batch
from fbar.seeds import Seeds

MU = fbar.mean("mu")
PRIOR = fbar.Prior(mu=stats.uniform(0, 8))


class Clock:
    """Time that simulators let pass themselves. Their costs are multiples of 1/8: sums and differences are exact."""

    now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds):
        self.now += seconds


def seconds(mu):
    return 1 + np.floor(mu) / 8


def timed(clock):
    @fbar.each
    def simulate(theta, rng):
        clock.takes(seconds(theta["mu"]))
        return theta["mu"] + rng.normal()

    return simulate


def returning(theta, rng):
    """Costs that are no round numbers, so that the order of a sum shows."""
    x = theta["mu"] + rng.normal(size=theta.rows)
    return {"x": x, "cost": np.exp(theta["mu"]) * 0.1 + rng.random(theta.rows)}


def bare(theta, rng):
    return theta["mu"] + rng.normal(size=theta.rows)


def problem_of(simulate, **options):
    return fbar.Problem(PRIOR, simulate, observed=4.0, **options)


def block(problem, size=40, number=0):
    points = problem.prior.sample(size, rng=np.random.default_rng(number)).with_derived(problem.derived)
    return Batch(0, number, points, None, Seeds(3))


def answers(problem, **options):
    batch = block(problem, **options)
    return batch, fbar.simulate(problem, batch)
