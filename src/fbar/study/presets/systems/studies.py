"""The studies of the preset "systems": which algorithms on which problems, with how many simulations.

``few`` has the budgets of expensive simulators, 200 and 1,000, with the surrogates that are made for them. ``many`` has
10⁴ simulations and ``most`` has 10⁵, without the surrogates. They take problems of the catalogue that suit some methods
and do not suit others: ten summaries that are normal (gaussian-linear) and two that are not (two-moons), one mode and
several, data that are independent numbers (g-and-k) and a series (sir). ``counts`` and ``likelihoods`` are for methods
that need such data or a likelihood estimate, and ``fidelities`` for those that make use of a cheap simulator.

Methods with a tolerance accept at the one that 1% of the prior's simulations reach (0.1% for 10⁴ and 10⁵).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from fbar.arrays import FloatArray
from fbar.methods import DensityApproximation, Method
from fbar.methods.registry import find
from fbar.question.points import Points
from fbar.question.priors import Prior
from fbar.question.problem import Problem
from fbar.question.simulators import Fidelities
from fbar.question.simulators.fidelities import RowNoise
from fbar.question.truth import Known
from fbar.study.contenders import Contender
from fbar.study.presets.base import SCORES, loaded
from fbar.study.presets.truth.studies import Inferred
from fbar.study.study import Study

DEFAULT = "default"
ABC = ("rejection", "smc-last", "smc", "targeted")
PUBLISHED = ("pmc", "adaptive-weights", "smc-replicas", "mcmc", "multilevel")
LIKELIHOODS = ("synthetic-likelihood", "synthetic-likelihood-mcmc")
SURROGATES = ("bolfi", "bolfi-eiv")

PROBLEMS = ("gaussian-mixture", "two-moons", "gaussian-linear", "sir", "g-and-k")

LEVELS = {200: 1e-2, 1000: 1e-2, 10_000: 1e-3, 100_000: 1e-3}
"""The share of the prior's simulations that tolerances accept."""


def default() -> Contender:
    return Contender(DEFAULT, question=Inferred(), title="fbar.infer with its default method")


def without_tolerance(name: str, method: Method | None = None, *, raw: bool = False) -> Contender:
    """A method that has no tolerance, as a user calls it."""
    return Contender(name, question=Inferred(method or find(name).make(), raw=raw), title=find(name).title)


def few(trials: int, seed: int) -> Study:
    methods = [default(), *ABC, *PUBLISHED[:4], *map(without_tolerance, LIKELIHOODS[:1]), *SURROGATES]
    return Study(loaded(PROBLEMS[:4]), methods, (200, 1000), trials, SCORES, seed, tolerance=LEVELS[1000])


def many(trials: int, seed: int) -> Study:
    return _without_surrogates(10_000, trials, seed)


def most(trials: int, seed: int) -> Study:
    """A trial of everything takes about three minutes, half of them for sir, whose simulations take longest."""
    return _without_surrogates(100_000, trials, seed)


def _without_surrogates(budget: int, trials: int, seed: int) -> Study:
    density = without_tolerance("density", raw=True)
    methods = [default(), *ABC, *PUBLISHED, *map(without_tolerance, LIKELIHOODS), density]
    return Study(loaded(PROBLEMS), methods, budget, trials, SCORES, seed, tolerance=LEVELS[budget])


def counts(trials: int, seed: int) -> Study:
    """A tolerance of ½ accepts exact matches only."""
    density = without_tolerance("density", DensityApproximation())
    methods = [default(), "rejection", "smc", without_tolerance("until-match"), density]
    return Study({"eight-choices": choices()}, methods, 10_000, trials, SCORES, seed, tolerance={"eight-choices": 0.5})


def likelihoods(trials: int, seed: int) -> Study:
    methods = [default(), "rejection", without_tolerance("pseudo-marginal"), without_tolerance("synthetic-likelihood")]
    name = "random-effects"
    return Study({name: random_effects()}, methods, (1000, 10_000), trials, SCORES, seed, tolerance={name: 1.0})


def fidelities(trials: int, seed: int) -> Study:
    """Budgets count cheap simulations too; costs are in real ones."""
    methods = [default(), "rejection", "targeted", "multifidelity"]
    name = "noisy-decay"
    return Study({name: noisy_decay()}, methods, (1000, 10_000), trials, SCORES, seed, tolerance={name: 0.5})


STUDIES: Mapping[str, Callable[[int, int], Study]] = {
    "few": few,
    "many": many,
    "most": most,
    "counts": counts,
    "likelihoods": likelihoods,
    "fidelities": fidelities,
}


def choices() -> Problem:
    """Eight choices between two, of probability θ: the posterior of six and two is Beta(7, 3)."""
    exact = stats.beta(7, 3)
    first = Known("mean:theta", float(exact.mean()), 0.0, float(exact.std()))
    second = exact.moment(2)
    truth = {
        "mean:theta": first,
        "second_moment:theta": Known(
            "second_moment:theta", float(second), 0.0, float(math.sqrt(exact.moment(4) - second**2))
        ),
    }
    return Problem(Prior(theta=stats.uniform(0, 1)), _choose, np.array([1, 0, 1, 1, 0, 1, 1, 1]), truth=truth)


def _choose(theta: Points, rng: np.random.Generator) -> Any:
    return (rng.random((theta.rows, 8)) < theta["theta"][:, None]).astype(int)


EFFECTS: FloatArray = np.array([1.3, -0.4, 2.2, 0.9, 0.1, 1.7, -1.1, 0.8, 2.6, 0.4])
DRAWS = 20
"""Draws of each random effect, for an estimate of the likelihood."""


def random_effects() -> Problem:
    """Ten numbers y_i ~ N(θ + b_i, 1) with b_i ~ N(0, 1), of which the likelihood is estimated by draws of b_i.

    Marginally y_i ~ N(θ, 2), so with θ ~ N(0, 4) the posterior is normal.
    """
    precision = 1 / 4 + EFFECTS.size / 2
    centre, variance = float(EFFECTS.sum() / 2 / precision), 1 / precision
    square = centre**2 + variance
    truth = {
        "mean:theta": Known("mean:theta", centre, 0.0, math.sqrt(variance)),
        "second_moment:theta": Known(
            "second_moment:theta", square, 0.0, math.sqrt(2 * variance**2 + 4 * centre**2 * variance)
        ),
    }
    return Problem(Prior(theta=stats.norm(0, 2)), _with_effects, EFFECTS, records=["log_likelihood"], truth=truth)


def _with_effects(theta: Points, rng: np.random.Generator) -> dict[str, Any]:
    n, centre = theta.rows, theta["theta"][:, None]
    x = centre + rng.normal(size=(n, EFFECTS.size)) * math.sqrt(2)
    effect = rng.normal(size=(n, DRAWS, EFFECTS.size))
    density = np.exp(-0.5 * (EFFECTS - centre[:, None] - effect) ** 2).mean(axis=1) / math.sqrt(2 * math.pi)
    return {"x": x, "log_likelihood": np.log(np.maximum(density, 1e-300)).sum(axis=1)}


DECAYED: FloatArray = np.array([6.1, 3.5])
STEPS, CHEAP_STEPS, START = 256, 8, 10.0


def noisy_decay() -> Problem:
    """x' = −θ x with noise from x = 10, seen at times ½ and 1: in 256 steps, or cheaply in 8 with the same noise.

    In a step x becomes a x + e, with a = exp(−θ/256) and e ~ N(0, 1/256). So both data are normal given the one before,
    with mean a^128 x and variance (1 − a^256)/(256 (1 − a²)), and the posterior of θ, uniform in (0, 3), is a
    one-dimensional integral.
    """
    theta = (np.arange(200_000) + 0.5) * 3 / 200_000
    a = np.exp(-theta / STEPS)
    half, variance = a ** (STEPS // 2), (1 - a**STEPS) / (STEPS * (1 - a**2))
    first, second = DECAYED
    log_p = -np.log(variance) - ((first - half * START) ** 2 + (second - half * first) ** 2) / (2 * variance)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    moments = [float(p @ theta**k) for k in range(5)]
    truth = {
        "mean:theta": Known("mean:theta", moments[1], 0.0, math.sqrt(moments[2] - moments[1] ** 2)),
        "second_moment:theta": Known("second_moment:theta", moments[2], 0.0, math.sqrt(moments[4] - moments[2] ** 2)),
    }
    pair = Fidelities(_decay(STEPS), _decay(CHEAP_STEPS), shares_noise=True, cheap_cost=CHEAP_STEPS / STEPS)
    return Problem(Prior(theta=stats.uniform(0, 3)), pair, DECAYED, cost=1.0, truth=truth)


def _decay(steps: int) -> Callable[[Points, np.random.Generator, RowNoise], Any]:
    def simulate(theta: Points, rng: np.random.Generator, noise: RowNoise) -> Any:
        shocks = noise.normal(STEPS).reshape(theta.rows, steps, -1).sum(axis=2) / math.sqrt(STEPS)
        x, seen = np.full(theta.rows, START), []
        for k in range(steps):
            x = x * np.exp(-theta["theta"] / steps) + shocks[:, k]
            seen.append(x)
        return np.stack([seen[steps // 2 - 1], seen[-1]], axis=1)

    return simulate
