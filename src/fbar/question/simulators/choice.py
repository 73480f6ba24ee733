"""A choice of models as one simulator: each row by its own model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.outcomes import Failure
from fbar.question.points import Points
from fbar.question.priors import Distribution, Finite, ModelChoice, structure
from fbar.question.simulators.base import Simulator, SimulatorFunction, Single, as_simulator
from fbar.question.simulators.failures import Unusable
from fbar.question.simulators.rows import RowByRow, Rows


class Model(NamedTuple):
    """One model among several: its simulator, and the prior for its own parameters if it has any."""

    simulate: SimulatorFunction
    prior: Distribution | None = None


def as_models(given: Mapping[Any, SimulatorFunction | Model]) -> dict[Any, Model]:
    """Models by their names, checked; one without parameters may be given as its simulator."""
    if not isinstance(given, Mapping) or not given:
        raise InputError("give at least one model, as a mapping from its name to its simulator")
    models = {label: model if isinstance(model, Model) else Model(model) for label, model in given.items()}
    for label, (simulate, _) in models.items():
        if not callable(simulate):
            raise InputError(f"model {shown(label)} must be a function simulate(theta, rng); got {shown(simulate)}")
    return models


def prior_of(models: Mapping[Any, Model], probabilities: npt.ArrayLike | None, name: str) -> Finite | ModelChoice:
    """The prior of a choice of models: finite where no model has parameters."""
    if all(model.prior is None for model in models.values()):
        return Finite({name: np.array(list(models))}, probabilities=probabilities)
    return ModelChoice({label: model.prior for label, model in models.items()}, probabilities, name=name)


def choose(models: Mapping[Any, Model], name: str) -> Choice:
    """The simulator of a model choice: each row by its model, which sees only its own parameters."""
    by_row = all(as_simulator(model.simulate).rows is not None for model in models.values())
    return RowByRowChoice(models, name) if by_row else Choice(models, name)


class Choice(Simulator):
    """A model choice, some of whose models are vectorised."""

    def __init__(self, models: Mapping[Any, Model], name: str) -> None:
        self.models, self.name = dict(models), name
        self.__qualname__ = "choose.<locals>.simulate"  # under which recorded runs know it
        self._simulators = {label: as_simulator(model.simulate) for label, model in models.items()}
        self.one_by_one = any(simulator.one_by_one for simulator in self._simulators.values())
        self.timed = all(simulator.timed for simulator in self._simulators.values())

    @property
    def made_of(self) -> Any:
        return {"models": self.models, "name": self.name}

    def check(self, parameters: Collection[str]) -> None:
        for label, simulator in self._simulators.items():
            simulator.check(self._seen_by(label))

    def _seen_by(self, label: Any) -> list[str]:
        """The parameters that a model sees."""
        prior = self.models[label].prior
        return [self.name, *(prior.names if prior else ()), *structure(prior).determined]

    def parts(self, theta: Points) -> Iterator[tuple[Any, Simulator, IntArray, Points]]:
        """Each model that occurs: its label, its simulator, its rows, and these with only its own parameters."""
        for label, simulator in self._simulators.items():
            rows = np.flatnonzero(theta[self.name] == label)
            if rows.size:
                yield label, simulator, rows, theta.take(rows).only(self._seen_by(label))

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        return self(theta, rng)

    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        result: npt.NDArray[Any] | None = None
        outputs: list[Any] = []
        seconds: list[FloatArray] = []
        order: list[IntArray] = []
        for label, simulator, rows, part in self.parts(theta):
            output = simulator.output(part, rng)
            if isinstance(output, Mapping | list):
                rows_out = _rows(output, rows.size, label)
                outputs += rows_out
                seconds.append(output.cost if isinstance(output, Rows) else np.full(rows.size, np.nan))
                order.append(rows)
                continue
            x = np.asarray(output)
            if x.shape[:1] != rows.shape:
                raise Unusable(
                    f"model {shown(label)} was asked for {rows.size} simulations and returned an output of "
                    f"shape {x.shape}",
                    Failure.WRONG_SHAPE,
                )
            if result is None:
                result = np.empty((theta.rows, *x.shape[1:]), dtype=x.dtype)
            elif x.shape[1:] != result.shape[1:]:
                raise Unusable(
                    f"the models' outputs differ in shape: {shown(label)} returns {x.shape[1:]}, others "
                    f"{result.shape[1:]}",
                    Failure.WRONG_SHAPE,
                )
            result = result.astype(np.result_type(result, x), copy=False)
            result[rows] = x
        if outputs:
            if result is not None:
                mixed = np.setdiff1d(np.arange(theta.rows), np.concatenate(order))
                outputs, order = outputs + list(result[mixed]), [*order, mixed]
                seconds.append(np.full(mixed.size, np.nan))
            back = np.argsort(np.concatenate(order), kind="stable")
            return Rows([outputs[i] for i in back], np.concatenate(seconds)[back])
        assert result is not None
        return result


class RowByRowChoice(Choice, RowByRow):
    """A model choice all of whose models run their rows one by one."""

    batch_call = Choice.__call__

    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch, by its own model."""
        within: dict[int, tuple[Single, int]] = {}
        for _, simulator, rows, part in self.parts(theta):
            assert simulator.rows is not None
            one = simulator.rows(part)
            within |= {int(row): (one, i) for i, row in enumerate(rows)}

        def run(row: int, rng: np.random.Generator) -> Any:
            one, i = within[row]
            return one(i, rng)

        return run


def _rows(output: Any, size: int, label: Any) -> list[Any]:
    """A model's mapping or list of outputs, row by row."""
    columns = output if isinstance(output, Mapping) else {"": output}
    for values in columns.values():
        gave = len(values) if isinstance(values, Sized) else "no list"
        if gave != size:
            raise Unusable(
                f"model {shown(label)} was asked for {size} simulations and returned {gave}", Failure.WRONG_SHAPE
            )
    if not isinstance(output, Mapping):
        return list(output)
    return [dict(zip(output, values, strict=True)) for values in zip(*output.values(), strict=True)]
