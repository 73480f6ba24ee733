"""Runs on an engine, and what they are compared by."""

import os
import time
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.engine import InProcess

MEAN = fbar.mean("theta")


def drive(problem, method, engine, targets=MEAN, budget=None, **options):
    run = method.start(problem, targets, seed=11, budget=budget, **options)
    fbar.drive(run, engine=engine)
    return run


def numbers(run):
    estimates = [run.posterior().expect(target) for target in run.targets]
    return [(e.value, e.standard_error) for e in estimates]


def killer(theta, rng):
    """Kills its worker in the one block that has a θ below 0."""
    if theta["theta"][0] < 0:
        os._exit(1)
    return theta["theta"]


def drawn(method, budget, **options):
    """The θ that the run of `drive` with these settings draws, block by block."""
    seen = []

    def simulate(theta, rng):
        seen.append(theta["theta"])
        return np.ones(theta.rows)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    drive(problem, method, InProcess(), budget=budget, **options)
    return seen


def failures(method, budget, **options):
    return sum((theta > 0.9).sum() for theta in drawn(method, budget, **options))


def z_score(run, truth):
    estimate = run.posterior().expect(MEAN)
    return (estimate.value - truth) / estimate.standard_error


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def gone(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
