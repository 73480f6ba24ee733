"""The columns of a run's prior, simulations and posterior, as figures need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import choice, shown, texts
from fbar.diagnostics.explanation import prior_of, simulated_of
from fbar.errors import InputError
from fbar.estimation.posterior import Posterior
from fbar.plot.base import one_run
from fbar.plot.density import CELLS, Axis, axis, density
from fbar.plot.scales import is_log_scaled, quantiles_are_log_scaled
from fbar.question.points import Points
from fbar.question.priors import structure
from fbar.question.priors.marginals import Categorical, Marginal

if TYPE_CHECKING:
    from fbar.results.result import Result

DRAWS = 20_000
"""Draws that stand for the prior of a parameter whose density is not known."""

PLACES = 5000
"""θ that stand for the simulations, at most."""

Weighted = tuple[npt.NDArray[Any], FloatArray]


@dataclass(frozen=True, eq=False)
class Source:
    """Whatever figures ask of a result, by the name of a parameter."""

    result: Result

    @classmethod
    def of(cls, result: Result) -> Source:
        one_run(result)
        return cls(result)

    @property
    def prior(self) -> Any:
        return self.result.run.problem.prior

    @property
    def posterior(self) -> Posterior:
        return self.result.posterior.pictured

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The prior's parameters, then the derived ones."""
        return tuple(dict.fromkeys((*self.prior.names, *self.result.run.problem.derived)))

    @cached_property
    def seen(self) -> tuple[str, ...]:
        """Those with something to show: of a model that was never accepted nothing is known."""
        found = ((name, *_rows(name, self.posterior.points, self.posterior.weights)) for name in self.names)
        return tuple(name for name, _, weights in found if weights.sum() > 0)

    @property
    def unseen(self) -> str:
        """What is said of the others."""
        left = [name for name in self.names if name not in self.seen]
        return f"none of the {self.posterior.parts_in_words} has {', '.join(left)}" if left else ""

    def checked(self, names: str | Sequence[str] | None) -> tuple[str, ...]:
        if names is None:
            return self.seen
        listed = (names,) if isinstance(names, str) else texts(names, "names", "['beta', 'gamma']")
        known = tuple(dict.fromkeys((*self.names, *self.posterior.points, *self.posterior.points.derived)))
        if not listed:
            raise InputError(f"name at least one parameter; known: {', '.join(known)}")
        return tuple(choice(name, known, "parameter") for name in listed)

    @cached_property
    def _drawn(self) -> tuple[Points, FloatArray]:
        return prior_of(self.result.run, self.posterior, DRAWS)

    @cached_property
    def _places(self) -> tuple[Points, FloatArray] | None:
        return simulated_of(self.result.run, self.posterior, PLACES)

    @property
    def simulated(self) -> Points | None:
        """θ that stand for the simulations; on a finite space they have weights, see `of_simulations`."""
        return None if self._places is None else self._places[0]

    def of_posterior(self, name: str) -> Weighted:
        return _column(name, self.posterior.points, self.posterior.weights)

    def of_prior(self, name: str) -> Weighted | None:
        """None for what only a simulation records."""
        return _column(name, *self._drawn) if name in self._drawn[0] else None

    def of_simulations(self, name: str) -> Weighted | None:
        if self._places is None or name not in self._places[0]:
            return None
        return _column(name, *self._places)

    def numeric(self, name: str) -> bool:
        return self.of_posterior(name)[0].dtype.kind in "biuf"

    def share(self, name: str) -> float:
        """The posterior probability of the models that have the parameter."""
        points, weights = self.posterior.points, self.posterior.weights
        return float(weights[points.present(name)].sum() / weights.sum())

    def finite(self, name: str) -> float:
        """The share of these in which it is a finite number."""
        points, weights = self.posterior.points, self.posterior.weights
        return float(self.of_posterior(name)[1].sum() / weights[points.present(name)].sum())

    def marginals(self, name: str) -> list[tuple[float, Marginal]]:
        """The priors of a parameter that depends on no other, one for each model that has it, with its probability.

        Empty where a model has it whose prior of it is not known.
        """
        models = structure(self.prior).models
        having = [(1.0, self.prior)]
        if models is not None:
            pairs = zip(models.probabilities.tolist(), models.models.values(), strict=True)
            having = [(share, inner) for share, inner in pairs if inner is not None and name in inner.names]
        found = [(share, structure(inner).marginals.get(name)) for share, inner in having]
        known = [(share, marginal) for share, marginal in found if marginal is not None]
        return known if len(known) == len(found) else []

    def marginal(self, name: str) -> Marginal | None:
        """The prior of a parameter that depends on no other, given the model where only one has it."""
        found = self.marginals(name)
        return found[0][1] if len(found) == 1 else None

    @cached_property
    def _some_log_scaled(self) -> bool:
        return any(is_log_scaled(marginal) for name in self.prior.names for _, marginal in self.marginals(name))

    def log_scaled(self, name: str) -> bool:
        """Whether its axis is logarithmic: its prior is log-scaled; a derived one has to come from such a one."""
        if found := self.marginals(name):
            return all(is_log_scaled(marginal) for _, marginal in found)
        drawn = self.of_prior(name) if self._some_log_scaled else None
        if drawn is None or drawn[0].dtype.kind != "f":
            return False
        return quantiles_are_log_scaled(np.quantile(drawn[0], [0.1, 0.5, 0.9]))

    def axis(self, name: str, cells: int = CELLS, *, whole: bool = False) -> Axis:
        """Where it is shown: the posterior's range, or also that of the simulations and the prior (``whole``)."""
        column, weights = self.of_posterior(name)
        marginal, drawn = self.marginal(name), self.of_prior(name)
        bounds = (-math.inf, math.inf) if marginal is None else marginal.support
        values: Any = None
        known = structure(self.prior)
        if known.models is not None and name == known.models.name:
            values = known.models.labels.tolist()
        elif isinstance(marginal, Categorical):
            values = marginal.values.tolist()
        elif (known.values is not None or (marginal is not None and marginal.discrete)) and drawn is not None:
            values = np.unique(np.concatenate([column, drawn[0]])).tolist()
        elif drawn is not None and drawn[0].dtype.kind == "f":
            found = np.concatenate([column, drawn[0]]).astype(np.float64)
            # No density is known beyond what was drawn; reflecting tails there changes nothing.
            bounds = max(bounds[0], float(found.min())), min(bounds[1], float(found.max()))
        if whole:
            parts = [
                (part, most) for part, most in ((drawn, 0.9), (self.of_simulations(name), 0.98)) if part is not None
            ]
            column = np.concatenate([column, *(_central(part[0], most) for part, most in parts)])
            weights = np.ones(column.size)
        return axis(column, weights, bounds, values, cells, self.log_scaled(name))

    def prior_density(self, name: str, where: Axis) -> FloatArray | None:
        """Exact where the prior has a density of the parameter alone, otherwise that of draws."""
        models = structure(self.prior).models
        if models is not None and name == models.name:
            return np.asarray(self.prior.probabilities)
        known = self.marginals(name)
        if known and (where.discrete or not any(marginal.discrete for _, marginal in known)):
            x = np.asarray(where.values) if where.discrete else where.x
            total = sum(share for share, _ in known)
            mixed = sum((share / total * np.exp(marginal.logpdf(x)) for share, marginal in known), np.zeros(x.size))
            return np.asarray(mixed * x if where.log else mixed)
        drawn = self.of_prior(name)
        return None if drawn is None else density(where, *drawn, least=1.0)


def _rows(name: str, points: Points, weights: FloatArray) -> Weighted:
    """A parameter where it exists and is finite, which a derived one may not be."""
    has = points.present(name)
    column, weights = points[name][has], weights[has]
    if column.dtype == object and not any(isinstance(value, str) for value in column.tolist()):
        column = column.astype(np.float64)
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        finite = np.isfinite(column)
        column, weights = column[finite], weights[finite]
    return column, weights


def _column(name: str, points: Points, weights: FloatArray) -> Weighted:
    column, weights = _rows(name, points, weights)
    if not weights.sum() > 0:
        raise InputError(f"no point of positive weight has a finite parameter {shown(name)}")
    return column, weights


def _central(column: npt.NDArray[Any], share: float) -> npt.NDArray[Any]:
    """Without the outer parts, which may be far out."""
    if column.dtype.kind != "f":
        return column
    low, high = np.quantile(column, [(1 - share) / 2, (1 + share) / 2])
    return np.asarray(column[(column >= low) & (column <= high)])
