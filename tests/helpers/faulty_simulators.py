"""Simulators that fail in every way, one by one and vectorised."""

from __future__ import annotations

import faulthandler
import os
import signal
import time

import numpy as np
from scipy import stats

import fbar

PRIOR = fbar.Prior(theta=stats.uniform(0, 1))


def fault(how):
    """What ends a simulation, or all of its process."""
    if how == "exit":
        os._exit(3)
    if how == "segmentation fault":
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(3600)
    if how == "memory":
        np.empty(2**60)
    raise ArithmeticError("no solution")


def chance(theta, x, depends, f):
    """The probability of a fault: f in the lower half of θ; there for outcomes that would be accepted alone."""
    fragile = theta < 0.5
    return f * (fragile if depends == "theta" else fragile & (x > 0))


def one_by_one(how, depends, f=0.5):
    @fbar.each
    def simulate(theta, rng):
        x = float(rng.random() < 0.7)
        if rng.random() < chance(np.array(theta["theta"]), np.array(x), depends, f):
            fault(how)
        return x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


def vectorised(how, depends, f=0.5):
    def simulate(theta, rng):
        x = (rng.random(theta.rows) < 0.7).astype(float)
        if (rng.random(theta.rows) < chance(theta["theta"], x, depends, f)).any():
            fault(how)
        return x

    return fbar.Problem(PRIOR, simulate, observed=1.0)


KINDS = {"one by one": one_by_one, "vectorised": vectorised}


def outcomes(problem, engine, budget, block_size, seed=5):
    """Every simulation's data and failure, in order."""
    run = fbar.Rejection(rounds=1).start(problem, fbar.mean("theta"), seed=seed, budget=budget, block_size=block_size)
    batches, found = run.ask(), {}
    with engine.session(problem) as session:
        session.submit(batches)
        while len(found) < len(batches):
            found |= {batch.block: (batch, told) for batch, told in session.collect()}
    told = [found[i][1] for i in range(len(batches))]
    theta = np.concatenate([found[i][0].theta["theta"] for i in range(len(batches))])
    failure = np.concatenate([np.zeros(t.simulations, np.int8) if t.failure is None else t.failure for t in told])
    x = np.where(failure == 0, np.concatenate([t.summaries for t in told]), np.nan)
    return theta, x, failure
