"""Priors of named parameters, and priors given as a transform of the unit cube."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, floats, without_mask
from fbar.checks import function as check_function
from fbar.checks import in_words, require_name, shown, texts, whole_number
from fbar.errors import InputError
from fbar.question.points import Points, require_points
from fbar.question.priors.base import as_unit, draws
from fbar.question.priors.marginals import Marginal, as_marginal, quantile_function
from fbar.question.priors.structures import Constrained, Determined, Structure, Structured

MOST_DIMENSIONS = 100_000
"""Of the unit cube that a distribution is made from."""


class Prior(Structured):
    """Named parameters, each with its distribution; independent, unless one is given as a function of others.

    A distribution is one of scipy.stats, frozen or new-style, `Categorical`, `truncate`, or a function of the preceding
    parameters that returns one: a dependent prior, written in the order of sampling. Groups of parameters come first:
    ``Prior(dirichlet(a=1, b=1), ordered(...), rate=...)``. For a condition on several, see `truncate`.

    >>> from scipy import stats
    >>> prior = Prior(beta=stats.uniform(0, 2), gamma=lambda t: stats.uniform(0, t["beta"]))
    >>> points = prior.from_unit([[0.5, 0.5]])
    >>> float(points["beta"][0]), float(points["gamma"][0]), float(np.exp(prior.logpdf(points))[0])
    (1.0, 0.5, 0.5)
    """

    def __init__(self, *groups: Mapping[str, Any] | None, **named: Any) -> None:
        given: dict[str, Any] = {}
        for group in (*groups, named):
            if not isinstance(group, Mapping | None):
                raise InputError(
                    "every parameter needs a name, as in Prior(beta=scipy.stats.uniform(0, 1)) or "
                    f"Prior({{'beta': ...}}); got {type(group).__name__} without one"
                )
            if twice := given.keys() & set(group or {}):
                raise InputError(f"parameter {shown(min(twice))} is given twice; give it one distribution")
            given.update(group or {})
        if not given:
            raise InputError("a prior needs named parameters, such as Prior(beta=scipy.stats.uniform(0, 1))")
        self.marginals: dict[str, Marginal | Callable[[Points], Any]] = {}
        self._independent: dict[str, Marginal] = {}
        self._conditional: dict[str, Callable[[Points], Any]] = {}
        self._determined: dict[str, Determined] = {}
        for name, marginal in given.items():
            require_name(name)
            if isinstance(marginal, Determined):
                self._determined[name] = marginal
                continue
            conditional = callable(marginal) and not isinstance(marginal, Marginal) and not hasattr(marginal, "dist")
            if conditional and not isinstance(marginal, type) and not hasattr(marginal, "ppf"):
                if not self.marginals:
                    raise InputError(
                        f"the first parameter, {shown(name)}, cannot depend on others; give its distribution"
                    )
                self.marginals[name] = self._conditional[name] = marginal
            else:
                self.marginals[name] = self._independent[name] = as_marginal(marginal, name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.marginals)

    @property
    def dimension(self) -> int:
        return len(self.marginals)

    def __repr__(self) -> str:
        names = [*self.names, *self._determined]
        parts = {**self.marginals, **self._determined}
        rules = [part.constraint.replace("{}", name) for name, part in parts.items() if isinstance(part, Constrained)]
        return f"Prior({', '.join(names)}{''.join(f'; {rule}' for rule in rules)})"

    @property
    def structure(self) -> Structure:
        continuous = not any(marginal.discrete for marginal in self._independent.values())
        return Structure(
            marginals=self._independent,
            coordinates=self.names,
            continuous=continuous,
            determined=self._determined,
        )

    def _marginal(self, name: str, earlier: Mapping[str, Any]) -> Marginal:
        if name in self._independent:
            return self._independent[name]
        try:
            given = self._conditional[name](Points(earlier))
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the function for {shown(name)} failed: {in_words(error)}") from error
        return given if isinstance(given, Marginal) else _Row(given, name)

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self.dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self.dimension)
        columns: dict[str, Any] = {}
        for index, name in enumerate(self.marginals):
            columns[name] = self._marginal(name, columns).ppf(u[:, index])
        return Points(columns, self._determined, unit=u, owner=self)

    def to_unit(self, points: Points) -> FloatArray:
        require_points(points, needed=self.names)
        if points.unit is not None and points.owner is self:
            return points.unit
        columns = {name: points[name] for name in self.names}
        earlier: dict[str, Any] = {}
        result = np.empty((points.rows, self.dimension))
        for index, name in enumerate(self.marginals):
            result[:, index] = self._marginal(name, earlier).cdf(columns[name])
            earlier[name] = columns[name]
        return result

    def logpdf(self, points: Points) -> FloatArray:
        require_points(points, needed=self.names)
        earlier: dict[str, Any] = {}
        total = np.zeros(points.rows)
        for name in self.marginals:
            column = points[name]
            total = total + self._marginal(name, earlier).logpdf(column)
            earlier[name] = column
        return total


class _Row:
    """A conditional distribution whose parameters differ from row to row; scipy broadcasts them."""

    discrete = False
    support = (-np.inf, np.inf)

    def __init__(self, given: Any, name: str) -> None:
        quantiles = quantile_function(given)
        if not hasattr(given, "logpdf") or quantiles is None:
            raise InputError(
                f"the function for {shown(name)} must return a distribution such as scipy.stats.norm(...); "
                f"got {type(given).__name__}"
            )
        self._given, self._name, self._quantiles = given, name, quantiles

    def _checked(self, values: Any) -> FloatArray:
        result = floats(values, f"the conditional distribution of {shown(self._name)}")
        if np.isnan(result).any():
            raise InputError(
                f"the conditional distribution of {shown(self._name)} is improper for some earlier parameters"
            )
        return result

    def ppf(self, u: FloatArray) -> FloatArray:
        return self._checked(self._quantiles(u))

    def cdf(self, x: FloatArray) -> FloatArray:
        return self._checked(self._given.cdf(x))

    def logpdf(self, x: FloatArray) -> FloatArray:
        """−∞ where the earlier parameters leave the distribution undefined: the prior has no mass there."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.asarray(self._given.logpdf(x), dtype=np.float64), nan=-np.inf, posinf=np.inf)


class UnitTransform(Structured):
    """A prior given by how it is sampled: a function from the unit cube to the parameters.

    Parameters
    ----------
    function
        Takes coordinates (n, dimension) and gives a mapping of n values for each parameter.
    names, dimension
        The parameters, and how many coordinates the function takes (as many as parameters by default).
    logpdf
        The log density of a batch, if there is a formula. Without it, θ can be drawn from designs built on the unit
        cube, but not from your own distribution of θ.
    """

    def __init__(
        self,
        function: Callable[[FloatArray], Mapping[str, npt.ArrayLike]],
        names: Sequence[str],
        *,
        dimension: int | None = None,
        logpdf: Callable[[Points], npt.ArrayLike] | None = None,
    ) -> None:
        check_function(function, "a transform")
        self._function = function
        self._names = texts(names, "names", "['beta', 'gamma']")
        if not self._names or len(set(self._names)) < len(self._names):
            raise InputError(f"names must list at least one parameter, each once; got {shown(names)}")
        if logpdf is not None:
            check_function(logpdf, "logpdf")
        wanted = len(self._names) if dimension is None else dimension
        self._dimension = whole_number(wanted, "dimension", 1, MOST_DIMENSIONS)
        self._logpdf = logpdf
        trial = self.from_unit(np.full((2, self._dimension), 0.5))
        if set(trial) != set(self._names):
            raise InputError(f"the transform returns {sorted(trial)}; its names are {sorted(self._names)}")
        if logpdf is not None:
            self._require_own_density()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def dimension(self) -> int:
        return self._dimension

    def __repr__(self) -> str:
        return f"UnitTransform({', '.join(self._names)})"

    @property
    def structure(self) -> Structure:
        return Structure(continuous=True)

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self._dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self._dimension)
        # Its own coordinates to write into, and copies of what it gives: it may fill the same arrays again.
        try:
            made = self._function(u.copy())
        except Exception as error:
            raise InputError(f"the transform failed: {in_words(error)}") from error
        if not isinstance(made, Mapping):
            raise InputError(
                f"the transform must return a mapping, such as {{'beta': u[:, 0]}}; it returns {shown(made)}"
            )
        columns = {name: np.array(without_mask(v, f"the transform's {shown(name)}")) for name, v in made.items()}
        for name, column in columns.items():
            if column.shape != (len(u),):
                raise InputError(f"the transform returns {shown(name)} of shape {column.shape} for {len(u)} rows")
            if column.dtype.kind == "f" and np.isnan(column).any():
                raise InputError(f"the transform returns {shown(name)} values that are not numbers")
        return Points(columns, unit=u, owner=self)

    def to_unit(self, points: Points) -> FloatArray:
        require_points(points)
        if points.unit is None or points.owner is not self:
            raise InputError("a transform of the unit cube cannot be inverted; keep the points it made")
        return points.unit

    def _require_own_density(self) -> None:
        """Refuse a density that is not that of the transform: with p = 1/|det ∂θ/∂u|, draws and weights agree.

        By differences at 64 points, where all parameters are continuous and as many as coordinates. Kinks spoil some of
        them, so the median decides: a factor of up to 1.05 passes.
        """
        d = self._dimension
        if d != len(self._names):
            return
        u = np.random.default_rng(0).uniform(0.01, 0.99, (64, d))
        points = self.from_unit(u)
        if any(points[name].dtype.kind != "f" for name in self._names):
            return
        jacobian = np.empty((len(u), d, d))
        for j in range(d):
            step = np.zeros(d)
            step[j] = 1e-6
            above, below = self.from_unit(u + step), self.from_unit(u - step)
            for i, name in enumerate(self._names):
                jacobian[:, i, j] = (above[name] - below[name]) / 2e-6
        with np.errstate(all="ignore"):
            expected = -np.linalg.slogdet(jacobian)[1]
            off = np.abs(self.logpdf(points) - expected)
        known = np.nan_to_num(off[np.isfinite(expected)], nan=np.inf)
        median = float(np.median(known)) if known.size > len(u) // 2 else 0.0
        if median > np.log(1.05):
            raise InputError(
                "logpdf is not the density of the transform: at half of the points they differ by a factor of "
                f"{np.exp(min(median, 50.0)):.3g} or more; it must be the normalised density of the transform's θ"
            )

    def logpdf(self, points: Points) -> FloatArray:
        if self._logpdf is None:
            raise InputError("this prior has no density; give the transform a logpdf=")
        require_points(points, needed=self._names)
        try:
            found = floats(self._logpdf(points), "logpdf's values")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"logpdf failed: {in_words(error)}") from error
        if found.shape not in ((), (points.rows,)):
            raise InputError(f"logpdf must return one number for each of {points.rows} rows; it returns {found.shape}")
        return np.broadcast_to(found, (points.rows,))
