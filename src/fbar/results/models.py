"""The models of a model choice, and the posterior within one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fbar.checks import known_names, shown
from fbar.diagnostics.model_check import ModelCheck, check_model
from fbar.diagnostics.predictions import Predictions
from fbar.errors import InputError
from fbar.estimation.estimate import Estimate, Estimates
from fbar.estimation.of_model import of_one_model
from fbar.estimation.posterior import Posterior
from fbar.estimation.shown import ShownInNotebooks
from fbar.question.points import Points
from fbar.question.priors import Distribution, structure
from fbar.question.simulators import SimulatorFunction
from fbar.question.targets import (
    OneModel,
    SeveralTargets,
    Target,
    as_targets,
    mean,
    model_probability,
    within,
)
from fbar.question.targets.expectations import is_model
from fbar.results.predicted import predicted
from fbar.results.sample import draw
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from fbar.results.result import Result
    from fbar.results.summary_table import SummaryTable


@dataclass(frozen=True, eq=False)
class Models:
    """The models of a prior, with their prior probabilities."""

    column: str
    labels: tuple[Any, ...]
    probabilities: tuple[float, ...]

    @property
    def all(self) -> list[OneModel]:
        return [OneModel(self.column, label) for label in self.labels]

    def one(self, label: Any) -> OneModel:
        """A model by its label; a number may be written as text."""
        for model in self.all:
            if bool(is_model(np.array([model.label]), label)[0]):
                return model
        raise InputError(f"there is no {self.column} {shown(label)}; {known_names(label, self.labels)}")

    def prior(self, model: OneModel) -> float:
        return self.probabilities[self.labels.index(model.label)]

    def probability(self, model: OneModel) -> Target:
        return model_probability(model.label, name=model.column)


def models_of(prior: Distribution) -> Models | None:
    """None where the prior is not a choice of models; one of models without parameters is a finite prior of labels."""
    known = structure(prior)
    if known.models is not None:
        return Models(known.models.name, tuple(known.models.models), tuple(known.models.probabilities.tolist()))
    if known.values is not None and len(known.values.names) == 1:
        (name,) = known.values.names
        labels = np.asarray(known.values.points[name])
        if labels.dtype.kind == "U":
            return Models(name, tuple(labels.tolist()), tuple(known.values.probabilities.tolist()))
    return None


@dataclass(frozen=True, eq=False)
class WithinModel(ShownInNotebooks):
    """The posterior within one model of a model choice, p(θ | x*, model), see ``result.of_model``."""

    result: Result
    model: OneModel

    @property
    def label(self) -> Any:
        """The model's name."""
        return self.model.label

    @cached_property
    def probability(self) -> Estimate:
        """The posterior probability of the model."""
        return self.result.expect(model_probability(self.model.label, name=self.model.column))

    @cached_property
    def posterior(self) -> Posterior:
        """The weighted points of the model."""
        return of_one_model(self.result.posterior, self.model)

    @cached_property
    def model_check(self) -> ModelCheck:
        """Whether the data are like what this model simulates, see ``result.model_check``."""
        return check_model(self.result.run.problem, self.posterior, self.result.all_simulations, self.model)

    @cached_property
    def estimates(self) -> Estimates:
        """The means of the model's parameters and derived quantities."""
        return self.expect([mean(row.name) for row in self.summary().rows])

    @overload
    def expect(self, targets: Target | str) -> Estimate: ...
    @overload
    def expect(self, targets: SeveralTargets) -> Estimates: ...
    def expect(self, targets: Target | str | Sequence[Target | str]) -> Estimate | Estimates:
        """The estimates of targets within the model."""
        listed = as_targets(targets)
        found = self.result.expect([within(target, self.model) for target in listed])
        named = [replace(item, name=target.name) for item, target in zip(found, listed, strict=True)]
        return named[0] if isinstance(targets, Target | str) else Estimates(named, found.covariance, found.slices)

    def sample(self, size: int | None = None, *, seed: int | None = None) -> Points:
        """Equally weighted draws of the model's parameters, see ``result.sample``."""
        drawn = draw(self.posterior, self.result.run.seeds if seed is None else Seeds.of(seed), size)
        kept = [name for name in drawn if name != self.model.column and drawn.present(name).all()]
        return drawn.only(kept) if kept else drawn

    def predict(
        self,
        n: int | None = None,
        *,
        simulator: SimulatorFunction | None = None,
        seed: int | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> Predictions:
        """New simulations at parameters drawn from the posterior within this model, see ``result.predict``."""
        engine = self.result.engine(workers, timeout)
        found = predicted(self.result, n, simulator, seed, engine, self.posterior)
        return replace(found, about=f"{found.about} within {self.model.column} {self.label}")

    def summary(self, level: float = 0.95, *, kind: str = "equal-tailed") -> SummaryTable:
        """The table of the model's parameters, see ``result.summary``."""
        from fbar.results.summary_table import summarised

        return summarised(self.result, level, kind, self.model)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        return f"WithinModel({self.label}: probability {self.probability})"


def of_model(result: Result, label: Any) -> WithinModel:
    """The posterior within a model of a result's model choice."""
    models = models_of(result.run.problem.prior)
    if models is None:
        raise InputError(
            f"of_model needs a choice of models (fbar.ModelChoice); this problem has {shown(result.run.problem.prior)}"
        )
    model = models.one(label)
    if not model.mask(result.posterior.points).any():
        raise InputError(f"no simulation of {model.column} {model.label} contributes to the answer")
    return WithinModel(result, model)
