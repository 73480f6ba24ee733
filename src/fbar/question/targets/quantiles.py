"""Quantiles, with confidence limits from the weighted distribution function.

The error of a quantile is that of F̂(Q̂), the weighted share of simulations up to it, seen along the θ axis. A division
by an estimated density says the same to first order, and fails where it matters: in the tails the density is estimated
from a handful of draws, and is large, so that the error bar is small, where two of them happen to lie close. Woodruff
(1952) does without: find the levels between which F̂ at the true quantile lies, and read off where F̂ takes them.

For n independent, equally weighted draws those levels are exact whatever the distribution is: X_(k) ≤ Q has the
probability P(Bin(n, α) ≥ k) = I_α(k, n − k + 1), so that the limits are X_(k) with I_α(k, n − k + 1) = 1 − τ and τ, for
a tail τ = (1 − level)/2. I is continuous in k, and X_(k) between two order statistics is interpolated linearly (Hutson
1999; Nyblom 1992). For weighted draws n is the effective number

    n_eff = p (1 − p)/V̂,    p = F̂(Q̂), V̂ the error model's variance of it with ψ = 1{θ ≤ Q̂} − p,

the size of a simple sample that would know F(Q) as well (Korn & Graubard 1998). V̂ is an estimate too: n_eff is reduced
by (z/t)², with t of Student's distribution and the degrees of freedom of `Sides.df`. Where weights are unequal V̂ is
too small most of the time, and the more so where it seems steady: the largest weight was not drawn yet. To doubt just
the runs in which it was would leave the lucky ones. So the error bar is given room for one more (`Sides.unseen`), and
doubted where one draw carries over a fifth of the weight beyond the quantile. With q = Exp(1.6) for p = Exp(1) and 1000
draws, trusted intervals at the level 0.9 held in 96% (93% of 400 runs were trusted); without, and with a doubt where
one draw carries over a fifth of V̂, in 92% (55% were).

A discrete variable, which takes few values among the simulations, has no interpolation: the quantile and its limits
are order statistics, the limits rounded outwards, and cover at least as often as stated.

Where k would be below 1 or above n_eff, fewer simulations lie beyond the quantile than a limit needs: there is none,
but for the end of the variable's support where that is known.

Woodruff, J. Amer. Statist. Assoc. 47 (1952) 635. Hutson, J. Appl. Statist. 26 (1999) 343. Nyblom, Biometrika 79 (1992)
664. Korn & Graubard, Survey Methodology 24 (1998) 193.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.checks import counted, number, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of, present, restricted
from fbar.question.targets.conditions import OneModel
from fbar.question.targets.limits import Limits
from fbar.question.targets.registry import parameter, register

ERROR_BAR_LEVEL = 0.95
"""The level whose half width over its critical value is the standard error."""

FEW_VALUES = 0.5
"""Accepted simulations with fewer distinct values than this share of their number are those of a discrete variable."""

MOST_OF_TAIL = 0.2
"""The share of the weight beyond a quantile that a single simulation may have."""

LEAST_LEVEL = 1e-12
"""No number of simulations distinguishes a quantile closer to 0 or 1 from the extremes."""

TINY = 1e-9
"""The least width of an interval that ψ is scaled by, relative to the values: that of an atom would be zero."""


@dataclass(frozen=True)
class Inversion:
    """What an error model knows of F̂(Q̂): its variance, the degrees of freedom of that, and a reason for doubt.

    ``instead`` is the text of a doubt about expectations that this one replaces.
    """

    variance: float
    df: float = math.inf
    doubt: str = ""
    instead: str = ""


@dataclass(frozen=True, eq=False)
class Inverted(Limits):
    """The weighted distribution function of one variable around its α-quantile.

    ``x`` are the values in rising order and ``mass`` the share of the weight up to each, half its own included: F̂ by
    linear interpolation. ``share`` is p, the weight of the values up to Q̂ (below it where ``strict``: at an atom,
    whichever is closer to α) and ``effective`` is n_eff.
    """

    x: FloatArray
    mass: FloatArray
    level: float
    value: float
    share: float
    effective: float
    strict: bool = False
    known: Inversion = Inversion(math.nan)
    atoms: int = 0
    """How many values there are, where they are few."""
    bias: float = 0.0
    """The standard deviation of an error of the quantile that does not come from the number of simulations."""
    support: tuple[float, float] = (-math.inf, math.inf)
    """What the variable cannot go beyond: a limit where too few simulations lie beyond the quantile for another one."""

    @staticmethod
    def of(x: FloatArray, weights: FloatArray, level: float) -> Inverted:
        """With Kish's n_eff = (Σw)²/Σw², that of equally weighted draws."""
        order = np.argsort(x, kind="stable")
        x, w = x[order], weights[order]
        mass = np.cumsum(w) - w / 2  # a point's mass is centred on it
        distinct = 1 + int(np.count_nonzero(np.diff(x)))
        atoms = distinct if distinct <= FEW_VALUES * x.size else 0
        kish = float(1 / (w**2).sum()) if x.size else math.nan
        made = Inverted(x, mass, level, math.nan, math.nan, kish, atoms=atoms)
        if not x.size:
            return made
        value = made._where(level, up=True)
        upto = 1.0 if x[-1] <= value else float(w[x <= value].sum())  # not 1 up to rounding, whose error is not zero
        below = float(w[x < value].sum())
        strict = below > 0 and (x[-1] <= value or (atoms > 0 and abs(below - level) < abs(upto - level)))
        return replace(made, value=value, share=below if strict else upto, strict=strict)

    def below(self, x: FloatArray) -> BoolArray:
        """The side of Q̂ whose weight is p."""
        return np.asarray(x < self.value if self.strict else x <= self.value)

    def known_to(self, known: Inversion) -> Inverted:
        """With the n_eff of an error model."""
        p = self.share
        found = p * (1 - p) / known.variance if known.variance > 0 and 0 < p < 1 else self.effective
        return replace(self, effective=found, known=known)

    @property
    def df(self) -> float:
        return self.known.df

    @property
    def beyond(self) -> float:
        """Effective simulations on the side of the quantile where there are fewer."""
        return self.effective * min(self.level, 1 - self.level)

    def __call__(self, level: float) -> tuple[float, float]:
        """The confidence limits; an end of the support where too few simulations lie beyond the quantile for one."""
        low, high = self._levels(level)
        least, most = self.support
        left = least if low is None else min(self._where(low, up=False), self.value)
        right = most if high is None else max(self._where(high, up=True), self.value)
        if not self.bias > 0:
            return left, right
        from scipy.special import stdtrit

        further = float(stdtrit(self.df, 0.5 + level / 2)) * self.bias
        left = self.value - math.hypot(self.value - left, further)
        right = self.value + math.hypot(right - self.value, further)
        return max(left, least), min(right, most)

    @property
    def doubts(self) -> list[str]:
        """Why its interval is unreliable."""
        return [text for text in (self._too_few(), self.known.doubt) if text]

    def _too_few(self) -> str:
        """Why there is no 95% interval; or nothing."""
        low, high = self._levels(ERROR_BAR_LEVEL)
        nothing = low is None and high is None
        sides = (("below", low, self.level, self.support[0]), ("above", high, 1 - self.level, self.support[1]))
        few = [
            f"{self.effective * share:.2g} {side} it"
            for side, end, share, limit in sides
            if end is None and (nothing or math.isinf(limit))
        ]
        return (
            f"too few simulations lie beyond the quantile for an interval: effectively {' and '.join(few)}"
            if few
            else ""
        )

    @property
    def note(self) -> str:
        """A remark about a discrete variable."""
        if not self.atoms:
            return ""
        few = f"this variable takes only {counted(self.atoms, 'value')} among the simulations used"
        return f"{few}: the quantile is one of them, and so are its limits"

    def standard_error(self) -> float:
        """Half the width of the 95% interval over Student's t, or over 1.96 where an end of the support limits it."""
        from scipy.special import stdtrit

        low, high = self(ERROR_BAR_LEVEL)
        known = None not in self._levels(ERROR_BAR_LEVEL)
        times = float(stdtrit(self.df, 0.5 + ERROR_BAR_LEVEL / 2)) if known else 1.959964
        return (high - low) / 2 / times if high > low else 0.0

    def slope(self) -> float:
        """dQ/dF over the width of the 95% interval, cut at the outermost simulations; never zero."""
        if not self.x.size:
            return math.nan
        low, high = (float(np.clip(end, self.x[0], self.x[-1])) for end in self(ERROR_BAR_LEVEL))
        width = 2 * 1.959964 * math.sqrt(self.level * (1 - self.level) / self.effective)
        return max(high - low, TINY * max(abs(self.value), float(self.x[-1] - self.x[0]))) / width

    def _levels(self, level: float) -> tuple[float | None, float | None]:
        """F̂ at the two limits."""
        from scipy.special import ndtri, stdtrit

        tail = (1 - level) / 2
        n = self.effective
        if self.df < math.inf:
            n *= float(ndtri(1 - tail) / stdtrit(self.df, 1 - tail)) ** 2
        if not (n >= 1 and self.x.size):
            return None, None
        found = []
        for probability in (1 - tail, tail):
            k = order_rank(n, self.level, probability)
            m = (k - 0.5) / n
            found.append(m if 1 <= k <= n and self.mass[0] <= m <= self.mass[-1] else None)
        return found[0], found[1]

    def _where(self, mass: float, *, up: bool) -> float:
        """F̂⁻¹; of a discrete variable the atom there, away from the quantile."""
        if not self.atoms:
            return float(np.interp(mass, self.mass, self.x))
        at = np.searchsorted(self.mass, mass, side="left") if up else np.searchsorted(self.mass, mass, "right") - 1
        return float(self.x[int(np.clip(at, 0, self.x.size - 1))])


@lru_cache(maxsize=256)
def order_rank(n: float, level: float, probability: float) -> float:
    """k with I_level(k, n − k + 1) = probability, between 0 and n + 1."""
    from scipy.optimize import brentq
    from scipy.special import betainc

    edge = 1e-9 * (n + 1)
    return float(brentq(lambda k: betainc(k, n + 1 - k, level) - probability, edge, n + 1 - edge, xtol=1e-9 * (n + 1)))


class Sides:
    """The weights of single independent draws on the two sides of Q̂.

    V̂ = (1−p)² Σ w² below + p² Σ w² above.
    """

    def __init__(self, weights: FloatArray, below: BoolArray) -> None:
        self.weights = weights / weights.sum()
        p = float(self.weights[below].sum())
        both = ((self.weights[below], (1 - p) ** 2), (self.weights[~below], p**2))
        self._sides = [(w, factor) for w, factor in both if w.any()]

    @property
    def df(self) -> float:
        """How well V̂ is known.

        Unlike in Satterthwaite's formula for an expectation, the number of draws below is not part of its error: Q̂ is
        where their weight is p. What is left is how much the weights vary on each side: given their sum, Σ w² has the
        error Σ (w² − λw), λ = Σw²/Σw. Equal weights have none, and rejection's limits are exact.
        """
        variance = spread = 0.0
        for w, factor in self._sides:
            square = w**2
            variance += factor * float(square.sum())
            spread += factor**2 * float(((square - square.sum() / w.sum() * w) ** 2).sum())
        most = max(1.0, self.weights.size - 1.0)
        return most if spread <= 0 else float(np.clip(2 * variance**2 / spread, 1.0, most))

    @property
    def unseen(self) -> float:
        """Room in V̂ for a draw as large as the largest, beyond the mean one of its side: none for equal weights."""
        return max((factor * float((w**2).max() - (w**2).mean()) for w, factor in self._sides), default=0.0)

    @property
    def carried(self) -> str:
        """A reason for doubt where one draw makes up much of a side; or nothing."""
        share = max((float(w.max() / w.sum()) for w, _ in self._sides), default=0.0)
        if share <= MOST_OF_TAIL + 1e-9:
            return ""
        return f"one accepted simulation contributes more than {MOST_OF_TAIL:.0%} of the weight beyond the quantile"


@dataclass(frozen=True, repr=False)
class Quantile(Target):
    """The α-quantile Q of a parameter; ψ = (F(Q) − 1{θ ≤ Q}) dQ/dF.

    dQ/dF is the width of the confidence interval along θ over its width in F, see the module's text.
    """

    parameter: str
    level: float
    name: str
    model: OneModel | None = None

    def components(self, points: Points) -> FloatArray:
        return column_of(points, self.parameter, self.name)[:, None]

    def given(self, points: Points) -> BoolArray | None:
        having = present(points, (self.parameter,))
        return having if self.model is None else self.model.among(points, having)

    def within(self, model: OneModel) -> Quantile:
        return replace(self, name=model.named(self.name), model=model)

    @property
    def smooth(self) -> bool:
        return False

    def inverted(self, points: Points, weights: FloatArray) -> Inverted:
        """The distribution function of one run's weighted points, of those that have the parameter."""
        x, given = self.components(points)[:, 0], self.given(points)
        if given is not None:
            x, weights = x[given], weights[given]
        return Inverted.of(x, weights / weights.sum(), self.level)

    def _each(self, points: Points, weights: FloatArray, what: Callable[[Inverted], tuple[float, ...]]) -> FloatArray:
        """Numbers of every trial, in a last axis."""
        rows = weights.reshape(-1, weights.shape[-1])
        found = [what(self.inverted(points, row)) for row in rows]
        return np.reshape(found, (*weights.shape[:-1], -1))

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return self._each(points, weights, lambda found: (found.value,))

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        fitted = self._each(points, weights, lambda found: (found.value, found.share, found.slope(), found.strict))
        value, level, slope, strict = (fitted[..., j, None] for j in range(4))
        given = self.given(points)
        share = np.ones(weights.shape[:-1]) if given is None else np.where(given, weights, 0.0).sum(axis=-1)

        def at(where: Points) -> FloatArray:
            x = self.components(where)[:, 0]
            below = np.where(strict, x < value, x <= value)
            return restricted(((level - below) * slope)[..., None], self.given(where), share)

        return at


@register("NAME,LEVEL", "quantile:beta,0.9")
def quantile(name: str, level: float) -> Target:
    """Posterior quantile of a parameter.

    Its confidence interval comes from the weighted distribution function, and is not symmetric.
    """
    parameter(name)
    at = number(level, "level")
    if not LEAST_LEVEL <= at <= 1 - LEAST_LEVEL:
        raise InputError(f"the level of a quantile must lie between 0 and 1; got {shown(level)}")
    return Quantile(name, at, f"quantile:{name},{at:g}")
