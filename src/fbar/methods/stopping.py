"""Stopping rules, read at the end of each round and joined by ``|`` (either) and ``&`` (both)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, get_type_hints

import numpy as np

from fbar.checks import choice, counted, finite_number, positive_integer, positive_number, shown, store_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.estimate import Estimate
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.forecasts import Forecast, until_count
from fbar.methods.history import AT_DATA_GROWTH
from fbar.methods.total_error import WHAT_HELPS, log_ratio, stays_biased
from fbar.question.targets import Target, whole_name
from fbar.question.targets.quantiles import Quantile
from fbar.system.schema import fits

NOT_FINISHED = "not finished"
"""Why a replay ended that came to the end of its record before the end of the run."""

ENOUGH_ACCEPTED = 50
ENOUGH_EACH_SIDE = 10

NEARLY = 1.25
"""A provisional error of at most this many wanted ones is near enough for the estimate from all simulations."""


class StoppingRule(ABC):
    """When a run ends."""

    @abstractmethod
    def holds(self, run: Run) -> bool:
        """Whether the run may end now."""

    @property
    def limit(self) -> int | None:
        """The largest number of simulations the rule allows; None if it sets none."""
        return None

    def check(self, run: Run) -> None:
        """Refuse a rule that this run can never meet. Nothing to refuse by default."""
        return

    def forecast(self, run: Run) -> Forecast | None:
        """How many more simulations until it holds; None if that cannot be estimated yet."""
        return None

    def hopeless(self, run: Run) -> str:
        """Why more simulations will not make it hold, for a run at the data; "" where they may."""
        return ""

    def missing(self, run: Run) -> dict[str, Forecast]:
        """For each target whose wanted error the run has not reached: how many more simulations that needs."""
        return {}

    def __or__(self, other: StoppingRule) -> StoppingRule:
        return Either(self, require_rule(other))

    def __and__(self, other: StoppingRule) -> StoppingRule:
        return Both(self, require_rule(other))


@dataclass(frozen=True)
class Either(StoppingRule):
    first: StoppingRule
    second: StoppingRule

    def __str__(self) -> str:
        return f"{self.first} or {self.second}"

    def holds(self, run: Run) -> bool:
        return self.first.holds(run) or self.second.holds(run)

    @property
    def limit(self) -> int | None:
        limits = [rule.limit for rule in (self.first, self.second) if rule.limit is not None]
        return min(limits) if limits else None

    def check(self, run: Run) -> None:
        self.first.check(run)
        self.second.check(run)

    def forecast(self, run: Run) -> Forecast | None:
        first, second = self.first.forecast(run), self.second.forecast(run)
        if first is None or second is None:
            return first or second  # at most that many
        return first.smallest(second)

    def hopeless(self, run: Run) -> str:
        first = self.first.hopeless(run)
        second = self.second.hopeless(run) if first else ""
        return f"{first}; {second}" if second else ""

    def missing(self, run: Run) -> dict[str, Forecast]:
        return {} if self.holds(run) else {**self.first.missing(run), **self.second.missing(run)}


@dataclass(frozen=True)
class Both(StoppingRule):
    first: StoppingRule
    second: StoppingRule

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"

    def holds(self, run: Run) -> bool:
        return self.first.holds(run) and self.second.holds(run)

    def check(self, run: Run) -> None:
        self.first.check(run)
        self.second.check(run)

    def forecast(self, run: Run) -> Forecast | None:
        first, second = self.first.forecast(run), self.second.forecast(run)
        return None if first is None or second is None else first.largest(second)

    def hopeless(self, run: Run) -> str:
        return "; ".join(why for why in (self.first.hopeless(run), self.second.hopeless(run)) if why)

    def missing(self, run: Run) -> dict[str, Forecast]:
        return {**self.first.missing(run), **self.second.missing(run)}


@dataclass(frozen=True)
class Budget(StoppingRule):
    """Stop after this many simulations.

    >>> (Budget(1000) | StandardError("mean:beta", 0.01)).limit
    1000
    """

    simulations: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "simulations", positive_integer(self.simulations, "budget"))

    def __str__(self) -> str:
        return counted(self.simulations, "simulation")

    def holds(self, run: Run) -> bool:
        return run.simulations >= self.simulations

    def forecast(self, run: Run) -> Forecast | None:
        more = max(0, self.simulations - run.simulations)
        return Forecast(more, more, more, run.simulations)

    @property
    def limit(self) -> int | None:
        return self.simulations


@dataclass(frozen=True)
class CostBudget(StoppingRule):
    """Stop when the total cost of the simulations reaches this value.

    In the unit of the costs: seconds of simulator time, over all workers, where they are measured (see `Problem`). It
    is checked at the end of each round, so the last round exceeds it. With measured times, a run ends at a different
    point on another machine; a recorded run keeps its costs and ends where it ended.
    """

    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", finite_number(positive_number(self.cost, "cost"), "cost"))

    def __str__(self) -> str:
        return f"a cost of {self.cost:g}"

    def check(self, run: Run) -> None:
        run.problem.require_costs()

    def holds(self, run: Run) -> bool:
        spent = run.spent_cost
        if spent is None:
            raise InputError(
                "a stopping rule on the cost needs the cost of every simulation, and some have none; use outcomes made "
                "by fbar.simulate, or by problem.outcomes with an output 'cost'"
            )
        return spent >= self.cost


@dataclass(frozen=True)
class AcceptedCount(StoppingRule):
    """Stop when this many simulations have been accepted; for runs at a tolerance.

    A run that answers at the data uses all simulations without accepting any, so it refuses this rule.
    """

    accepted: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "accepted", positive_integer(self.accepted, "accepted"))

    def __str__(self) -> str:
        return f"{self.accepted:,} accepted"

    def check(self, run: Run) -> None:
        if run.at_data:
            raise InputError(
                "this run estimates the posterior at the data and accepts no simulations, so it cannot stop at a "
                "number of acceptances; give a precision or a budget, or a tolerance"
            )
        _require_settling(run)

    def holds(self, run: Run) -> bool:
        if not run.at_final_tolerance:
            return False
        try:
            return bool(np.all(run.posterior().accepted >= self.accepted))
        except NoPosterior:
            return False

    def forecast(self, run: Run) -> Forecast | None:
        posterior = _present(run)
        return None if posterior is None else until_count(posterior.accepted, self.accepted, run.simulations)


@dataclass(frozen=True)
class StandardError(StoppingRule):
    """Stop when a target's standard error is at most ``wanted``, and reliable.

    At least 50 simulations must be accepted, and for a probability or a quantile 10 on each side (effective ones):
    otherwise a run could end because its error bar is small only for lack of simulations.

    For a run at the data it is the total error, bias included. It is checked when there are a quarter more simulations
    than at the last check: first in the run's provisional estimate and, if that is nearly small enough, in the estimate
    from all simulations. If bias is the larger part and falls too slowly ever to be small enough, the rule is
    ``hopeless`` and the run ends too.
    """

    target: str
    wanted: float

    def __post_init__(self) -> None:
        wanted = finite_number(positive_number(self.wanted, "wanted standard error"), "wanted standard error")
        store_number(self, "wanted", wanted)

    def __str__(self) -> str:
        return f"{self.target} ± {self.wanted:g}"

    def check(self, run: Run) -> None:
        choice(self.target, [target.name for target in run.targets], "target", "in a stopping rule")
        _require_settling(run)

    def holds(self, run: Run) -> bool:
        if not run.at_final_tolerance:
            return False
        target = next(target for target in run.targets if target.name == self.target)
        if run.at_data and not run.finished and self._is_far(run):
            return False
        try:
            posterior = run.posterior()
        except NoPosterior:
            return False
        if np.min(posterior.accepted) < ENOUGH_ACCEPTED:
            return False
        estimate = posterior.expect(target)
        rarer = _rarer_side(target, estimate, posterior)
        if rarer is not None and np.min(rarer) < ENOUGH_EACH_SIDE:
            return False
        return bool(np.all(self._reached(estimate)) and np.all(estimate.trusted))

    def forecast(self, run: Run) -> Forecast | None:
        posterior = _present(run)
        if posterior is None:
            return None
        known = {target.name: target for target in run.targets}
        target = known[choice(self.target, known, "target", "of this run")]
        estimate = run.estimate_so_far(target, posterior)
        if run.at_data and not np.all(estimate.trusted):
            return None  # the rule waits for a reliable estimate, and when that comes cannot be forecast
        found = run.forecast(target, self._wanted(estimate), posterior)
        needed = [until_count(posterior.accepted, ENOUGH_ACCEPTED, run.simulations)]
        rarer = _rarer_side(target, estimate, posterior)
        if rarer is not None:
            needed.append(until_count(float(rarer), ENOUGH_EACH_SIDE, run.simulations))
        for other in needed:
            found = None if found is None or other is None else found.largest(other)
        return found

    def _is_far(self, run: Run) -> bool:
        """Whether the last moment of a run at the data leaves no need for the estimate from all simulations."""
        last = run.history[-1] if run.history else None
        if last is None or run.simulations >= AT_DATA_GROWTH * last.simulations:
            return False
        if last.simulations < run.simulations:
            return True
        estimate = last.estimate(self.target)
        return estimate is not None and not log_ratio(estimate, self._wanted(estimate)) <= 2 * math.log(NEARLY)

    def hopeless(self, run: Run) -> str:
        last = run.history[-1] if run.at_data and run.history else None
        estimate = None if last is None else last.estimate(self.target)
        if last is None or estimate is None or last.simulations < run.simulations:
            return ""
        if not stays_biased(run.history, self.target, self._wanted(estimate), run.limit):
            return ""
        error, bias = float(np.max(estimate.standard_error)), float(np.max(np.asarray(estimate.bias)))
        return (
            f"{self} will not be reached: {bias:.3g} of the error {error:.3g} is bias, which more simulations hardly "
            f"reduce; {WHAT_HELPS}"
        )

    def missing(self, run: Run) -> dict[str, Forecast]:
        found = None if self.holds(run) else self.forecast(run)
        return {} if found is None else {self.target: found}

    def _reached(self, estimate: Estimate) -> Any:
        return np.asarray(estimate.standard_error) <= self._wanted(estimate)

    def _wanted(self, estimate: Estimate) -> Any:
        """The standard error, in the target's own units."""
        return self.wanted


@dataclass(frozen=True)
class RelativeError(StandardError):
    """Stop when a target's standard error is at most the fraction ``wanted`` of its value, 0.01 for one percent.

    If the value may be zero, no fraction of it is small enough, and the run continues to its budget.
    """

    def __str__(self) -> str:
        return f"{self.target} ± {100 * self.wanted:g}%"

    def _wanted(self, estimate: Estimate) -> Any:
        return self.wanted * np.abs(estimate.value)


def wanted_precision(name: str, wanted: float | str, targets: Sequence[Target]) -> StandardError:
    """The rule of one entry of ``precision=``: a standard error, or a fraction of the value written as ``"1%"``.

    The name is that of a target, or the part after its kind if that is clear: R0 for mean:R0.
    """
    full = whole_name(name, [target.name for target in targets], "a precision of")
    if not isinstance(wanted, str):
        return StandardError(full, wanted)
    try:
        share = float(wanted.strip().removesuffix("%")) / 100
        if not wanted.strip().endswith("%"):
            raise ValueError
    except ValueError:
        raise InputError(
            f"a precision is a standard error such as 0.05, or a fraction such as '1%'; got {shown(wanted)}"
        ) from None
    return RelativeError(full, share)


def as_rule(wanted: StoppingRule | Mapping[str, float | str], targets: Sequence[Target]) -> StoppingRule:
    """A rule as it is, or that of ``precision=``: all errors must be reached."""
    if isinstance(wanted, StoppingRule):
        return wanted
    if not isinstance(wanted, Mapping) or not wanted:
        raise InputError("precision must name its targets; give for example {'mean:theta': 0.01}")
    rules: list[StoppingRule] = [wanted_precision(name, error, targets) for name, error in wanted.items()]
    return reduce(and_, rules)


def _rarer_side(target: Target, estimate: Estimate, posterior: Posterior) -> Any:
    """Effective simulations on the rarer side of a probability's event or of a quantile; None for other targets."""
    if estimate.inverted is not None:
        return estimate.inverted.beyond
    if isinstance(target, Quantile):
        return min(target.level, 1 - target.level) * posterior.ess
    if target.binary and target.scalar:
        return np.minimum(estimate.value, 1 - np.asarray(estimate.value)) * posterior.ess
    return None


def _present(run: Run) -> Posterior | None:
    """The posterior of a run without trials, if there is one at the tolerance that is wanted."""
    if not run.at_final_tolerance:
        return None
    try:
        posterior = run.posterior_so_far()
    except NoPosterior:
        return None
    return None if np.ndim(posterior.simulations) else posterior


def _require_settling(run: Run) -> None:
    if not run.has_final_tolerance:
        raise InputError(
            "a precision is reached at a fixed tolerance, and this run's tolerance keeps falling; give its schedule a "
            "final one"
        )


def require_rule(rule: object) -> StoppingRule:
    if not isinstance(rule, StoppingRule):
        raise InputError(f"a stopping rule is made by fbar.Budget(…), fbar.StandardError(…), …; got {shown(rule)}")
    return rule


_KNOWN: tuple[type[StoppingRule], ...] = (Either, Both, Budget, CostBudget, AcceptedCount, StandardError, RelativeError)


def restored(described: Mapping[str, Any]) -> StoppingRule:
    """A rule from its description as JSON (see `fbar.ledger.settings`)."""
    rule = next((known for known in _KNOWN if known.__name__ == described.get("type")), None)
    if rule is None:
        raise InputError("the run has a custom stopping rule; rerun the original fbar.infer call")
    inner = {str(k): restored(v) if isinstance(v, Mapping) else v for k, v in described.items() if k != "type"}
    hints = get_type_hints(rule)
    if set(inner) != set(hints) or not all(fits(inner[k], hints[k]) for k in inner):
        raise InputError(f"the run's stopping rule is recorded as {described!r:.100}, which is not a valid rule")
    return rule(**inner)
