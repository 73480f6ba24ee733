"""The contract of every simulator: what callers may ask of it, whatever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import arguments, known_names, shown
from fbar.errors import InputError
from fbar.question.points import Points

if TYPE_CHECKING:
    from fbar.question.simulators.fidelities import Fidelities
    from fbar.question.simulators.known import KnownAcceptance

SimulatorFunction = Callable[[Points, np.random.Generator], Any]
"""A simulator as users write it: ``simulate(theta, rng)``, a batch in and a batch out."""

Single = Callable[[int, np.random.Generator], Any]
"""One simulation: of a row of some batch, with its own random numbers."""

repeating: ContextVar[bool] = ContextVar("repeating", default=False)
"""Whether simulations are rerun that were counted before, to find out which of them failed."""


class Simulator(ABC):
    """What a problem's simulations come from."""

    one_by_one: bool = False
    """Whether it runs one parameter set at a time, in Python or outside: slow compared with a vectorised one."""

    timed: bool = False
    """Whether the time of every single simulation is measured."""

    metered: bool = False
    """Whether every call is charged to somebody's budget, so that no call may be made twice."""

    needs: frozenset[str] = frozenset()
    """Parameters that it is known to need."""

    @property
    def known(self) -> KnownAcceptance | None:
        """The acceptance probability, where it is known and stands in for simulations that give data."""
        return None

    @property
    def fidelities(self) -> Fidelities | None:
        """The real and the cheap simulator, where there are both."""
        return None

    def name_of(self, theta: Points) -> str:
        """What messages call the simulator that runs a batch; nothing where there is only one."""
        return ""

    def cost_of(self, theta: Points) -> FloatArray | None:
        """What each row costs, where the simulator was given a cost of its own for them; None as a rule."""
        return None

    @property
    def rows(self) -> Callable[[Points], Single] | None:
        """How to run each row of a batch with its own random numbers; None where the rows share them."""
        return None

    @property
    def made_of(self) -> Any:
        """The functions and settings that determine its output, by which a recorded run recognises it."""
        return self

    @abstractmethod
    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        """The output of a batch, before anything is checked."""

    def check(self, parameters: Collection[str]) -> None:
        """Refuse what cannot be called as a simulator is, or needs a parameter that is not among these."""
        for name in sorted(self.needs - set(parameters)):
            raise InputError(
                f"the simulator needs the parameter {shown(name)}, which is not known; {known_names(name, parameters)}"
            )


class Vectorised(Simulator):
    """A user's function of a whole batch."""

    def __init__(self, function: SimulatorFunction, *, metered: bool = False) -> None:
        self.function, self.metered = function, metered

    @property
    def made_of(self) -> Any:
        return self.function

    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        return self.function(theta, rng)

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        return self.function(theta, rng)

    def check(self, parameters: Collection[str]) -> None:
        if not callable(self.function):
            raise InputError(f"simulate must be a function simulate(theta, rng); got {shown(self.function)}")
        arguments(self.function, ("theta", "rng"), "simulate")


def as_simulator(given: SimulatorFunction | Simulator) -> Simulator:
    """A user's simulator with the contract of all; a plain function is one of a whole batch."""
    return given if isinstance(given, Simulator) else Vectorised(given)
