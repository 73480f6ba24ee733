"""From a simulator's output to its distance from the data: summaries S(x), then ρ(S(x), S(x*)) or an acceptance rule.

A simulation that cannot be summarised or compared has failed, and counts as a rejected one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray, as_array, numeric_array, same_alone, without_mask
from fbar.checks import function as check_function
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.costs import CostRule
from fbar.question.distances import PNorm, euclidean
from fbar.question.named_data import NamedData, X, named_data
from fbar.question.outcomes import SAMPLE, Failure, Seen, Simulated
from fbar.question.outputs import COMPARABLE, NUMBERS, Form, Table, as_row, by_parts, read, require_comparable
from fbar.question.raw_numbers import places_kept
from fbar.question.simulators import COST, Nonsense, RowFailed, Rows, Unusable, without_costs
from fbar.question.simulators.calls import as_values, called, for_user, returned
from fbar.question.summary_names import SummaryNames, checked_names, columns, numbered

Summary = Callable[[Any], npt.ArrayLike | Mapping[str, npt.ArrayLike]]
"""A function of a batch of data: of an array, or of arrays by name where the data have names."""

Distance = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike]


def as_observed(given: Any) -> tuple[npt.NDArray[Any], NamedData | None]:
    """A user's data as an array that nobody can write into, and the form of data that have names."""
    if isinstance(given, Mapping) and set(given) != {X}:
        named, numbers = named_data(given)
        numbers.flags.writeable = False
        return numbers, named
    given = given[X] if isinstance(given, Mapping) else given
    try:
        observed = np.array(without_mask(given, "observed"))  # a copy: the caller may change its own later
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("observed must be an array; its rows differ in length") from None
    if observed.dtype.kind not in "biufU":
        raise InputError(f"observed must be numbers or a label; got {shown(given)}")
    observed.flags.writeable = False
    return observed, None


def _numbers(distances: npt.NDArray[Any]) -> FloatArray:
    try:
        return numeric_array(distances, "distances")
    except (InputError, OverflowError):
        raise Nonsense(f"distances must be numbers; got {shown(distances)}") from None


def _shown_names(names: Mapping[str, int]) -> str:
    return ", ".join(f"{shown(name)} ({size})" for name, size in names.items()) or "values without names"


def _example(x: npt.NDArray[Any]) -> str:
    """A function of a batch that gives a number for each row."""
    return "x.mean(axis=1)" if x.ndim > 1 else "numpy.log(x)"


class Comparison:
    """How simulations are compared with the data.

    ``raw`` are the data before the summary, ``observed`` their summaries; both None where simulations give no data.
    ``names`` are those of the parameters, which no recorded output may have. ``summary_names`` are the names of the
    summaries, with how many numbers each stands for; empty where they have none. ``named`` is the form of data that
    have names, which then are those of the summaries where there is no summary function.
    """

    def __init__(
        self,
        observed: Any,
        *,
        summary: Summary | None,
        summary_names: SummaryNames | None,
        distance: Distance | None,
        accept: Distance | None,
        records: tuple[str, ...],
        names: tuple[str, ...],
        costs: CostRule,
    ) -> None:
        if distance is not None and accept is not None:
            raise InputError("give either a distance or an acceptance rule, not both")
        for name, given in (("summary", summary), ("distance", distance), ("accept", accept)):
            if given is not None:
                check_function(given, name)
        self.summary, self.distance_given, self.accept = summary, distance, accept
        self._records, self._names, self._costs = records, names, costs
        self._tried: set[str] = set()
        self._returned: dict[str, int] | None = None
        self.raw: npt.NDArray[Any] | None = None
        self.named: NamedData | None = None
        if observed is not None:
            self.raw, self.named = as_observed(observed)
        self.observed = None if self.raw is None else self._summary_of_data(self.raw)
        self.names_given = summary_names
        self.summary_names = self._named(summary_names)
        if self.observed is not None:
            self.observed.flags.writeable = False
            if self.observed.dtype.kind == "f" and not np.isfinite(self.observed).all():
                raise InputError("the observed data (or their summaries) are not finite; remove missing values first")

    @property
    def measure(self) -> Distance:
        """The distance as a function of summaries and the data that they are compared with."""
        return self.distance_given or euclidean

    # ------------------------------------------------------------ summaries

    @cached_property
    def form(self) -> Form:
        """What a simulation has to give to be compared with the data."""
        assert self.raw is not None
        taken = frozenset(self._names)
        return Form(self.raw.shape, self.raw.dtype, self.summary is not None, self._records, taken, self.named)

    @property
    def data(self) -> Any:
        """The data as they are given to a problem: by name if they have names."""
        return self.raw if self.named is None or self.raw is None else self.named.split(self.raw)

    def _for_summary(self, x: npt.NDArray[Any]) -> Any:
        """Simulations as a summary function takes them."""
        return for_user(x) if self.named is None else self.named.split(for_user(x))

    def _summarise(self, x: npt.NDArray[Any], check_rows: bool = True) -> npt.NDArray[Any]:
        if self.summary is None:
            return x
        summary = self.summary
        given, names = columns(returned("the summary", summary, self._for_summary(x)))
        if given is None:
            raise Nonsense("summary returned None; it must return a row for each simulation (is a return missing?)")
        if self._returned is None:
            self._returned = names
        elif names != self._returned:
            raise Nonsense(
                f"summary returned {_shown_names(names)} for the simulations and {_shown_names(self._returned)} for "
                "the data; the names and their number of values must be the same"
            )
        summaries = as_values("the summary", given)
        if summaries.shape[:1] != x.shape[:1]:
            raise Nonsense(
                "summary receives a batch, an array whose first axis is the simulations, and must return a row for "
                f"each, as {_example(x)} does; it was given shape {x.shape} and returned {summaries.shape}"
            )
        if summaries.dtype == object and all(isinstance(value, str) for value in summaries.flat):
            summaries = summaries.astype(str)
        if summaries.dtype.kind not in COMPARABLE:
            raise Nonsense(f"summary must return numbers or labels; it returns {summaries.dtype} values")
        if check_rows:
            self._require_rows_apart(
                "the summary", summaries, lambda rows: columns(summary(self._for_summary(x[rows])))[0]
            )
        return summaries

    def _named(self, given: SummaryNames | None) -> dict[str, int]:
        """The names of the summaries: those that the summary function returned, or those that were given."""
        if given is not None and self.observed is None:
            raise InputError("this problem's simulations give no data, only a match; leave summary_names out")
        own = self.named.sizes if self.summary is None and self.named is not None else self._returned
        if own:
            if given is not None:
                what = "the data have names" if self.summary is None else "summary returns named values"
                raise InputError(f"{what}; leave summary_names out")
            return own
        return checked_names(given, 0 if self.observed is None else self.observed.size)

    def _summary_of_data(self, raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
        try:
            return np.array(self._summarise(raw[None])[0])
        except Nonsense as error:
            raise InputError(str(error)) from error.__cause__
        except Unusable as error:  # no simulation is to blame
            raise InputError(
                f"{error} (it was given the data as a batch of one simulation, of shape {raw[None].shape}; the first "
                f"axis is the simulations, as in {_example(raw[None])})"
            ) from error.__cause__

    def _summaries(self, table: Table, check_rows: bool) -> npt.NDArray[Any]:
        """The summaries of all rows, zero for those that cannot be used; more of these may be found here."""
        assert self.observed is not None
        shape, dtype = self.observed.shape, self.observed.dtype
        rows: list[IntArray] = []
        parts: list[npt.NDArray[Any]] = []

        def summarised(x: npt.NDArray[Any], part: slice) -> npt.NDArray[Any]:
            summaries = self._summarise(x[part], check_rows)
            require_comparable(summaries.shape[1:], summaries.dtype, shape, dtype)
            return summaries

        for group, x in table.groups:
            given = by_parts(partial(summarised, x), len(x))
            if check_rows and given.nonsense:
                raise InputError(given.nonsense)
            rows += [group[part] for part, _ in given.found]
            parts += [values for _, values in given.found]
            table.failed |= {int(group[row]): why for row, why in given.failed.items()}
        # Copies, since a simulator may fill the same arrays again; in C order, as they come back from other processes
        # and from records: sums must not depend on the way here.
        if len(rows) == 1 and len(rows[0]) == table.rows:
            return np.array(parts[0], order="C")
        summaries = np.zeros((table.rows, *shape), dtype=np.result_type(*parts) if parts else np.float64)
        for where, values in zip(rows, parts, strict=True):
            summaries[where] = values
        return summaries

    def _require_rows_apart(self, what: str, among: npt.NDArray[Any], of: Callable[[slice], npt.ArrayLike]) -> None:
        """Refuse a function of a batch in which one simulation changes what is found of another; tried once.

        The data are a batch of one, and how many simulations are in a batch is no part of the question.
        """
        if what in self._tried or len(among) < 2:
            return
        self._tried.add(what)
        for row in (0, len(among) - 1):
            try:
                with np.errstate(all="ignore"):
                    alone = np.asarray(of(slice(row, row + 1)))
            except Exception:  # it works only on several rows: nothing can be compared
                continue
            if not same_alone(alone, among, row):
                raise InputError(
                    f"{what} of a simulation depends on the others in its batch; it must treat every row by itself, "
                    "and without random numbers (scales that are learned: fbar.SMC(distance=fbar.Scaled()))"
                )

    # ------------------------------------------------------------ outcomes

    @property
    def raw_numbers(self) -> int:
        """How many numbers a summary function replaces in a simulation; 0 without one, and where data are labels."""
        raw = self.raw
        return 0 if self.summary is None or raw is None or raw.dtype.kind not in NUMBERS else raw.size

    def _raw(self, table: Table, places: IntArray) -> FloatArray | None:
        """The raw numbers at some rows, NaN for those that failed; None if not all that succeeded are alike."""
        assert self.raw is not None
        raw = np.full((places.size, *self.raw.shape), np.nan)
        for group, x in table.groups:
            if x.shape[1:] != self.raw.shape or x.dtype.kind not in NUMBERS:
                return None
            at = np.minimum(np.searchsorted(group, places), len(group) - 1)
            there = group[at] == places
            raw[there] = x[at[there]]
        return raw

    def outcomes(self, output: Any, simulations: int, check_rows: bool, keep_raw: int = 0) -> Simulated:
        """A simulator's output as outcomes: summarised, and rows that cannot be used marked as failures."""
        output, costs = without_costs(output)
        table = read(output, simulations, self.form)
        summaries = self._summaries(table, check_rows)
        lost = np.zeros(simulations, dtype=bool)
        lost[list(table.failed)] = True
        bad = np.zeros(simulations, dtype=bool)
        if summaries.dtype.kind == "f":
            bad = ~np.isfinite(summaries).reshape(simulations, -1).all(axis=1) & ~lost
        table.failed |= self._costs.failures(costs, lost | bad)
        failure = np.where(bad, np.int8(Failure.NOT_FINITE), np.int8(0))
        first = sorted(table.failed.items(), reverse=True)
        for row, why in first:
            failure[row] = why.kind
        found = Simulated(
            summaries,
            table.recorded,
            failure,
            {**self._not_finite(summaries, bad), **{why.kind: why.message for _, why in first}},
            {why.kind: why.detail for _, why in first},
        )
        cost = self._costs.of_output(costs, failure)
        if cost is not None:
            found = replace(found, cost=cost)
        raw = self._raw(table, places_kept(simulations, keep_raw)) if keep_raw else None
        return found if raw is None else replace(found, raw=raw)

    def _not_finite(self, summaries: npt.NDArray[Any], bad: npt.NDArray[np.bool_]) -> dict[Failure, str]:
        """The name of a summary that is not finite, if they have names."""
        if not (self.summary_names and bad.any()):
            return {}
        row = np.ravel(summaries[np.argmax(bad)])
        place = int(np.argmin(np.isfinite(row)))
        return {Failure.NOT_FINITE: f"{numbered(self.summary_names)[place]} was {row[place]}"}

    def usable(self, rows: Rows) -> Rows:
        """Outputs of single simulations in a form that can travel; a `RowFailed` for each that cannot be used."""
        return Rows([self._usable(row) for row in rows], rows.cost)

    def _usable(self, row: Any) -> Any:
        if row is None or isinstance(row, RowFailed):
            return row
        cost = {COST: row[COST]} if isinstance(row, Mapping) and COST in row else {}
        try:
            if cost:
                ((row,), costs) = without_costs([row])
                assert costs is not None
                cost = {COST: costs.values[0]}
                if isinstance(row, RowFailed):
                    return row
            x, recorded = as_row(row, self.form)
        except Unusable as error:
            return RowFailed.of(error)
        if self.named is not None:
            return {**self.named.split(x), **recorded, **cost}
        return {X: x, **recorded, **cost} if cost or isinstance(row, Mapping) else x

    # ------------------------------------------------------------ distances

    def distance(
        self, summaries: npt.NDArray[Any], tolerance: float = 0.0, measure: Distance | None = None
    ) -> FloatArray:
        """The distance of every simulation to the data; 0 or ∞ under an acceptance rule."""
        observed = self.observed
        if observed is None:
            raise InputError("this problem's simulations give no data, only a match: there is no distance")
        summaries = as_array(summaries, "summaries")
        if summaries.shape[1:] != observed.shape or not summaries.ndim:
            raise InputError(
                f"summaries must have a row for each simulation, of the observed shape {observed.shape}; got shape "
                f"{summaries.shape}"
            )
        if measure is not None:
            check_function(measure, "measure")
        if not len(summaries):
            return np.zeros(0)
        if self.accept is not None:
            return np.where(self._accepted(self.accept, summaries, observed), 0.0, np.inf)
        return self._measured(measure or self.measure, summaries, observed, tolerance)

    def _accepted(self, rule: Distance, summaries: npt.NDArray[Any], observed: npt.NDArray[Any]) -> npt.NDArray[Any]:
        accepted = called("the acceptance rule", rule, for_user(summaries), for_user(observed))
        if accepted.dtype != np.bool_ or accepted.shape != (len(summaries),):
            raise Nonsense(
                f"the acceptance rule must return true or false for each of {len(summaries)} simulations; "
                f"it returns {accepted.dtype} of shape {accepted.shape}"
            )
        self._require_rows_apart(
            "the acceptance rule", accepted, lambda rows: rule(for_user(summaries[rows]), for_user(observed))
        )
        return accepted

    def _measured(
        self, measure: Distance, summaries: npt.NDArray[Any], observed: npt.NDArray[Any], tolerance: float
    ) -> FloatArray:
        if measure is euclidean and summaries.dtype.kind not in "biuf" and tolerance > 0:
            raise InputError(
                f"outputs that are labels match or do not match; a tolerance of {tolerance:g} needs a distance="
            )
        ours = measure is euclidean or isinstance(measure, PNorm)
        given = (summaries, observed) if ours else (for_user(summaries), for_user(observed))
        distance = _numbers(called("the distance", measure, *given))
        if distance.shape != (len(summaries),):
            raise Nonsense(
                f"the distance must return one number for each of {len(summaries)} simulations; "
                f"it returns shape {distance.shape}"
            )
        if not ours:
            self._require_rows_apart(
                "the distance", distance, lambda rows: measure(for_user(summaries[rows]), for_user(observed))
            )
        if (distance < 0).any():
            raise Nonsense(f"a distance must be at least 0; got {distance[distance < 0][0]:g}")
        return distance

    def distances(
        self, outcomes: Simulated, tolerance: float = 0.0, measure: Distance | None = None
    ) -> tuple[FloatArray, Seen]:
        """Every simulation's distance to the data, NaN for one that failed, and what was seen of them."""
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
