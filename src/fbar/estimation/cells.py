"""Posterior of a finite parameter space from the counts of its cells, with error bars.

Three ways from counts to p̂(θ_i|x*), each with its variance (paper, sections 2, S4.2 and S5.1):

`ActualCounts`
    p̂_i = n_i*/n_i, weighted by π_i. For any counts: deterministic, multinomial or adaptive.
`ExpectedCounts`
    accepted simulations weighted by π_i/q_i, for independent draws from q.
`InverseCounts`
    p̂_i = (R−1)/(n_i−1), unbiased when θ_i was simulated until its R-th hit.

All write the error of any target with influence function ψ as V̂ = Σ_i g_i ψ_i², where g_i is the squared
weight of the cell times the estimated variance of its part. The delta method's plug-in g_i is zero for a
cell with no acceptance (or with acceptances only), which would claim perfect knowledge. Such cells, those
with fewer than five acceptances or rejections, enter with Jeffreys' estimate p̃ = (n*+½)/(n+1) in place
of p̂ wherever that would make up over 1% of V̂: conservative, and never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fbar import theory
from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED, ONE_CARRIES, all_rejected, carried
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.question.outcomes import Seen
from fbar.question.points import Points

FEW = 5
"""Cells with fewer acceptances (or rejections) than this are not taken at their word."""

SHARE_THAT_MATTERS = 0.01


@dataclass(frozen=True, eq=False)
class Cells:
    """What was simulated in each cell: the prior π (k,), counts n, Σa and Σa² (..., k).

    ``spent`` are the simulations that were run, where some of them are not used.
    """

    points: Points
    prior: FloatArray
    counts: FloatArray
    hits: FloatArray
    squares: FloatArray
    seen: Seen = field(default_factory=Seen)
    spent: IntArray | None = None

    @property
    def simulations(self) -> Any:
        total = (self.counts if self.spent is None else self.spent).sum(axis=-1)
        return int(total) if total.ndim == 0 else total

    @property
    def accepted(self) -> Any:
        total = self.hits.sum(axis=-1)
        return float(total) if total.ndim == 0 else total

    @property
    def jeffreys(self) -> FloatArray:
        """p̃ = (n*+½)/(n+1), the mean of the Beta posterior under Jeffreys' prior."""
        return (self.hits + 0.5) / (self.counts + 1.0)

    @property
    def few_hits(self) -> BoolArray:
        return (self.hits < FEW) & (self.prior > 0)

    @property
    def few_hits_or_misses(self) -> BoolArray:
        return (np.minimum(self.hits, self.counts - self.hits) < FEW) & (self.prior > 0)

    def require_acceptances(self) -> None:
        """Without any acceptance R/S is 0/0: an error for a run, NaN for a trial among many."""
        if self.hits.ndim == 1 and not self.hits.any():
            raise all_rejected(self.simulations, self.seen)


@dataclass(frozen=True, eq=False)
class CellErrors(ErrorModel):
    """The error model that the estimators below share.

    ``plain`` are the plug-in g_i and ``careful`` those with p̃; ``plain_spread`` and ``careful_spread`` the
    relative variances of these numbers themselves, from which the degrees of freedom follow. ``careful`` is
    None where the plug-in is wanted as it stands (the paper's figures). ``unsure`` are the cells whose plug-in
    cannot be taken at its word.
    """

    counted: Cells
    plain: FloatArray
    plain_spread: FloatArray
    careful: FloatArray | None
    careful_spread: FloatArray | None
    unsure: BoolArray
    effective_size: Any
    doubt: str = ""

    @property
    def ess(self) -> Any:
        return self.effective_size

    @property
    def cells(self) -> Cells:
        return self.counted

    def parts(self, influence: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The cells' parts of V̂, shape (..., k, m), their relative variances, and which of them are careful ones."""
        square = influence**2
        part = self.plain[..., None] * square
        spread = np.broadcast_to(self.plain_spread[..., None], part.shape)
        replaced = np.zeros(part.shape, dtype=bool)
        if self.careful is not None and self.careful_spread is not None:
            doubtful = np.where(self.unsure, self.careful, self.plain)[..., None] * square
            doubtful = np.maximum(part, doubtful)
            total = doubtful.sum(axis=-2, keepdims=True)
            unsure = np.broadcast_to(self.unsure[..., None], part.shape)
            replaced = unsure & (doubtful > SHARE_THAT_MATTERS * total) & (doubtful > part)
            part = np.where(replaced, doubtful, part)
            spread = np.where(replaced, self.careful_spread[..., None], spread)
        return part, spread, replaced

    def value_parts(self, influence: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.parts(influence)[:2]

    def known_share(self, influence: FloatArray) -> FloatArray:
        """The share of V̂ that is not a careful guess about cells with few acceptances, shape (..., m)."""
        part, _, _ = self.parts(influence)
        total, plain = part.sum(axis=-2), (self.plain[..., None] * influence**2).sum(axis=-2)
        return np.asarray(np.where(total > 0, plain / np.where(total > 0, total, 1.0), 1.0))

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        part, spread, replaced = self.parts(influence)
        root = np.sqrt(part) * np.sign(influence)
        covariance = np.einsum("...ka,...kb->...ab", root, root)
        variance = part.sum(axis=-2)
        accepted = self.cells.hits.sum(axis=-1)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            # Satterthwaite: V̂ is a sum of parts with variances spread·part², so 2V̂²/Σ matches a χ².
            df = 2 * variance**2 / (spread * part**2).sum(axis=-2)
        df = np.clip(np.nan_to_num(df, nan=1.0, posinf=np.inf), 1.0, np.maximum(1.0, accepted - 1))
        return ErrorBars(covariance, df, self._doubts(part, replaced, variance))

    def _doubts(self, part: FloatArray, replaced: Any, variance: FloatArray) -> tuple[tuple[Any, str], ...]:
        cells = self.cells
        few = np.broadcast_to((cells.hits.sum(axis=-1) < FEW_ACCEPTED)[..., None], variance.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            one = np.where(cells.hits[..., None] > 0, part / cells.hits[..., None], 0.0).max(axis=-2) / variance
            guessed = np.where(replaced, part, 0.0).sum(axis=-2) / variance
            share = part / variance[..., None, :]
        missing = ((cells.counts < 2) & (cells.prior > 0))[..., None] & ~(share <= SHARE_THAT_MATTERS)
        general = ((np.ones(variance.shape, dtype=bool), self.doubt),) if self.doubt else ()
        return (
            *general,
            (few, FEW_WERE_ACCEPTED),
            (one > ONE_CARRIES, carried()),
            (missing.any(axis=-2), "some parameter values that matter were simulated at most once"),
            (
                guessed > 0.5,
                "over half of the error bar is a guess about parameter values with fewer than "
                f"{FEW} acceptances or rejections",
            ),
        )


def _scale(cells: Cells, p_hat: FloatArray) -> FloatArray:
    """π_i²/Ẑ²; NaN in a trial without any acceptance."""
    z = theory.evidence(cells.prior, p_hat)[..., None]
    return np.asarray(cells.prior**2 / np.where(z > 0, z, np.nan) ** 2)


def _spread(p: FloatArray, n: FloatArray) -> FloatArray:
    """Relative variance of p̂(1−p̂), by the delta method: (1−2p)²/(n p(1−p))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((1 - 2 * p) ** 2 / (n * p * (1 - p)), nan=0.0, posinf=0.0)


def _posterior(cells: Cells, p_hat: FloatArray, errors: CellErrors) -> Posterior:
    with np.errstate(invalid="ignore"):
        weights = theory.normalise(cells.prior * p_hat)
    posterior = Posterior(cells.points, weights, errors, cells.simulations, cells.accepted)
    posterior.likelihood = p_hat
    return posterior


@dataclass(frozen=True)
class ActualCounts:
    """p̂_i = n_i*/n_i (section 2), and the variance of section S4.2 with the small-sample factor n/(n−1).

    With ``pseudo_count`` c > 0, p̂_i = (n_i* + c)/(n_i + 2c). With ``plug_in`` the variance is p̂_i(1−p̂_i)/n_i
    as it stands. The paper's figures S3 and S4 have both (c = 0.01).
    """

    pseudo_count: float = 0.0
    plug_in: bool = False

    def __call__(self, cells: Cells) -> Posterior:
        cells.require_acceptances()
        c = self.pseudo_count
        n = cells.counts + 2 * c
        with np.errstate(divide="ignore", invalid="ignore"):
            p_hat = np.where(n > 0, (cells.hits + c) / n, 0.0)
            if self.plug_in:
                variance = p_hat * (1 - p_hat) / cells.counts  # ∞ for a value that was never simulated
            else:
                spread = cells.squares / cells.counts - (cells.hits / cells.counts) ** 2
                variance = np.where(cells.counts > 1, np.maximum(spread, 0.0) / (cells.counts - 1), 0.0)
            # S3.3: each accepted simulation of cell i has weight π_i/n_i.
            unit = np.where(cells.counts > 0, cells.prior / cells.counts, 0.0)
            ess = (cells.hits * unit).sum(-1) ** 2 / (cells.squares * unit**2).sum(-1)
        scale = _scale(cells, p_hat)
        careful = careful_spread = None
        if not self.plug_in:
            p, m = cells.jeffreys, cells.counts + 1
            careful, careful_spread = scale * (p * (1 - p) / m), _spread(p, m)
        errors = CellErrors(
            cells, scale * variance, _spread(p_hat, n), careful, careful_spread, cells.few_hits_or_misses, ess
        )
        return _posterior(cells, p_hat, errors)


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Independent draws from q, each accepted one weighted by π/q (section S5.1).

    V̂ = N/(N−1) Σ z², z = w a ψ/Σ w a over single simulations (their sum is zero).
    """

    q: FloatArray

    def __call__(self, cells: Cells) -> Posterior:
        cells.require_acceptances()
        total = cells.counts.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(self.q > 0, cells.prior / self.q, 0.0)
            p_hat = cells.hits * w / cells.prior / total
            p_hat = np.where(cells.prior > 0, p_hat, 0.0)
            scale = w**2 / (cells.hits * w).sum(axis=-1, keepdims=True) ** 2
            plain = scale * cells.squares * total / np.maximum(total - 1, 1)
            plain_spread = np.where(cells.hits > 0, 1 / cells.hits, 0.0)
            ess = (cells.hits * w).sum(-1) ** 2 / (cells.squares * w**2).sum(-1)
        guess = total * self.q * cells.jeffreys  # hits that could have been expected
        with np.errstate(divide="ignore"):
            guess_spread = np.where(guess > 0, 1 / guess, 0.0)
        errors = CellErrors(cells, plain, plain_spread, scale * guess, guess_spread, cells.few_hits, ess)
        return _posterior(cells, p_hat, errors)


@dataclass(frozen=True)
class InverseCounts:
    """p̂_i = (R−1)/(n_i−1) after simulating θ_i until its R-th hit, with variance p̂_i(1−p̂_i)/(n_i−2).

    Both are unbiased (Haldane 1945; Finney 1949). With R = 1 there is no unbiased estimate but 0; then 1/n_i
    is used, with Jeffreys' variance. Cells whose hits are not complete are treated as `ActualCounts` does.
    """

    required: int

    def __call__(self, cells: Cells) -> Posterior:
        cells.require_acceptances()
        n, hits = cells.counts, cells.hits
        complete = (hits >= self.required) & (self.required > 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            p_hat = np.where(complete, (hits - 1) / (n - 1), np.where(n > 0, hits / n, 0.0))
            variance = np.where(n > 2, p_hat * (1 - p_hat) / (n - 2), 0.0)
            unit = np.where(n > 0, cells.prior / n, 0.0)
            ess = (hits * unit).sum(-1) ** 2 / (cells.squares * unit**2).sum(-1)
        scale = _scale(cells, p_hat)
        p, m = cells.jeffreys, n + 1
        errors = CellErrors(
            cells,
            scale * variance,
            1 / np.maximum(hits, 1),
            scale * p * (1 - p) / m,
            _spread(p, m),
            cells.few_hits_or_misses,
            ess,
            "" if self.required >= FEW_ACCEPTED else f"fewer than {FEW_ACCEPTED} hits were required of each value",
        )
        return _posterior(cells, p_hat, errors)
