"""What is known of how a distribution of θ is built, for those who can make use of it.

A `Distribution` can be anything that draws θ and has a density. fbar's own say more: whether they have finitely many
values, are a choice of models, or have parameters that do not depend on others. Of a user's own nothing is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fbar.arrays import FloatArray
from fbar.question.points import Points
from fbar.question.priors.marginals import Marginal, borders

if TYPE_CHECKING:
    from fbar.question.priors.base import Distribution
    from fbar.question.priors.finite import Finite
    from fbar.question.priors.model_choice import ModelChoice


class Constrained(ABC):
    """What makes parameters of a prior depend on one another by a rule that can be written down."""

    @property
    @abstractmethod
    def constraint(self) -> str:
        """Such as "a < b"; the parameter itself is an empty pair of braces where the rule does not know its name."""


class Determined(Constrained):
    """A parameter that follows from the others of its prior, such as the last share of a whole; compared by value."""

    @abstractmethod
    def __call__(self, points: Points) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Structure:
    """How a distribution is built, as far as it is known.

    ``values`` is the distribution itself if it has finitely many values, ``models`` if it is a choice of models;
    ``marginals`` are the distributions of the parameters that do not depend on others, and ``coordinates`` the
    parameters that belong to the coordinates of the unit cube, one each. ``continuous`` says that all parameters are,
    as far as it is known. ``determined`` are further parameters, which follow from its own.
    """

    values: Finite | None = None
    models: ModelChoice | None = None
    marginals: Mapping[str, Marginal] = field(default_factory=dict)
    coordinates: tuple[str, ...] = ()
    continuous: bool = False
    determined: Mapping[str, Determined] = field(default_factory=dict)
    fitted_to_sample: bool = False
    """Whether it stands for a sample, whose error an answer carries: see `fbar.estimation.sequential`."""

    @property
    def discrete(self) -> frozenset[str]:
        """The independent parameters that are known to be discrete."""
        return frozenset(name for name, marginal in self.marginals.items() if marginal.discrete)

    @property
    def product(self) -> bool:
        """Whether it is a product of the distributions of single parameters, all of them continuous."""
        return self.continuous and 0 < len(self.marginals) == len(self.coordinates)

    def borders(self) -> dict[int, FloatArray]:
        """For each coordinate of the unit cube that is of a discrete parameter: where the parameter's values meet."""
        if self.values is not None:
            return {0: self.values.borders()}
        found = {index: borders(self.marginals.get(name)) for index, name in enumerate(self.coordinates)}
        return {index: places for index, places in found.items() if places is not None}


class Structured:
    """A distribution that knows how it is built; nothing by default."""

    @property
    def structure(self) -> Structure:
        return Structure()


def structure(distribution: Distribution | None) -> Structure:
    """How a distribution is built, as far as it is known."""
    return distribution.structure if isinstance(distribution, Structured) else Structure()
