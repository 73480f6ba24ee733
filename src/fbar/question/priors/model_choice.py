"""Model choice: a model index, and for each model its own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, distribution
from fbar.checks import known_names, require_name, shown
from fbar.errors import InputError
from fbar.question.points import Points, require_points
from fbar.question.priors.base import Distribution, as_unit, draws
from fbar.question.priors.structures import Determined, Structure, Structured, structure


@dataclass(frozen=True)
class Coordinates:
    """Whose unit coordinates a batch has: the choice's first, then for each model those of its distribution's owner."""

    choice: ModelChoice
    inner: dict[Any, object]


class ModelChoice(Structured):
    """The prior over models and their parameters, which may differ in number.

    A batch has the columns of all models, with NaN and an explicit mask (`Points.present`) where a model does
    not have them. The mean of such a parameter is conditional on its models.

    >>> from scipy import stats
    >>> from fbar.question.priors import Prior
    >>> choice = ModelChoice({"one": Prior(a=stats.uniform()), "none": None}, [0.25, 0.75])
    >>> choice.from_unit([[0.1, 0.5], [0.9, 0.5]])["model"].tolist()
    ['one', 'none']
    """

    def __init__(
        self,
        models: Mapping[Any, Distribution | None],
        probabilities: npt.ArrayLike | None = None,
        *,
        name: str = "model",
    ) -> None:
        if not isinstance(models, Mapping) or not models:
            raise InputError("give at least one model, as a mapping from its name to its prior")
        self.models = dict(models)
        require_name(name, "the name of the model index")
        for label, prior in self.models.items():
            if prior is not None and not isinstance(prior, Distribution):
                raise InputError(
                    f"model {shown(label)} needs a prior such as fbar.Prior(...), or None; got {shown(prior)}"
                )
            if structure(prior).fitted_to_sample:
                raise InputError(
                    f"the prior of model {shown(label)} is the posterior of an earlier run, which has an error of its "
                    "own; in a choice of models that is not supported"
                )
            if prior is not None and name in prior.names:
                raise InputError(
                    f"model {shown(label)} has a parameter called {shown(name)}, the name of the model index"
                )
        self.name = name
        if len({isinstance(label, str) for label in self.models}) > 1:
            raise InputError(f"model names must be all text or all numbers; got {shown(list(self.models))}")
        self.labels = np.array(list(self.models))
        k = len(self.models)
        self.probabilities = (
            np.full(k, 1 / k) if probabilities is None else distribution(probabilities, k, each="model")
        )
        self._cumulative = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        self.parameters = tuple(dict.fromkeys(n for prior in self.models.values() if prior for n in prior.names))
        self._determined: dict[str, Determined] = {}
        for label, prior in self.models.items():
            for name, follows in structure(prior).determined.items():
                if name in self.parameters or self._determined.setdefault(name, follows) != follows:
                    raise InputError(
                        f"the parameter {shown(name)} of model {shown(label)} follows from others there, but not in "
                        "the same way in another model; give it another name"
                    )

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.parameters)

    @property
    def dimension(self) -> int:
        return 1 + max((prior.dimension if prior else 0) for prior in self.models.values())

    @property
    def structure(self) -> Structure:
        return Structure(models=self, determined=self._determined)

    def __repr__(self) -> str:
        return f"ModelChoice({', '.join(map(str, self.models))})"

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self.dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self.dimension)
        which = np.zeros(len(u), dtype=np.int16)
        for border in self._cumulative[1:-1]:
            which += u[:, 0] >= border
        n = len(u)
        columns: dict[str, Any] = {self.name: self.labels[which]}
        present = {name: np.zeros(n, dtype=bool) for name in self.parameters}
        for name in self.parameters:
            columns[name] = np.full(n, np.nan)
        unit = np.full(u.shape, 0.5)
        unit[:, 0] = u[:, 0]
        owners: dict[Any, object] = {}
        for index, (label, prior) in enumerate(self.models.items()):
            if prior is None:
                continue
            rows = np.flatnonzero(which == index)
            # Coordinate by coordinate: whole columns are contiguous.
            inner = prior.from_unit(np.stack([u[:, 1 + j][rows] for j in range(prior.dimension)]).T)
            for name in prior.names:
                if columns[name].dtype.kind == "f" and inner[name].dtype.kind not in "biuf":
                    columns[name] = columns[name].astype(object)
                columns[name][rows] = inner[name]
                present[name][rows] = True
            if inner.unit is not None:
                unit[rows, 1 : 1 + prior.dimension] = inner.unit
                owners[label] = inner.owner
        absent = {name: mask for name, mask in present.items() if not mask.all()}
        return Points(columns, self._determined, absent, unit, Coordinates(self, owners))

    def embed(self, label: Any, parameters: Points | None, rows: int = 1) -> Points:
        """A batch of one model's own parameters as a batch of the choice: with the columns of all models."""
        n = rows if parameters is None else parameters.rows
        columns: dict[str, Any] = {self.name: np.full(n, label)}
        present = {}
        for name in self.parameters:
            if parameters is not None and name in parameters:
                columns[name] = parameters[name]
            else:
                columns[name] = np.full(n, np.nan)
                present[name] = np.zeros(n, dtype=bool)
        return Points(columns, present=present)

    def probability(self, label: Any) -> float:
        try:
            return float(self.probabilities[list(self.models).index(label)])
        except Exception:  # labels are compared, which a user's object may refuse
            known = known_names(label, self.models)
            raise InputError(f"there is no {self.name} {shown(label)}; {known}") from None

    def parameters_of(self, label: Any, points: Points) -> Points:
        """The parameters that a model has, of a batch of that model, with their unit coordinates if they are known."""
        prior = self.models[label]
        assert prior is not None
        part = points.only(prior.names)
        if points.unit is not None and isinstance(points.owner, Coordinates):
            part.unit = points.unit[:, 1 : 1 + prior.dimension]
            part.owner = points.owner.inner.get(label)
        return part

    def split(self, points: Points) -> list[tuple[Any, Distribution | None, npt.NDArray[np.int64]]]:
        """Each model with its prior and its rows."""
        model = points[self.name]
        return [(label, prior, np.flatnonzero(model == label)) for label, prior in self.models.items()]

    def logpdf(self, points: Points) -> FloatArray:
        require_points(points, needed=self.names)
        result = np.full(points.rows, -np.inf)
        for index, (_, prior, rows) in enumerate(self.split(points)):
            if rows.size and self.probabilities[index] > 0:
                inner = 0.0 if prior is None else prior.logpdf(points.take(rows).only(prior.names))
                result[rows] = np.log(self.probabilities[index]) + inner
        return result

    def to_unit(self, points: Points) -> FloatArray:
        """A model's middle as first coordinate, 0.5 in coordinates that a model does not use."""
        require_points(points, needed=self.names)
        if points.unit is not None and isinstance(points.owner, Coordinates) and points.owner.choice is self:
            return points.unit
        result = np.full((points.rows, self.dimension), 0.5)
        for index, (_, prior, rows) in enumerate(self.split(points)):
            result[rows, 0] = (self._cumulative[index] + self._cumulative[index + 1]) / 2
            if prior is not None and rows.size:
                inner = points.take(rows).only(prior.names)
                result[rows, 1 : 1 + prior.dimension] = prior.to_unit(inner)
        return result
