"""Runs of ABC-SMC that several tests look at."""

from __future__ import annotations

from scipy import stats

import fbar
from fbar.running import drive

KERNELS = ("uniform", "normal", "local-normal", "olcm")
MEAN = fbar.mean("theta1")
SCHEDULE = (160, 40, 10, 3, 1)


def run(method, problem, targets=MEAN, seed=1, **options):
    started = method.start(problem, targets, seed, **options)
    drive(started, history=False)
    return started


def gaussian(noise=0.5):
    return fbar.Problem(
        fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] + noise * rng.standard_normal(t.rows), observed=1.0
    )
