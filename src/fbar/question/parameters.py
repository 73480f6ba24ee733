"""What is asked about: the parameters θ with their prior, and further ones derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import function as check_function
from fbar.checks import known_names, mapping, require_name, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.priors import Distribution, Finite, structure
from fbar.question.targets import AnyTargets, Target, as_targets
from fbar.question.targets.expectations import is_model

Derived = Mapping[str, Callable[[Points], npt.ArrayLike]]

PROBED = 256
"""Points of the prior at which functions of θ are tried."""


class Parameters:
    """A prior and the parameters derived from its own: those that it determines itself, and those of the user."""

    def __init__(self, prior: Distribution, derived: Derived | None = None) -> None:
        if not isinstance(prior, Distribution):
            raise InputError(
                "prior must be a prior such as fbar.Prior(beta=scipy.stats.uniform(0, 1)) or fbar.Finite(...); "
                f"got {shown(prior)}"
            )
        if derived is not None:
            mapping(derived, "derived", "{'R0': lambda t: t['beta'] / t['gamma']}")
        self.prior = prior
        self.given = dict(derived or {})
        """The derived parameters that the user has given."""
        determined = structure(prior).determined
        self.derived: dict[str, Callable[[Points], npt.ArrayLike]] = {**determined, **self.given}
        for name, function in self.given.items():
            require_name(name, "a derived parameter's name")
            if name in prior.names or name in determined:
                raise InputError(f"derived parameter {shown(name)} has the name of a parameter; choose another")
            check_function(function, f"derived parameter {shown(name)}")
        self._checked: list[Target] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The prior's parameters and the derived ones."""
        return (*self.prior.names, *self.derived)

    @property
    def is_finite(self) -> bool:
        return structure(self.prior).values is not None

    @property
    def finite(self) -> Finite:
        """The prior, for methods that need a finite parameter space."""
        values = structure(self.prior).values
        if values is None:
            raise InputError(
                f"this method needs a finite prior (fbar.Finite); this problem has {shown(self.prior)}, "
                "for which there are fbar.Targeted, fbar.SMC, fbar.Rejection and fbar.Importance"
            )
        return values

    @property
    def points(self) -> Points:
        """The values of a finite prior, with the derived parameters."""
        points = self.finite.points
        return Points({name: points[name] for name in points}, self.derived)

    @cached_property
    def probe(self) -> Points:
        """A few points of the prior, always the same, to test functions of θ."""
        unit = np.random.default_rng(0).random((PROBED, self.prior.dimension))
        return self.prior.from_unit(unit).with_derived(self.derived)

    def posed(self, targets: AnyTargets) -> tuple[Target, ...]:
        """Targets of this prior, for those that compare the posterior with it."""
        return tuple(target.with_prior(self._prior_probability) for target in as_targets(targets))

    def _prior_probability(self, column: str, label: Any) -> float:
        """That of a model, or of a value of a finite prior."""
        known = structure(self.prior)
        if known.models is not None and known.models.name == column:
            values, chances = np.asarray(known.models.labels), known.models.probabilities
        elif known.values is not None and column in known.values.names:
            values, chances = np.asarray(known.values.points[column]), known.values.probabilities
        else:
            raise InputError(
                f"a Bayes factor compares models of an fbar.ModelChoice, or values of {shown(column)} in an "
                f"fbar.Finite; this prior is {shown(self.prior)}; for other priors give prior_odds="
            )
        mine = is_model(values, label)
        if not mine.any():
            there = dict.fromkeys(values.tolist())
            raise InputError(f"there is no {column} {shown(label)}; {known_names(label, there)}")
        return float(np.asarray(chances)[mine].sum())

    def check_targets(self, targets: Sequence[Target]) -> None:
        """Refuse a target that is not defined on the parameters; each is tried once."""
        for target in as_targets(targets):
            if not any(target is seen for seen in self._checked):
                target.check_space(self.probe)
                self._checked.append(target)
