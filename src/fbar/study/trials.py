"""One trial of a study: pose the problem, run the algorithm, score what it gave."""

from __future__ import annotations

import math
import re
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fbar.engine.global_numbers import seeded
from fbar.errors import FbarError, InputError, NoPosterior
from fbar.problems.benchmark import Benchmark
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.running.replication import Replication
from fbar.scores import Approximation, Scene, Score
from fbar.scores.approximation import Given
from fbar.seeds import Purpose, Seeds
from fbar.study.contenders import Contender
from fbar.study.posed import Posed

PRIOR_DRAWS = 10_000
MOST_MESSAGE = 300


@dataclass(frozen=True)
class Cell:
    """One square of a study's grid."""

    problem: str
    method: str
    budget: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.problem, self.method, self.budget


@dataclass(frozen=True)
class TrialRecord:
    """What is kept of one trial.

    ``status`` is "ok", "prior" (nothing was accepted, the prior's expectation was scored), or "failed" with a
    ``message``. ``estimates`` are (value, standard error, degrees of freedom, trusted) by target, ``scores`` numbers by
    score and component, ``undefined`` the reasons why a score has none, ``told`` what the run told on its way,
    ``intervals`` the ends of the estimates' 95% intervals where there are any, ``biases`` the parts of their standard
    errors that are for bias.
    """

    status: str
    simulations: int = 0
    accepted: float | None = None
    seconds: float = 0.0
    message: str = ""
    estimates: Mapping[str, tuple[float, float, float, bool]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    undefined: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    biases: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> TrialRecord:
        values = dict(given)
        for field_name in ("estimates", "intervals"):  # trials of earlier versions have no intervals
            values[field_name] = {name: tuple(item) for name, item in given.get(field_name, {}).items()}
        return cls(**values)


@dataclass(frozen=True)
class Arena:
    """A problem as a study uses it: what is posed, at which tolerance, and what estimates are scored against.

    With ``fresh`` data each trial draws parameters from the prior and data from the simulator.
    """

    name: str
    problem: Problem
    scored: Problem
    targets: tuple[Target, ...]
    tolerance: float
    fresh: bool = False

    def at(self, seeds: Seeds) -> Arena:
        """The arena of one trial."""
        if not self.fresh:
            return self
        rng = seeds.generator(Purpose.TRIAL, 0, 0)
        theta = self.problem.prior.sample(1, rng=rng).with_derived(self.problem.derived)
        assert isinstance(self.problem, Benchmark)
        data = np.asarray(self.problem.recipe.simulate(theta, rng), dtype=np.float64)[0]
        posed = FreshBenchmark(self.problem.recipe, data, theta)
        return Arena(self.name, posed, posed, self.targets, self.tolerance)


class FreshBenchmark(Benchmark):
    """A problem with data of its own, whose parameters are known."""

    def __init__(self, recipe: Any, data: Any, theta: Points) -> None:
        super().__init__(recipe, data)
        self._theta = theta

    @property
    def true_parameters(self) -> dict[str, float]:
        return {n: self._theta[n][0].item() for n in self._theta if self._theta.present(n)[0]}


@dataclass(frozen=True)
class SharedByTrials:
    """What the trials of an arena share: designs that are computed for a problem once are found again by it."""

    posed: Posed
    scene: Scene

    @classmethod
    def of(cls, arena: Arena) -> SharedByTrials:
        return cls(Posed.of(arena.problem, 0, arena.tolerance), Scene(arena.scored, arena.targets))


class _OfThisThread(threading.local):
    """What the trials of one thread share: two trials at once must not count on one meter."""

    def __init__(self) -> None:
        self.trials: StudyTrials | None = None
        self.by_problem: dict[str, SharedByTrials] = {}

    def shared(self, trials: StudyTrials, problem: str) -> SharedByTrials:
        if self.trials is not trials:
            self.trials, self.by_problem = trials, {}
        if problem not in self.by_problem:
            self.by_problem[problem] = SharedByTrials.of(trials.arenas[problem])
        return self.by_problem[problem]


_of_this_thread = _OfThisThread()


@dataclass(frozen=True, eq=False)
class StudyTrials(Replication[Cell, TrialRecord]):
    """The trials of a study."""

    arenas: Mapping[str, Arena]
    contenders: Mapping[str, Contender]
    scores: tuple[Score, ...]
    entropy: int

    def root(self, cell: Cell) -> Seeds:
        """The same for every method, and whatever else the study holds."""
        return Seeds(self.entropy).trial(zlib.crc32(cell.problem.encode())).trial(cell.budget)

    def trial(self, cell: Cell, seeds: Seeds) -> TrialRecord:
        arena, contender = self.arenas[cell.problem], self.contenders[cell.method]
        shared = _of_this_thread.shared(self, cell.problem)
        return run_trial(arena, contender, cell.budget, seeds, self.scores, shared)

    def ended_process(self, cell: Cell, trial: int) -> TrialRecord:
        return TrialRecord("failed", message="the trial ended its process, twice with the same random numbers")


def run_trial(
    arena: Arena, contender: Contender, budget: int, seeds: Seeds, scores: Sequence[Score], shared: SharedByTrials
) -> TrialRecord:
    """Run and score one trial. What an algorithm raises is recorded, not raised."""
    here = arena.at(seeds)
    if here is not arena:
        shared = SharedByTrials.of(here)
    posed, scene = shared.posed, shared.scene
    if (
        contender.algorithm is not None or contender.question is not None
    ):  # what a function changes of it must not reach other trials or methods
        posed = Posed.of(here.problem, budget, here.tolerance)
    posed.meter.reset(budget)
    start = time.perf_counter()
    status, message = "ok", ""
    try:
        # Processes that are forked share the state of numpy's and Python's global numbers: without seeds of their own,
        # the trials of an algorithm that draws from these would repeat each other.
        with seeded(seeds):
            found = contender.run(posed, here.targets, seeds)
        if posed.meter.refused:
            raise InputError(
                f"the algorithm asked for {posed.meter.refused} simulations beyond its budget of {budget}, "
                "and continued"
            )
        ran = max(found.simulations, posed.spent)
        if ran > budget:
            raise InputError(f"the algorithm ran {ran} simulations; its budget is {budget}")
        given = _given(found, here.targets)
    except NoPosterior as error:
        found = _prior(here.problem, posed.spent)
        status, message = "prior", _line(error)
        given = _given(found, here.targets)
    except (Exception, SystemExit) as error:  # sys.exit() in an algorithm must not end the study
        seconds = time.perf_counter() - start
        return TrialRecord(
            "failed", posed.spent, seconds=seconds, message=_line(error, named=not isinstance(error, FbarError))
        )
    seconds = time.perf_counter() - start
    values: dict[str, dict[str, float]] = {}
    undefined: dict[str, str] = {}
    for score in scores:
        try:
            values[score.name] = {name: float(value) for name, value in score.compute(found, scene).items()}
        except InputError as error:
            undefined[score.name] = _line(error)
    accepted = None if found.accepted is None else float(found.accepted)
    told = {name: float(value) for name, value in found.told.items()}
    estimates = {name: (item.value, item.standard_error, item.df, item.trusted) for name, item in given.items()}
    intervals = {name: item.interval for name, item in given.items() if item.interval is not None}
    biases = {name: item.bias for name, item in given.items() if item.bias}
    simulations = found.simulations
    return TrialRecord(
        status, simulations, accepted, seconds, message, estimates, values, undefined, told, intervals, biases
    )


def _line(error: BaseException, *, named: bool = False) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split() if named else str(error).split())
    return re.sub(r" at 0x[0-9a-f]+", "", text)[:MOST_MESSAGE]  # or one failure would be told as many


def _given(found: Approximation, targets: Sequence[Target]) -> dict[str, Given]:
    result = {}
    for target in targets:
        if found.points is None and target.name not in found.given:
            continue  # it was not asked this question
        given = found.estimate(target)
        if not math.isfinite(given.value):
            raise InputError(f"the estimate of {target.name} is {given.value}")
        result[target.name] = given
    return result


def _prior(problem: Problem, simulations: int) -> Approximation:
    """The prior in place of a posterior: what is known when nothing was accepted."""
    if problem.is_finite:
        return Approximation(problem.points, problem.finite.probabilities, simulations, 0.0, is_prior=True)
    points = problem.prior.sample(PRIOR_DRAWS, rng=np.random.default_rng(0)).with_derived(problem.derived)
    return Approximation(points, np.full(PRIOR_DRAWS, 1 / PRIOR_DRAWS), simulations, 0.0, is_prior=True)
