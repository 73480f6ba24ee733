"""Gaussian-process surrogates: what their papers claim, how often their error bars hold, and their own time.

Writes surrogates.csv next to it.

    python benchmarks/systems/surrogates.py                     # some ten minutes on one core
    python benchmarks/systems/surrogates.py 20 "own time"   # 20 runs each, some parts; the others are kept

1. Gutmann & Corander (2016): far fewer simulations than ABC rejection for the same accuracy. The mean squared error of
   posterior means, in posterior variances, of BOLFI at the tolerance ε, and the number of simulations with which
   rejection at ε has the same, 1/(acceptance rate × that error). On four toy problems (``answers``), and where the
   posterior is a small part of the prior (``wide prior``).
2. Järvenpää et al. (2019): the expected integrated variance leaves a smaller total variation distance from ABC's
   posterior than the lower confidence bound, at the same number of simulations. On a banana and on two modes, with
   distances that are as the surrogate assumes: a function of θ with normal noise.
3. Coverage of the 95% intervals of means and standard deviations that are not flagged: of ABC's posterior at the
   tolerance, and of the true posterior.
4. Seconds of processor time at 500 simulations that cost nothing (``own time``).
5. The same errors where other scales of the distance are modelled (``scales``).

Settings were chosen on these problems: the default scale, what other scales add to the error bars, how few simulations
within the tolerance are flagged, and the tolerance at which ``eiv`` chooses points. So 3 is not a test on problems that
had not been seen. The wide prior has 300 simulations since 120 were too few there. The rows of part 5 are of 6 runs,
and older than the last of these changes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

import fbar
from fbar import Estimates
from fbar.methods.surrogates.distances import POWERS, scaled
from fbar.methods.surrogates.gaussian_process import GaussianProcess, fitted
from fbar.methods.surrogates.run import HELD_TOO_RARELY
from fbar.methods.surrogates.sampling import weighted
from fbar.testing import finish

COLUMNS = ("part", "problem", "method", "simulations", "runs", "what", "value", "standard_error", "claim")
TARGETS = [fbar.mean("a"), fbar.mean("b"), fbar.sd("a"), fbar.sd("b")]
MANY, SIMULATIONS, MORE_SIMULATIONS = 2_000_000, 120, 300
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Toy:
    """Two summaries: normal with mean ``centre`` and standard deviation ``spread``, or Poisson with that mean."""

    name: str
    prior: fbar.Prior
    centre: Callable[[fbar.Points], np.ndarray]
    spread: float | None
    observed: tuple[float, float]
    tolerance: float

    def simulate(self, theta, rng):
        centre = self.centre(theta)
        return rng.poisson(centre) if self.spread is None else rng.normal(centre, self.spread)

    @property
    def problem(self) -> fbar.Problem:
        return fbar.Problem(self.prior, self.simulate, observed=np.array(self.observed))

    @cache  # noqa: B019 - the toys live as long as the script
    def truths(self) -> tuple[np.ndarray, np.ndarray, float]:
        """The targets under ABC's posterior and under the true one, and the acceptance rate."""
        theta = self.prior.sample(MANY, rng=np.random.default_rng(1))
        centre = self.centre(theta)
        x = self.simulate(theta, np.random.default_rng(2))
        near = np.linalg.norm(x - np.array(self.observed), axis=1) <= self.tolerance
        log = (
            stats.poisson.logpmf(self.observed, centre)
            if self.spread is None
            else stats.norm.logpdf(self.observed, centre, self.spread)
        ).sum(axis=1)
        return moments(theta, near.astype(float)), moments(theta, np.exp(log - log.max())), float(near.mean())


def moments(theta, weights) -> np.ndarray:
    weights = weights / weights.sum()
    means = [weights @ theta[name] for name in ("a", "b")]
    return np.array(means + [np.sqrt(weights @ (theta[n] - m) ** 2) for n, m in zip("ab", means, strict=True)])


def columns(*parts) -> np.ndarray:
    return np.stack(parts, axis=1)


TOYS = (
    Toy(
        "normal",
        fbar.Prior(a=stats.uniform(-5, 10), b=stats.norm(0, 3)),
        lambda t: columns(t["a"], t["b"]),
        0.5,
        (1.0, -1.0),
        0.6,
    ),
    Toy(
        "banana",
        fbar.Prior(a=stats.uniform(-6, 12), b=stats.uniform(-20, 22)),
        lambda t: columns(t["a"], t["b"] + t["a"] ** 2 / 2),
        1.0,
        (0.5, 0.0),
        1.2,
    ),
    Toy(
        "two modes",
        fbar.Prior(a=stats.uniform(-5, 10), b=stats.uniform(-6, 12)),
        lambda t: columns(t["a"] ** 2 + t["b"], t["b"]),
        1.0,
        (6.0, 1.5),
        1.2,
    ),
    Toy(
        "counts",
        fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1)),
        lambda t: columns(20 * np.exp(t["a"]), 10 * np.exp(t["a"] + t["b"])),
        None,
        (30.0, 25.0),
        7.0,
    ),
)
WIDE = Toy(
    "wide prior",
    fbar.Prior(a=stats.uniform(-50, 100), b=stats.uniform(-50, 100)),
    lambda t: columns(t["a"], t["b"]),
    1.0,
    (10.0, -20.0),
    1.2,
)
METHODS = {"bolfi": fbar.BOLFI(), "bolfi-eiv": fbar.BOLFI("eiv")}


def errors(toy: Toy, settings: fbar.BOLFI, simulations: int, runs: int) -> tuple[list[Estimates], Row]:
    """The answers of some runs at the toy's tolerance, with the error of their means against ABC's posterior."""
    abc, true, _ = toy.truths()
    found = [finish(settings.start(toy.problem, TARGETS, seed, simulations)).expect(TARGETS) for seed in range(runs)]
    away = [(np.array([answer.value for answer in answers[:2]]) - abc[:2]) / true[2:] for answers in found]
    square = np.square(away).mean(axis=1)
    b2, error = float(square.mean()), float(square.std(ddof=1) / np.sqrt(runs))
    row = {"part": "error", "problem": toy.name, "simulations": simulations, "runs": runs}
    return found, {**row, "what": "b² of the means", "value": b2, "standard_error": error}


def rejection(toy: Toy, error: Row) -> Row:
    """How many simulations rejection needs for the same error."""
    needs = 1 / (toy.truths()[2] * error["value"])
    return {
        **error,
        "what": "simulations of rejection for the same",
        "value": needs,
        "standard_error": needs * error["standard_error"] / error["value"],
        "claim": "orders of magnitude more than with BOLFI (Gutmann & Corander 2016)",
    }


def flagged(answers: Estimates) -> bool:
    """Whether for another reason than the acquisition rule, whose answers are all flagged if they come by ``lcb``."""
    return any(set(estimate.warnings) - {HELD_TOO_RARELY} for estimate in answers)


def coverage(found: Sequence[Estimates], truth: np.ndarray, about: str, row: Row) -> Iterator[Row]:
    """How often intervals hold the truth, of answers that are not flagged."""
    found = [answers for answers in found if not flagged(answers)]
    limits = np.array([[estimate.interval() for estimate in answers] for answers in found])
    held = (limits[..., 0] <= truth) & (truth <= limits[..., 1])
    row = {**row, "part": "coverage"}
    for label, part in (("means", held[:, :2]), ("standard deviations", held[:, 2:])):
        yield {
            **row,
            "what": f"{about} {label} within 95% intervals",
            "value": float(part.mean()),
            "standard_error": float(part.mean(axis=1).std(ddof=1) / np.sqrt(len(found))),
            "claim": "0.95",
        }


def answers(runs: int) -> Iterator[Row]:
    """Parts 1 and 3. The intervals are not about the true posterior; that is shown for comparison."""
    for toy in TOYS:
        abc, true, _ = toy.truths()
        for name, method in METHODS.items():
            found, error = errors(toy, method.at_tolerance(toy.tolerance), SIMULATIONS, runs)
            error = {**error, "method": name}
            yield from (error, rejection(toy, error), *coverage(found, abc, "ABC's", error))
            yield from coverage(found, true, "the true posterior's", error)
            share = float(np.mean([flagged(answers) for answers in found]))
            yield {**error, "part": "coverage", "what": "flagged", "value": share, "standard_error": ""}


def wide_prior(runs: int) -> Iterator[Row]:
    """Part 1, where the posterior is a small part of the prior."""
    for name, method in METHODS.items():
        _, error = errors(WIDE, method.at_tolerance(WIDE.tolerance), MORE_SIMULATIONS, max(runs // 2, 2))
        error = {**error, "method": name, "part": "wide prior"}
        yield from (error, rejection(WIDE, error))


def scales(runs: int) -> Iterator[Row]:
    """Part 5; the root of the distance is among the answers."""
    for toy in TOYS:
        for scale in ("log", "plain"):
            settings = fbar.BOLFI(tolerance=toy.tolerance, scale=scale)
            _, error = errors(toy, settings, SIMULATIONS, max(runs // 2, 2))
            yield {**error, "part": "scales", "method": f"bolfi, scale {scale}"}


NOISE, NEAR, AT = 1.0, 2.0, (60, 100, 140)
SHAPES = {
    "banana": lambda a, b: 2 + np.sqrt(a**2 / 4 + (b + 0.3 * a**2 - 2) ** 2),
    "two modes": lambda a, b: 2 + np.sqrt((a**2 - 9) ** 2 / 9 + b**2),
}
GRID = (np.arange(80) + 0.5) / 80


def total_variation(runs: int) -> Iterator[Row]:
    """Part 2."""
    runs = max(runs // 2, 2)
    u = np.stack(np.meshgrid(GRID, GRID), axis=-1).reshape(-1, 2)
    for problem, shape in SHAPES.items():
        truth = ndtr((NEAR - shape(*(16 * u.T - 8))) / NOISE)
        truth = truth / truth.sum()

        def simulate(theta, rng, shape=shape):
            return np.maximum(shape(theta["a"], theta["b"]) + NOISE * rng.standard_normal(theta.rows), 0.0)

        posed = fbar.Problem(fbar.Prior(a=stats.uniform(-8, 16), b=stats.uniform(-8, 16)), simulate, observed=0.0)
        found: dict[tuple[str, int], list[float]] = {}
        for seed in range(runs):
            for name, method in METHODS.items():
                settings = fbar.BOLFI(method.acquisition, tolerance=NEAR, scale="plain")
                run = settings.start(posed, fbar.mean("a"), seed, max(AT))
                while batches := run.ask():
                    run.tell(*((batch, fbar.simulate(posed, batch)) for batch in batches))
                    if run.simulations in AT:
                        y = scaled(run.distance, POWERS["plain"])
                        process = GaussianProcess(run.x, y, fitted(run.x, y))
                        like = weighted(process, process.at(ndtri(u)), np.zeros(len(u)), NEAR).log_likelihood
                        like = np.exp(like) / np.exp(like).sum()
                        found.setdefault((name, run.simulations), []).append(float(np.abs(like - truth).sum() / 2))
        for (name, simulations), values in found.items():
            yield {
                "part": "total variation",
                "problem": problem,
                "method": name,
                "simulations": simulations,
                "runs": runs,
                "what": "from ABC's posterior",
                "value": float(np.mean(values)),
                "standard_error": float(np.std(values, ddof=1) / np.sqrt(runs)),
                "claim": "smaller for bolfi-eiv (Järvenpää et al. 2019)",
            }


def own_time(runs: int) -> Iterator[Row]:
    """Part 4."""
    toy = TOYS[0]
    for name, method in METHODS.items():
        begun = time.process_time()
        finish(method.start(toy.problem, TARGETS, 1, 500)).expect(TARGETS)
        yield {
            "part": "own time",
            "problem": toy.name,
            "method": name,
            "simulations": 500,
            "runs": 1,
            "what": "seconds of processor time",
            "value": time.process_time() - begun,
            "claim": "at most 10",
        }


PARTS = {
    "own time": own_time,
    "total variation": total_variation,
    "answers": answers,
    "wide prior": wide_prior,
    "scales": scales,
}
WRITTEN = {"answers": ("error", "coverage")}
"""The rows that a part writes, where these are not called like it."""


def main(runs: int = 20, *parts: str) -> None:
    path = Path(__file__).with_suffix(".csv")
    for part in parts or tuple(PARTS):
        gone, kept = WRITTEN.get(part, (part,)), []
        if path.exists():
            with path.open(newline="") as file:
                kept = [row for row in csv.DictReader(file) if row["part"] not in gone]
        for row in PARTS[part](runs):
            kept.append({name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()})
            print(*(kept[-1].get(column, "") for column in COLUMNS), flush=True)
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
            table.writeheader()
            table.writerows(kept)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:2]), *sys.argv[2:])
