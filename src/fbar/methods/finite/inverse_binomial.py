"""Inverse binomial sampling: simulate each parameter value until it has matched the data R times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fbar import theory
from fbar.arrays import FloatArray, IntArray
from fbar.checks import positive_integer
from fbar.errors import InputError
from fbar.estimation.cells import Cells, InverseCounts
from fbar.estimation.estimate import Estimate
from fbar.methods.finite.cells import CellRun
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes

MOST_ROWS = 1_000_000
ENOUGH_HITS = 10


@register("inverse-binomial", "each value is simulated until it has matched the data", needs="a finite prior")
@dataclass(frozen=True)
class InverseBinomial(Method):
    """Simulate each value until its ``hits``-th match (van Opheusden, Acerbi & Ma 2020).

    Gives an unbiased estimate of every log-likelihood (``log_likelihood`` of its run) and spends on average hits/p_i*
    simulations at θ_i, most where the data are least likely. The number of simulations is random; a budget ends the run
    early, and marks the values that are not finished.

    Several simulations of a value are run at once. Those after the last hit are surplus: they are counted in
    ``surplus`` and in the number of simulations, but not used, since stopping at a hit is what makes the estimates
    unbiased.
    """

    hits: int = 10
    tolerance: float = 0.0

    @property
    def ends_by_itself(self) -> bool:
        return True

    def begin(self, start: Start) -> InverseBinomialRun:
        required, problem = positive_integer(self.hits, "hits"), start.problem
        endless = start.budget is None and start.limit is None
        if endless and problem.p_star is not None and (problem.p_star == 0).any():
            row = int(np.argmin(problem.p_star))
            raise InputError(
                f"{problem.points.label(row)} never matches the data, so sampling until a hit would never end; "
                "give a budget"
            )
        return InverseBinomialRun(
            required,
            start,
            acceptance=Acceptance(self.tolerance),
            estimator=InverseCounts(required),
            every_cell=True,
        )


class InverseBinomialRun(CellRun):
    """State beside the counts: draws since the last hit, and the sums that make the log-likelihood."""

    words = "each value until it has its hits"

    def __init__(self, required: int, *arguments: Any, **options: Any) -> None:
        self.required = required
        self._spent: IntArray | None = None
        self._closed = False
        super().__init__(*arguments, **options)

    # ------------------------------------------------------------ state

    @property
    def open(self) -> Any:
        """Which values still wait for hits."""
        return (self.hits < self.required) & (self.prior > 0)

    @property
    def finished(self) -> bool:
        return self._closed

    @property
    def simulations(self) -> int:
        return 0 if self._spent is None else int(self._spent.sum(axis=-1).max())

    @property
    def ended(self) -> str:
        return "budget spent before every value had its hits" if self.open.any() else "every value has its hits"

    @property
    def surplus(self) -> Any:
        """Simulations behind the last hit of their value; run, and not used."""
        assert self._spent is not None
        total = (self._spent - self.counts).sum(axis=-1)
        return int(total) if np.ndim(total) == 0 else total

    # ------------------------------------------------------------ rounds: m draws of every open value

    def _start_round(self) -> None:
        if self._spent is None:
            self._spent = np.zeros_like(self.counts)
            self._gap = np.zeros_like(self.counts)
            self._log: FloatArray = np.zeros(self.counts.shape)
            self._log_variance: FloatArray = np.zeros(self.counts.shape)
        self._pieces: list[FloatArray] = []
        still = self.open
        width = int(still.sum(axis=-1).max())
        # A quarter of what the least simulated open value had: at most a fifth of its draws is surplus.
        per_cell = int(max(1, np.where(still, self._spent, np.iinfo(np.int64).max).min() // 4)) if width else 0
        if width:
            per_cell = min(per_cell, max(1, MOST_ROWS // still.size))
            most = self.limit if self.budget is None else self.budget
            if most is not None:
                per_cell = min(per_cell, (most - self.simulations) // width)
        if per_cell == 0:
            self._closed = True
            return
        self._per_cell = per_cell
        self.plan = (
            np.broadcast_to(still[..., None, :], (*still.shape[:-1], per_cell, still.shape[-1]))
            .reshape(*still.shape[:-1], -1)
            .astype(np.int64)
        )

    def round_state(self) -> None:
        """Nothing is estimated: a round asks where hits are missing."""

    def _round_counts(self, size: int) -> IntArray:
        raise NotImplementedError("inverse binomial sampling plans its rounds itself")

    def _block(self, block: int) -> Batch:
        k = self.counts.shape[-1]
        rows = np.arange(self.plan.shape[-1])
        if self.plan.ndim == 1:
            rows = rows[self.plan > 0]
            if self.block_size is not None:
                rows = rows[block * self.block_size : (block + 1) * self.block_size]
        cells = rows % k
        return Batch(self.round, block, self._points.take(cells), self.plan[..., rows], self.seeds, cells)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        tally = self.problem.tally(batch, outcomes, self.acceptance)
        self._pieces.append(tally.weight)
        self.seen = self.seen + tally.seen

    def _all_failed(self) -> None:
        super()._all_failed()
        self._pieces = [np.zeros_like(weight) for weight in self._pieces]
        assert self._spent is not None
        self.counts, self._gap = self._spent.copy(), self._spent.copy()
        self._log, self._log_variance = np.zeros_like(self._log), np.zeros_like(self._log_variance)

    def _end_round(self) -> None:
        k = self.counts.shape[-1]
        hit = np.zeros(self.plan.shape, dtype=bool)
        told = np.concatenate(self._pieces, axis=-1) > 0
        if self.plan.ndim == 1:
            hit[np.flatnonzero(self.plan)] = told
        else:
            hit = told
        draws = (*self.plan.shape[:-1], self._per_cell, k)
        hit, asked = hit.reshape(draws), self.plan.reshape(draws)
        before = self.hits[..., None, :] + np.cumsum(hit, axis=-2) - hit
        used = (asked > 0) & (before < self.required)
        hit &= used
        # K for each hit: its distance from the hit before it, which may lie in an earlier round.
        position = np.arange(1, self._per_cell + 1)[:, None]
        latest = np.maximum.accumulate(np.where(hit, position, 0), axis=-2)
        previous = np.concatenate([np.zeros_like(latest[..., :1, :]), latest[..., :-1, :]], axis=-2)
        length = np.where(previous > 0, position - previous, position + self._gap[..., None, :])
        length = np.where(hit, length, 1)
        self._log += theory.ibs_log_likelihood(length).sum(axis=-2)
        self._log_variance += theory.ibs_variance(length).sum(axis=-2)
        last = latest[..., -1, :]
        drawn = used.sum(axis=-2)
        self._gap = np.where(last > 0, drawn - last, self._gap + drawn)
        assert self._spent is not None
        self._spent += asked.sum(axis=-2)
        self.counts += drawn
        self.hits += hit.sum(axis=-2)
        self.squares = self.hits.copy()
        self._start_round()

    # ------------------------------------------------------------ what comes out

    @property
    def cells(self) -> Cells:
        return replace(super().cells, spent=self._spent)

    def log_likelihood(self) -> Estimate:
        """log p(x*|θ_i) for every value: the mean over its completed repeats, unbiased, with its standard error.

        A value with no completed repeat has NaN and is not trusted; neither is one stopped by the budget,
        whose completed repeats are the short ones.
        """
        from scipy.special import spence

        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(self.hits > 0, self._log / self.hits, np.nan)
            # Hits at the first draw alone leave the unbiased variance at zero; Li₂(1−p), its expectation, is not
            # zero at Jeffreys' estimate of p.
            expected = self.hits * spence((self.hits + 0.5) / (self.counts + 1))
            error = np.where(self.hits > 0, np.sqrt(np.maximum(self._log_variance, expected)) / self.hits, np.nan)
        unfinished = self.open
        warnings = []
        if unfinished.any():
            warnings.append("the budget ended before every value had its hits")
        if self.required < ENOUGH_HITS:
            warnings.append(f"with fewer than {ENOUGH_HITS} hits per value, log-likelihoods are far from normal")
        return Estimate(
            name="log-likelihood",
            value=value,
            standard_error=error,
            df=np.maximum(self.hits - 1, 1.0),
            simulations=self.simulations,
            accepted=self.hits.sum(axis=-1),
            trusted=~unfinished & (self.required >= ENOUGH_HITS),
            warnings=tuple(warnings),
            labels=tuple(self._points.label(row) for row in range(self._points.rows)),
        )
