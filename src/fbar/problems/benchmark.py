"""A problem of the catalogue: named observations, a truth for any data, tolerances to compare at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.problems import stored
from fbar.question.comparison import Distance
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.simulators import SimulatorFunction
from fbar.question.targets import Target
from fbar.question.truth import Listed, Reference, Truth

OBSERVATIONS = 10
LEVELS = (1e-2, 1e-3)
"""Shares of simulations from the prior that the named tolerances accept."""

ROUGH = 0.1
"""A truth may have at most this error, in posterior standard deviations."""

PILOT = 400_000
"""Simulations from the prior whose distances give the tolerances of data that are not stored."""


@dataclass(frozen=True)
class Recipe:
    """How a problem of the catalogue is made, for any data.

    Parameters
    ----------
    name, title
        What it is called, and one line about it.
    source
        Where it comes from.
    prior, simulate, summary, distance, derived
        As of `Problem`; ``simulate`` takes a batch.
    shape
        The shape of the data.
    reference
        The true posterior for any data: ``reference(x)``. At most about a minute.
    truth_at
        Where it can be computed: the truth of ABC at a tolerance, ``truth_at(x, tolerance)``; None where it cannot.
    acceptance
        Where it is known: the probability that a simulation comes within a tolerance of the data,
        ``acceptance(theta, x, tolerance)``.
    sufficient
        Whether the summaries contain as much information about the parameters as the data.
    check_data
        Refuses data that the simulator cannot produce, with an `InputError`.
    seed
        Observation i is made with ``numpy.random.default_rng([seed, i])``: first θ from the prior, then x.
    """

    name: str
    title: str
    source: str
    prior: Distribution
    simulate: SimulatorFunction
    shape: tuple[int, ...]
    reference: Callable[[FloatArray], Reference]
    seed: int
    summary: Callable[[npt.NDArray[Any]], npt.ArrayLike] | None = None
    distance: Distance | None = None
    derived: Mapping[str, Callable[[Points], npt.ArrayLike]] = field(default_factory=dict)
    truth_at: Callable[[FloatArray, float], Truth | None] | None = None
    acceptance: Callable[[Points, FloatArray, float], FloatArray] | None = None
    sufficient: bool = False
    check_data: Callable[[FloatArray], None] | None = None

    def draw(self, observation: int) -> tuple[Points, FloatArray]:
        """The true parameters and the data of a named observation, drawn again."""
        rng = np.random.default_rng([self.seed, observation])
        theta = self.prior.sample(1, rng=rng).with_derived(self.derived)
        return theta, np.asarray(self.simulate(theta, rng), dtype=np.float64)[0]


class Benchmark(Problem):
    """A problem of the catalogue with its data.

    >>> from fbar import problems
    >>> problem = problems.load("gaussian-linear", observation=3)
    >>> problem.truth()["mean:theta1"].standard_error
    0.0
    >>> other = problem.with_observed([0.1] * 10)
    >>> round(other.truth()["mean:theta1"].value, 6)
    0.05
    """

    def __init__(
        self,
        recipe: Recipe,
        observed: npt.ArrayLike,
        *,
        observation: int | None = None,
        truth: Reference | None = None,
    ) -> None:
        data, known = _data(recipe, observed), recipe.acceptance
        super().__init__(
            recipe.prior,
            recipe.simulate,
            data,
            summary=recipe.summary,
            distance=recipe.distance,
            derived=recipe.derived,
            p_star=None if known is None else lambda theta, tolerance: known(theta, data, tolerance),
            truth=truth,
        )
        self.recipe = recipe
        self.data = data
        self.observation = observation
        self._given = truth

    @classmethod
    def of(cls, recipe: Recipe, observation: int) -> Benchmark:
        if isinstance(observation, bool) or observation not in range(1, OBSERVATIONS + 1):
            raise InputError(f"observation must be a whole number from 1 to {OBSERVATIONS}; got {shown(observation)}")
        kept = stored.read(recipe.name).get(observation)
        data = recipe.draw(observation)[1] if kept is None else np.array(kept.observed)
        return cls(recipe, data, observation=observation)

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def _stored(self) -> stored.Stored | None:
        return None if self.observation is None else stored.read(self.name).get(self.observation)

    @property
    def true_parameters(self) -> dict[str, float] | None:
        """The parameters that a named observation was made with."""
        kept = self._stored
        if kept is not None:
            return dict(kept.parameters)
        if self.observation is None:
            return None
        theta = self.recipe.draw(self.observation)[0]
        return {name: theta[name][0].item() for name in theta if theta.present(name)[0]}

    def replace(self, **changes: Any) -> Problem:
        """The same problem with other data or another truth; any other change makes it a plain `Problem`."""
        if not changes.keys() <= {"observed", "truth"}:
            return super().replace(**changes)
        return Benchmark(self.recipe, changes.get("observed", self.data), truth=changes.get("truth"))

    def with_observed(self, observed: Any) -> Benchmark:
        """The same problem with other data; its truth is computed when asked for."""
        return Benchmark(self.recipe, observed)

    @cached_property
    def reference(self) -> Reference:
        return self.recipe.reference(self.data) if self._given is None else self._given

    @cached_property
    def _known(self) -> Truth:
        if self._given is not None:
            return self._given.truth()
        kept = self._stored
        if kept is not None and kept.truth is not None:
            return kept.truth
        found = self.reference.truth()
        for item in found.values():
            if not item.standard_error <= ROUGH * item.deviation:
                raise InputError(
                    f"the truth of {item.name} could not be computed for these data: its error is "
                    f"{item.standard_error:.2g}, and the posterior standard deviation {item.deviation:.2g}"
                )
        return found

    def truth(self, target: Target | None = None) -> Any:
        """The true value of a target; without one, the `Truth` that is stored or computed."""
        if target is None:
            return self._known
        if target.name in self._known:
            return Listed(list(self._known.values()), self._known.how).expect(target)[0]
        return self.reference.expect(target)[0]

    def truth_error(self, target: Target) -> FloatArray:
        if target.name in self._known:
            return Listed(list(self._known.values()), self._known.how).expect(target)[1]
        return self.reference.expect(target)[1]

    @cached_property
    def tolerances(self) -> dict[float, float]:
        """By the share of simulations from the prior that it accepts: quantiles of the distance to the data."""
        kept = self._stored
        if kept is not None and kept.tolerances:
            return dict(kept.tolerances)
        return self.pilot_tolerances()

    def pilot_tolerances(self, size: int = PILOT) -> dict[float, float]:
        """The quantiles from simulations of the prior, always with the same random numbers."""
        rng = np.random.default_rng([self.recipe.seed, 0])
        parts = []
        for start in range(0, size, 50_000):
            theta = self.prior.sample(min(50_000, size - start), rng=rng).with_derived(self.derived)
            outcomes = self.outcomes(self.recipe.simulate(theta, rng), theta.rows)
            parts.append(self.distances(outcomes)[0])
        distance = np.concatenate(parts)
        distance[np.isnan(distance)] = np.inf
        return {level: float(f"{np.quantile(distance, level):.6g}") for level in LEVELS}

    def truth_at(self, tolerance: float) -> Truth | None:
        """The truth of ABC at the tolerance, where it can be computed; None where it cannot."""
        kept = self._stored
        if kept is not None and tolerance in kept.truths_at:
            return kept.truths_at[tolerance]
        if self.recipe.truth_at is None:
            return None
        return self.recipe.truth_at(self.data, tolerance)

    def __repr__(self) -> str:
        which = "other data" if self.observation is None else f"observation {self.observation}"
        return f"<problem {self.name}, {which}>"


def _data(recipe: Recipe, observed: npt.ArrayLike) -> FloatArray:
    try:
        data = np.array(observed, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the data of {recipe.name} must be numbers; got {shown(observed)}") from None
    if data.size == 1 and recipe.shape == ():
        data = data.reshape(())
    if data.shape != recipe.shape:
        size = int(np.prod(recipe.shape))
        raise InputError(f"the data of {recipe.name} are {size} numbers; got {data.size} in shape {data.shape}")
    if not np.isfinite(data).all():
        raise InputError(f"the data of {recipe.name} must be finite numbers")
    if recipe.check_data is not None:
        recipe.check_data(data)
    return data
