"""Simulators of one parameter set: called once for every row of a batch, and timed."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import arguments, known_names, shown
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.question.points import Points, no_parameter
from fbar.question.simulators.base import Simulator, Single
from fbar.question.simulators.failures import PASSES, RowFailed
from fbar.question.simulators.hints import RETURNED_NONE, for_one

clock = time.perf_counter
"""Measures what a simulation costs, in seconds."""

LEAST_SECONDS = 1e-9
"""A clock may stand still during a short simulation; a cost is positive all the same."""


class Rows(list[Any]):
    """Outputs of single simulations, with the seconds that each took; NaN where they are not known."""

    def __init__(self, outputs: Sequence[Any], cost: npt.ArrayLike) -> None:
        super().__init__(outputs)
        self.cost: FloatArray = np.asarray(cost, dtype=np.float64)


class RowByRow(Simulator):
    """A simulator that runs its rows one by one, and can run each with its own random numbers.

    ``batch_call`` is the call that `single` stands for: a subclass that replaces ``__call__`` is called as it is.
    """

    batch_call: Callable[..., Any]

    @abstractmethod
    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch."""

    @abstractmethod
    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        """The output of a batch whose rows share the random numbers."""

    @property
    def rows(self) -> Callable[[Points], Single] | None:
        return self.single if type(self).__call__ is type(self).batch_call else None

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        return self(theta, rng)


class each(RowByRow):
    """Turn a simulator of one parameter set into a simulator of a batch: it is called once for every row.

    A row that raises an exception, or returns None, is a failed simulation and does not affect the others. The time of
    every call is measured: it is the simulation's cost unless the simulator returns one.

    >>> @each
    ... def simulate(theta, rng):
    ...     return rng.poisson(theta["rate"])
    """

    one_by_one = True
    timed = True

    def __init__(self, function: Callable[[dict[str, Any], np.random.Generator], Any]) -> None:
        check_function(function, "a simulator")
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "simulate")  # a callable object has none

    @property
    def made_of(self) -> Any:
        return self.function

    def check(self, parameters: Collection[str]) -> None:
        arguments(self.function, ("theta", "rng"), "simulate")
        super().check(parameters)

    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch."""
        columns = {name: theta[name] for name in (*theta, *theta.derived)}
        if unknown := self.needs - columns.keys():
            raise InputError(
                f"the simulator needs the parameter {min(unknown)!r}; {known_names(min(unknown), columns)}"
            )

        def one(row: int, rng: np.random.Generator) -> Any:
            return self.function(_Theta({name: column[row] for name, column in columns.items()}), rng)

        return one

    def __call__(self, theta: Points, rng: np.random.Generator) -> list[Any]:
        """A row's output each, and its time; a ``RowFailed`` for one that failed."""
        return run_rows(self.single(theta), theta.rows, lambda row: rng)

    batch_call = __call__


def run_rows(one: Single, rows: Sequence[int] | int, stream: Callable[[int], np.random.Generator]) -> Rows:
    """The outputs of single rows, each with the generator that ``stream`` gives for it, and their times."""
    outputs: list[Any] = []
    seconds: list[float] = []
    for row in range(rows) if isinstance(rows, int) else rows:
        rng = stream(row)
        begun = clock()
        try:
            output = _kept(one(row, rng))
        except PASSES:
            raise
        except BaseException as error:
            output = RowFailed.of(error, for_one)
        seconds.append(clock() - begun)
        outputs.append(RowFailed(RETURNED_NONE) if output is None else output)
    return Rows(outputs, np.maximum(seconds, LEAST_SECONDS))


class _Theta(dict[str, Any]):
    """One parameter set; asked for a name that it does not have, it lists those that it has."""

    def __missing__(self, name: Any) -> Any:
        raise no_parameter(name, list(self))

    def __getattr__(self, name: str) -> Any:
        if name == "rows":
            raise AttributeError(
                "theta has no rows here: fbar.each calls the simulator with one parameter set; leave fbar.each out if "
                "it takes a whole batch"
            )
        if name in self:
            raise AttributeError(f"parameters are accessed by name: write theta[{shown(name)}], not theta.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {shown(name)}")


def _kept(output: Any) -> Any:
    """An output that the simulator cannot change any more: it may fill the same array again."""
    if isinstance(output, np.ndarray):
        return output.copy()
    if isinstance(output, Mapping):
        return {name: _kept(value) for name, value in output.items()}
    return output
