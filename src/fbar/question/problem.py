"""The problem: prior, simulator, summary statistics, observed data and distance.

The tolerance is not here: it belongs to a run (see `fbar.question.acceptance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.checks import (
    FloatArray,
    IntArray,
    as_array,
    finite_number,
    flag,
    floats,
    in_words,
    mapping,
    non_negative_number,
    number,
    numeric_array,
    require_name,
    same_alone,
    shown,
    texts,
    whole_number,
    without_mask,
)
from fbar.checks import arguments as check_arguments
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.distances import PNorm, euclidean
from fbar.question.outcomes import SAMPLE, Batch, Failure, Outcomes, Seen, Simulated, Tally, require_simulated, tally
from fbar.question.outputs import COMPARABLE, Form, Table, as_row, by_parts, read, require_comparable
from fbar.question.points import Points, require_points
from fbar.question.priors import Distribution, Finite, ModelChoice
from fbar.question.simulators import (
    COST,
    PASSES,
    Bernoulli,
    Costs,
    Model,
    Nonsense,
    RowFailed,
    Rows,
    Simulator,
    Tabulated,
    Unusable,
    choose,
    each,
    measured,
    without_costs,
)
from fbar.question.targets import Target, as_target, as_targets
from fbar.question.truth import FiniteReference, Known, Listed, Reference, Truth

Distance = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike]

MOST_INT = np.iinfo(np.int64).max

RETURNED = "returned"
"""``cost=`` of a problem whose simulator returns what its simulations cost."""


def _called(what: str, function: Callable[..., Any], *arguments: Any) -> npt.NDArray[Any]:
    """A user's function of a batch; what it raises is said in one line, with its cause."""
    try:
        values = function(*arguments)
    except PASSES:
        raise
    except InputError as error:
        raise Unusable(str(error)) from error
    except BaseException as error:
        raise Unusable(f"{what} failed: {in_words(error)}") from error
    try:
        return without_mask(values, f"what {what} gives")
    except InputError as error:
        raise Nonsense(str(error)) from None
    except Exception as error:
        raise Nonsense(f"what {what} gives is no array: {in_words(error)}") from None


def _numbers(distances: npt.NDArray[Any]) -> FloatArray:
    try:
        return numeric_array(distances, "distances")
    except (InputError, OverflowError):
        raise Nonsense(f"distances must be numbers; got {shown(distances)}") from None


def _for_user(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy, which a user's function may write into, in a type whose differences and sums do not wrap around.

    Images and counts come as unsigned or short whole numbers, of which 2 − 3 is 255.
    """
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and values.size and values.max() > MOST_INT:
        return values.astype(np.float64)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return values.astype(np.float64) if values.dtype == np.float16 else values.copy()


def _known(truth: Mapping[Any, Any]) -> list[Known]:
    """Values of targets by name, as they were given with a problem."""
    found = []
    for name, given in truth.items():
        require_name(name, "the name of a target of truth=")
        if isinstance(given, Known):
            found.append(given)
            continue
        pair = given if isinstance(given, tuple) else (given, 0.0)
        if len(pair) != 2:
            raise InputError(f"truth[{shown(name)}] must be a value or a pair (value, error); got {shown(given)}")
        what = f"truth[{shown(name)}]"
        value, error = finite_number(number(pair[0], what), what), non_negative_number(pair[1], f"the error of {what}")
        found.append(Known(name, value, error))
    return found


def _observed(given: Any) -> npt.NDArray[Any]:
    if isinstance(given, Mapping):
        raise InputError("observed must be the data alone, in the form of a simulator's 'x', not a mapping")
    try:
        observed = np.array(without_mask(given, "observed"))  # ours: the caller's may be changed later
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("observed must be an array; its rows differ in length") from None
    if observed.dtype.kind not in "biufU":
        raise InputError(f"observed must be numbers or a label; got {shown(given)}")
    observed.flags.writeable = False
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
        recorded outputs). Wrap a simulator of a single parameter set with `each`. An output called ``"cost"`` is what
        each simulation cost, positive numbers in a unit of the simulator's own, and is not among the recorded outputs.
    observed
        The data x*, in the form of one row of the simulator's output. Masked values are refused; where a simulator's
        output is masked, the simulation has failed.
    summary
        Summary statistics: a function of a batch of outputs, which must treat every row by itself. Applied to the data
        too, as a batch of one.
    distance
        ``distance(summaries, observed)`` for a batch, each row by itself; Euclidean by default.
    accept
        In place of a distance: a rule ``accept(summaries, observed)`` that gives true or false for
        every simulation.
    derived
        Further parameters as functions of the others, such as ``{"R0": lambda t: t["beta"] / t["gamma"]}``.
    cost
        Cost of one simulation: a function of the batch, ``cost(theta)``, or numbers for the values of a finite prior;
        or ``"returned"`` to say that the simulator returns costs under ``"cost"``. Without it the calls of a simulator
        wrapped by `each` or `program` are timed, and the costs of others are not known and taken to be equal.
    records
        Names of further outputs that the simulator gives, for targets that are functions of them. ``"cost"`` cannot be
        one.
    p_star
        Where it is known: ``p_star(theta, tolerance)``, the probability that a simulation is accepted.
    truth
        Where it is known: values of targets by name, or pairs (value, standard error of that value), or `Known` values,
        which also tell the spread of f under the true posterior; or a whole `Reference`.
    """

    def __init__(
        self,
        prior: Distribution,
        simulate: Simulator | Tabulated | Bernoulli,
        observed: Any = None,
        *,
        summary: Callable[[npt.NDArray[Any]], npt.ArrayLike] | None = None,
        distance: Distance | None = None,
        accept: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike] | None = None,
        derived: Mapping[str, Callable[[Points], npt.ArrayLike]] | None = None,
        cost: npt.ArrayLike | Callable[[Points], npt.ArrayLike] | str | None = None,
        records: Sequence[str] = (),
        p_star: Callable[[Points, float], npt.ArrayLike] | None = None,
        truth: Mapping[str, float | tuple[float, float] | Known] | Reference | None = None,
    ) -> None:
        if not isinstance(prior, Distribution):
            raise InputError(
                "prior must be a prior such as fbar.Prior(beta=scipy.stats.uniform(0, 1)) or fbar.Finite(...); "
                f"got {shown(prior)}"
            )
        if not isinstance(simulate, Tabulated | Bernoulli):
            if not callable(simulate):
                raise InputError(f"simulate must be a function simulate(theta, rng); got {shown(simulate)}")
            check_arguments(simulate.function if isinstance(simulate, each) else simulate, ("theta", "rng"), "simulate")
            if observed is None:
                raise InputError("observed data are missing; give them as observed=")
        if distance is not None and accept is not None:
            raise InputError("give either a distance or an acceptance rule, not both")
        if derived is not None:
            mapping(derived, "derived", "{'R0': lambda t: t['beta'] / t['gamma']}")
        if truth is not None and not isinstance(truth, Reference):
            mapping(truth, "truth", "{'mean:beta': 0.3}")
        if p_star is not None:
            check_function(p_star, "p_star")
            check_arguments(p_star, ("theta", "tolerance"), "p_star")
        for name in derived or {}:
            require_name(name, "a derived parameter's name")
            if name in prior.names:
                raise InputError(f"derived parameter {shown(name)} has the name of a parameter; choose another")
        if isinstance(simulate, each) and (unknown := simulate.names - {*prior.names, *(derived or {})}):
            known = ", ".join([*prior.names, *(derived or {})])
            raise InputError(
                f"the simulator needs the parameter {shown(min(unknown))}, which is not known; known: {known}"
            )
        self.prior = prior
        self.simulate = simulate
        self.summary = summary
        self.derived = dict(derived or {})
        self._distance = distance
        self._accept = accept
        self._cost = copy(cost) if isinstance(cost, np.ndarray | list) else cost  # ours: it may be changed later
        if isinstance(records, str):
            raise InputError(f"records must be a list of names, such as [{shown(records)}]; got {shown(records)}")
        for name in texts(records, "records", "['peak']"):
            require_name(name, "the name of a recorded output")
            if name in prior.names or name in (derived or {}):
                raise InputError(f"the recorded output {shown(name)} has the name of a parameter; give it another")
        if len(set(records)) < len(records):
            raise InputError(f"records names an output twice: {', '.join(map(str, records))}")
        if COST in records:
            raise InputError(
                f"the output {COST!r} is what a simulation cost and cannot be recorded; give yours another name"
            )
        self.records = tuple(records)
        self._checked: list[Target] = []
        self._probed: set[float] = set()
        self._apart: set[str] = set()
        self._p_star = p_star
        self._truth = truth if isinstance(truth, Reference) else _known(truth or {})
        for name, given in (("summary", summary), ("distance", distance), ("accept", accept)):
            if given is not None:
                check_function(given, name)
        for name, rule in (derived or {}).items():
            check_function(rule, f"derived parameter {shown(name)}")
        self.raw = None if observed is None else _observed(observed)  # before the summary
        self._raw_shape = None if self.raw is None else np.shape(self.raw)
        self.observed = None if self.raw is None else self._summary_of_data(self.raw)
        if self.observed is not None:
            self.observed.flags.writeable = False
        if self.observed is not None and self.observed.dtype.kind == "f" and not np.isfinite(self.observed).all():
            raise InputError("the observed data (or their summaries) are not finite; remove missing values first")
        self._check_cost()

    @classmethod
    def tabulated(cls, prior: Finite, p_star: npt.ArrayLike, **options: Any) -> Problem:
        """A problem whose acceptance probabilities p(x*|θ_i) are known, and with them its truth.

        >>> problem = Problem.tabulated(Finite(theta=[1, 2]), [0.3, 0.05])
        """
        return cls(prior, Tabulated(prior, p_star), **options)

    @classmethod
    def bernoulli(cls, prior: Distribution, p_star: Callable[[Points], FloatArray], **options: Any) -> Problem:
        """A problem on any parameter space whose acceptance probability p(x*|θ) is a known function."""
        event = Bernoulli(p_star)
        return cls(prior, event, p_star=lambda theta, tolerance: event.p_star(theta), **options)

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
                raise InputError(
                    f"model {shown(label)} must be a function simulate(theta, rng); got {shown(simulator)}"
                )
            check_arguments(
                simulator.function if isinstance(simulator, each) else simulator, ("theta", "rng"), "simulate"
            )
        prior: Distribution
        if all(own is None for _, own in given.values()):
            prior = Finite({name: np.array(list(given))}, probabilities=probabilities)
        else:
            prior = ModelChoice({label: own for label, (_, own) in given.items()}, probabilities, name=name)

        return cls(prior, choose(given, name), observed, **options)

    def __repr__(self) -> str:
        data = "no data" if self.raw is None else f"data of shape {self._raw_shape}" if self._raw_shape else "one datum"
        return f"<problem of {', '.join([*self.prior.names, *self.derived])}; {data}>"

    # ------------------------------------------------------------ parameters

    @property
    def finite(self) -> Finite:
        """The prior, for methods that need a finite parameter space."""
        if not isinstance(self.prior, Finite):
            raise InputError(
                f"this method needs a finite prior (fbar.Finite); this problem has {shown(self.prior)}, "
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

    def check_acceptance_probability(self, tolerance: float) -> None:
        """Refuse a known acceptance probability that is none; looked at once for each tolerance."""
        if self._p_star is None or tolerance in self._probed:
            return
        p = self.acceptance_probability(self.probe, tolerance)
        bad = ~((p >= 0) & (p <= 1 + 1e-12))
        if p.shape != (self.probe.rows,) or bad.any():
            what = f"{p[bad][0]:g} at {self.probe.label(int(np.argmax(bad)))}" if bad.any() else f"shape {p.shape}"
            raise InputError(f"the acceptance probability p_star must lie in [0, 1] for every θ; it gives {what}")
        self._probed.add(tolerance)

    def check_targets(self, targets: Sequence[Target]) -> None:
        """Refuse a target that is not defined on the parameters; each is tried once."""
        for target in as_targets(targets):
            if not any(target is seen for seen in self._checked):
                target.check_space(self.probe)
                self._checked.append(target)

    # ------------------------------------------------------------ what simulations cost

    def _check_cost(self) -> None:
        """Refuse a wrong cost here, not in the middle of a run."""
        given = self._cost
        if isinstance(given, str):
            if given != RETURNED:
                raise InputError(f"cost must be numbers, a function of theta, or {RETURNED!r}; got {shown(given)}")
            if isinstance(self.simulate, Tabulated | Bernoulli):
                raise InputError("this problem's simulations return nothing; give cost= as numbers or a function")
        elif isinstance(self.prior, Finite):
            self.cost  # noqa: B018
        elif given is not None:
            if not callable(given) and np.ndim(given):
                raise InputError(
                    "cost must be a function of theta such as lambda t: t['n'], where the prior is not finite"
                )
            self.cost_of(self.probe)

    @cached_property
    def cost(self) -> FloatArray:
        """The cost of a simulation at each value of a finite prior, as it was given; 1 if none was."""
        if not self._cost_given:
            return np.ones(self.finite.size)
        if callable(self._cost):
            return self._costs_at(self.points)
        return self._positive(self._cost, self.finite.size, "values")

    @property
    def _cost_given(self) -> bool:
        return self._cost is not None and not isinstance(self._cost, str)

    @property
    def measures_cost(self) -> bool:
        """Whether the costs are seconds that are measured."""
        return self._cost is None and measured(self.simulate)

    @property
    def knows_cost(self) -> bool:
        """Whether the costs of single simulations will be known: given with the problem, returned or measured."""
        return self._cost is not None or measured(self.simulate)

    def require_costs(self) -> None:
        """Refuse a problem whose simulations' costs are not known."""
        if not self.knows_cost:
            raise InputError(
                "the costs of this problem's simulations are not known; wrap a simulator of one parameter set with "
                f"fbar.each, which times its calls, or return {{'x': …, {COST!r}: …}} and say cost={RETURNED!r}, or "
                "give Problem(cost=...) a function of theta"
            )

    def cost_of(self, points: Points) -> FloatArray | None:
        """The cost of a simulation at each θ, where it was given with the problem; None otherwise."""
        if not self._cost_given:
            return None
        if callable(self._cost):
            return self._costs_at(points)
        if np.ndim(self._cost) == 0:  # type: ignore[arg-type]
            return self._positive(self._cost, points.rows, "rows")
        cell = self.finite.index(points)
        if (cell < 0).any():
            raise InputError(f"{points.label(int(np.argmin(cell)))} is not a value of the parameter space")
        return self.cost[cell]

    def _costs_at(self, points: Points) -> FloatArray:
        assert callable(self._cost)
        points = points if points.derived else points.with_derived(self.derived)
        return self._positive(_called("the cost", self._cost, points), points.rows, "rows")

    @staticmethod
    def _positive(given: Any, size: int, what: str) -> FloatArray:
        cost = numeric_array(given, "cost")
        try:
            cost = np.broadcast_to(cost, (size,))
        except ValueError:
            raise InputError(f"cost must be one number for each of {size} {what}; got {shown(given)}") from None
        if not ((cost > 0) & np.isfinite(cost)).all():
            raise InputError(f"cost must be positive; got {cost[~((cost > 0) & np.isfinite(cost))][0]:g}")
        extreme = (cost < 1e-100) | (cost > 1e100)
        if extreme.any():
            raise InputError(f"cost must lie from 1e-100 to 1e+100; got {cost[extreme][0]:g}: take another unit")
        return cost

    def costs(self, batch: Batch, outcomes: Outcomes) -> FloatArray | None:
        """What each simulation of a block cost, a number for each row of ``batch.theta``.

        As it was given with the problem, NaN where its function gives no positive number; otherwise as it came with the
        outcomes, NaN for a failed simulation of which it is not known; None if it is not known at all.
        """
        given = self._cost_by_row(batch)
        if given is not None:
            return given if batch.repeats is None else np.repeat(given, batch.repeats)
        found = outcomes.cost if isinstance(outcomes, Simulated) else None
        if found is None and isinstance(self._cost, str):  # from a record of before such simulations failed
            return np.full(batch.simulations, np.nan)
        return found

    def cost_of_block(self, batch: Batch, outcomes: Outcomes) -> float | None:
        """The sum of what a block's simulations cost, those left out of which it is not known."""
        if batch.repeats is not None and batch.repeats.ndim > 1:
            return None
        given = self._cost_by_row(batch)
        if given is not None:  # repeats may be many
            return float(np.nansum(given if batch.repeats is None else given * batch.repeats))
        found = self.costs(batch, outcomes)
        return None if found is None else float(np.nansum(found))

    def _cost_by_row(self, batch: Batch) -> FloatArray | None:
        """The given cost of one simulation at each of a block's points; NaN where the function gives none."""
        if not self._cost_given:
            return None
        if batch.cells is not None:
            return self.cost[batch.cells]
        points = batch.points
        costs = np.full(points.rows, np.nan)
        for part, values in by_parts(lambda part: self._some_costs(points, part), points.rows).found:
            costs[part] = values
        return costs

    def _some_costs(self, points: Points, part: slice) -> FloatArray:
        whole = part == slice(0, points.rows)
        try:
            found = self.cost_of(points if whole else points.take(np.arange(part.start, part.stop)))
        except InputError as error:
            raise Unusable(str(error)) from error
        assert found is not None
        return found

    def _known_costs(self, costs: Costs | None, failure: npt.NDArray[np.int8]) -> FloatArray | None:
        """The costs of a block's simulations: the returned ones if there are any, else the measured ones.

        Never some of these and some of those, whose units may differ.
        """
        nothing = np.full(failure.shape, np.nan)
        if costs is None:
            return nothing if self.knows_cost and failure.all() else None
        succeeded = failure == Failure.NONE
        found = costs.values if costs.returned.any() or isinstance(self._cost, str) else costs.seconds
        if np.isnan(found[succeeded]).any():  # some rows returned none, but the time of all may have been measured
            found = costs.seconds
        if np.isnan(found[succeeded]).any() or not (self.knows_cost or not np.isnan(found).all()):
            return None
        return np.where((found > 0) & np.isfinite(found), found, np.nan)

    def _without_their_cost(self, costs: Costs | None, lost: npt.NDArray[np.bool_]) -> dict[int, RowFailed]:
        """Rows whose cost cannot be used, or that lack one that was promised, and are not lost already."""
        promised = isinstance(self._cost, str) and not lost.all()
        said = f"the problem was said to return costs (cost={RETURNED!r}), and a simulation came without {COST!r}"
        if costs is None:
            if promised:
                raise Unusable(said)
            return {}
        if costs.values.shape != lost.shape:
            raise Unusable(
                f"the simulator was asked for {lost.size} simulations and gave {COST!r} of shape {costs.values.shape}",
                Failure.WRONG_SHAPE,
            )
        bad = costs.returned & ~((costs.values > 0) & np.isfinite(costs.values)) & ~lost
        missing = ~costs.returned & ~lost if promised else np.zeros(lost.shape, dtype=bool)
        return {
            int(row): RowFailed.of(
                Unusable(
                    f"the simulator's {COST!r} must be a positive number for every simulation; it gave "
                    f"{costs.values[row]:g}"
                    if bad[row]
                    else said
                )
            )
            for row in np.flatnonzero(bad | missing)
        }

    # ------------------------------------------------------------ truth, where it is known

    @property
    def p_star(self) -> FloatArray | None:
        """p(x*|θ_i) at the values of a finite prior, where it is known."""
        return self.simulate.p_star if isinstance(self.simulate, Tabulated) else None

    @property
    def has_summaries(self) -> bool:
        """Whether simulations give summaries that are compared by a distance."""
        return not isinstance(self.simulate, Tabulated | Bernoulli) and self._accept is None

    @property
    def knows_acceptance(self) -> bool:
        return self._p_star is not None or self.p_star is not None

    def acceptance_probability(self, theta: Points, tolerance: float = 0.0) -> FloatArray:
        """p(x*|θ), where it is known: the probability that a simulation at θ comes within the tolerance."""
        if self._p_star is None:
            raise InputError("the acceptance probability of this problem is not known")
        require_points(theta, "theta", self.prior.names)
        p = floats(_called("p_star", self._p_star, theta, number(tolerance, "tolerance")), "what p_star gives")
        if p.shape not in ((), (theta.rows,)):
            raise InputError(f"p_star must give one number for each of {theta.rows} rows; it gives shape {p.shape}")
        return np.broadcast_to(p, (theta.rows,))

    @cached_property
    def reference(self) -> Reference:
        """What is known of the true posterior."""
        if self.p_star is not None:
            return FiniteReference(self.points, theory.posterior(self.finite.probabilities, self.p_star))
        if isinstance(self._truth, Reference):
            return self._truth
        return Listed(self._truth, "given with the problem")

    @overload
    def truth(self) -> Truth: ...
    @overload
    def truth(self, target: Target) -> FloatArray: ...
    def truth(self, target: Target | None = None) -> Truth | FloatArray:
        """The true value of a target, where it is known, shape (m,); without a target, all that is known by name."""
        return self.reference.truth() if target is None else self._true(target)[0]

    def truth_error(self, target: Target) -> FloatArray:
        """The standard error of that value; 0 where it is exact."""
        return self._true(target)[1]

    def _true(self, target: Target) -> tuple[FloatArray, FloatArray]:
        as_target(target)
        if isinstance(self.prior, Finite):
            target.check_space(self.prior.points.with_derived(self.derived))
        return self.reference.expect(target)

    def with_observed(self, observed: Any) -> Problem:
        """The same question of other data. What was known of the truth belonged to the old data and is dropped."""
        if isinstance(self.simulate, Tabulated | Bernoulli):
            raise InputError("this problem's data are an event, that a simulation matches; there are no other data")
        return Problem(
            self.prior,
            self.simulate,
            observed,
            summary=self.summary,
            distance=self._distance,
            accept=self._accept,
            derived=self.derived,
            cost=self._cost,
            records=self.records,
        )

    # ------------------------------------------------------------ from outputs to acceptance weights

    @cached_property
    def form(self) -> Form:
        """What a simulation has to give to be compared with the data."""
        assert self.raw is not None
        taken = frozenset([*self.prior.names, *self.derived])
        return Form(self.raw.shape, self.raw.dtype, self.summary is not None, self.records, taken)

    def _summarise(self, x: npt.NDArray[Any], apart: bool = True) -> npt.NDArray[Any]:
        if self.summary is None:
            return x
        summaries = _called("the summary", self.summary, _for_user(x))
        if summaries.shape[:1] != x.shape[:1]:
            raise Nonsense(
                "summary receives a batch, an array whose first axis is the simulations, and must give a row for each, "
                f"as x.mean(axis=1) does; it was given shape {x.shape} and gave shape {summaries.shape}"
            )
        if summaries.dtype == object and all(isinstance(value, str) for value in summaries.flat):
            summaries = summaries.astype(str)
        if summaries.dtype.kind not in COMPARABLE:
            raise Nonsense(f"summary must give numbers or labels; it gives {summaries.dtype} values")
        summary = self.summary
        if apart:
            self._require_rows_apart("the summary", summaries, lambda rows: summary(_for_user(x[rows])))
        return summaries

    def _summary_of_data(self, raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
        try:
            return np.array(self._summarise(raw[None])[0])
        except Unusable as error:  # no simulation is to blame
            raise InputError(str(error)) from error.__cause__

    def _summaries(self, table: Table, apart: bool) -> npt.NDArray[Any]:
        """The summaries of all rows, zero for those that cannot be used; more of these may be found here."""
        assert self.observed is not None
        shape, dtype = self.observed.shape, self.observed.dtype
        rows: list[IntArray] = []
        parts: list[npt.NDArray[Any]] = []

        def summarised(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
            summaries = self._summarise(x, apart)
            require_comparable(summaries.shape[1:], summaries.dtype, shape, dtype)
            return summaries

        for own, x in table.groups:
            told = by_parts(lambda part, x=x: summarised(x[part]), len(x))  # type: ignore[misc]
            if apart and told.nonsense:
                raise InputError(told.nonsense)
            rows += [own[part] for part, _ in told.found]
            parts += [values for _, values in told.found]
            table.failed |= {int(own[row]): why for row, why in told.failed.items()}
        # Copies, since a simulator may fill the same arrays again; in C order, as they come back from other processes
        # and from records: sums must not depend on the way here.
        if len(rows) == 1 and len(rows[0]) == table.rows:
            return np.array(parts[0], order="C")
        summaries = np.zeros((table.rows, *shape), dtype=np.result_type(*parts) if parts else np.float64)
        for where, values in zip(rows, parts, strict=True):
            summaries[where] = values
        return summaries

    def _require_rows_apart(self, what: str, among: npt.NDArray[Any], of: Callable[[slice], npt.ArrayLike]) -> None:
        """Refuse a function of a batch in which one simulation changes what is found of another; looked at once.

        The data are a batch of one, and how many simulations are in a batch is no part of the question.
        """
        if what in self._apart or len(among) < 2:
            return
        self._apart.add(what)
        for row in (0, len(among) - 1):
            try:
                with np.errstate(all="ignore"):
                    alone = np.asarray(of(slice(row, row + 1)))
            except Exception:  # it works on several rows alone: nothing can be compared
                continue
            if not same_alone(alone, among, row):
                raise InputError(
                    f"{what} of a simulation depends on the others in its batch; it must treat every row by itself, "
                    "and without random numbers (scales that are learnt: fbar.SMC(distance=fbar.Scaled()))"
                )

    def outcomes(self, output: Any, simulations: int, *, apart: bool = True) -> Simulated:
        """A simulator's output as outcomes: summarised, and rows that cannot be used marked as failures.

        An output that cannot be used as a whole, such as one of another number of rows, is refused. With ``apart`` so
        is a summary that gives nonsense or, as is looked at once, does not treat every row by itself.
        """
        simulations = whole_number(simulations, "simulations")
        apart = flag(apart, "apart")
        output, costs = without_costs(output)
        table = read(output, simulations, self.form)
        summaries = self._summaries(table, apart)
        lost = np.zeros(simulations, dtype=bool)
        lost[list(table.failed)] = True
        bad = np.zeros(simulations, dtype=bool)
        if summaries.dtype.kind == "f":
            bad = ~np.isfinite(summaries).reshape(simulations, -1).all(axis=1) & ~lost
        table.failed |= self._without_their_cost(costs, lost | bad)
        failure = np.where(bad, np.int8(Failure.NOT_FINITE), np.int8(0))
        first = sorted(table.failed.items(), reverse=True)
        for row, why in first:
            failure[row] = why.kind
        found = Simulated(
            summaries,
            table.recorded,
            failure,
            {why.kind: why.message for _, why in first},
            {why.kind: why.detail for _, why in first},
        )
        cost = self._known_costs(costs, failure)
        return found if cost is None else replace(found, cost=cost)

    def usable(self, rows: Rows) -> Rows:
        """Outputs of single simulations in a form that can travel: those that cannot be used say why."""
        form = self.form

        def plain(row: Any) -> Any:
            if row is None or isinstance(row, RowFailed):
                return row
            said = {COST: row[COST]} if isinstance(row, Mapping) and COST in row else {}
            try:
                if said:
                    ((row,), costs) = without_costs([row])
                    assert costs is not None
                    said = {COST: costs.values[0]}
                    if isinstance(row, RowFailed):
                        return row
                x, recorded = as_row(row, form)
            except Unusable as error:
                return RowFailed.of(error)
            return {"x": x, **recorded, **said} if said or isinstance(row, Mapping) else x

        return Rows([plain(row) for row in rows], rows.cost)

    def distance(
        self, summaries: npt.NDArray[Any], tolerance: float = 0.0, measure: Distance | None = None
    ) -> FloatArray:
        """The distance of every simulation to the data; 0 or ∞ under an acceptance rule.

        ``measure`` replaces the problem's own distance.
        """
        if self.observed is None:
            raise InputError("this problem's simulations give no data, only a match: there is no distance")
        summaries = as_array(summaries, "summaries")
        observed = self.observed
        if summaries.shape[1:] != observed.shape or not summaries.ndim:
            raise InputError(
                f"summaries must have a row for each simulation, of the observed shape {observed.shape}; got shape "
                f"{summaries.shape}"
            )
        if measure is not None:
            check_function(measure, "measure")
        if not len(summaries):
            return np.zeros(0)
        if self._accept is not None:
            accepted = _called("the acceptance rule", self._accept, _for_user(summaries), _for_user(observed))
            if accepted.dtype != np.bool_ or accepted.shape != (len(summaries),):
                raise Nonsense(
                    f"the acceptance rule must give true or false for each of {len(summaries)} simulations; "
                    f"it gives {accepted.dtype} of shape {accepted.shape}"
                )
            rule = self._accept
            self._require_rows_apart(
                "the acceptance rule", accepted, lambda rows: rule(_for_user(summaries[rows]), _for_user(observed))
            )
            return np.where(accepted, 0.0, np.inf)
        measure = measure or self.measure
        if measure is euclidean and summaries.dtype.kind not in "biuf" and tolerance > 0:
            raise InputError(f"outputs that are labels match or do not; a tolerance of {tolerance:g} needs a distance=")
        own = measure is euclidean or isinstance(measure, PNorm)
        given = (summaries, observed) if own else (_for_user(summaries), _for_user(observed))
        distance = _numbers(_called("the distance", measure, *given))
        if distance.shape != (len(summaries),):
            raise Nonsense(
                f"the distance must give one number for each of {len(summaries)} simulations; "
                f"it gives shape {distance.shape}"
            )
        if not own:
            self._require_rows_apart(
                "the distance", distance, lambda rows: measure(_for_user(summaries[rows]), _for_user(observed))
            )
        if (distance < 0).any():
            raise Nonsense(f"a distance must be at least 0; got {distance[distance < 0][0]:g}")
        return distance

    @property
    def measure(self) -> Distance:
        """The distance as a function of summaries and the data that they are compared with."""
        return self._distance or euclidean

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
        distance, seen = self.distances(require_simulated(outcomes), acceptance.tolerance)
        return tally(batch, accepted(acceptance, distance), seen)

    def distances(
        self, outcomes: Simulated, tolerance: float = 0.0, measure: Distance | None = None
    ) -> tuple[FloatArray, Seen]:
        """Every simulation's distance to the data, NaN for one that failed, and what was seen of them.

        One whose distance is not a number, or cannot be had, has failed.
        """
        failure = outcomes.failure
        ok = np.arange(outcomes.simulations) if failure is None else np.flatnonzero(failure == Failure.NONE)
        whole = len(ok) == outcomes.simulations
        summaries = outcomes.summaries if whole else outcomes.summaries[ok]
        parts = by_parts(lambda part: self.distance(summaries[part], tolerance, measure), len(summaries))
        if whole and len(parts.found) == 1 and not parts.failed:
            ((_, result),) = parts.found
            closest = float(result.min())
            if not np.isnan(closest):
                return result, Seen(closest, distances=result[:SAMPLE])
        result = np.full(outcomes.simulations, np.nan)
        for part, distance in parts.found:
            result[ok[part]] = distance
        known = ~np.isnan(result)
        if known.sum() < len(summaries):
            failure = np.zeros(len(result), dtype=np.int8) if failure is None else failure
            failure = np.where((failure == Failure.NONE) & ~known, Failure.NOT_FINITE, failure).astype(np.int8)
            first = sorted(parts.failed.items(), reverse=True)
            for row, why in first:
                failure[ok[row]] = why.kind
            examples = {why.kind: why.message for _, why in first} | dict(outcomes.examples)
            outcomes = replace(outcomes, examples=examples)
        seen = Seen.of(result, failure, outcomes)
        return result, replace(seen, nonsense=parts.nonsense) if parts.nonsense else seen
