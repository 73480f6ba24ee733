"""The contract of a score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fbar.checks import FloatArray
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.question.truth import FiniteReference
from fbar.scores.approximation import Approximation

Needs = Literal["nothing", "expectations", "density", "samples", "finite", "parameters"]
Better = Literal["lower", "higher", "nominal"]


@dataclass(frozen=True)
class Scene:
    """What scores of one problem share over all trials: the problem, the targets, draws from the truth.

    ``seed`` makes what a score draws the same for every method and trial.
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
        """What scores computed of the truth alone, for the next trial."""
        return {}

    def rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])


class Score(ABC):
    """A number (or several, by name) for one trial of one algorithm.

    A score's class says what it is: its ``formula``, its ``range``, which way is ``better`` ("nominal" for one that has
    a right value, in ``nominal``), what it ``needs`` of the truth, and its ``blind_spot`` as the paper tells it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    range: ClassVar[str]
    better: ClassVar[Better]
    needs: ClassVar[Needs]
    blind_spot: ClassVar[str]
    nominal: ClassVar[float | None] = None

    @abstractmethod
    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        """The score of one trial, by component: a target's name, a parameter's name, or ``""`` for one number alone.

        Raises an `InputError` where the score is not defined for this approximation or problem.
        """
