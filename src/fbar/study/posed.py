"""A problem as a study poses it: the simulator counts its calls and refuses beyond the budget, the truth is hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray
from fbar.errors import InputError
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Tally
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.simulators import EndsRun, Fidelities, KnownAcceptance, RowByRow, Simulator, Single, repeating
from fbar.question.truth import Reference
from fbar.scores import as_points


class BudgetExceeded(EndsRun, RuntimeError):
    """An algorithm asked for more simulations than its budget."""


class Meter:
    """Counts simulations, and refuses those beyond the budget before they are run.

    ``cost`` is what they cost together, as far as costs were given with the problem.
    """

    def __init__(self, budget: int) -> None:
        self.reset(budget)

    def reset(self, budget: int) -> None:
        """For another trial."""
        self.budget, self.spent, self.refused, self.cost = budget, 0, 0, 0.0

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


def _named(theta: Any, problem: Problem) -> Points:
    """Named columns, also from the plain array or mapping that another package has."""
    return theta if isinstance(theta, Points) else as_points(theta, problem)


class _Counted(Simulator):
    """A problem's simulator whose every call is charged to the budget, so that none may be made twice."""

    metered = True

    def __init__(self, problem: Problem, meter: Meter) -> None:
        self._problem, self._simulator, self._meter = problem, problem.simulator, meter
        self.one_by_one, self.timed = self._simulator.one_by_one, self._simulator.timed

    def __call__(self, theta: Any, rng: np.random.Generator) -> Any:
        points = _named(theta, self._problem)
        self._meter.charge(points.rows)
        self._charge_cost(points)
        return self._simulator.output(points, rng)

    def _charge_cost(self, points: Points) -> None:
        given = self._simulator.cost_of(points)
        cost = self._problem.cost_of(points) if given is None else given
        if cost is not None and not repeating.get():
            self._meter.cost += float(np.sum(cost))

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        return self(theta, rng)

    @property
    def fidelities(self) -> Fidelities | None:
        return self._simulator.fidelities

    def name_of(self, theta: Points) -> str:
        return self._simulator.name_of(theta)

    def cost_of(self, theta: Points) -> FloatArray | None:
        return self._simulator.cost_of(theta)


class _CountedRows(_Counted, RowByRow):
    """The same of a simulator that runs its rows one by one."""

    batch_call = _Counted.__call__

    def single(self, theta: Points) -> Single:
        make = self._simulator.rows
        assert make is not None
        self._meter.charge(theta.rows)
        self._charge_cost(theta)
        return make(theta)


class _CountedAcceptance(KnownAcceptance):
    """A known acceptance probability; can also be called like a simulator: 1 where a simulation matches the data."""

    def __init__(self, problem: Problem, known: KnownAcceptance, meter: Meter) -> None:
        self._problem, self._known, self._meter = problem, known, meter

    @property
    def by_value(self) -> FloatArray | None:
        return self._known.by_value

    @property
    def factors(self) -> Mapping[str, Callable[[FloatArray], FloatArray]] | None:
        return self._known.factors

    def check_prior(self, prior: Distribution) -> None:
        self._known.check_prior(prior)

    def acceptance_probability(self, theta: Points) -> FloatArray:
        return self._known.acceptance_probability(theta)

    def tally(self, batch: Batch, rng: np.random.Generator) -> Tally:
        self._meter.charge(batch.points.rows if batch.repeats is None else int(batch.repeats.sum()))
        return self._known.tally(batch, rng)

    def matches(self, theta: Points, rng: np.random.Generator) -> BoolArray:
        self._meter.charge(theta.rows)
        return super().matches(theta, rng)

    def __call__(self, theta: Any, rng: np.random.Generator) -> FloatArray:
        return self.output(_named(theta, self._problem), rng)


def _counted(problem: Problem, meter: Meter) -> _Counted | _CountedAcceptance:
    simulator = problem.simulator
    if simulator.known is not None:
        return _CountedAcceptance(problem, simulator.known, meter)
    return _Counted(problem, meter) if simulator.rows is None else _CountedRows(problem, meter)


class Posed(Problem):
    """What an algorithm is given to solve.

    A `Problem`, except that ``simulate`` counts (``spent``) and refuses to exceed ``budget``, and that its truth is
    hidden. ``tolerance`` is the tolerance of all algorithms of the study.

    An algorithm of another package needs: ``prior.names``, ``prior.sample(n, rng=rng)``, ``prior.logpdf(points)``,
    ``prior.from_unit(u)``, ``simulate(points, rng)``, ``observed``, ``distance_to_data(x)``, ``tolerance``; or only
    ``matches(points, rng)``, which also works for problems whose data are an event.
    """

    meter: Meter
    tolerance: float

    @classmethod
    def of(cls, problem: Problem, budget: int, tolerance: float = 0.0) -> Posed:
        meter = Meter(budget)
        posed = cls(**{**problem.arguments, "simulate": _counted(problem, meter), "truth": None})
        posed.meter, posed.tolerance = meter, tolerance
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
    def spent_cost(self) -> float | None:
        """What they cost, where costs were given with the problem."""
        return self.meter.cost or None

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
        if self.simulator.known is not None:
            return self.simulator.known.matches(theta, rng)
        distance, _ = self.distances(self.outcomes(self.simulator.output(theta, rng), theta.rows))
        return np.asarray(accepted(Acceptance(self.tolerance), np.where(np.isnan(distance), np.inf, distance)) > 0)
