"""The problem: prior, simulator, summary statistics, observed data and distance.

The tolerance is not here: it belongs to a run (see `Acceptance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.checks import FloatArray, IntArray, choice, non_negative_number, probabilities
from fbar.errors import InputError
from fbar.outcomes import Batch, Failure, Outcomes, Seen, Simulated, Tally, tally
from fbar.points import Points
from fbar.priors import Finite, Prior
from fbar.targets import Target

Simulator = Callable[[Points, np.random.Generator], Any]


def each(function: Callable[[dict[str, Any], np.random.Generator], Any]) -> Simulator:
    """Turn a simulator of one parameter set into one of a batch: it is called once for every row.

    >>> @each
    ... def simulate(theta, rng):
    ...     return rng.poisson(theta["rate"])
    """

    def simulate(theta: Points, rng: np.random.Generator) -> npt.NDArray[Any]:
        columns = {name: theta[name] for name in theta}
        rows = [function({name: c[i] for name, c in columns.items()}, rng) for i in range(theta.rows)]
        return np.asarray(rows)

    return simulate


class Tabulated:
    """A "simulator" of known acceptance probabilities: x = x* with probability p*(θ_i).

    Repeats are drawn as one binomial number, whatever their size and for all trials at once, so that
    10⁸ simulations cost as much as one.
    """

    def __init__(self, prior: Finite, p_star: npt.ArrayLike) -> None:
        self.p_star = probabilities(p_star, "acceptance probabilities")
        if self.p_star.shape != (prior.size,):
            raise InputError(
                f"acceptance probabilities must be {prior.size} numbers, one for each parameter value; "
                f"got shape {self.p_star.shape}"
            )

    def tally(self, cells: IntArray, repeats: IntArray, rng: np.random.Generator) -> Tally:
        # Cells first, trials last: numpy sets a binomial up once for a run of equal (n, p).
        n = np.moveaxis(repeats, -1, 0)
        p = self.p_star[cells].reshape(-1, *([1] * (n.ndim - 1)))
        hits = np.moveaxis(rng.binomial(n, p), 0, -1).astype(np.float64)
        return Tally(hits, hits)


@dataclass(frozen=True)
class Acceptance:
    """How a distance Δ becomes an acceptance weight a = K(Δ/ε).

    ``kernel`` is ``"uniform"`` (the indicator Δ ≤ ε; with ε = 0 exact matching), ``"epanechnikov"`` or
    ``"gaussian"``, each scaled to K(0) = 1.
    """

    tolerance: float = 0.0
    kernel: str = "uniform"

    def __post_init__(self) -> None:
        non_negative_number(self.tolerance, "tolerance")
        choice(self.kernel, ("uniform", "epanechnikov", "gaussian"), "acceptance kernel")
        if self.kernel != "uniform" and self.tolerance == 0:
            raise InputError(f"the {self.kernel} acceptance kernel needs a tolerance above 0; got 0")

    def __call__(self, distance: FloatArray) -> FloatArray:
        if self.kernel == "uniform":
            return (distance <= self.tolerance).astype(np.float64)
        u = distance / self.tolerance
        if self.kernel == "epanechnikov":
            return np.asarray(np.maximum(0.0, 1.0 - u**2))
        return np.asarray(np.exp(-0.5 * u**2))


def euclidean(summaries: npt.NDArray[Any], observed: npt.NDArray[Any]) -> FloatArray:
    """Euclidean distance of every simulation's summaries to the observed ones; labels match or do not."""
    if summaries.dtype.kind not in "biufc":
        same = (summaries == observed).reshape(len(summaries), -1).all(axis=1)
        return np.where(same, 0.0, np.inf)
    difference = np.abs(summaries.astype(np.float64) - observed).reshape(len(summaries), -1)
    return difference[:, 0] if difference.shape[1] == 1 else np.asarray(np.sqrt((difference**2).sum(axis=1)))


class Problem:
    """A question for likelihood-free inference.

    Parameters
    ----------
    prior
        What θ is drawn from, such as ``fbar.Finite(theta=[1, 2, 3])``.
    simulate
        ``simulate(theta, rng)``: a batch in (``theta["name"]`` is an array of n values), a batch out
        (an array whose first axis has length n, or a mapping with that array under ``"x"`` and further
        recorded outputs). Wrap a simulator of a single parameter set with `each`.
    observed
        The data x*, in the form of one row of the simulator's output.
    summary
        Summary statistics: a function of a batch of outputs. Applied to the data too.
    distance
        ``distance(summaries, observed)`` for a batch; Euclidean by default.
    accept
        In place of a distance: a rule ``accept(summaries, observed)`` that gives true or false for
        every simulation.
    derived
        Further parameters as functions of the others, such as ``{"R0": lambda t: t["beta"] / t["gamma"]}``.
    cost
        Cost of one simulation at each value of a finite prior, or a function of the batch; equal by default.
    """

    def __init__(
        self,
        prior: Prior,
        simulate: Simulator | Tabulated,
        observed: Any = None,
        *,
        summary: Callable[[npt.NDArray[Any]], npt.ArrayLike] | None = None,
        distance: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike] | None = None,
        accept: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike] | None = None,
        derived: Mapping[str, Callable[[Points], npt.ArrayLike]] | None = None,
        cost: npt.ArrayLike | Callable[[Points], npt.ArrayLike] | None = None,
    ) -> None:
        if not isinstance(prior, Prior):
            raise InputError(f"prior must be a prior such as fbar.Finite(theta=[1, 2, 3]); got {prior!r}")
        if not isinstance(simulate, Tabulated):
            if not callable(simulate):
                raise InputError(f"simulate must be a function simulate(theta, rng); got {simulate!r}")
            if observed is None:
                raise InputError("observed data are missing; give them as observed=")
        if distance is not None and accept is not None:
            raise InputError("give either a distance or an acceptance rule, not both")
        for name in derived or {}:
            if name in prior.names:
                raise InputError(f"derived parameter {name!r} has the name of a parameter; choose another")
        self.prior = prior
        self.simulate = simulate
        self.summary = summary
        self.derived = dict(derived or {})
        self._distance = distance
        self._accept = accept
        self._cost = cost
        self.observed = None if observed is None else self._summarise(np.asarray(observed)[None])[0]
        if isinstance(prior, Finite):
            self.cost  # noqa: B018 - a wrong cost is refused here, not in the middle of a run

    @classmethod
    def tabulated(cls, prior: Finite, p_star: npt.ArrayLike, **options: Any) -> Problem:
        """A problem whose acceptance probabilities p(x*|θ_i) are known, and with them its truth.

        >>> problem = Problem.tabulated(Finite(theta=[1, 2]), [0.3, 0.05])
        """
        return cls(prior, Tabulated(prior, p_star), **options)

    @classmethod
    def models(
        cls,
        simulators: Mapping[str, Simulator],
        observed: Any,
        *,
        probabilities: npt.ArrayLike | None = None,
        name: str = "model",
        **options: Any,
    ) -> Problem:
        """Model selection: each simulator is one value of the parameter ``model``."""
        if not simulators:
            raise InputError("give at least one model, as a mapping from its name to its simulator")
        for label, simulator in simulators.items():
            if not callable(simulator):
                raise InputError(f"model {label!r} must be a function simulate(theta, rng); got {simulator!r}")
        labels = np.array(list(simulators))
        prior = Finite({name: labels}, probabilities=probabilities)

        def simulate(theta: Points, rng: np.random.Generator) -> npt.NDArray[Any]:
            result: npt.NDArray[Any] | None = None
            for label, simulator in simulators.items():
                rows = np.flatnonzero(theta[name] == label)
                if rows.size == 0:
                    continue
                x = np.asarray(simulator(theta.take(rows), rng))
                if x.shape[:1] != rows.shape:
                    raise InputError(
                        f"model {label!r} was asked for {rows.size} simulations and gave an output of shape {x.shape}"
                    )
                if result is None:
                    result = np.empty((theta.rows, *x.shape[1:]), dtype=x.dtype)
                elif x.shape[1:] != result.shape[1:]:
                    raise InputError(
                        f"the models' outputs differ in shape: {label!r} gives {x.shape[1:]}, others {result.shape[1:]}"
                    )
                result = result.astype(np.result_type(result, x), copy=False)
                result[rows] = x
            assert result is not None
            return result

        return cls(prior, simulate, observed, **options)

    # ------------------------------------------------------------ parameters

    @property
    def finite(self) -> Finite:
        """The prior, for methods that need a finite parameter space."""
        if not isinstance(self.prior, Finite):
            raise InputError(f"this method needs a finite prior (fbar.Finite); got {self.prior!r}")
        return self.prior

    @property
    def points(self) -> Points:
        """The values of a finite prior, with the derived parameters."""
        points = self.finite.points
        return Points({name: points[name] for name in points}, self.derived)

    @property
    def cost(self) -> FloatArray:
        """The cost of a simulation at each value of a finite prior."""
        given = self._cost
        raw = 1.0 if given is None else given(self.points) if callable(given) else given
        try:
            cost = np.broadcast_to(np.asarray(raw, dtype=np.float64), (self.finite.size,))
        except ValueError:
            raise InputError(f"cost must be one number for each of {self.finite.size} values; got {raw!r}") from None
        if not ((cost > 0) & np.isfinite(cost)).all():
            raise InputError(f"cost must be positive; got {cost[~((cost > 0) & np.isfinite(cost))][0]:g}")
        return cost

    # ------------------------------------------------------------ truth, where it is known

    @property
    def p_star(self) -> FloatArray | None:
        """p(x*|θ_i) where it is known."""
        return self.simulate.p_star if isinstance(self.simulate, Tabulated) else None

    def truth(self, target: Target) -> FloatArray:
        """The exact value of a target, where the acceptance probabilities are known: shape (m,)."""
        if self.p_star is None:
            raise InputError("the truth of this problem is not known")
        weights = theory.posterior(self.finite.probabilities, self.p_star)
        return target.value(self.points, weights)

    # ------------------------------------------------------------ from outputs to acceptance weights

    def _summarise(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.summary is None:
            return x
        summaries = np.asarray(self.summary(x))
        if summaries.shape[:1] != x.shape[:1]:
            raise InputError(
                f"summary must give one row for each of {len(x)} simulations; it gives shape {summaries.shape}"
            )
        return summaries

    def outcomes(self, output: Any, simulations: int) -> Simulated:
        """A simulator's output as outcomes: summarised, and not-a-number marked as a failure."""
        recorded: dict[str, npt.NDArray[Any]] = {}
        if isinstance(output, Mapping):
            if "x" not in output:
                raise InputError(f"a simulator's mapping must hold its data under 'x'; it holds {list(output)}")
            recorded = {name: np.asarray(values) for name, values in output.items() if name != "x"}
            output = output["x"]
        x = np.asarray(output)
        for name, values in {"x": x, **recorded}.items():
            if values.shape[:1] != (simulations,):
                raise InputError(
                    f"the simulator was asked for {simulations} simulations and gave {name!r} of shape {values.shape}; "
                    "its first axis must be the simulations (wrap a simulator of one parameter set with fbar.each)"
                )
        summaries = self._summarise(x)
        assert self.observed is not None
        if summaries.shape[1:] != self.observed.shape:
            raise InputError(
                f"simulated summaries have shape {summaries.shape[1:]} and the observed ones {self.observed.shape}"
            )
        failure = np.zeros(simulations, dtype=np.int8)
        if summaries.dtype.kind in "fc":
            bad = ~np.isfinite(summaries).reshape(simulations, -1).all(axis=1)
            failure[bad] = Failure.NOT_FINITE
        return Simulated(summaries, recorded, failure)

    def distance(self, summaries: npt.NDArray[Any]) -> FloatArray:
        """The distance of every simulation to the data; 0 or ∞ under an acceptance rule."""
        assert self.observed is not None
        if self._accept is not None:
            accepted = np.asarray(self._accept(summaries, self.observed))
            if accepted.dtype != np.bool_ or accepted.shape != (len(summaries),):
                raise InputError(
                    f"the acceptance rule must give true or false for each of {len(summaries)} simulations; "
                    f"it gives {accepted.dtype} of shape {accepted.shape}"
                )
            return np.where(accepted, 0.0, np.inf)
        measure = self._distance or euclidean
        distance = np.asarray(measure(summaries, self.observed), dtype=np.float64)
        if distance.shape != (len(summaries),):
            raise InputError(
                f"the distance must give one number for each of {len(summaries)} simulations; "
                f"it gives shape {distance.shape}"
            )
        return distance

    def tally(self, batch: Batch, outcomes: Outcomes, acceptance: Acceptance) -> Tally:
        """Acceptance weights summed over repeats. A failed simulation is a rejected one."""
        if isinstance(outcomes, Tally):
            return outcomes
        weights = np.zeros(outcomes.simulations)
        failure = outcomes.failure
        closest = np.inf
        ok = np.ones(outcomes.simulations, bool) if outcomes.failure is None else outcomes.failure == Failure.NONE
        if ok.any():
            distance = self.distance(outcomes.summaries[ok])
            distance = np.where(np.isnan(distance), np.inf, distance)
            weights[ok] = acceptance(distance)
            closest = float(distance.min())
        counts = np.bincount([] if failure is None else failure, minlength=len(Failure))
        seen = Seen(closest, int(counts[Failure.EXCEPTION]), int(counts[Failure.NOT_FINITE]), outcomes.message)
        return tally(batch, weights, seen)
