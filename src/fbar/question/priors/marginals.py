"""Distributions of one parameter, in one form: scipy's old and new ones, categories, truncations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, as_array, distribution, floats, without_mask
from fbar.checks import in_words, shown
from fbar.errors import InputError


@runtime_checkable
class Marginal(Protocol):
    """A distribution of one parameter. ``discrete`` ones have probabilities where others have a density."""

    discrete: bool

    @property
    def support(self) -> tuple[float, float]: ...

    def ppf(self, u: FloatArray) -> npt.NDArray[Any]: ...

    def cdf(self, x: npt.NDArray[Any]) -> FloatArray: ...

    def logpdf(self, x: npt.NDArray[Any]) -> FloatArray: ...


@runtime_checkable
class Stepped(Marginal, Protocol):
    """A marginal that knows where its values, if it is discrete, meet in the unit interval."""

    def borders(self) -> FloatArray: ...


def borders(marginal: Marginal | None) -> FloatArray | None:
    """Where the values of a discrete marginal meet in the unit interval; None of others, and where it is not known."""
    return marginal.borders() if isinstance(marginal, Stepped) and marginal.discrete else None


class Uniform:
    """Uniform on [low, high], with nothing between the caller and numpy."""

    discrete = False

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = float(low), float(high)
        self._log = -np.log(self.high - self.low)

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def ppf(self, u: FloatArray) -> FloatArray:
        return self.low + (self.high - self.low) * u

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def logpdf(self, x: FloatArray) -> FloatArray:
        return np.where((x >= self.low) & (x <= self.high), self._log, -np.inf)


def quantile_function(given: Any) -> Callable[[FloatArray], Any] | None:
    """``ppf`` of scipy's frozen distributions, ``icdf`` of its new-style ones; None of what has neither."""
    found: Callable[[FloatArray], Any] | None = getattr(given, "ppf", None) or getattr(given, "icdf", None)
    return found


class Scipy:
    """A distribution of scipy.stats: frozen (``stats.gamma(2)``) or new-style (``stats.Normal()``)."""

    def __init__(self, given: Any) -> None:
        self.given = given
        quantiles = quantile_function(given)
        assert quantiles is not None
        self._ppf = quantiles
        if hasattr(given, "icdf"):  # a new-style discrete distribution has an infinite "density" at its values
            self.discrete = bool(np.isposinf(given.logpdf(given.icdf(0.5))))
        else:
            self.discrete = not hasattr(getattr(given, "dist", given), "pdf")
        self._log = given.logpmf if self.discrete else given.logpdf

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.given.support()
        return float(low), float(high)

    def ppf(self, u: FloatArray) -> npt.NDArray[Any]:
        values = np.asarray(self._ppf(u), dtype=np.float64)
        return values.astype(np.int64) if self.discrete and (values == np.rint(values)).all() else values

    def cdf(self, x: FloatArray) -> FloatArray:
        """The distribution function; for a discrete one the middle of each value's share, as for `Categorical`."""
        below = np.asarray(self.given.cdf(x), dtype=np.float64)
        return below - np.exp(self._log(x)) / 2 if self.discrete else below

    def borders(self) -> FloatArray:
        """Where a discrete distribution's values meet in the unit interval."""
        low, high = self._ppf(np.array([1e-9, 1 - 1e-9]))
        return np.unique(np.asarray(self.given.cdf(np.arange(low, min(high, low + 2000) + 1)), dtype=np.float64))

    def logpdf(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(self._log(x), dtype=np.float64)


class Categorical:
    """A parameter with finitely many values, numbers or labels; equally probable by default.

    >>> Categorical(["seir", "sir"], [0.25, 0.75]).ppf(np.array([0.1, 0.9])).tolist()
    ['seir', 'sir']
    """

    discrete = True

    def __init__(self, values: npt.ArrayLike, probabilities: npt.ArrayLike | None = None) -> None:
        self.values = np.atleast_1d(np.array(without_mask(values, "the values of a categorical parameter")))
        labels = self.values.dtype == object and all(value is None or isinstance(value, str) for value in self.values)
        if self.values.ndim > 1 or not (labels or self.values.dtype.kind in "biufU"):
            raise InputError(f"the values of a categorical parameter must be numbers or labels; got {shown(values)}")
        if self.values.dtype.kind == "f" and not np.isfinite(self.values).all():
            raise InputError(f"the values of a categorical parameter must be finite; got {shown(values)}")
        if self.values.size == 0:
            raise InputError("a categorical parameter needs at least one value")
        if len(set(self.values.tolist())) < self.values.size:
            raise InputError(f"the values of a categorical parameter must differ; got {shown(self.values.tolist())}")
        k = self.values.size
        self.probabilities = np.full(k, 1 / k) if probabilities is None else distribution(probabilities, k)
        self._cumulative = np.cumsum(self.probabilities)
        for array in (self.values, self.probabilities):
            array.flags.writeable = False

    @property
    def support(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def borders(self) -> FloatArray:
        """Where the values meet in the unit interval."""
        return self._cumulative[:-1]

    def index(self, x: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        same = np.atleast_1d(as_array(x, "values"))
        if same.ndim > 1 or same.dtype.kind == "V":
            raise InputError(f"values must be a flat list of numbers or labels; got {shown(x)}")
        same = same[:, None] == self.values[None, :]
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def ppf(self, u: FloatArray) -> npt.NDArray[Any]:
        row = np.searchsorted(self._cumulative, floats(u, "unit coordinates") * self._cumulative[-1], side="right")
        return np.asarray(self.values[np.minimum(row, self.values.size - 1)])

    def cdf(self, x: npt.NDArray[Any]) -> FloatArray:
        """The middle of each value's share, so that ``ppf`` leads back to it."""
        row = self.index(x)
        return np.where(row >= 0, self._cumulative[row] - self.probabilities[row] / 2, np.nan)

    def logpdf(self, x: npt.NDArray[Any]) -> FloatArray:
        row = self.index(x)
        with np.errstate(divide="ignore"):
            return np.where(row >= 0, np.log(self.probabilities)[row], -np.inf)


class Truncated:
    """A continuous marginal restricted to [low, high], through its distribution function."""

    discrete = False

    def __init__(self, base: Marginal, low: float, high: float) -> None:
        self.base, self.low, self.high = base, float(low), float(high)
        ends = base.cdf(np.array([self.low, self.high]))
        self._from, self._mass = float(ends[0]), float(ends[1] - ends[0])
        if not self._mass > 1e-12:
            raise InputError(f"truncation to [{low:g}, {high:g}] leaves no mass; choose an interval inside the support")

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.base.support
        return max(low, self.low), min(high, self.high)

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.clip(self.base.ppf(self._from + self._mass * u), self.low, self.high))

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.clip((self.base.cdf(x) - self._from) / self._mass, 0.0, 1.0))

    def logpdf(self, x: FloatArray) -> FloatArray:
        inside = (x >= self.low) & (x <= self.high)
        return np.where(inside, self.base.logpdf(x) - np.log(self._mass), -np.inf)


class Tilted:
    """A marginal times a factor: its unit coordinate has the given density on [0, 1].

    Whatever tails or singularities the marginal has, its unit coordinate has none.
    """

    discrete = False

    def __init__(self, base: Marginal, unit: Any) -> None:
        self.base, self.unit = base, unit

    @property
    def support(self) -> tuple[float, float]:
        return self.base.support

    @property
    def nodes(self) -> FloatArray:
        """Quadrature nodes; ``weights`` integrate a function under this distribution."""
        return np.asarray(self.base.ppf(self.unit.nodes))

    @property
    def weights(self) -> FloatArray:
        return np.asarray(self.unit.weights)

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.base.ppf(self.unit.ppf(u)))

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.unit.cdf(self.base.cdf(x)))

    def logpdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.base.logpdf(x) + self.unit.logpdf(self.base.cdf(x)))


def as_marginal(given: Any, name: str) -> Marginal:
    """A user's distribution of one parameter in our form, refused if it is not a proper one."""
    if isinstance(given, Marginal):
        if not type(given).__module__.startswith("fbar."):
            _require_one_distribution(given, name)
        return given
    if isinstance(given, Mapping):
        raise InputError(
            f"parameter {shown(name)} is given distributions that have names: {shown(list(given))}; give them without "
            "another name, as in Prior(dirichlet(susceptible=1, infected=1))"
        )
    if type(given).__module__ == "scipy.stats._multivariate":
        raise InputError(
            f"parameter {shown(name)} needs a distribution of one number; got {type(given).__name__}, of several; for "
            "shares that add up to 1 write Prior(dirichlet(susceptible=1, infected=1)), for others see "
            "fbar.UnitTransform"
        )
    has_density = hasattr(given, "logpdf") or hasattr(given, "logpmf")
    if not has_density or quantile_function(given) is None:
        raise InputError(
            f"parameter {shown(name)} needs a distribution, such as scipy.stats.uniform(0, 1) or "
            f"fbar.Categorical(...); got {shown(given)}"
        )
    if isinstance(given, type) or (hasattr(given, "freeze") and not hasattr(given, "args")):
        raise InputError(
            f"parameter {shown(name)} needs a frozen distribution, such as stats.norm(0, 1); got {shown(given)}"
        )
    marginal: Marginal = Scipy(given)
    with np.errstate(all="ignore"):
        try:
            middle = marginal.ppf(np.array([0.1, 0.5, 0.9]))
            mass = np.asarray(given.cdf(np.array(marginal.support)), dtype=np.float64)
        except Exception as error:  # it is the user's, and may raise anything
            raise InputError(f"the distribution of {shown(name)} cannot be used: {in_words(error)}") from None
    proper = np.isfinite(middle).all() and (np.diff(middle) >= 0).all() and np.isclose(mass[1], 1.0, atol=1e-6)
    if not proper:
        raise InputError(f"the distribution of {shown(name)} is improper or has no mass: {_improper(given)}")
    known = type(getattr(given, "dist", given)).__module__
    if not known.startswith("scipy."):  # written by the user
        _require_one_distribution(marginal, name)
    if getattr(getattr(given, "dist", None), "name", None) == "uniform":
        return Uniform(*marginal.support)
    return marginal


def _improper(given: Any) -> str:
    """A distribution as it was written, as far as that is known, and what is to be checked."""
    dist, args, named = getattr(given, "dist", None), getattr(given, "args", ()), getattr(given, "kwds", {})
    name = getattr(dist, "name", None)
    if name is None:
        return f"{shown(given)}; check its parameters"
    values = ", ".join([*map(shown, args), *(f"{key}={shown(value)}" for key, value in named.items())])
    written = f"{name}({values})"
    if name == "uniform":
        return f"{written}; write uniform(low, width), with a width above 0, for values from low to low + width"
    return f"{written}; check its parameters (scale= must be above 0)"


def _require_one_distribution(marginal: Marginal, name: str) -> None:
    """Refuse a user's continuous distribution whose density is not that of its distribution function.

    Draws come by the one, weights by the other: the answer would be that of neither. The mass of small intervals around
    nine quantiles is compared with density times width, to 5%; kinks spoil a few of them, so most must disagree.
    """
    if marginal.discrete:
        return
    with np.errstate(all="ignore"):
        x = np.asarray(marginal.ppf(np.linspace(0.1, 0.9, 9)), dtype=np.float64)
        half = 5e-4 * (x[-1] - x[0])
        mass = np.asarray(marginal.cdf(x + half)) - np.asarray(marginal.cdf(x - half))
        wrong = ~(np.abs(np.exp(marginal.logpdf(x)) * 2 * half / mass - 1) < 0.05)
        high = marginal.support[1]
        far = np.array([0.5, 0.9, 0.99, 0.999])
        most = x[-1] + far * ((high if np.isfinite(high) else x[-1] + 100 * (x[-1] - x[0])) - x[-1])
        over = np.asarray(marginal.cdf(most)) > 1 + 1e-6
    if wrong.sum() > 4 or over.any():
        what = "its distribution function exceeds 1" if over.any() else "its density is not that of its ppf and cdf"
        raise InputError(
            f"the distribution of {shown(name)} contradicts itself: {what}; the density must be normalised "
            "and belong to the same distribution"
        )
