"""What simulations cost: given with the problem, returned by the simulator, or measured in seconds.

The paper's designs minimise the variance times the expected cost, so they need the cost of a simulation at each θ.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, numeric_array
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.outcomes import Batch, Failure, Outcomes, Simulated
from fbar.question.outputs import by_parts
from fbar.question.parameters import Parameters
from fbar.question.points import Points
from fbar.question.simulators import COST, Costs, RowFailed, Simulator, Unusable
from fbar.question.simulators.calls import called

RETURNED = "returned"
"""``cost=`` of a problem whose simulator returns what its simulations cost."""

CostGiven = npt.ArrayLike | Callable[[Points], npt.ArrayLike] | str | None


class CostRule:
    """Where a problem's costs come from.

    ``function`` of θ or ``numbers`` if they were given with the problem, else ``returned`` by the simulator if that
    was promised; otherwise measured, if the simulator is timed, or not known.
    """

    def __init__(self, given: CostGiven, simulator: Simulator, parameters: Parameters) -> None:
        self.given = copy(given) if isinstance(given, np.ndarray | list) else given  # the caller may change its own
        self.returned = isinstance(given, str)
        self.function = given if callable(given) else None
        self._timed = simulator.timed
        self._simulator = simulator
        self._parameters = parameters
        if self.returned and given != RETURNED:
            raise InputError(f"cost must be numbers, a function of theta, or {RETURNED!r}; got {shown(given)}")
        if self.returned and simulator.known is not None:
            raise InputError("this problem's simulations return nothing; give cost= as numbers or a function")
        self.numbers: FloatArray | None = None
        if given is not None and not self.returned and self.function is None:
            self.numbers = numeric_array(given, "cost")
        self._check()

    def _check(self) -> None:
        """Refuse a wrong cost here, not in the middle of a run."""
        if not self.is_given:
            return
        if self._parameters.is_finite:
            _ = self.at_values
            return
        if self.numbers is not None and self.numbers.ndim:
            raise InputError("cost must be a function of theta such as lambda t: t['n'], where the prior is not finite")
        self.at(self._parameters.probe)

    @property
    def is_given(self) -> bool:
        """Whether they were given with the problem."""
        return self.function is not None or self.numbers is not None

    @property
    def measured(self) -> bool:
        """Whether they are seconds that are measured."""
        return self.given is None and self._timed

    @property
    def known(self) -> bool:
        """Whether the costs of single simulations will be known: given with the problem, returned or measured."""
        return self.given is not None or self._timed

    def require(self) -> None:
        """Refuse a problem whose simulations' costs are not known."""
        if not self.known:
            raise InputError(
                "the costs of this problem's simulations are not known; wrap a simulator of one parameter set with "
                f"fbar.each, which times its calls, or return {{'x': …, {COST!r}: …}} and set cost={RETURNED!r}, or "
                "give Problem(cost=...) a function of theta"
            )

    # ------------------------------------------------------------ as they were given

    @cached_property
    def at_values(self) -> FloatArray:
        """The cost of a simulation at each value of a finite prior, as it was given; 1 if it was not."""
        size = self._parameters.finite.size
        if self.function is not None:
            return self._of_function(self._parameters.points)
        return np.ones(size) if self.numbers is None else self._positive(self.numbers, size, "values")

    def at(self, points: Points) -> FloatArray | None:
        """The cost of a simulation at each θ, where it was given with the problem; None otherwise."""
        if self.function is not None:
            return self._of_function(points)
        if self.numbers is None:
            return None
        if self.numbers.ndim == 0:
            return self._positive(self.numbers, points.rows, "rows")
        cell = self._parameters.finite.index(points)
        if (cell < 0).any():
            raise InputError(f"{points.label(int(np.argmin(cell)))} is not a value of the parameter space")
        return self.at_values[cell]

    def _of_function(self, points: Points) -> FloatArray:
        assert self.function is not None
        points = points if points.derived else points.with_derived(self._parameters.derived)
        return self._positive(called("the cost", self.function, points), points.rows, "rows")

    def _positive(self, found: npt.NDArray[Any], size: int, what: str) -> FloatArray:
        cost = numeric_array(found, "cost")
        try:
            cost = np.broadcast_to(cost, (size,))
        except ValueError:
            given = found if self.given is None or self.function is not None else self.given
            raise InputError(f"cost must be one number for each of {size} {what}; got {shown(given)}") from None
        bad = ~((cost > 0) & np.isfinite(cost))
        if bad.any():
            raise InputError(f"cost must be positive; got {cost[bad][0]:g}")
        extreme = (cost < 1e-100) | (cost > 1e100)
        if extreme.any():
            raise InputError(f"cost must lie between 1e-100 and 1e+100; got {cost[extreme][0]:g}: use another unit")
        return cost

    # ------------------------------------------------------------ of a block of simulations

    def of_simulations(self, batch: Batch, outcomes: Outcomes) -> FloatArray | None:
        """What each simulation of a block cost, a number for each row of ``batch.theta``.

        As it was given with the problem, NaN where its function gives no positive number; otherwise as it came with the
        outcomes, NaN for a failed simulation of which it is not known; None if it is not known at all.
        """
        given = self._by_row(batch)
        if given is not None:
            return given if batch.repeats is None else np.repeat(given, batch.repeats)
        found = outcomes.cost if isinstance(outcomes, Simulated) else None
        if found is None and self.returned:  # recorded before simulations without a cost were failures
            return np.full(batch.simulations, np.nan)
        return found

    def of_block(self, batch: Batch, outcomes: Outcomes) -> float | None:
        """The sum of the known costs of a block's simulations; None if none is known."""
        if batch.repeats is not None and batch.repeats.ndim > 1:
            return None
        given = self._by_row(batch)
        if given is not None:  # repeats may be many
            return float(np.nansum(given if batch.repeats is None else given * batch.repeats))
        found = self.of_simulations(batch, outcomes)
        return None if found is None else float(np.nansum(found))

    def _by_row(self, batch: Batch) -> FloatArray | None:
        """The given cost of one simulation at each of a block's points; NaN where the function gives none."""
        own = self._simulator.cost_of(batch.points)
        if own is not None:
            return own
        if not self.is_given:
            return None
        if batch.cells is not None:
            return self.at_values[batch.cells]
        points = batch.points
        costs = np.full(points.rows, np.nan)
        for part, values in by_parts(lambda part: self._of_part(points, part), points.rows).found:
            costs[part] = values
        return costs

    def _of_part(self, points: Points, part: slice) -> FloatArray:
        whole = part == slice(0, points.rows)
        try:
            found = self.at(points if whole else points.take(np.arange(part.start, part.stop)))
        except InputError as error:
            raise Unusable(str(error)) from error
        assert found is not None
        return found

    # ------------------------------------------------------------ as they come with an output

    def of_output(self, costs: Costs | None, failure: npt.NDArray[np.int8]) -> FloatArray | None:
        """The costs of a block's simulations: the returned ones if there are any, else the measured ones.

        Never a mixture of the two, whose units may differ.
        """
        if costs is None:
            return np.full(failure.shape, np.nan) if self.known and failure.all() else None
        succeeded = failure == Failure.NONE
        found = costs.values if costs.returned.any() or self.returned else costs.seconds
        if np.isnan(found[succeeded]).any():  # some rows returned none, but the time of all may have been measured
            found = costs.seconds
        if np.isnan(found[succeeded]).any() or not (self.known or not np.isnan(found).all()):
            return None
        return np.where((found > 0) & np.isfinite(found), found, np.nan)

    def failures(self, costs: Costs | None, lost: BoolArray) -> dict[int, RowFailed]:
        """Rows whose cost cannot be used, or that lack one that was promised, and are not lost already."""
        promised = self.returned and not lost.all()
        missing = f"the problem has cost={RETURNED!r}, but a simulation came without {COST!r}"
        if costs is None:
            if promised:
                raise Unusable(missing)
            return {}
        if costs.values.shape != lost.shape:
            raise Unusable(
                f"the simulator was asked for {lost.size} simulations and returned {COST!r} of shape "
                f"{costs.values.shape}",
                Failure.WRONG_SHAPE,
            )
        bad = costs.returned & ~((costs.values > 0) & np.isfinite(costs.values)) & ~lost
        absent = ~costs.returned & ~lost if promised else np.zeros(lost.shape, dtype=bool)
        wrong = f"the simulator's {COST!r} must be a positive number for every simulation; it returned"
        return {
            int(row): RowFailed.of(Unusable(f"{wrong} {costs.values[row]:g}" if bad[row] else missing))
            for row in np.flatnonzero(bad | absent)
        }
