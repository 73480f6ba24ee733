"""A prior restricted to where a condition holds: p(θ) 1{θ ∈ R}/P(R).

Three kinds, of which the first that fits is used:

- finitely many values: those that meet the condition, with their probabilities over P(R);
- an order of independent parameters, ``"a < b < c"``: exact in the unit cube, see `fbar.question.priors.orders`;
- any other condition: draws by rejection. A point u of the unit cube whose θ meets the condition keeps it. Any other is
  replaced by the first point of a stream of random points, decided by the bits of u alone, whose θ meets it. Both parts
  have the restricted distribution, and so has their mixture: θ is a function of u, and exactly distributed. It is not a
  smooth one, so that estimates at the data do not move the parameters of such a prior, and strata help less.

In posterior expectations P(R) cancels, where all simulations are drawn from the prior, or by a method of fbar from a
design of one kind. It is needed where densities of several kinds are added up, and is there known to about 10⁻³.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, as_array
from fbar.checks import function as check_function
from fbar.checks import in_words, number, shown
from fbar.errors import InputError
from fbar.question.expressions import Expression
from fbar.question.points import Points, require_points
from fbar.question.priors.base import Distribution, as_unit, draws, evenly_spread
from fbar.question.priors.finite import Finite
from fbar.question.priors.independent import Prior
from fbar.question.priors.marginals import Marginal, Truncated, as_marginal
from fbar.question.priors.orders import in_order
from fbar.question.priors.structures import Structure, Structured, structure

Condition = Callable[[Points], npt.ArrayLike]
"""True or false for every row of a batch of θ."""

RAREST = 1e-3
"""The least P(R) that is drawn from by rejection: a thousand draws for one."""

COUNTED = 1 << 16
"""Points of the cube in which P(R) is counted."""

MOST_DRAWS = 100_000
"""Draws for one θ, at most: with P(R) > 10⁻³ fewer suffice but for one in 10⁴⁰."""

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): bits that look random, from bits that do not."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))


def _keys(unit: FloatArray) -> npt.NDArray[np.uint64]:
    """A key for every row, from the bits of its coordinates."""
    bits = np.ascontiguousarray(unit).view(np.uint64)
    key = np.zeros(len(unit), dtype=np.uint64)
    for column in bits.T:
        key = _mixed(key + _GOLDEN + column)
    return key


def _stream(keys: npt.NDArray[np.uint64], attempt: int, dimension: int) -> FloatArray:
    """The points of the unit cube that rows with these keys try next, shape (n, dimension)."""
    places = np.arange(1, dimension + 1, dtype=np.uint64) + np.uint64(attempt * dimension)
    words = _mixed(keys[:, None] + places * _GOLDEN)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


class Restricted(Structured):
    """Any prior where a condition holds; see the module."""

    def __init__(self, base: Distribution, where: Condition | str) -> None:
        self.base, self.where = base, where
        if not isinstance(where, str):
            check_function(where, "where")
        self._holds: Condition = Expression(where) if isinstance(where, str) else where
        self._probability = self._counted()
        if not self.probability > RAREST:
            raise InputError(
                f"{_words(where)} holds in {self.probability:.2g} of the draws from {shown(base)}, too rarely to draw "
                "by rejection; give a prior that lies closer to it"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return self.base.names

    @property
    def dimension(self) -> int:
        return self.base.dimension

    def __repr__(self) -> str:
        where = self.where if isinstance(self.where, str) else "a condition holds"
        return f"{self.base!r} where {where}"

    @property
    def structure(self) -> Structure:
        known = structure(self.base)
        return Structure(continuous=known.continuous, determined=known.determined)

    @property
    def probability(self) -> float:
        """P(R)."""
        return self._probability

    def _counted(self) -> float:
        """P(R) by evenly spread points of the cube."""
        return float(self.holds(self.base.from_unit(evenly_spread(COUNTED, self.dimension))).mean())

    def holds(self, points: Points) -> BoolArray:
        """Where the condition holds."""
        try:
            found = as_array(self._holds(points), "where")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{_words(self.where)} cannot be evaluated: {in_words(error)}") from error
        if found.dtype != np.bool_ or found.shape not in ((), (points.rows,)):
            raise InputError(
                f"where must be true or false for each of {points.rows} rows, as in "
                f"lambda t: t[{self.names[0]!r}] > 0; it returns {found.dtype} of shape {found.shape}"
            )
        return np.broadcast_to(found, (points.rows,))

    def sample(self, size: int, *, rng: np.random.Generator) -> Points:
        return self.from_unit(draws(size, self.dimension, rng))

    def from_unit(self, unit: npt.ArrayLike) -> Points:
        u = as_unit(unit, self.dimension)
        points = self.base.from_unit(u)
        left = np.flatnonzero(~self.holds(points))
        if not left.size:
            return Points(dict(points), points.derived)
        keys, inside, attempt = _keys(u[left]), np.array(u), 0
        while left.size:
            tried = _stream(keys, attempt, self.dimension)
            met = self.holds(self.base.from_unit(tried))
            inside[left[met]] = tried[met]
            left, keys, attempt = left[~met], keys[~met], attempt + 1
            if attempt > MOST_DRAWS:
                raise InputError(f"{_words(self.where)} did not hold in {MOST_DRAWS:,} draws in a row")
        points = self.base.from_unit(inside)
        return Points(dict(points), points.derived)

    def to_unit(self, points: Points) -> FloatArray:
        raise InputError("a prior that is restricted by a condition has no coordinates in the unit cube")

    def logpdf(self, points: Points) -> FloatArray:
        require_points(points, needed=self.names)
        own = Points({name: points[name] for name in self.names}, structure(self.base).determined)
        found: FloatArray = np.array(self.base.logpdf(own)) - np.log(self.probability)
        some = np.flatnonzero(found > -np.inf)  # conditions need not be defined outside
        found[some[~self.holds(own.take(some))]] = -np.inf
        return found


def _words(where: Condition | str) -> str:
    return f"the condition {where!r:.200}" if isinstance(where, str) else "the condition"


def _order(where: Condition | str) -> list[str]:
    """The parameters of a chain such as "a < b <= c" or "c > b" in rising order; empty for any other condition."""
    if not isinstance(where, str):
        return []
    try:
        tree = ast.parse(where.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the expression refuses it, and says why
    if not isinstance(tree, ast.Compare):
        return []
    names = [part.id for part in (tree.left, *tree.comparators) if isinstance(part, ast.Name)]
    if len(names) <= len(tree.ops) or len(set(names)) < len(names):
        return []
    if all(isinstance(op, ast.Lt | ast.LtE) for op in tree.ops):
        return names
    return names[::-1] if all(isinstance(op, ast.Gt | ast.GtE) for op in tree.ops) else []


def _restricted(prior: Distribution, where: Condition | str) -> Distribution:
    known = structure(prior)
    if known.models is not None:
        raise InputError("a choice of models cannot be restricted as a whole; restrict the priors of its models")
    if known.fitted_to_sample:
        raise InputError("the posterior of an earlier run cannot be restricted; restrict the prior of that run")
    if known.values is not None:
        return _some_values(known.values, where)
    order = _order(where)
    if isinstance(prior, Prior) and order and all(name in known.marginals for name in order):
        marginals = {name: known.marginals[name] for name in order}
        if not any(marginal.discrete for marginal in marginals.values()):
            others = {name: marginal for name, marginal in prior.marginals.items() if name not in marginals}
            return Prior(in_order(marginals), others, known.determined)
    return Restricted(prior, where)


def _some_values(prior: Finite, where: Condition | str) -> Finite:
    condition = Expression(where) if isinstance(where, str) else where
    kept = np.flatnonzero(np.broadcast_to(as_array(condition(prior.points), "where"), (prior.size,)))
    share = prior.probabilities[kept].sum()
    if not share > 0:
        raise InputError(f"{_words(where)} holds for none of the {prior.size} values of the prior")
    points = prior.points.take(kept)
    return Finite(dict(points), probabilities=prior.probabilities[kept] / share)


@overload
def truncate(given: Distribution, *, where: Condition | str) -> Distribution: ...
@overload
def truncate(given: Any, low: float = ..., high: float = ...) -> Marginal: ...
def truncate(
    given: Any, low: float = -np.inf, high: float = np.inf, *, where: Condition | str | None = None
) -> Distribution | Marginal:
    """A continuous distribution restricted to an interval, or a prior restricted to where a condition holds.

    Parameters
    ----------
    given
        A distribution of one parameter, such as ``stats.norm(0, 1)``; or a whole prior, such as `Prior`.
    low, high
        The interval, for a distribution of one parameter.
    where
        The condition, for a prior: text such as ``"a < b"``, or a function of a batch that is true or false in each
        row. An order of independent parameters (``"a < b < c"``) and conditions on a finite prior are exact. Other
        conditions must hold in more than one of a thousand draws from the prior: θ is drawn by rejection, which costs
        no simulations.

    Examples
    --------
    >>> from scipy import stats
    >>> truncate(stats.norm(0, 1), low=0).support
    (0.0, inf)
    >>> from fbar import Prior
    >>> prior = truncate(Prior(a=stats.uniform(0, 1), b=stats.uniform(0, 1)), where="a + b < 1")
    >>> points = prior.sample(1000, rng=np.random.default_rng(1))
    >>> bool((points["a"] + points["b"] < 1).all())
    True
    """
    if isinstance(given, Distribution):
        if where is None or low != -np.inf or high != np.inf:
            raise InputError(f"to restrict {shown(given)}, give a condition: truncate(prior, where='a < b')")
        return _restricted(given, where)
    if where is not None:
        raise InputError(
            "where= is for a whole prior, as in truncate(Prior(a=..., b=...), where='a < b'); give an interval as low= "
            "and high="
        )
    if not number(low, "low") < number(high, "high"):
        raise InputError(f"truncation needs low < high; got {shown(low)} and {shown(high)}")
    base: Marginal = as_marginal(given, "truncated")
    if base.discrete:
        raise InputError("truncate takes a continuous distribution; for a discrete one leave values out")
    return Truncated(base, float(low), float(high))
