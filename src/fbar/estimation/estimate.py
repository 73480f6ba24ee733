"""Estimates: values that carry their error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, as_array
from fbar.checks import choice, in_words, real, share, shown, text
from fbar.checks import function as check_function
from fbar.errors import InputError
from fbar.estimation.digits import few_digits
from fbar.estimation.shown import ShownInNotebooks
from fbar.question.targets import whole_name
from fbar.question.targets.limits import Limits
from fbar.system.json_values import as_json
from fbar.system.terminal import clean

MOST_BRIEF = 6
"""Estimates in a line, at most."""


ROUNDING = 2.0**-52
"""The relative precision of a float."""


def shorthand(value: float, error: float) -> str:
    """``8.003(12)``: the digits follow the error, which keeps two. One below the last digit of a float is none.

    Where the error is not known, neither are more than a few digits.

    >>> shorthand(8.00312, 0.0123), shorthand(1234.5, 67.0), shorthand(0.605202, float("nan")), shorthand(750, 2.6e-14)
    ('8.003(12)', '1234(67)', '0.605(?)', '750(0)')
    """
    if not math.isfinite(value):
        return str(value)
    if not math.isfinite(error):
        return f"{few_digits(value)}(?)"
    if error <= ROUNDING * abs(value):
        return f"{value:.6g}(0)"
    digits = 1 - math.floor(math.log10(error))
    scaled = round(error * 10.0**digits)
    if scaled >= 100:  # 0.0996 rounds up to 100 in its last two digits
        digits, scaled = digits - 1, 10
    if digits <= 0:
        return f"{round(value, digits):.0f}({scaled * 10 ** (-digits)})"
    if digits > 12:
        return f"{value:.3g}({error:.2g})"
    if scaled * 10.0**-digits >= 1:
        return f"{value:.{digits}f}({scaled * 10.0**-digits:.{digits}f})"
    return f"{value:.{digits}f}({scaled})"


RELIABLE, BIASED, UNRELIABLE = "reliable", "biased", "unreliable"
"""The words of `Estimate.reliability`."""

FALSE_ALARMS = 0.05
"""The share of results without bias in which an answer is called biased by chance, at most."""


class Comparison(ABC):
    """Knows how far answers are from the posterior; what it takes is computed when it is first asked."""

    @property
    def numbers(self) -> int:
        """How many numbers are compared together, one of which may differ most by chance."""
        return 1

    @abstractmethod
    def difference(self, estimate: Estimate) -> Estimate | None:
        """The estimate minus the posterior's, with the error of both; None where it cannot be estimated."""

    def biased(self, estimate: Estimate) -> BoolArray:
        """Where the estimate differs from the posterior's by more than its own error bar, and not by chance.

        Of m numbers without bias, one exceeds Student's quantile at 1 − α/2m with probability α at most (Bonferroni).
        """
        found = self.difference(estimate)
        if found is None:
            return np.zeros(np.shape(estimate.value), dtype=bool)
        from scipy.special import stdtrit

        by_chance = stdtrit(found.df, 1 - FALSE_ALARMS / (2 * self.numbers)) * np.asarray(found.standard_error)
        size = np.abs(found.value)
        clear = (size > estimate.standard_error) & (size > by_chance)
        return np.asarray(clear & np.asarray(found.trusted, dtype=bool))


@dataclass(frozen=True, eq=False)
class Estimate(ShownInNotebooks):
    """The value of a target and how wrong it may be.

    ``value`` and ``standard_error`` are numbers for a scalar target and arrays for a vector target, with
    leading trial axes if the run had trials. ``trusted`` is true where the interval can be relied on for what
    ``about`` names, otherwise ``warnings`` give the reason.
    """

    name: str
    value: Any
    standard_error: Any
    df: Any
    simulations: Any
    accepted: Any
    trusted: Any = True
    warnings: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    inverted: Limits | None = None
    """If its interval is not symmetric: what determines it. For a quantile it comes from the distribution function."""
    about: str = ""
    """What was estimated: the posterior, or ABC's posterior at a tolerance; empty if there is no tolerance."""
    bias: Any = 0.0
    """The standard deviation of the bias that may remain, of either sign: a part of the standard error."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """What the true value lies between in any case: 0 and 1 for a probability. Its intervals end there."""
    comparison: Comparison | None = None
    """For an answer at a tolerance: what computes its ``difference`` from the posterior."""

    def __post_init__(self) -> None:
        for name in ("value", "standard_error", "df", "trusted", "bias"):  # they are shared, with a run's history too
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                locked = array.view()
                locked.flags.writeable = False
                object.__setattr__(self, name, locked)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """A confidence interval by Student's t with the error bar's own degrees of freedom.

        For a quantile it comes from the weighted distribution function and is not symmetric; it is infinite on a side
        where there are too few simulations. No interval exceeds what is possible, such as 0 and 1 for a probability.
        """
        level = share(level, "level")
        if self.inverted is not None:
            return self.inverted(level)
        from scipy.special import stdtrit

        half = stdtrit(self.df, 0.5 + level / 2) * self.standard_error
        low, high = self.bounds
        return np.clip(self.value - half, low, high), np.clip(self.value + half, low, high)

    @property
    def variance(self) -> Any:
        return np.square(self.standard_error)

    @property
    def difference(self) -> Estimate | None:
        """For an answer at a tolerance: the estimate minus the posterior's, with the error of both.

        None for an answer about the posterior itself, and where the simulations cannot show it.
        """
        return None if self.comparison is None else self.comparison.difference(self)

    @property
    def reliability(self) -> str:
        """One word: reliable; biased, where it differs from the posterior by more than its error bar (``difference``);
        unreliable, where the error bar itself cannot be relied on.
        """
        if not np.all(self.trusted):
            return UNRELIABLE
        return BIASED if self.comparison is not None and self.comparison.biased(self).any() else RELIABLE

    def as_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """The estimate as JSON values, without its name; ``brief`` has only the value with its error."""
        found = {"value": as_json(self.value), "standard_error": as_json(self.standard_error)}
        if brief:
            return found
        away = self.difference
        return {
            **found,
            "df": as_json(self.df),
            "about": self.about,
            "bias": as_json(self.bias),
            "reliability": self.reliability,
            **({} if away is None else {"difference": {**away.as_dict(brief=True), "trusted": as_json(away.trusted)}}),
            "trusted": as_json(self.trusted),
            "warnings": list(self.warnings),
            **({"labels": list(self.labels)} if self.labels else {}),
        }

    def component(self, k: int) -> Estimate:
        """One number of a vector's estimate."""
        size = np.size(self.value)

        def part(values: Any) -> Any:
            return np.broadcast_to(values, size)[k].item()

        return replace(
            self,
            value=part(self.value),
            standard_error=part(self.standard_error),
            df=part(self.df),
            trusted=part(self.trusted),
            bias=part(self.bias),
            labels=None,
            inverted=None if self.inverted is None else self.inverted.component(k),
            comparison=None if self.comparison is None else _OfComponent(self, k),
        )

    def __str__(self) -> str:
        value, error = np.asarray(self.value), np.asarray(self.standard_error)
        word = self.reliability
        mark = "" if word == RELIABLE else f" ({word})"
        if value.ndim == 0:
            return shorthand(float(value), float(error)) + mark
        if value.ndim == 1 and value.size <= 12:
            body = ", ".join(shorthand(float(v), float(e)) for v, e in zip(value, error, strict=True))
            return f"[{body}]{mark}"
        return f"<{' × '.join(map(str, value.shape))} values>{mark}"

    def __repr__(self) -> str:
        return f"Estimate({clean(self.name)}: {self})"


@dataclass(frozen=True, eq=False)
class _OfComponent(Comparison):
    """The comparison of one number of a vector."""

    whole: Estimate
    k: int

    def difference(self, estimate: Estimate) -> Estimate | None:
        found = self.whole.difference
        return None if found is None else found.component(self.k)

    def biased(self, estimate: Estimate) -> BoolArray:
        assert self.whole.comparison is not None
        return np.asarray(np.ravel(self.whole.comparison.biased(self.whole))[self.k])


class Estimates(Sequence[Estimate], ShownInNotebooks):
    """Estimates of several targets from the same simulations, with their joint covariance.

    Index by position or by name; R0 stands for mean:R0 where that is unambiguous. `combine` carries the joint
    covariance through any smooth function, so that differences and ratios get the right error.
    """

    def __init__(self, estimates: Sequence[Estimate], covariance: FloatArray, slices: Sequence[slice]) -> None:
        self._estimates = tuple(estimates)
        self._slices = tuple(slices)
        self.covariance = covariance.view()
        self.covariance.flags.writeable = False

    def __len__(self) -> int:
        return len(self._estimates)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self._estimates)

    @overload
    def __getitem__(self, key: str | int) -> Estimate: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Estimate, ...]: ...
    def __getitem__(self, key: str | int | slice) -> Estimate | tuple[Estimate, ...]:
        if isinstance(key, str):
            return self._estimates[self._index(key)]
        try:
            return self._estimates[key]
        except IndexError:
            raise IndexError(f"there are {len(self)} estimates, from 0 to {len(self) - 1}; got {shown(key)}") from None
        except Exception:
            raise InputError(
                f"estimates are accessed by position or by name, as in estimates['mean:R0']; got {shown(key)}"
            ) from None

    def _index(self, name: str) -> int:
        names = [estimate.name for estimate in self._estimates]
        return names.index(choice(whole_name(name, names), names, "target"))

    def combine(self, function: Callable[..., Any], *names: str, name: str = "combined") -> Estimate:
        """f(estimate of the first name, …) by the delta method, with a numerical gradient.

        Scalar targets of a run without trials. Example: ``combine(lambda a, b: a / b, "mean:x", "mean:y")``.
        """
        check_function(function, "combine's first argument")
        text(name, "name")
        chosen = [self._index(n) for n in names]
        parts = [self._estimates[i] for i in chosen]
        if any(np.ndim(part.value) for part in parts):
            raise InputError("combine takes scalar targets of a run without trials")
        x = np.array([float(part.value) for part in parts])
        scale = np.array(
            [max(float(part.standard_error), 1e-8 * max(1.0, abs(v))) for part, v in zip(parts, x, strict=True)]
        )
        step = 1e-3 * np.where(np.isfinite(scale), scale, np.maximum(1.0, np.abs(x)))
        unit = np.diag(step)

        def value(at: FloatArray) -> float:
            try:
                found = real(as_array(function(*at), "the function's value").item())
            except InputError:
                raise
            except Exception as error:
                raise InputError(f"the function failed on {', '.join(names)}: {in_words(error)}") from error
            return math.nan if found is None else found

        gradient = np.array([(value(x + h) - value(x - h)) / (2 * h.sum()) for h in unit])
        rows = [self._slices[i].start for i in chosen]
        variance = float(gradient @ self.covariance[np.ix_(rows, rows)] @ gradient)
        return Estimate(
            name=name,
            value=value(x),
            standard_error=math.sqrt(max(variance, 0.0)),
            df=min(float(part.df) for part in parts),
            simulations=parts[0].simulations,
            accepted=parts[0].accepted,
            trusted=all(bool(part.trusted) for part in parts),
            warnings=tuple(dict.fromkeys(text for part in parts for text in part.warnings)),
            about=parts[0].about,
        )

    @property
    def numbers(self) -> int:
        """How many numbers are estimated: the components of all of them."""
        return sum(int(np.size(estimate.value)) for estimate in self._estimates)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Which of the numbers, and of the rows of the covariance, belong to each estimate."""
        return self._slices

    def compared(self, comparison: Callable[[int], Comparison]) -> Estimates:
        """The same estimates, each with what computes its difference from the posterior, by position."""
        found = [replace(estimate, comparison=comparison(place)) for place, estimate in enumerate(self._estimates)]
        return Estimates(found, self.covariance, self._slices)

    def difference(self, first: str, second: str) -> Estimate:
        return self.combine(
            lambda a, b: a - b, first, second, name=f"{text(first, 'first')} - {text(second, 'second')}"
        )

    def ratio(self, first: str, second: str) -> Estimate:
        return self.combine(
            lambda a, b: a / b, first, second, name=f"{text(first, 'first')} / {text(second, 'second')}"
        )

    def __str__(self) -> str:
        names = [clean(estimate.name) for estimate in self._estimates]
        width = max(map(len, names), default=0)
        lines = [f"{name:<{width}}  {estimate}" for name, estimate in zip(names, self._estimates, strict=True)]
        warnings = dict.fromkeys(clean(text) for estimate in self._estimates for text in estimate.warnings)
        return "\n".join([*lines, *(f"warning: {text}" for text in warnings)])

    def __repr__(self) -> str:
        return f"Estimates({brief(self._estimates)})"


def brief(estimates: Sequence[Estimate]) -> str:
    """The first few in a line."""
    shown = [f"{clean(estimate.name)}: {estimate}" for estimate in estimates[:MOST_BRIEF]]
    more = [f"and {len(estimates) - MOST_BRIEF} more"] if len(estimates) > MOST_BRIEF else []
    return ", ".join([*shown, *more])


def whole(value: Any) -> Any:
    """A count as JSON values: a whole number as such, that of a kernel's fractions as it is."""
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """The errors of m numbers at once, before they are given names.

    ``covariance`` (..., m, m), ``df`` (..., m), and reasons for distrust: pairs of a mask (..., m) and a text.
    """

    covariance: FloatArray
    df: FloatArray
    doubts: tuple[tuple[BoolArray, str], ...] = ()
    bias: FloatArray | None = None
    """The standard deviations (..., m) of the bias that the covariance includes; None where it includes none."""

    @property
    def standard_error(self) -> npt.NDArray[np.float64]:
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    def rescaled(self, place: int, standard_error: float, df: float) -> ErrorBars:
        """With another standard error of one of the numbers, and the same correlations where it is finite."""
        covariance, freedom = self.covariance.copy(), self.df.copy()
        bias = None if self.bias is None else self.bias.copy()
        before = math.sqrt(covariance[place, place])
        if before > 0 and standard_error < math.inf:
            covariance[place] *= standard_error / before
            covariance[:, place] *= standard_error / before
            if bias is not None:
                bias[place] *= standard_error / before
        covariance[place, place] = standard_error**2
        freedom[place] = df
        return ErrorBars(covariance, freedom, self.doubts, bias)
