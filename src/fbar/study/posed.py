"""A problem as a study poses it: the simulator counts its calls and refuses beyond the budget, the truth is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import BoolArray, FloatArray, IntArray
from fbar.errors import InputError
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Tally
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.simulators import (
    Bernoulli,
    EndsRun,
    RowByRow,
    Single,
    Tabulated,
    measured,
    one_by_one,
    repeating,
    single,
)
from fbar.question.truth import Reference
from fbar.scores import as_points


class BudgetExceeded(EndsRun, RuntimeError):
    """An algorithm asked for more simulations than its budget."""


class Meter:
    """Counts simulations, and refuses those beyond the budget before they are run."""

    def __init__(self, budget: int) -> None:
        self.reset(budget)

    def reset(self, budget: int) -> None:
        """For another trial."""
        self.budget, self.spent, self.refused = budget, 0, 0

    def charge(self, simulations: int) -> None:
        if repeating.get():
            return
        if self.spent + simulations > self.budget:
            self.refused += simulations  # an algorithm that swallows the error is found out
            raise BudgetExceeded(
                f"the algorithm asked for {simulations} more simulations after {self.spent}; its budget is "
                f"{self.budget}"
            )
        self.spent += simulations


class _Counted:
    charged = True
    """Every call is charged to the budget, so none may be made twice."""

    def __init__(self, simulate: Any, problem: Problem, meter: Meter) -> None:
        self._simulate, self._problem, self._meter = simulate, problem, meter
        self.one_by_one = one_by_one(simulate)
        self.measured = measured(simulate)

    def __call__(self, theta: Any, rng: np.random.Generator) -> Any:
        points = _named(theta, self._problem)
        self._meter.charge(points.rows)
        return self._simulate(points, rng)


class _CountedRows(_Counted, RowByRow):
    batch_call = _Counted.__call__

    def single(self, theta: Points) -> Single:
        make = single(self._simulate)
        assert make is not None
        self._meter.charge(theta.rows)
        return make(theta)


def _named(theta: Any, problem: Problem) -> Points:
    """Named columns, also from the plain array or mapping that another package has."""
    return theta if isinstance(theta, Points) else as_points(theta, problem)


class _CountedBernoulli(Bernoulli):
    """Can also be called like a simulator: 1 where the simulation matches the data."""

    def __init__(self, known: Bernoulli, problem: Problem, meter: Meter) -> None:
        super().__init__(known.p_star)
        self._problem, self._meter = problem, meter

    def tally(self, theta: Points, rng: np.random.Generator) -> Tally:
        self._meter.charge(theta.rows)
        return super().tally(theta, rng)

    def __call__(self, theta: Any, rng: np.random.Generator) -> FloatArray:
        return self.tally(_named(theta, self._problem), rng).weight


class _CountedTabulated(Tabulated):
    """Can also be called like a simulator: 1 where the simulation matches the data."""

    def __init__(self, known: Tabulated, problem: Problem, meter: Meter) -> None:
        super().__init__(problem.finite, known.p_star)
        self._problem, self._meter = problem, meter

    def tally(self, cells: IntArray, repeats: IntArray, rng: np.random.Generator) -> Tally:
        self._meter.charge(int(repeats.sum()))
        return super().tally(cells, repeats, rng)

    def __call__(self, theta: Any, rng: np.random.Generator) -> FloatArray:
        theta = _named(theta, self._problem)
        self._meter.charge(theta.rows)
        values = self._problem.finite.points
        same = np.logical_and.reduce([theta[name][:, None] == values[name][None, :] for name in values])
        if not same.any(axis=1).all():
            raise InputError(f"{theta.label(int(np.argmin(same.any(axis=1))))} is not a value of the parameter space")
        return np.asarray(rng.random(theta.rows) < self.p_star[same.argmax(axis=1)], dtype=np.float64)


class Posed(Problem):
    """What an algorithm is given to solve.

    A `Problem` in every respect but that ``simulate`` counts (``spent``) and refuses beyond ``budget``, and that its
    truth is hidden. ``tolerance`` is the one that all algorithms of the study are to accept at.

    An algorithm of another package needs of it: ``prior.names``, ``prior.sample(n, rng=rng)``,
    ``prior.logpdf(points)``, ``prior.from_unit(u)``, ``simulate(points, rng)``, ``observed``,
    ``distance_to_data(x)``, ``tolerance``; or ``matches(points, rng)`` alone, which works for problems whose data are
    an event too.
    """

    meter: Meter
    tolerance: float

    @classmethod
    def of(cls, problem: Problem, budget: int, tolerance: float = 0.0) -> Posed:
        posed = cls.__new__(cls)
        hidden = ("reference", "_known", "recipe")
        posed.__dict__.update({name: value for name, value in problem.__dict__.items() if name not in hidden})
        posed._truth = []
        if posed.observed is not None:
            posed.observed = np.array(posed.observed)
            posed.observed.flags.writeable = False
        posed.meter, posed.tolerance = Meter(budget), tolerance
        if isinstance(problem.simulate, Tabulated):
            posed.simulate = _CountedTabulated(problem.simulate, posed, posed.meter)
        elif isinstance(problem.simulate, Bernoulli):
            posed.simulate = _CountedBernoulli(problem.simulate, posed, posed.meter)
        else:
            counted = _Counted if single(problem.simulate) is None else _CountedRows
            posed.simulate = counted(problem.simulate, posed, posed.meter)
        return posed

    @property
    def reference(self) -> Reference:
        raise InputError("an algorithm that is being scored cannot see the truth")

    @property
    def budget(self) -> int:
        return self.meter.budget

    @property
    def spent(self) -> int:
        """Simulations so far."""
        return self.meter.spent

    @property
    def left(self) -> int:
        return self.meter.budget - self.meter.spent

    def distance_to_data(self, x: npt.ArrayLike) -> FloatArray:
        """The distance of every simulated output to the data; ∞ for one that is not finite."""
        x = np.asarray(x)
        distance, _ = self.distances(self.outcomes(x, len(x)))
        return np.where(np.isnan(distance), np.inf, distance)

    def matches(self, theta: Any, rng: np.random.Generator) -> BoolArray:
        """Simulate at every θ: whether each came within the tolerance of the data."""
        theta = _named(theta, self)
        x = self.simulate(theta, rng)  # type: ignore[operator]
        if isinstance(self.simulate, Tabulated | Bernoulli):
            return np.asarray(x > 0)
        distance, _ = self.distances(self.outcomes(x, theta.rows))
        return np.asarray(accepted(Acceptance(self.tolerance), np.where(np.isnan(distance), np.inf, distance)) > 0)
