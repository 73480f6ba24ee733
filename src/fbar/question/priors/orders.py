"""Parameters in rising order, x₁ < x₂ < … < x_k, each with its own distribution otherwise: exact in the unit cube.

The joint density is Π f_j(x_j)/P on the ordered set, P = P(x₁ < … < x_k). With

    h_j(x) = P(x < x_{j+1} < … < x_k),   h_k = 1,

the parameter x_j given those before it has a density ∝ f_j h_j above x_{j−1}: only the bound depends on them. In the
coordinate u = F_j(x) the factor h_j is the density of a distribution G_j on [0, 1], of mass M_j = ∫ h_j(F_j⁻¹(u)) du,
and h_{j−1}(x) = M_j (1 − G_j(F_j(x))), so that the factors follow one another from the last to the first, and P = M_1.
In the product of the conditional densities all but Π f_j/M_1 cancels.

Where the distributions from the j-th on are the same, x_j is the least of m = k − j + 1 draws: 1 − G_j(u) = (1 − u)^m.
Others are inverted numerically, to full precision (`fbar.question.priors.density`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import mapping, require_name, shown
from fbar.errors import InputError, ZeroDensity
from fbar.question.points import Points
from fbar.question.priors.density import Density
from fbar.question.priors.marginals import Marginal, Scipy, Uniform, as_marginal
from fbar.question.priors.structures import Constrained

TINY = 1e-300
RAREST = 1e-9
"""The least probability of the order that is taken: below it rounding decides."""


class Factor(Protocol):
    """G of a parameter: a distribution on [0, 1], and the mass of its factor h."""

    @property
    def mass(self) -> float: ...

    def ppf(self, u: FloatArray) -> FloatArray: ...

    def cdf(self, x: FloatArray) -> FloatArray: ...

    def logpdf(self, x: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Least:
    """The least of m = ``of`` independent numbers that are uniform on [0, 1]: h(u) = (1 − u)^(m−1)/(m − 1)!."""

    of: int

    @property
    def mass(self) -> float:
        return 1 / math.factorial(self.of)

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(np.log1p(-np.minimum(u, 1 - 2**-53)) / self.of))

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(1 - (1 - x) ** self.of)

    def logpdf(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.of) + (self.of - 1) * np.log1p(-x)) if self.of > 1 else np.zeros(np.shape(x))


@dataclass(frozen=True, eq=False)
class Chain:
    """The parameters in their order, with their distributions."""

    marginals: Mapping[str, Marginal]

    def __reduce__(self) -> tuple[Any, ...]:
        return Chain, (self.marginals,)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """G₁ … G_k, made from the last to the first."""
        listed = list(self.marginals.values())
        found: list[Factor] = [Least(1)]
        for j in range(len(listed) - 2, -1, -1):
            here, later = listed[j], listed[j + 1 :]
            if all(_alike(here, other) for other in later):
                found.append(Least(len(later) + 1))
                continue
            ends = np.array([end for other in later for end in other.support])
            with np.errstate(invalid="ignore"):
                breaks = here.cdf(ends[np.isfinite(ends)])
            try:
                found.append(Density(_Follows(here, later[0], found[-1]), 0.0, 1.0, breaks=breaks.tolist()))
            except ZeroDensity:
                raise self._never() from None
        return tuple(reversed(found))

    @property
    def probability(self) -> float:
        """P(x₁ < … < x_k) of independent parameters with these distributions."""
        return self.factors[0].mass

    def link(self, place: int, above: FloatArray | None = None) -> Link:
        """The distribution of a parameter given the one before it."""
        name, factor = list(self.marginals)[place], self.factors[place]
        return Link(self.marginals[name], factor, 0.0 if above is None else factor.cdf(self.marginals[name].cdf(above)))

    def _never(self) -> InputError:
        order = " < ".join(self.marginals)
        return InputError(
            f"{order} almost never holds under these distributions, so they cannot be restricted to it; check the "
            "order of the names, or choose distributions that overlap in this order"
        )

    def check(self) -> None:
        """Refuse distributions that are hardly ever in order."""
        if not self.probability > RAREST:
            raise self._never()


@dataclass(frozen=True, eq=False)
class Link:
    """``base`` times a factor, above a bound: G(u) in the coordinate u of the base, from ``start`` on."""

    base: Marginal
    factor: Factor
    start: Any

    discrete = False

    @property
    def support(self) -> tuple[float, float]:
        return self.base.support

    def ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.base.ppf(self.factor.ppf(np.minimum(self.start + (1 - self.start) * u, 1.0))))

    def cdf(self, x: FloatArray) -> FloatArray:
        left = np.maximum(1 - self.start, TINY)
        return np.asarray(np.clip((self.factor.cdf(self.base.cdf(x)) - self.start) / left, 0.0, 1.0))

    def logpdf(self, x: FloatArray) -> FloatArray:
        u = self.base.cdf(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = self.base.logpdf(x) + self.factor.logpdf(u) - np.log(1 - self.start)
        return np.where((self.factor.cdf(u) >= self.start) & ~np.isnan(log), log, -np.inf)


@dataclass(frozen=True, eq=False)
class First(Constrained):
    """The first parameter of a chain, which depends on no other."""

    chain: Chain

    discrete = False

    @property
    def constraint(self) -> str:
        return " < ".join(self.chain.marginals)

    @property
    def support(self) -> tuple[float, float]:
        return self._link.support

    @cached_property
    def _link(self) -> Link:
        return self.chain.link(0)

    def ppf(self, u: FloatArray) -> FloatArray:
        return self._link.ppf(u)

    def cdf(self, x: FloatArray) -> FloatArray:
        return self._link.cdf(x)

    def logpdf(self, x: FloatArray) -> FloatArray:
        return self._link.logpdf(x)


@dataclass(frozen=True, eq=False)
class Next:
    """A later parameter of a chain: a function of the one before it."""

    chain: Chain
    place: int

    def __call__(self, points: Points) -> Link:
        return self.chain.link(self.place, points[list(self.chain.marginals)[self.place - 1]])


@dataclass(frozen=True, eq=False)
class _Follows:
    """h of a parameter in its own coordinate: the probability that the next ones follow it in order."""

    here: Marginal
    later: Marginal
    factor: Factor

    def __call__(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.factor.mass * (1 - self.factor.cdf(self.later.cdf(self.here.ppf(u)))))


def _alike(first: Marginal, second: Marginal) -> bool:
    """Whether two distributions are known to be the same."""
    if first is second:
        return True
    if isinstance(first, Uniform) and isinstance(second, Uniform):
        return first.support == second.support
    if isinstance(first, Scipy) and isinstance(second, Scipy):
        return first.given is second.given
    return False


def ordered(distributions: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
    """Parameters that increase in the given order: a < b < c. Give it to `Prior`, with or without other parameters.

    The joint distribution is that of independent parameters, restricted to the order and normalised. It is fastest if
    all have the same distribution.

    >>> from scipy import stats
    >>> from fbar import Prior
    >>> knots = stats.uniform(0, 10)
    >>> prior = Prior(ordered(first=knots, second=knots), slope=stats.norm(0, 1))
    >>> points = prior.from_unit([[0.75, 0.5, 0.5]])
    >>> float(points["first"][0]), float(points["second"][0])
    (5.0, 7.5)
    """
    given = {**mapping(distributions or {}, "distributions", "{'a': scipy.stats.norm(0, 1)}"), **named}
    if len(given) < 2:
        raise InputError(f"an order needs two parameters or more, such as a=..., b=...; got {shown(list(given))}")
    marginals: dict[str, Marginal] = {}
    taken: list[tuple[Any, Marginal]] = []
    for name, distribution in given.items():
        require_name(name)
        same = next((marginal for other, marginal in taken if other is distribution), None)
        marginals[name] = as_marginal(distribution, name) if same is None else same
        taken.append((distribution, marginals[name]))
        if marginals[name].discrete:
            raise InputError(f"ordered takes continuous distributions; that of {shown(name)} is discrete")
    return in_order(marginals)


def in_order(marginals: Mapping[str, Marginal]) -> dict[str, Any]:
    """The same for distributions that have been checked."""
    chain = Chain(dict(marginals))
    chain.check()
    names = list(marginals)
    return {names[0]: First(chain), **{name: Next(chain, place) for place, name in enumerate(names) if place}}
