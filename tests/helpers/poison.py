"""Whatever a simulation may give or raise that cannot be used, for tests."""

from __future__ import annotations

import asyncio
import math

import numpy as np
from scipy import stats

import fbar
from fbar.question.outcomes import Failure

PRIOR = fbar.Prior(theta=stats.uniform(0, 1))
MEAN = fbar.mean("theta")
REJECTION = fbar.Rejection(tolerance=0.2, rounds=1)


class OfMyOwn(BaseException):
    pass


class Speechless(Exception):
    def __str__(self):
        raise ValueError("no words")


class Deceptive(Exception):
    kind = Failure.NONE


class Secretive(Exception):
    @property
    def detail(self):
        raise RuntimeError("no detail")


class CannotTravel(Exception):
    def __init__(self, one, two):
        super().__init__("x")
        self.function = lambda: one + two


class NoArray:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("not an array")

    def __repr__(self):
        raise RuntimeError("nor text")


def raised(error):
    raise error


USELESS = {
    "text": lambda x: "abc",
    "bytes": lambda x: b"ab",
    "complex": lambda x: 1j,
    "object": lambda x: object(),
    "no array": lambda x: NoArray(),
    "too large": lambda x: 10**400,
    "too large to write": lambda x: 10**5000,
    "date": lambda x: np.datetime64("2020"),
    "structure": lambda x: np.zeros((), dtype=[("a", "f8")]),
    "set": lambda x: {1, 2},
    "generator": lambda x: (i for i in [x]),
    "function": lambda x: len,
    "mapping in a mapping": lambda x: {"x": {"x": x}},
    "negative cost": lambda x: {"x": x, "cost": -1},
    "text for a cost": lambda x: {"x": x, "cost": "much"},
    "two costs": lambda x: {"x": x, "cost": [1, 2]},
    "cost too large": lambda x: {"x": x, "cost": 10**400},
    "named like a parameter": lambda x: {"x": x, "theta": 1.0},
}
MISSHAPEN = {
    "pair": lambda x: [x, x],
    "nothing": lambda x: [],
    "ragged": lambda x: [1.0, [2.0, 3.0]],
    "no data": lambda x: {"y": x},
}
RAISED = {
    "exit": lambda x: raised(SystemExit(3)),
    "generator exit": lambda x: raised(GeneratorExit()),
    "cancelled": lambda x: raised(asyncio.CancelledError()),
    "of my own": lambda x: raised(OfMyOwn("mine")),
    "speechless": lambda x: raised(Speechless()),
    "deceptive": lambda x: raised(Deceptive()),
    "secretive": lambda x: raised(Secretive()),
    "long": lambda x: raised(RuntimeError("x" * 10**6)),
    "surrogate": lambda x: raised(RuntimeError("a\ud800b")),
    "cannot travel": lambda x: raised(CannotTravel(1, 2)),
    "stop": lambda x: raised(StopIteration()),
    "none": lambda x: None,
}
OURS = {
    "refused": lambda x: raised(fbar.InputError("mine")),
    "no posterior": lambda x: raised(fbar.NoPosterior("mine")),
    "missing": lambda x: raised(fbar.MissingExtra("a", "b")),
}
KINDS = {
    Failure.UNUSABLE: USELESS,
    Failure.WRONG_SHAPE: MISSHAPEN,
    Failure.EXCEPTION: RAISED,
    Failure.REFUSED: OURS,
}
POISONS = {name: (kind, make) for kind, makes in KINDS.items() for name, make in makes.items()}
NAN = {"nan": (Failure.NOT_FINITE, lambda x: math.nan)}


def poisoned(poisons, share=0.3, **options):
    """A simulator whose output is spoilt by chance, in all of these ways."""
    ways = list(poisons.values())

    @fbar.each
    def simulate(theta, rng):
        x = float(theta["theta"] + 0.1 * rng.normal())
        spoilt, way = rng.random() < share, rng.integers(len(POISONS))
        return ways[way % len(ways)][1](x) if spoilt else x

    return fbar.Problem(PRIOR, simulate, observed=0.5, **options)


def simulated(problem, engine, budget=120, block_size=8, seed=5):
    """Every simulation's θ, summary (NaN if it failed) and failure, in order."""
    run = fbar.Rejection(rounds=1).start(problem, MEAN, seed=seed, budget=budget, block_size=block_size)
    batches, found = run.ask(), {}
    with engine.session(problem) as session:
        session.submit(batches)
        while len(found) < len(batches):
            found |= {batch.block: outcomes for batch, outcomes in session.collect()}
    outcomes = [found[i] for i in range(len(batches))]
    theta = np.concatenate([batch.theta["theta"] for batch in batches])
    failure = np.concatenate([o.failure for o in outcomes])
    x = np.where(failure == 0, np.concatenate([o.summaries for o in outcomes]), np.nan)
    return theta, x, failure


def answer(result):
    return result["mean:theta"].value, result["mean:theta"].standard_error, result.run.seen.counts


def asked(budget, block_size=1, **options):
    return {"method": REJECTION, "budget": budget, "block_size": block_size, "seed": 1, **options}


def some(theta, rng):
    return theta["theta"] + 0.1 * rng.normal(size=theta.rows)
