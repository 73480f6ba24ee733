"""Dirichlet: named shares that add up to 1.

By stick-breaking, one share after the other: x₁ ~ Beta(α₁, α₂ + … + α_k), and of what the first ones leave,
s = 1 − x₁ − … − x_{j−1}, the next takes the part x_j/s ~ Beta(α_j, α_{j+1} + … + α_k). The last share is what is left:
it is no coordinate and has no density of its own, it follows from the others. The density of the first k − 1 shares is
Dirichlet's, Γ(Σα)/ΠΓ(α_j) Π x_j^(α_j − 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

from fbar.arrays import FloatArray
from fbar.checks import mapping, number, require_name, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.priors.structures import Determined


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a stick: ``length`` times a Beta(α, β) variable. The length may be a number for each row."""

    alpha: float
    beta: float
    length: Any = 1.0

    discrete = False

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, float(np.max(self.length, initial=0.0))

    def ppf(self, u: FloatArray) -> FloatArray:
        if self.beta == 1:
            part = u ** (1 / self.alpha)
        elif self.alpha == 1:
            part = -np.expm1(np.log1p(-np.minimum(u, 1 - 2**-53)) / self.beta)
        else:
            part = betaincinv(self.alpha, self.beta, u)
        return np.asarray(self.length * part)

    def _part(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(np.asarray(self.length) > 0, x / self.length, np.nan))

    def cdf(self, x: FloatArray) -> FloatArray:
        part = np.clip(np.nan_to_num(self._part(x), nan=0.5), 0.0, 1.0)
        return np.asarray(betainc(self.alpha, self.beta, part))

    def logpdf(self, x: FloatArray) -> FloatArray:
        part = self._part(x)
        inside = (part >= 0) & (part <= 1)
        at = np.where(inside, part, 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = xlogy(self.alpha - 1, at) + xlog1py(self.beta - 1, -at) - betaln(self.alpha, self.beta)
            return np.where(inside, log - np.log(self.length), -np.inf)


@dataclass(frozen=True)
class NextPart:
    """The distribution of a share given those before it."""

    before: tuple[str, ...]
    alpha: float
    beta: float

    def __call__(self, points: Points) -> Part:
        return Part(self.alpha, self.beta, left_of(points, self.before))


@dataclass(frozen=True)
class Remainder(Determined):
    """The last share: what the others leave of 1."""

    others: tuple[str, ...]

    def __call__(self, points: Points) -> FloatArray:
        return left_of(points, self.others)

    @property
    def constraint(self) -> str:
        return f"{' + '.join(self.others)} + {{}} = 1"


def left_of(points: Points, names: tuple[str, ...]) -> FloatArray:
    """1 less these shares, and not below 0."""
    return np.asarray(np.maximum(1 - sum(points[name] for name in names), 0.0))


def dirichlet(concentrations: Mapping[str, float] | None = None, /, **named: float) -> dict[str, Any]:
    """Shares that add up to 1, with a Dirichlet distribution: all equally probable if every number is 1.

    Give it to `Prior`, with or without other parameters. The last share follows from the others: simulators and targets
    can use it like any parameter, but it is not among the prior's ``names``.

    >>> from fbar import Prior
    >>> prior = Prior(dirichlet(susceptible=1, infected=1, recovered=2))
    >>> prior.names, prior.dimension
    (('susceptible', 'infected'), 2)
    >>> points = prior.from_unit([[0.271, 0.75]])
    >>> float((points["susceptible"] + points["infected"] + points["recovered"])[0])
    1.0
    """
    given = {**mapping(concentrations or {}, "concentrations", "{'a': 1, 'b': 2}"), **named}
    if len(given) < 2:
        raise InputError(
            "a Dirichlet distribution needs two shares or more, each with its name and concentration, as in "
            f"Prior(dirichlet(susceptible=1, infected=1)); got {shown(given) if given else 'none'}"
        )
    alphas = []
    for name, alpha in given.items():
        require_name(name)
        alphas.append(number(alpha, f"the concentration of {shown(name)}"))
        if not 0 < alphas[-1] < np.inf:
            raise InputError(f"the concentration of {shown(name)} must be positive and finite; got {shown(alpha)}")
    names = tuple(given)
    found: dict[str, Any] = {names[0]: Part(alphas[0], float(np.sum(alphas[1:])))}
    for j in range(1, len(names) - 1):
        found[names[j]] = NextPart(names[:j], alphas[j], float(np.sum(alphas[j + 1 :])))
    found[names[-1]] = Remainder(names[:-1])
    return found
