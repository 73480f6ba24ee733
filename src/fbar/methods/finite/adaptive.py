"""Adaptive allocations (section S4.2): learn in rounds where simulations reduce the error of the targets most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar import theory
from fbar.arrays import FloatArray, IntArray
from fbar.checks import choice
from fbar.designs.allocation import largest_remainder, top_up
from fbar.errors import InputError
from fbar.estimation.cells import ActualCounts
from fbar.estimation.posterior import Posterior
from fbar.methods.finite.allocation import importance
from fbar.methods.finite.cells import CellRun
from fbar.methods.forecasts import VarianceAfter
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.run import ROUNDS
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.targets import Target
from fbar.seeds import Purpose

BETA_A, BETA_B = 0.5, 2.0
"""The prior on an acceptance probability: Beta(½, 2), which leans to rare acceptance."""


@register("adaptive", "simulations allocated where they most reduce the error, as learned", needs="a finite prior")
@dataclass(frozen=True)
class AdaptiveAllocation(Method):
    """Spend the budget in rounds, each of which brings the counts as close as possible to the estimated optimum.

    The first round follows the prior. Several targets share the simulations, each scaled by its posterior variance; the
    components of a vector target are not scaled.

    Parameters
    ----------
    learning
        ``"beta"`` (default): a Beta posterior of every acceptance probability, whose uncertainty keeps simulating
        rarely accepted values. ``"plug-in"``: the paper's rule (section S4.2), p̂ = (n*+0.01)/(n+0.02) in the optimum
        of section 2, with 1/√(simulations so far + 1) added to the proportions; optimistic when acceptances are rare.
    rounds, tolerance, kernel
        As for `Allocation`.
    per
        ``"simulation"`` (default) minimises the error for a given number of simulations, ``"second"`` for a given cost,
        n_i ∝ √(α_i/c_i), with c_i learned from what simulations at θ_i cost; for a budget in simulator time, see
        `CostBudget`. Costs given with the problem are used in both cases.
    """

    learning: str = "beta"
    rounds: int = ROUNDS
    tolerance: float = 0.0
    kernel: str = "uniform"
    per: str = "simulation"

    def begin(self, start: Start) -> AdaptiveRun:
        choice(self.learning, ("beta", "plug-in"), "learning")
        if choice(self.per, ("simulation", "second"), "per") == "second":
            start.problem.require_costs()
        run = BetaRun if self.learning == "beta" else PlugInRun
        return run(
            start,
            learns_costs=self.per == "second" and start.problem.cost_of(start.problem.points) is None,
            acceptance=Acceptance(self.tolerance, self.kernel),
            estimator=ActualCounts(0.0 if self.learning == "beta" else PSEUDO_COUNT),
            rounds=self.rounds,
            every_cell=True,
        )


@register("adaptive-posterior", "draws from the posterior as estimated so far", needs="a finite prior")
@dataclass(frozen=True)
class AdaptivePosterior(Method):
    """Draw θ in rounds from the posterior estimated so far, as sequential methods do (section S4.2).

    This is for comparison only: the posterior is not where simulations help most.
    """

    rounds: int = ROUNDS
    tolerance: float = 0.0
    kernel: str = "uniform"

    def begin(self, start: Start) -> AdaptivePosteriorRun:
        return AdaptivePosteriorRun(
            start,
            acceptance=Acceptance(self.tolerance, self.kernel),
            estimator=ActualCounts(PSEUDO_COUNT),
            rounds=self.rounds,
            every_cell=True,
        )


PSEUDO_COUNT = 0.01
"""The paper's settings for figures S3 and S4: p̂ = (n* + 0.01)/(n + 0.02)."""


def _floored(shares: FloatArray, simulations: int) -> FloatArray:
    """Proportions with 1/√(simulations so far + 1) added to each."""
    return theory.normalise(shares + 1 / np.sqrt(simulations + 1))


COST_COUNT = 1.0
"""How many simulations the overall mean cost weighs in a cell's own."""


class AdaptiveRun(CellRun):
    words = "value by value: by the prior first, then where the error falls most"

    def __init__(self, *arguments: Any, learns_costs: bool = False, **options: Any) -> None:
        self.learns_costs = learns_costs
        self._cost_sums: FloatArray | None = None
        self._cost_counts: FloatArray | None = None
        super().__init__(*arguments, **options)

    def variance_after(self, posterior: Posterior, target: Target) -> VarianceAfter:
        """Σ α_i/n_i with the n_i of the present plan: cells are filled up to their shares."""
        parts, counts = posterior.value_parts(target), self.counts
        if parts is None or counts.ndim > 1:
            return super().variance_after(posterior, target)
        part = parts[0]
        variance, total = np.atleast_1d(posterior.expect(target).variance), part.sum(axis=0)
        shares = self.shares()

        def after(more: int) -> FloatArray:
            filled = counts + (top_up(counts, shares, more) if more else 0)
            left = (part * ((counts + 1) / (filled + 1))[:, None]).sum(axis=0)
            return np.asarray(variance * np.where(total > 0, left / np.where(total > 0, total, 1.0), 1.0))

        return after

    def shares(self) -> FloatArray:
        raise NotImplementedError

    @property
    def cost(self) -> FloatArray:
        """c_i: as given with the problem, or the mean cost of each cell so far, drawn to that of all by one count."""
        if self._cost_sums is None or self._cost_counts is None or not self._cost_sums.any():
            return self.problem.cost
        overall = self._cost_sums.sum() / self._cost_counts.sum()
        return np.asarray((self._cost_sums + COST_COUNT * overall) / (self._cost_counts + COST_COUNT))

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        super()._absorb(batch, outcomes)
        if not self.learns_costs:
            return
        found = self.problem.costs(batch, outcomes)
        if found is None:
            raise InputError(
                "an allocation per second needs the cost of every simulation; make outcomes by fbar.simulate"
            )
        assert batch.cells is not None
        assert batch.repeats is not None
        known, k = ~np.isnan(found), self.prior.size
        cell = np.repeat(batch.cells, batch.repeats)[known]
        sums = np.bincount(cell, weights=found[known], minlength=k).astype(np.float64)
        counts = np.bincount(cell, minlength=k).astype(np.float64)
        self._cost_sums = sums if self._cost_sums is None else self._cost_sums + sums
        self._cost_counts = counts if self._cost_counts is None else self._cost_counts + counts

    def _round_counts(self, size: int) -> IntArray:
        if self.round == 0:
            return np.broadcast_to(largest_remainder(self.prior * size), self.counts.shape)
        return top_up(self.counts, self.shares(), size)


class PlugInRun(AdaptiveRun):
    """n_i ∝ π_i √(p̂_i(1−p̂_i)) |ψ_i|, with the estimates as they are."""

    def shares(self) -> FloatArray:
        p = (self.hits + PSEUDO_COUNT) / (self.counts + 2 * PSEUDO_COUNT)
        weights = theory.posterior(self.prior, p)
        influences = [target.influence(self._points, weights) for target in self.targets]
        c = importance(influences, weights)
        square = sum((cj * influence**2).sum(axis=-1) for cj, influence in zip(c, influences, strict=True))
        shares = theory.optimal_shares(self.prior**2 * p * (1 - p) * square, self.cost)
        return _floored(shares, self.simulations)


class BetaRun(AdaptiveRun):
    """n_i ∝ π_i √(e_i (ψ_i² + V_ψ)/c_i) with a Beta posterior of every p_i*.

    With A = n*+½, B = n−n*+2: m = A/(A+B) is the posterior mean, e = E[p(1−p)] = m(1−m)(A+B)/(A+B+1) the
    expected Bernoulli variance and v = m(1−m)/(A+B+1) the variance of p. E[p(1−p)(f−f̄)²] ≈ e((f−f̃)² + V_f),
    where V_f = Σπ²v(f−f̃)²/(Σπm)² is the uncertainty of f̄ itself.
    """

    def shares(self) -> FloatArray:
        a, b = self.hits + BETA_A, self.counts - self.hits + BETA_B
        m = a / (a + b)
        v = m * (1 - m) / (a + b + 1)
        e = self._second_moment_ratio() * m - m**2 - v  # for an indicator, v (A + B)
        weights = theory.posterior(self.prior, m)
        scale = self.prior**2 * v / theory.evidence(self.prior, m)[..., None] ** 2
        influences = [target.influence(self._points, weights) for target in self.targets]
        c = importance(influences, weights)
        square = np.zeros(m.shape)
        for cj, influence in zip(c, influences, strict=True):
            unsure = (scale[..., None] * influence**2).sum(axis=-2, keepdims=True)
            square = square + (cj * (influence**2 + unsure)).sum(axis=-1)
        return theory.optimal_shares(self.prior**2 * e * square, self.cost)

    def _second_moment_ratio(self) -> FloatArray:
        """E[a²]/E[a] of each cell, 1 for an indicator; cells with few acceptances lean on the others."""
        hits, squares = self.hits.sum(axis=-1, keepdims=True), self.squares.sum(axis=-1, keepdims=True)
        overall = np.where(hits > 0, squares / np.where(hits > 0, hits, 1.0), 1.0)
        return np.asarray((self.squares + BETA_A * overall) / (self.hits + BETA_A))


class AdaptivePosteriorRun(CellRun):
    """Multinomial draws from the floored estimate of the posterior."""

    words = "draws from the posterior as estimated so far"

    def _round_counts(self, size: int) -> IntArray:
        p = (self.hits + PSEUDO_COUNT) / (self.counts + 2 * PSEUDO_COUNT)
        q = _floored(theory.posterior(self.prior, p), self.simulations)
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 0)
        return rng.multinomial(size, q)
