"""The problem: prior, simulator, summary statistics, observed data and distance.

It is put together from its parts: `Parameters` (θ), a `Simulator`, `Comparison` (with the data) and a `CostRule`. The
tolerance is not here: it belongs to a run (see `fbar.question.acceptance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy.typing as npt

from fbar import theory
from fbar.arrays import FloatArray
from fbar.checks import choice, flag, number, whole_number
from fbar.errors import InputError
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.comparison import Comparison, Distance, Summary
from fbar.question.costs import CostGiven, CostRule
from fbar.question.outcomes import Batch, Outcomes, Seen, Simulated, Tally, require_simulated, tally
from fbar.question.outputs import record_names
from fbar.question.parameters import Derived, Parameters
from fbar.question.points import Points, require_points
from fbar.question.priors import Distribution, Finite
from fbar.question.simulators import (
    AcceptanceProbability,
    Bernoulli,
    KnownAcceptance,
    Model,
    Rows,
    Simulator,
    SimulatorFunction,
    Tabulated,
    as_models,
    as_simulator,
    choose,
    prior_of,
)
from fbar.question.summary_names import SummaryNames, numbered
from fbar.question.targets import Target, as_target
from fbar.question.truth import FiniteReference, Known, Reference, Truth, as_reference

TRUTH_DEPENDS_ON = frozenset({"prior", "simulate", "observed"})
P_STAR_DEPENDS_ON = frozenset({"simulate", "observed", "summary", "distance", "accept"})


class Problem:
    """A question for likelihood-free inference.

    Parameters
    ----------
    prior
        What θ is drawn from, such as ``fbar.Finite(theta=[1, 2, 3])``.
    simulate
        ``simulate(theta, rng)``: a batch in (``theta["name"]`` is an array of n values), a batch out (an array whose
        first axis has length n, or a mapping with that array under ``"x"``, or arrays by the names of the data, and
        further recorded outputs). Wrap a simulator of a single parameter set with `each`. An output called ``"cost"``
        is what each simulation cost, positive numbers in any unit, and is not among the recorded outputs.
    observed
        The data x*, in the form of one row of the simulator's output. Masked values are refused; where a simulator's
        output is masked, the simulation has failed. Data with names are a mapping, such as ``{"cases": [3, 8, 28],
        "peak day": 3}``: the simulator returns them by the same names, with a row for each simulation.
    summary
        Summary statistics: a function of a batch of data (by name if they have names), which must treat every row
        independently. Also applied to the data, as a batch of one. If the raw data predict the parameters better, the
        result reports it. A mapping such as ``{"cases": x.sum(axis=1), "peak day": x.argmax(axis=1)}`` names them.
    summary_names
        Names of the summaries, or of the data without a summary function, for tables, plots and reports: a list with
        one for each number, one name for all (a series), or a mapping from names to how many numbers each covers.
    distance
        ``distance(summaries, observed)`` for a batch, each row independently; Euclidean by default.
    accept
        Instead of a distance: a rule ``accept(summaries, observed)`` that is true or false for every simulation.
    derived
        Further parameters as functions of the others, such as ``{"R0": lambda t: t["beta"] / t["gamma"]}``.
    cost
        Cost of one simulation: a function of the batch, ``cost(theta)``, or numbers for the values of a finite prior;
        or ``"returned"`` if the simulator returns costs under ``"cost"``. Without it, the calls of a simulator wrapped
        with `each` or `program` are timed, and the costs of others are unknown and assumed to be equal.
    records
        Names of further outputs that the simulator returns, for targets that are functions of them. ``"cost"`` cannot
        be one.
    p_star
        Where it is known: ``p_star(theta, tolerance)``, the probability that a simulation is accepted.
    truth
        Where it is known: values of targets by name, or pairs (value, standard error of that value), or `Known` values,
        which also have the spread of f under the true posterior; or a whole `Reference`.
    """

    def __init__(
        self,
        prior: Distribution,
        simulate: SimulatorFunction | KnownAcceptance,
        observed: Any = None,
        *,
        summary: Summary | None = None,
        summary_names: SummaryNames | None = None,
        distance: Distance | None = None,
        accept: Distance | None = None,
        derived: Derived | None = None,
        cost: CostGiven = None,
        records: Sequence[str] = (),
        p_star: Callable[[Points, float], npt.ArrayLike] | None = None,
        truth: Mapping[str, float | tuple[float, float] | Known] | Reference | None = None,
    ) -> None:
        self._parameters = Parameters(prior, derived)
        self.prior, self.derived = self._parameters.prior, self._parameters.derived
        self.simulate = simulate
        self.simulator.check(self._parameters.names)
        if self.simulator.known is not None:
            self.simulator.known.check_prior(prior)
        elif observed is None:
            raise InputError("observed data are missing; give them as observed=")
        self.records = record_names(records, self._parameters.names)
        self._acceptance = AcceptanceProbability(p_star, self.simulator.known)
        self._truth = as_reference(truth)
        self._costs = CostRule(cost, self.simulator, self._parameters)
        self._comparison = Comparison(
            observed,
            summary=summary,
            summary_names=summary_names,
            distance=distance,
            accept=accept,
            records=self.records,
            names=self._parameters.names,
            costs=self._costs,
        )
        self.summary, self.raw, self.observed = summary, self._comparison.raw, self._comparison.observed
        self.named_data = self._comparison.named

    @classmethod
    def tabulated(cls, prior: Finite, p_star: npt.ArrayLike, **options: Any) -> Problem:
        """A problem whose acceptance probabilities p(x*|θ_i) are known, and with them its truth.

        >>> problem = Problem.tabulated(Finite(theta=[1, 2]), [0.3, 0.05])
        """
        return cls(prior, Tabulated(prior, p_star), **options)

    @classmethod
    def bernoulli(cls, prior: Distribution, p_star: Callable[[Points], FloatArray], **options: Any) -> Problem:
        """A problem on any parameter space whose acceptance probability p(x*|θ) is a known function."""
        return cls(prior, Bernoulli(p_star), **options)

    @classmethod
    def models(
        cls,
        models: Mapping[str, SimulatorFunction | Model],
        observed: Any,
        *,
        probabilities: npt.ArrayLike | None = None,
        name: str = "model",
        **options: Any,
    ) -> Problem:
        """Model selection: each model is one value of the parameter ``model``.

        A model is its simulator, or a `Model` with a prior for its own parameters; it sees only these.
        """
        given = as_models(models)
        return cls(prior_of(given, probabilities, name), choose(given, name), observed, **options)

    def __repr__(self) -> str:
        shape = None if self.raw is None else self.raw.shape
        data = "no data" if shape is None else f"data of shape {shape}" if shape else "one datum"
        return f"<problem of {', '.join(self._parameters.names)}; {data}>"

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {
            "prior": self.prior,
            "simulate": self.simulate,
            "observed": self._comparison.data,
            "summary": self.summary,
            "summary_names": self._comparison.names_given,
            "distance": self._comparison.distance_given,
            "accept": self._comparison.accept,
            "derived": self._parameters.given,
            "cost": self._costs.given,
            "records": self.records,
            "p_star": self._acceptance.function,
            "truth": self._truth,
        }

    def replace(self, **changes: Any) -> Problem:
        """The same question with some of the constructor's arguments changed, and checked as there.

        What was known of the truth or of acceptance probabilities, and names of summaries, are dropped where they
        depend on what changes.

        >>> problem = Problem(Finite(theta=[1, 2]), lambda theta, rng: rng.poisson(theta["theta"]), observed=3)
        >>> problem.replace(cost=[1.0, 2.0]).cost.tolist()
        [1.0, 2.0]
        """
        arguments = self.arguments
        for name in changes:
            choice(name, arguments, "argument", "of a problem")
        if TRUTH_DEPENDS_ON & changes.keys():
            arguments["truth"] = None
        if P_STAR_DEPENDS_ON & changes.keys():
            arguments["p_star"] = None
        if "summary" in changes:
            arguments["summary_names"] = None
        return Problem(**{**arguments, **changes})

    def with_observed(self, observed: Any) -> Problem:
        """The same question for other data. What was known about the truth belonged to the old data and is dropped."""
        if self.simulator.known is not None:
            raise InputError("this problem's simulations only match its data or do not; it cannot take other data")
        return self.replace(observed=observed)

    @cached_property
    def simulator(self) -> Simulator:
        """What its simulations come from, and what is known of it."""
        return as_simulator(self.simulate)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the prior's parameters and of the derived ones."""
        return self._parameters.names

    @property
    def is_finite(self) -> bool:
        """Whether the prior has finitely many values."""
        return self._parameters.is_finite

    @property
    def finite(self) -> Finite:
        """The prior, for methods that need a finite parameter space."""
        return self._parameters.finite

    @property
    def points(self) -> Points:
        """The values of a finite prior, with the derived parameters."""
        return self._parameters.points

    @property
    def probe(self) -> Points:
        """A few points of the prior, always the same, to test functions of θ."""
        return self._parameters.probe

    def posed(self, targets: Target | str | Sequence[Target | str]) -> tuple[Target, ...]:
        """Targets that know this problem's prior, where they compare the posterior with it."""
        return self._parameters.posed(targets)

    def check_targets(self, targets: Sequence[Target]) -> None:
        """Refuse a target that is not defined on the parameters; each is tried once."""
        self._parameters.check_targets(targets)

    @property
    def cost(self) -> FloatArray:
        """The cost of a simulation at each value of a finite prior, as it was given; 1 if it was not."""
        return self._costs.at_values

    @property
    def measures_cost(self) -> bool:
        """Whether the costs are seconds that are measured."""
        return self._costs.measured

    @property
    def knows_cost(self) -> bool:
        """Whether the costs of single simulations will be known: given with the problem, returned or measured."""
        return self._costs.known

    def require_costs(self) -> None:
        """Refuse a problem whose simulations' costs are not known."""
        self._costs.require()

    def cost_of(self, points: Points) -> FloatArray | None:
        """The cost of a simulation at each θ, where it was given with the problem; None otherwise."""
        return self._costs.at(points)

    def costs(self, batch: Batch, outcomes: Outcomes) -> FloatArray | None:
        """What each simulation of a block cost, a number for each row of ``batch.theta``; None if it is not known.

        NaN for a failed simulation whose cost is not known, and where a cost function gives no positive number.
        """
        return self._costs.of_simulations(batch, outcomes)

    def cost_of_block(self, batch: Batch, outcomes: Outcomes) -> float | None:
        """The sum of the known costs of a block's simulations; None if none is known."""
        return self._costs.of_block(batch, outcomes)

    @property
    def p_star(self) -> FloatArray | None:
        """p(x*|θ_i) at the values of a finite prior, where it is known."""
        return self._acceptance.by_value

    @property
    def knows_acceptance(self) -> bool:
        """Whether p(x*|θ) is known."""
        return self._acceptance.is_known

    def acceptance_probability(self, theta: Points, tolerance: float = 0.0) -> FloatArray:
        """p(x*|θ), where it is known: the probability that a simulation at θ comes within the tolerance."""
        return self._acceptance.at(require_points(theta, "theta", self.prior.names), number(tolerance, "tolerance"))

    def check_acceptance_probability(self, tolerance: float) -> None:
        """Refuse an invalid acceptance probability; tried once for each tolerance."""
        self._acceptance.check(tolerance, self.probe)

    @cached_property
    def reference(self) -> Reference:
        """What is known of the true posterior."""
        if self.p_star is not None:
            return FiniteReference(self.points, theory.posterior(self.finite.probabilities, self.p_star))
        return self._truth

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
        target = as_target(target)
        if self.is_finite:
            target.check_space(self.points)
        return self.reference.expect(target)

    # ------------------------------------------------------------ from outputs to acceptance weights

    @property
    def has_summaries(self) -> bool:
        """Whether simulations give summaries that are compared by a distance."""
        return self.simulator.known is None and self._comparison.accept is None

    @property
    def compares_numbers(self) -> bool:
        """Whether simulations are compared with the data by summaries that are numbers."""
        return self.has_summaries and self.observed is not None and self.observed.dtype.kind in "biuf"

    @property
    def summary_names(self) -> dict[str, int]:
        """The names of the summaries, with how many numbers each stands for; empty where they have none."""
        return dict(self._comparison.summary_names)

    @property
    def summary_labels(self) -> tuple[str, ...]:
        """A name for each number that simulations are compared by; numbered where they have none."""
        numbers = 0 if self.observed is None else self.observed.size
        return numbered(self.summary_names or {"x" if self.summary is None else "summary": numbers})

    @property
    def posterior_in_words(self) -> str:
        """What is estimated where no tolerance is left: the posterior given the data, or given their summaries."""
        return "the posterior" if self.summary is None else "the posterior given the summaries"

    @property
    def uses_data_as_they_are(self) -> bool:
        """Whether the user has given neither a summary function nor a distance."""
        return self.arguments["summary"] is None and self.arguments["distance"] is None

    @property
    def measure(self) -> Distance:
        """The distance as a function of summaries and the data that they are compared with."""
        return self._comparison.measure

    @property
    def raw_numbers(self) -> int:
        """How many numbers a summary function replaces in a simulation; 0 without one, and where data are labels."""
        return self._comparison.raw_numbers

    def outcomes(self, output: Any, simulations: int, *, check_rows: bool = True, keep_raw: int = 0) -> Simulated:
        """A simulator's output as outcomes: summarised, and rows that cannot be used marked as failures.

        An output that cannot be used as a whole, such as one of another number of rows, is refused. With
        ``check_rows`` so is a summary that gives nonsense or, as is tried once, does not treat every row by itself.
        ``keep_raw`` is the number of simulations, spread evenly, whose numbers before the summary are kept.
        """
        simulations = whole_number(simulations, "simulations")
        keep = min(whole_number(keep_raw, "keep_raw"), simulations) if self.raw_numbers else 0
        return self._comparison.outcomes(output, simulations, flag(check_rows, "check_rows"), keep)

    def usable(self, rows: Rows) -> Rows:
        """Outputs of single simulations in a form that can travel; a ``RowFailed`` for each that cannot be used."""
        return self._comparison.usable(rows)

    def distance(
        self, summaries: npt.NDArray[Any], tolerance: float = 0.0, measure: Distance | None = None
    ) -> FloatArray:
        """The distance of every simulation to the data; 0 or ∞ under an acceptance rule.

        ``measure`` replaces the problem's own distance.
        """
        return self._comparison.distance(summaries, tolerance, measure)

    def distances(
        self, outcomes: Simulated, tolerance: float = 0.0, measure: Distance | None = None
    ) -> tuple[FloatArray, Seen]:
        """Every simulation's distance to the data, NaN for one that failed, and what was seen of them.

        One whose distance is not a number, or cannot be computed, has failed.
        """
        return self._comparison.distances(outcomes, tolerance, measure)

    def check_acceptance(self, acceptance: Acceptance) -> None:
        """Refuse a tolerance that would have no effect."""
        if acceptance == Acceptance():
            return
        if self.simulator.known is not None:
            raise InputError(
                "this problem knows when a simulation matches; leave tolerance and kernel at their defaults"
            )
        if self._comparison.accept is not None:
            raise InputError("with an acceptance rule (accept=) a tolerance has no effect; leave it out")

    def tally(self, batch: Batch, outcomes: Outcomes, acceptance: Acceptance) -> Tally:
        """Acceptance weights summed over repeats. A failed simulation is a rejected one."""
        if isinstance(outcomes, Tally):
            return outcomes
        distance, seen = self.distances(require_simulated(outcomes), acceptance.tolerance)
        return tally(batch, accepted(acceptance, distance), seen)
