"""The contract of a score, and the registry of scores.

A new score is a subclass of `Score` with the decorator `register`: see "Adding a score" in ``CONTRIBUTING.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar, get_args

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import choice, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.question.truth import FiniteReference
from fbar.scores.approximation import Approximation
from fbar.system.plugins import load_plugins

Needs = Literal["nothing", "expectations", "density", "samples", "finite", "parameters"]
Better = Literal["lower", "higher", "nominal"]


@dataclass(frozen=True)
class Scene:
    """What scores of one problem share over all trials: the problem, the targets, draws from the truth.

    ``seed`` makes the random numbers of a score the same for every method and trial.
    """

    problem: Problem
    targets: tuple[Target, ...]
    seed: int = 0
    truth_size: int = 10_000

    @cached_property
    def true_sample(self) -> Points:
        """Draws from the true posterior, the same for every trial."""
        return self.problem.reference.sample(self.truth_size, np.random.default_rng([self.seed, 7]))

    @cached_property
    def true_points(self) -> tuple[Points, FloatArray]:
        """The truth as weighted points: exact on a finite space, draws of equal weight elsewhere."""
        reference = self.problem.reference
        if isinstance(reference, FiniteReference):
            return reference.points, reference.weights
        return self.true_sample, np.full(self.true_sample.rows, 1 / self.true_sample.rows)

    @cached_property
    def true_log_density(self) -> FloatArray:
        """log p(θ|x*) at the draws from the truth."""
        return np.asarray(self.problem.reference.log_density(self.true_sample), dtype=np.float64)

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """What scores have computed from the truth, for the next trial."""
        return {}

    def rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])


class Score(ABC):
    """A number (or several, by name) for one trial of one algorithm.

    A subclass needs a ``name``, a ``title`` of one line, which way is ``better``, and `compute`. Its other class
    variables are for the table of scores: the ``formula``, the ``range``, what it ``needs`` of the truth, and its
    ``blind_spot``. A score that is best at some value is ``better = "nominal"``, with that value in ``nominal``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    better: ClassVar[Better]
    formula: ClassVar[str] = ""
    range: ClassVar[str] = ""
    needs: ClassVar[Needs] = "nothing"
    blind_spot: ClassVar[str] = ""
    nominal: ClassVar[float | None] = None

    @abstractmethod
    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        """The score of one trial, by component: a target's name, a parameter's name, or ``""`` for a single number.

        Raises an `InputError` where the score is not defined for this approximation or problem.
        """


SCORES: dict[str, type[Score]] = {}
"""Every registered score by name: first those of the paper's table 2 in its order, then others in common use."""

S = TypeVar("S", bound=type[Score])


def register(score: S) -> S:
    """Register a score by its name. Used as the decorator of a subclass of `Score` that takes no arguments."""
    for needed in ("name", "title", "better"):
        if not isinstance(getattr(score, needed, None), str):
            raise InputError(f"the score {score.__name__} must have a class variable {needed!r} that is text")
    choice(score.better, get_args(Better), f"value of {score.__name__}.better")
    if score.better == "nominal" and score.nominal is None:
        raise InputError(f"the score {score.__name__} must have a class variable 'nominal', the best value")
    known = SCORES.get(score.name)
    if known is not None and (known.__module__, known.__qualname__) != (score.__module__, score.__qualname__):
        raise InputError(f"a score {score.name!r} already exists, in {known.__module__}; choose another name")
    SCORES[score.name] = score
    return score


def all_scores() -> dict[str, type[Score]]:
    """Every score by name, with those of installed plugins."""
    load_plugins()
    return dict(SCORES)


def as_score(given: Any) -> Score:
    """A score, given by its name or as an object."""
    if isinstance(given, Score):
        return given
    if isinstance(given, str):
        if given not in SCORES:
            load_plugins()
        return SCORES[choice(given, SCORES, "score")]()
    raise InputError(f"a score is a name such as 'mse', or an fbar.scores.Score; got {shown(given)}")
