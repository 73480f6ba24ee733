"""What travels between a run and the simulator: batches of θ out, outcomes back."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.seeds import Purpose, Seeds


@dataclass(frozen=True, eq=False)
class Batch:
    """One block of work: the θ to simulate and how often.

    ``points`` has one row for each distinct θ and ``repeats`` its number of simulations, with leading trial
    axes when a run carries several trials at once; None stands for one each. ``theta`` is the same written out,
    one row for each simulation. ``cells`` has the number of the value of a finite prior each row is.
    """

    round: int
    block: int
    points: Points
    repeats: IntArray | None
    seeds: Seeds
    cells: IntArray | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.round, self.block

    @property
    def simulations(self) -> int:
        """The number of simulations asked for (in the busiest trial, if there are several)."""
        return self.points.rows if self.repeats is None else int(self.repeats.sum(axis=-1).max())

    @property
    def theta(self) -> Points:
        """Every simulation's θ, a row each."""
        if self.repeats is None:
            return self.points
        if self.repeats.ndim > 1:
            raise InputError("a batch of several trials can only be tallied; start the run without trials=")
        return self.points.repeat(self.repeats)

    def rng(self) -> np.random.Generator:
        """The generator that this block, and nothing else, is simulated with."""
        return self.seeds.generator(Purpose.SIMULATE, self.round, self.block)

    def row_sequence(self, row: int) -> np.random.SeedSequence:
        """Where the random numbers of one row come from, of a simulator that runs its rows one by one."""
        return self.seeds.sequence(Purpose.ROW, self.round, self.block, row)

    def rerun_rng(self, stream: int) -> np.random.Generator:
        """A generator for rows of a block whose simulator failed for the whole block; see `fbar.engine.recovery`."""
        return self.seeds.generator(Purpose.RERUN, self.round, self.block, stream)


class Failure(enum.IntEnum):
    """Why a simulation gave nothing that could be compared with the data."""

    NONE = 0
    EXCEPTION = 1
    NOT_FINITE = 2
    WRONG_SHAPE = 3
    TIMED_OUT = 4
    KILLED = 5
    UNUSABLE = 6
    REFUSED = 7

    @property
    def words(self) -> str:
        """What happened, after a number of simulations."""
        return _WORDS[self]


_WORDS = {
    Failure.NONE: "succeeded",
    Failure.EXCEPTION: "raised an exception",
    Failure.NOT_FINITE: "gave a result that is not finite",
    Failure.WRONG_SHAPE: "gave a result of another shape than the data",
    Failure.TIMED_OUT: "took longer than the time-out",
    Failure.KILLED: "killed the worker process",
    Failure.UNUSABLE: "gave a result that cannot be used",
    Failure.REFUSED: "raised one of fbar's errors",
}

MISTAKES = frozenset({Failure.WRONG_SHAPE, Failure.UNUSABLE, Failure.REFUSED})
"""What is a mistake in the problem as a rule, if every simulation fails so."""

FORCED = frozenset({Failure.TIMED_OUT, Failure.KILLED})
"""What may have been done to a simulation from outside."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """What each simulation of a block gave, in the order of ``Batch.theta``.

    ``failure`` has a `Failure` for every simulation, ``examples`` a message for each kind that occurred, and
    ``details`` its traceback or standard error. ``cost`` is what every simulation cost, in seconds where it was
    measured and in the simulator's unit where it returned it; NaN for a failed one of which it is not known, and None
    if it is not known at all.
    """

    summaries: npt.NDArray[np.generic]
    recorded: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    failure: npt.NDArray[np.int8] | None = None
    examples: Mapping[Failure, str] = field(default_factory=dict)
    details: Mapping[Failure, str] = field(default_factory=dict)
    seconds: float = 0.0
    cost: FloatArray | None = None
    raw: FloatArray | None = None
    """The raw numbers of some of the simulations, see `fbar.question.raw_numbers`; None where none are kept."""

    @property
    def simulations(self) -> int:
        return len(self.summaries)

    @property
    def columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """What was recorded as one number or text for each simulation, as targets take it."""
        return {n: v for n, v in self.recorded.items() if np.ndim(v) == 1 and np.asarray(v).dtype.kind in "biufcUS"}


SAMPLE = 2000
"""Distances that are remembered, for messages."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The closest distance to the data, and the failures by kind with an example of each, of some simulations.

    ``distances`` is a sample of the distances: those of the first simulations. ``nonsense`` is what a distance or an
    acceptance rule gave that it never may.
    """

    closest: float = math.inf
    counts: Mapping[Failure, int] = field(default_factory=dict)
    examples: Mapping[Failure, str] = field(default_factory=dict)
    details: Mapping[Failure, str] = field(default_factory=dict)
    distances: FloatArray = field(default_factory=lambda: np.zeros(0))
    nonsense: str = ""

    @classmethod
    def of(cls, distance: FloatArray, failure: npt.NDArray[np.int8] | None, outcomes: Simulated) -> Seen:
        """What ``distance`` (NaN where a simulation failed) and the failures show."""
        known = distance[~np.isnan(distance)]
        closest = float(known.min()) if known.size else math.inf
        sample = known[:SAMPLE]
        if failure is None or not failure.any():
            return cls(closest, distances=sample)
        numbers = np.bincount(failure, minlength=len(Failure))
        counts = {kind: int(numbers[kind]) for kind in Failure if kind and numbers[kind]}
        return cls(closest, counts, outcomes.examples, outcomes.details, sample)

    def __add__(self, other: Seen) -> Seen:
        full = len(self.distances) >= SAMPLE
        if full and not other.counts:
            return self if self.closest <= other.closest else replace(self, closest=other.closest)
        sample = self.distances if full else np.concatenate([self.distances, other.distances])[:SAMPLE]
        return Seen(
            min(self.closest, other.closest),
            {
                k: self.counts.get(k, 0) + other.counts.get(k, 0)
                for k in Failure
                if k in self.counts or k in other.counts
            },
            {**other.examples, **self.examples},
            {**other.details, **self.details},
            sample,
            self.nonsense or other.nonsense,
        )

    def by(self, simulator: str) -> Seen:
        """The same, with the name of the simulator in the examples."""
        if not simulator or not self.examples:
            return self
        return replace(self, examples={kind: f"{simulator}: {text}" for kind, text in self.examples.items()})

    def all_failed(self, simulations: int, kind: Failure, example: str) -> Seen:
        """The same if those that succeeded, of ``simulations``, turn out to have failed after all."""
        more = simulations - self.failures
        counts = {k: self.counts.get(k, 0) + more * (k == kind) for k in Failure if k in self.counts or k == kind}
        return Seen(
            counts=counts, examples={kind: example, **self.examples}, details=self.details, nonsense=self.nonsense
        )

    @property
    def failures(self) -> int:
        return sum(self.counts.values())

    @property
    def mistake(self) -> str:
        """What is wrong, if all failures are of kinds that a mistake in the problem has; or nothing."""
        kind = next(iter(self.counts), None)
        if kind is None or not MISTAKES.issuperset(self.counts):
            return ""
        return self.examples.get(kind) or f"every simulation {kind.words}"

    def __str__(self) -> str:
        closest = f"the closest came within {self.closest:.4g} of the data" if math.isfinite(self.closest) else ""
        return ", ".join(part for part in (closest, self.spread, self.failed) if part)

    @property
    def spread(self) -> str:
        """Quantiles of the distances, in words."""
        finite = self.distances[np.isfinite(self.distances)]
        if finite.size < 20:
            return ""
        low, tenth, half = np.quantile(finite, [0.01, 0.1, 0.5])
        return f"1% within {low:.4g}, 10% within {tenth:.4g}, half within {half:.4g}"

    @property
    def failed(self) -> str:
        """The failures in words."""
        parts = []
        for kind, count in self.counts.items():
            example = f" ({self.examples[kind]})" if self.examples.get(kind) else ""
            parts.append(f"{count} {kind.words}{example}")
        return ", ".join(parts)


@dataclass(frozen=True)
class FailedPlace:
    """Simulations, and failed ones, in a part of a parameter's values; of those that were watched."""

    parameter: str
    words: str
    simulations: int
    failed: int


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of the acceptance weights a over the repeats of each row: Σa and Σa², shape (..., rows).

    ``seen`` is what a message can report of the simulations behind the sums.
    """

    weight: FloatArray
    square: FloatArray
    seen: Seen = field(default_factory=lambda: Seen())


Outcomes: TypeAlias = Simulated | Tally


def require_simulated(outcomes: object) -> Simulated:
    """Outcomes given to a run, refused unless they are what simulations gave."""
    if not isinstance(outcomes, Simulated):
        raise InputError(
            "tell takes pairs (batch, outcomes) with outcomes made by problem.outcomes(x, batch.simulations) "
            f"or fbar.simulate; got {type(outcomes).__name__}"
        )
    return outcomes


def tally(batch: Batch, weights: FloatArray, seen: Seen) -> Tally:
    """Sum the acceptance weights of single simulations over the repeats of each row, in index order."""
    if len(weights) != batch.simulations:
        raise InputError(f"block {batch.key} asked for {batch.simulations} simulations and got {len(weights)} outcomes")
    if batch.repeats is None:
        return Tally(weights, weights**2, seen)
    row = np.repeat(np.arange(batch.points.rows), batch.repeats)
    size = batch.points.rows
    return Tally(
        np.bincount(row, weights=weights, minlength=size).astype(np.float64),
        np.bincount(row, weights=weights**2, minlength=size).astype(np.float64),
        seen,
    )
