"""A problem as a study poses it: the simulator counts its calls and refuses beyond the budget, the truth is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.acceptance import Acceptance, accepted
from fbar.checks import BoolArray, FloatArray, IntArray
from fbar.errors import FbarError, InputError
from fbar.outcomes import Tally
from fbar.points import Points
from fbar.priors import Finite
from fbar.problem import Problem
from fbar.simulators import Bernoulli, Tabulated
from fbar.truth import Reference


class BudgetExceeded(FbarError, RuntimeError):
    """An algorithm asked for more simulations than its budget."""


class Meter:
    """Counts simulations, and refuses those beyond the budget before they are run."""

    def __init__(self, budget: int) -> None:
        self.budget, self.spent = budget, 0

    def reset(self, budget: int) -> None:
        """For another trial."""
        self.budget, self.spent = budget, 0

    def charge(self, simulations: int) -> None:
        if self.spent + simulations > self.budget:
            raise BudgetExceeded(
                f"the algorithm asked for {simulations} more simulations after {self.spent}; its budget is "
                f"{self.budget}"
            )
        self.spent += simulations


class _Counted:
    def __init__(self, simulate: Any, meter: Meter) -> None:
        self._simulate, self._meter = simulate, meter
        self.one_by_one = bool(getattr(simulate, "one_by_one", False))

    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        self._meter.charge(theta.rows)
        return self._simulate(theta, rng)


class _CountedBernoulli(Bernoulli):
    """Can also be called like a simulator: 1 where the simulation matches the data."""

    def __init__(self, known: Bernoulli, meter: Meter) -> None:
        super().__init__(known.p_star)
        self._meter = meter

    def tally(self, theta: Points, rng: np.random.Generator) -> Tally:
        self._meter.charge(theta.rows)
        return super().tally(theta, rng)

    def __call__(self, theta: Points, rng: np.random.Generator) -> FloatArray:
        return self.tally(theta, rng).weight


class _CountedTabulated(Tabulated):
    """Can also be called like a simulator: 1 where the simulation matches the data."""

    def __init__(self, known: Tabulated, prior: Finite, meter: Meter) -> None:
        super().__init__(prior, known.p_star)
        self._prior, self._meter = prior, meter

    def tally(self, cells: IntArray, repeats: IntArray, rng: np.random.Generator) -> Tally:
        self._meter.charge(int(repeats.sum()))
        return super().tally(cells, repeats, rng)

    def __call__(self, theta: Points, rng: np.random.Generator) -> FloatArray:
        self._meter.charge(theta.rows)
        values = self._prior.points
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
        posed.__dict__.update(problem.__dict__)
        posed.__dict__.pop("reference", None)
        posed._truth = {}
        posed.meter, posed.tolerance = Meter(budget), tolerance
        if isinstance(problem.simulate, Tabulated):
            posed.simulate = _CountedTabulated(problem.simulate, problem.finite, posed.meter)
        elif isinstance(problem.simulate, Bernoulli):
            posed.simulate = _CountedBernoulli(problem.simulate, posed.meter)
        else:
            posed.simulate = _Counted(problem.simulate, posed.meter)
        return posed

    @property
    def reference(self) -> Reference:
        raise InputError("an algorithm that is scored does not see the truth")

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

    def matches(self, theta: Points, rng: np.random.Generator) -> BoolArray:
        """Simulate at every θ: whether each came within the tolerance of the data."""
        x = self.simulate(theta, rng)  # type: ignore[operator]
        if isinstance(self.simulate, Tabulated | Bernoulli):
            return np.asarray(x > 0)
        distance, _ = self.distances(self.outcomes(x, theta.rows))
        return np.asarray(accepted(Acceptance(self.tolerance), np.where(np.isnan(distance), np.inf, distance)) > 0)
