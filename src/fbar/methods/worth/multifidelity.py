"""Multifidelity ABC: a cheap simulator decides early, the real one corrects it (Prescott & Baker 2020, 2021).

The cheap simulator runs at every draw of θ, and ã = 1{Δ̃ ≤ ε̃} is what it makes of it. With probability η the real one
runs too and gives a* = 1{Δ ≤ ε}. The draw is worth

    a = ã + 1{U < η} (a* − ã)/η,    η = η₁ where ã = 1, η₂ where ã = 0,

so that E[a|θ] = E[a*|θ] for any η₁, η₂ > 0: the posterior is that of the real simulator at the tolerance ε, whatever
the cheap one is like. It only decides how much is gained. Weights are of both signs: a = 1 − 1/η₁ < 0 where the cheap
simulator accepts what the real one rejects.

*The best continuation probabilities.* (a* − ã)² is 1 where both disagree, so E[a²|θ, ã, a*] = a* + (1/η − 1)(a* − ã)².
With w = p/q and g² = Σ c ψ² of the targets, let p_tp, p_fp, p_fn be E[w²g² 1{…}] of draws that both accept, that only
the cheap one accepts, and that only the real one accepts. A draw adds to the variance, and costs,

    V = V₀ + p_fp/η₁ + p_fn/η₂,    V₀ = p_tp − p_fp,
    C = c̃ + η₁ c₁ + η₂ c₀,         c_j = E[c* 1{ã = j}], c̃ and c* the costs of a cheap and of a real simulation.

V C is least (Cauchy–Schwarz) at η₁ = √(p_fp c̃/(c₁ V₀)), η₂ = √(p_fn c̃/(c₀ V₀)), the lemma of Prescott & Baker (2020,
section 3.2) for w g = 1. Where a probability exceeds 1 or V₀ ≤ 0 the minimum is at 1 for one of them or both.

Prescott & Baker use fixed proposals or SMC; here θ is drawn where the error of the targets falls most. The p, c and η
are learned between generations, the first of which has η = 1.

*A sample.* 1{U < η} a*/η is at least 0 and has the same expectation; pictures and samples are made with it.

Prescott & Baker, SIAM/ASA J. Uncertain. Quantif. 8 (2020) 114; 9 (2021) 788.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray
from fbar.checks import non_negative_number, shown, store_number
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.valuation import Asked, DrawsSoFar, Replicates, Valuation, Valued
from fbar.question.problem import Problem
from fbar.question.simulators.fidelities import CHEAP, FIDELITY, REAL, SEED, SEEDS
from fbar.question.worth import UNSIGNED

LEAST, MOST = 0.01, 1.0
"""Continuation probabilities that are learned: a draw that is worth more than 100 others would carry an estimate."""

FEW = 10
"""Draws that both simulators accept, fewer of which teach nothing."""

UNSEEN = 2.0
"""Draws of each kind of disagreement that are counted beyond those that were seen. Continuation probabilities that are
too large cost little, and those that are too small make single draws carry an estimate."""

FIRST_SHARE = 0.05
"""The part of a budget for a generation while every draw takes the real simulator, so that it can be learned when to
do without."""

RECENT = 200
"""The latest draws, or those of the last generation if they are more, show how many the cheap simulator accepts."""

U = "continuation"
ACCEPTED_CHEAP, ACCEPTED_REAL, ETA = "cheap accepted", "real accepted", "continuation probability"
COST_CHEAP, COST_REAL = "cheap cost", "real cost"


@dataclass(frozen=True)
class Shares:
    """p_tp, p_fp, p_fn, c̃, c₁ and c₀ of the module's text."""

    both: float
    only_cheap: float
    only_real: float
    cost_cheap: float
    cost_near: float
    cost_far: float

    def inefficiency(self, near: float, far: float) -> float:
        """V C: the variance of an estimate for a cost of 1, up to a factor."""
        variance = self.both - self.only_cheap + self.only_cheap / near + self.only_real / far
        return variance * (self.cost_cheap + near * self.cost_near + far * self.cost_far)

    def best(self, near: float | None = None, far: float | None = None) -> tuple[float, float]:
        """η₁ and η₂ that make it least, within `LEAST` and `MOST`; one may be given."""
        base = self.both - self.only_cheap
        nears = [near] if near is not None else [MOST, LEAST]
        fars = [far] if far is not None else [MOST, LEAST]
        nears_fars = [(a, b) for a in nears for b in fars]
        if far is None:
            nears_fars += [(a, self._far(a)) for a in nears]
        if near is None:
            nears_fars += [(self._near(b), b) for b in fars]
        if near is None and far is None and base > 0:
            nears_fars.append(
                (
                    _within(self.only_cheap * self.cost_cheap, self.cost_near * base),
                    _within(self.only_real * self.cost_cheap, self.cost_far * base),
                )
            )
        return min(nears_fars, key=lambda pair: self.inefficiency(*pair))

    def _near(self, far: float) -> float:
        """The best η₁ for an η₂."""
        variance = self.both - self.only_cheap + self.only_real / far
        return _within(self.only_cheap * (self.cost_cheap + far * self.cost_far), self.cost_near * variance)

    def _far(self, near: float) -> float:
        """The best η₂ for an η₁."""
        variance = self.both - self.only_cheap + self.only_cheap / near
        return _within(self.only_real * (self.cost_cheap + near * self.cost_near), self.cost_far * variance)


def _within(top: float, bottom: float) -> float:
    """√(top/bottom) within `LEAST` and `MOST`."""
    return MOST if not bottom > 0 else min(max(math.sqrt(max(top, 0.0) / bottom), LEAST), MOST)


@register(
    "multifidelity",
    "a cheap simulator accepts and rejects early, and the real one corrects it at some draws",
    needs="a cheap simulator",
)
@dataclass(frozen=True)
class Multifidelity(WorthMethod):
    """Multifidelity ABC (Prescott & Baker 2020) with draws where they reduce the error most.

    Suits slow simulators with a cheap approximation, given as ``Problem(prior, fbar.Fidelities(real, cheap), …)``. The
    answer is ABC's posterior of the real simulator. A budget counts the simulations of both.

    Parameters
    ----------
    tolerance
        How close a real simulation must come to the data. Data that are whole numbers or labels are matched exactly
        where it is not given.
    cheap_tolerance
        How close a cheap one must come; the same by default.
    continue_if_near, continue_if_far
        The probability of a real simulation where the cheap one is accepted (η₁), and where it is not (η₂); learned
        from the targets and the costs by default. Costs that are measured differ from run to run, and so do learned
        probabilities: give these or the costs where the same seed is to give the same result.
    """

    tolerance: float | None = None
    cheap_tolerance: float | None = None
    continue_if_near: float | None = None
    continue_if_far: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("tolerance", self.tolerance), ("cheap_tolerance", self.cheap_tolerance)):
            if value is not None:
                store_number(self, name, non_negative_number(value, name))
        near_far = (("continue_if_near", self.continue_if_near), ("continue_if_far", self.continue_if_far))
        for name, value in near_far:
            if value is None:
                continue
            found = non_negative_number(value, name)
            if found == 0:
                raise InputError(
                    f"{name} must be greater than 0: the real simulator would never correct the cheap one, and the "
                    "answer would be biased"
                )
            if found > 1:
                raise InputError(f"{name} must be a probability; got {shown(value)}")
            store_number(self, name, found)

    @property
    def final_tolerance(self) -> float | None:
        return self.tolerance

    def for_problem(self, problem: Problem) -> Self:
        """Without a tolerance, whole numbers and labels are matched exactly."""
        observed = problem.observed
        exact = self.tolerance is None and observed is not None and observed.dtype.kind != "f"
        return self.at_tolerance(0.0) if exact else self

    def valuation(self, start: Start) -> MultifidelityValuation:
        pair, problem = start.problem.simulator.fidelities, start.problem
        if pair is None:
            raise InputError(
                "Multifidelity needs a cheap simulator beside the real one; give the problem "
                "simulate=fbar.Fidelities(real, cheap)"
            )
        method = self.for_problem(problem)
        if method.tolerance is None:
            raise InputError("Multifidelity needs a tolerance for data that are not whole numbers; give tolerance=")
        if problem.cost_of(problem.probe) is not None and pair.cheap_cost is None:
            raise InputError("the problem's cost= is that of the real simulator; give fbar.Fidelities(cheap_cost=) too")
        return MultifidelityValuation(method, method.tolerance, pair.shares_noise, problem.posterior_in_words)


class MultifidelityValuation(Valuation):
    """ã + 1{U < η} (a* − ã)/η, with η that is learned."""

    noisy = True
    most = 2

    def __init__(self, method: Multifidelity, tolerance: float, shares_noise: bool, exact: str) -> None:
        self.method, self.shares_noise = method, shares_noise
        self.tolerance: float = tolerance
        self.cheap_tolerance = tolerance if method.cheap_tolerance is None else method.cheap_tolerance
        self.near = 1.0 if method.continue_if_near is None else method.continue_if_near
        """η₁ of the draws to come."""
        self.far = 1.0 if method.continue_if_far is None else method.continue_if_far
        """η₂ of the draws to come."""
        self._exact = exact
        self.simulations = {CHEAP: 0, REAL: 0}
        """How often each simulator ran."""
        self._learned = method.continue_if_near is not None and method.continue_if_far is not None

    @property
    def about(self) -> str:
        return f"ABC's posterior at tolerance {self.tolerance:.4g}" if self.tolerance > 0 else self._exact

    def ask(self, wave: int, draws: int, rng: np.random.Generator) -> Asked:
        fidelity = {FIDELITY: np.full(draws, REAL if wave else CHEAP)}
        if wave:
            return Asked(1, fidelity)
        u = {U: rng.random(draws)}
        return Asked(1, fidelity | ({SEED: rng.integers(SEEDS, size=draws)} if self.shares_noise else {}), u)

    def value(self, waves: Sequence[Replicates]) -> Valued:
        cheap = _accepted(waves[0], self.cheap_tolerance)
        eta = np.where(cheap, self.near, self.far)
        continues = np.asarray(waves[0].hidden[U] < eta)
        ran = len(waves) > 1
        real = _accepted(waves[1], self.tolerance) if ran else np.zeros(cheap.shape, dtype=bool)
        a = np.where(continues & ran, cheap + (real * 1.0 - cheap) / eta, cheap)
        nothing = np.full(cheap.shape, np.nan)
        kept = {
            ACCEPTED_CHEAP: cheap.astype(np.float64),
            ACCEPTED_REAL: np.where(ran, real, np.nan),
            ETA: eta,
            COST_CHEAP: nothing if waves[0].cost is None else waves[0].cost,
            COST_REAL: nothing if not ran or waves[1].cost is None else waves[1].cost,
            UNSIGNED: np.where(real & ran, 1 / eta, 0.0),
        }
        return Valued.of(a, ~continues | ran, kept)

    @property
    def next_share(self) -> float | None:
        return None if self._learned else FIRST_SHARE

    def survey(self, draws: DrawsSoFar) -> None:
        """Count what was run, and learn η₁ and η₂."""
        real = int(np.isfinite(draws.kept[ACCEPTED_REAL]).sum())
        self.simulations = {CHEAP: len(draws.kept[ETA]), REAL: real}
        if (shares := shares_of(draws)) is not None:
            self._learned = True
            self.near, self.far = shares.best(self.method.continue_if_near, self.method.continue_if_far)

    @property
    def remark(self) -> str:
        ran = f"{self.simulations[CHEAP]:,} cheap and {self.simulations[REAL]:,} real simulations"
        often = f"where the cheap simulation was accepted and {self.far:.2g} elsewhere"
        return f"{ran}; probability of a real one at the end: {self.near:.2g} {often}"

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"continuation": np.array([self.near, self.far])}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self.near, self.far = (float(eta) for eta in np.asarray(state["continuation"], dtype=np.float64))


def _accepted(wave: Replicates, tolerance: float) -> BoolArray:
    """Which draws came within the tolerance; failed ones did not."""
    return np.asarray(~wave.failed[:, 0] & (wave.distance[:, 0] <= tolerance))


def shares_of(draws: DrawsSoFar) -> Shares | None:
    """What draws show of the shares; None where they are too few, or costs are not known.

    Those with a real simulation stand for 1/η draws each. Costs at the two sides are those of all draws, and how many
    draws are on each side is what the latest show, whose proposals are the most like those to come.
    """
    kept = draws.kept
    cheap, eta = kept[ACCEPTED_CHEAP] > 0, kept[ETA]
    ran, real = np.isfinite(kept[ACCEPTED_REAL]), kept[ACCEPTED_REAL] > 0
    if np.count_nonzero(cheap & real) < FEW:
        return None
    rows = np.flatnonzero(cheap | real)
    parts = np.zeros(eta.size)
    parts[rows] = draws.variance_parts(rows)
    typical = float(parts[cheap & real].mean())

    def part(which: BoolArray, among: BoolArray | None = None) -> float:
        found = float((parts[which] / eta[which]).sum())
        if among is None:
            return found
        seen = float(np.count_nonzero(among & ran)) or 1.0
        return found + UNSEEN * typical * float(np.count_nonzero(among)) / seen

    def cost(among: BoolArray) -> float:
        own = among & ran if (among & ran).any() else ran
        last = slice(max(min(draws.last_generation, eta.size - RECENT), 0), None)
        return float(np.mean(kept[COST_REAL][own])) * max(float(np.mean(among[last])), 1 / eta.size)

    found = Shares(
        part(cheap & real),
        part(cheap & ran & ~real, cheap),
        part(~cheap & real, ~cheap),
        float(np.mean(kept[COST_CHEAP])),
        cost(cheap),
        cost(~cheap),
    )
    costs = (found.cost_cheap, found.cost_near, found.cost_far)
    return found if all(c > 0 and math.isfinite(c) for c in costs) else None
