"""The problem: prior, simulator, summary statistics, observed data and distance.

The tolerance is not here: it belongs to a run (see `Acceptance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.checks import FloatArray, IntArray, choice, non_negative_number, probabilities
from fbar.checks import function as check_function
from fbar.errors import FbarError, InputError
from fbar.outcomes import Batch, Failure, Outcomes, Seen, Simulated, Tally, tally
from fbar.points import Points
from fbar.priors import Distribution, Finite, ModelChoice
from fbar.targets import Target

Simulator = Callable[[Points, np.random.Generator], Any]


class each:
    """Turn a simulator of one parameter set into one of a batch: it is called once for every row.

    A row that raises an exception, or gives None, is a failed simulation and does not disturb the others.

    >>> @each
    ... def simulate(theta, rng):
    ...     return rng.poisson(theta["rate"])
    """

    def __init__(self, function: Callable[[dict[str, Any], np.random.Generator], Any]) -> None:
        check_function(function, "a simulator")
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "simulate")

    def __call__(self, theta: Points, rng: np.random.Generator) -> list[Any]:
        """A row's output each; a `RowFailed` for one that failed."""
        columns = {name: theta[name] for name in theta}
        rows: list[Any] = []
        for i in range(theta.rows):
            try:
                output = self.function({name: c[i] for name, c in columns.items()}, rng)
            except FbarError:
                raise
            except Exception as error:
                output = RowFailed(f"{type(error).__name__}: {error}")
            rows.append(RowFailed("it returned None") if output is None else output)
        return rows


@dataclass(frozen=True)
class RowFailed:
    """Stands in the output of a simulator for a row that failed."""

    message: str


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


class Bernoulli:
    """A "simulator" of a known acceptance probability on any parameter space: x = x* with probability p*(θ)."""

    def __init__(self, p_star: Callable[[Points], FloatArray]) -> None:
        self.p_star = p_star

    def tally(self, theta: Points, rng: np.random.Generator) -> Tally:
        matched = (rng.random(theta.rows) < self.p_star(theta)).astype(np.float64)
        return Tally(matched, matched)


class Separable:
    """p*(θ) = Π h(θ_j), a product of functions of single parameters; one that a model lacks counts as 1.

    Designs built on it are products too, drawn and weighted without approximation in any dimension.
    """

    def __init__(self, **parts: Callable[[FloatArray], FloatArray]) -> None:
        self.parts = parts

    def __call__(self, points: Points) -> FloatArray:
        result: FloatArray | float = 1.0
        for name, part in self.parts.items():
            if name not in points:
                continue
            values = part(points[name])
            result = result * (values if points.complete else np.where(points.present(name), values, 1.0))
        return np.broadcast_to(np.asarray(result), (points.rows,))


class Model(NamedTuple):
    """One model among several: its simulator, and the prior of its own parameters if it has any."""

    simulate: Simulator
    prior: Distribution | None = None


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


def _stack(values: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"the simulator's outputs {name!r} differ in shape from row to row") from None


def _rows(output: Any, size: int, label: Any) -> list[Any]:
    """A model's mapping or list of outputs, row by row."""
    rows = (
        [dict(zip(output, values, strict=True)) for values in zip(*output.values(), strict=True)]
        if isinstance(output, Mapping)
        else output
    )
    if len(rows) != size:
        raise InputError(f"model {label!r} was asked for {size} simulations and gave {len(rows)}")
    return list(rows)


def _observed(given: Any) -> npt.NDArray[Any]:
    if isinstance(given, Mapping):
        raise InputError("observed must be the data alone, in the form of a simulator's 'x', not a mapping")
    try:
        observed = np.asarray(given)
    except ValueError:
        raise InputError("observed must be an array; its rows differ in length") from None
    if observed.dtype.kind not in "biufU":
        raise InputError(f"observed must be numbers or a label; got {given!r}")
    return observed


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
    records
        Names of further outputs that the simulator gives, for targets that are functions of them.
    p_star
        Where it is known: ``p_star(theta, tolerance)``, the probability that a simulation is accepted.
    truth
        Where it is known: values of targets by name, or pairs (value, standard error of that value).
    """

    def __init__(
        self,
        prior: Distribution,
        simulate: Simulator | Tabulated | Bernoulli,
        observed: Any = None,
        *,
        summary: Callable[[npt.NDArray[Any]], npt.ArrayLike] | None = None,
        distance: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike] | None = None,
        accept: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike] | None = None,
        derived: Mapping[str, Callable[[Points], npt.ArrayLike]] | None = None,
        cost: npt.ArrayLike | Callable[[Points], npt.ArrayLike] | None = None,
        records: Sequence[str] = (),
        p_star: Callable[[Points, float], npt.ArrayLike] | None = None,
        truth: Mapping[str, npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike]] | None = None,
    ) -> None:
        if not isinstance(prior, Distribution):
            raise InputError(
                "prior must be a prior such as fbar.Prior(beta=scipy.stats.uniform(0, 1)) or fbar.Finite(...); "
                f"got {prior!r}"
            )
        if not isinstance(simulate, Tabulated | Bernoulli):
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
        self.records = tuple(records)
        self._p_star = p_star
        self._truth = dict(truth or {})
        for name, given in (("summary", summary), ("distance", distance), ("accept", accept)):
            if given is not None:
                check_function(given, name)
        for name, rule in (derived or {}).items():
            check_function(rule, f"derived parameter {name!r}")
        self.observed = None if observed is None else self._summarise(_observed(observed)[None])[0]
        if self.observed is not None and self.observed.dtype.kind == "f" and not np.isfinite(self.observed).all():
            raise InputError("the observed data (or their summaries) are not finite; remove missing values first")
        if isinstance(prior, Finite):
            self.cost  # noqa: B018 - a wrong cost is refused here, not in the middle of a run

    @classmethod
    def tabulated(cls, prior: Finite, p_star: npt.ArrayLike, **options: Any) -> Problem:
        """A problem whose acceptance probabilities p(x*|θ_i) are known, and with them its truth.

        >>> problem = Problem.tabulated(Finite(theta=[1, 2]), [0.3, 0.05])
        """
        return cls(prior, Tabulated(prior, p_star), **options)

    @classmethod
    def bernoulli(cls, prior: Distribution, p_star: Callable[[Points], FloatArray], **options: Any) -> Problem:
        """A problem on any parameter space whose acceptance probability p(x*|θ) is a known function."""
        return cls(prior, Bernoulli(p_star), p_star=lambda theta, tolerance: p_star(theta), **options)

    @classmethod
    def models(
        cls,
        models: Mapping[str, Simulator | Model],
        observed: Any,
        *,
        probabilities: npt.ArrayLike | None = None,
        name: str = "model",
        **options: Any,
    ) -> Problem:
        """Model selection: each model is one value of the parameter ``model``.

        A model is its simulator, or a `Model` with a prior of its own parameters; it sees these alone.
        """
        if not isinstance(models, Mapping) or not models:
            raise InputError("give at least one model, as a mapping from its name to its simulator")
        given = {label: m if isinstance(m, Model) else Model(m) for label, m in models.items()}
        for label, (simulator, _) in given.items():
            if not callable(simulator):
                raise InputError(f"model {label!r} must be a function simulate(theta, rng); got {simulator!r}")
        prior: Distribution
        if all(own is None for _, own in given.values()):
            prior = Finite({name: np.array(list(given))}, probabilities=probabilities)
        else:
            prior = ModelChoice({label: own for label, (_, own) in given.items()}, probabilities, name=name)

        def simulate(theta: Points, rng: np.random.Generator) -> Any:
            result: npt.NDArray[Any] | None = None
            outputs: list[Any] = []
            order: list[npt.NDArray[np.int64]] = []
            for label, (simulator, own) in given.items():
                rows = np.flatnonzero(theta[name] == label)
                if rows.size == 0:
                    continue
                part = theta.take(rows)
                output = simulator(part.only([name, *(own.names if own else ())]), rng)
                if isinstance(output, Mapping | list):
                    rows_out = _rows(output, rows.size, label)
                    outputs += rows_out
                    order.append(rows)
                    continue
                x = np.asarray(output)
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
            if outputs:
                if result is not None:
                    mixed = np.setdiff1d(np.arange(theta.rows), np.concatenate(order))
                    outputs, order = outputs + list(result[mixed]), [*order, mixed]
                back = np.argsort(np.concatenate(order), kind="stable")
                return [outputs[i] for i in back]
            assert result is not None
            return result

        return cls(prior, simulate, observed, **options)

    # ------------------------------------------------------------ parameters

    @property
    def finite(self) -> Finite:
        """The prior, for methods that need a finite parameter space."""
        if not isinstance(self.prior, Finite):
            raise InputError(
                f"this method needs a finite prior (fbar.Finite); this problem has {self.prior!r}, "
                "for which there are fbar.Rejection and fbar.Importance"
            )
        return self.prior

    @property
    def points(self) -> Points:
        """The values of a finite prior, with the derived parameters."""
        points = self.finite.points
        return Points({name: points[name] for name in points}, self.derived)

    @cached_property
    def probe(self) -> Points:
        """Some points of the prior, always the same, to try functions of θ on."""
        unit = np.random.default_rng(0).random((256, self.prior.dimension))
        return self.prior.from_unit(unit).with_derived(self.derived)

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
        """p(x*|θ_i) at the values of a finite prior, where it is known."""
        return self.simulate.p_star if isinstance(self.simulate, Tabulated) else None

    @property
    def knows_acceptance(self) -> bool:
        return self._p_star is not None or self.p_star is not None

    def acceptance_probability(self, theta: Points, tolerance: float = 0.0) -> FloatArray:
        """p(x*|θ), where it is known: the probability that a simulation at θ comes within the tolerance."""
        if self._p_star is None:
            raise InputError("the acceptance probability of this problem is not known")
        return np.asarray(self._p_star(theta, tolerance), dtype=np.float64)

    def truth(self, target: Target) -> FloatArray:
        """The true value of a target, where it is known: shape (m,)."""
        if self.p_star is not None:
            return target.value(self.points, theory.posterior(self.finite.probabilities, self.p_star))
        return self._known_truth(target)[0]

    def truth_error(self, target: Target) -> FloatArray:
        """The standard error of that value; 0 where it is exact."""
        if self.p_star is not None:
            return np.zeros_like(self.truth(target))
        return self._known_truth(target)[1]

    def _known_truth(self, target: Target) -> tuple[FloatArray, FloatArray]:
        if target.name not in self._truth:
            known = f"; known: {', '.join(self._truth)}" if self._truth else ""
            raise InputError(f"the truth of {target.name!r} is not known for this problem{known}")
        given = self._truth[target.name]
        value, error = given if isinstance(given, tuple) else (given, 0.0)
        value = np.atleast_1d(np.asarray(value, dtype=np.float64))
        return value, np.broadcast_to(np.asarray(error, dtype=np.float64), value.shape)

    # ------------------------------------------------------------ from outputs to acceptance weights

    def _collect(self, rows: Sequence[Any]) -> Simulated:
        """Outcomes of single simulations, some of which failed."""
        rows = [RowFailed("it returned None") if row is None else row for row in rows]
        good = [i for i, row in enumerate(rows) if not isinstance(row, RowFailed)]
        failure = np.full(len(rows), Failure.EXCEPTION, dtype=np.int8)
        message = next((row.message for row in rows if isinstance(row, RowFailed)), "")
        if not good:
            assert self.observed is not None
            return Simulated(np.zeros((len(rows), *self.observed.shape)), {}, failure, message)
        outputs = [rows[i] for i in good]
        if isinstance(outputs[0], Mapping):
            output: Any = {name: _stack([row[name] for row in outputs], name) for name in outputs[0]}
        else:
            output = _stack(outputs, "x")
        part = self.outcomes(output, len(good))
        if len(good) == len(rows):
            return part

        def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            whole = np.zeros((len(rows), *values.shape[1:]), dtype=values.dtype)
            whole[good] = values
            return whole

        assert part.failure is not None
        failure[good] = part.failure
        recorded = {name: spread(np.asarray(values)) for name, values in part.recorded.items()}
        return Simulated(spread(np.asarray(part.summaries)), recorded, failure, message)

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
        """A simulator's output as outcomes: summarised, and what is None or not a number marked as a failure."""
        if isinstance(output, list) and any(isinstance(row, RowFailed | Mapping) or row is None for row in output):
            return self._collect(output)
        if isinstance(output, np.ndarray) and output.dtype == object and output.ndim == 1:
            return self._collect(list(output))
        recorded: dict[str, npt.NDArray[Any]] = {}
        if isinstance(output, Mapping):
            if "x" not in output:
                raise InputError(f"a simulator's mapping must hold its data under 'x'; it holds {list(output)}")
            recorded = {name: np.asarray(values) for name, values in output.items() if name != "x"}
            output = output["x"]
        x = _stack(output, "x")
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
        if (summaries.dtype.kind in "biuf") != (self.observed.dtype.kind in "biuf"):
            raise InputError(
                f"simulated summaries are {summaries.dtype} values and the observed ones {self.observed.dtype}; "
                "give both as numbers or both as labels"
            )
        failure = np.zeros(simulations, dtype=np.int8)
        if summaries.dtype.kind in "fc":
            bad = ~np.isfinite(summaries).reshape(simulations, -1).all(axis=1)
            failure[bad] = Failure.NOT_FINITE
        return Simulated(summaries, recorded, failure)

    def distance(self, summaries: npt.NDArray[Any], tolerance: float = 0.0) -> FloatArray:
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
        if measure is euclidean and summaries.dtype.kind not in "biuf" and tolerance > 0:
            raise InputError(f"outputs that are labels match or do not; a tolerance of {tolerance:g} needs a distance=")
        distance = np.asarray(measure(summaries, self.observed), dtype=np.float64)
        if distance.shape != (len(summaries),):
            raise InputError(
                f"the distance must give one number for each of {len(summaries)} simulations; "
                f"it gives shape {distance.shape}"
            )
        if (distance < 0).any():
            raise InputError(f"a distance must be at least 0; got {distance[distance < 0][0]:g}")
        return distance

    def check_acceptance(self, acceptance: Acceptance) -> None:
        """Refuse a tolerance that would have no effect."""
        if acceptance == Acceptance():
            return
        if isinstance(self.simulate, Tabulated | Bernoulli):
            raise InputError(
                "this problem knows when a simulation matches; leave tolerance and kernel at their defaults"
            )
        if self._accept is not None:
            raise InputError("with an acceptance rule of your own (accept=) a tolerance has no effect; leave it out")

    def tally(self, batch: Batch, outcomes: Outcomes, acceptance: Acceptance) -> Tally:
        """Acceptance weights summed over repeats. A failed simulation is a rejected one."""
        if isinstance(outcomes, Tally):
            return outcomes
        if not isinstance(outcomes, Simulated):
            raise InputError(
                "tell takes pairs (batch, outcomes) with outcomes made by problem.outcomes(x, batch.simulations) "
                f"or fbar.simulate; got {type(outcomes).__name__}"
            )
        weights = np.zeros(outcomes.simulations)
        failure = outcomes.failure
        closest = np.inf
        ok = np.ones(outcomes.simulations, bool) if outcomes.failure is None else outcomes.failure == Failure.NONE
        if ok.any():
            distance = self.distance(outcomes.summaries[ok], acceptance.tolerance)
            distance = np.where(np.isnan(distance), np.inf, distance)
            weights[ok] = acceptance(distance)
            closest = float(distance.min())
        counts = np.bincount([] if failure is None else failure, minlength=len(Failure))
        seen = Seen(closest, int(counts[Failure.EXCEPTION]), int(counts[Failure.NOT_FINITE]), outcomes.message)
        return tally(batch, weights, seen)
