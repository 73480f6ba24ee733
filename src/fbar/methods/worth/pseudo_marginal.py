"""A user's own estimate of the likelihood as a: pseudo-marginal inference (Andrieu & Roberts 2009), importance-sampled.

Particle filters, importance samples of latent variables and sums over random subsets give an L̂ with E[L̂|θ] = p(x*|θ).
Exactly that is asked of a, so no tolerance, summary or further simulation is needed, and the answer is about the true
posterior. Several estimates at one θ are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import flag, positive_integer, shown
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.replicates import ReplicatedValuation
from fbar.methods.worth.valuation import Replicates, Valuation, Valued
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.question.problem import Problem

LOG_LIKELIHOOD, LIKELIHOOD = "log_likelihood", "likelihood"

PILOT = 4
"""Estimates at each draw of the first generation, from which their variance is learned."""


@dataclass(frozen=True)
class _Estimating:
    """A simulator that gives an estimate of the likelihood, and no data."""

    estimate: Callable[[Points, np.random.Generator], Any]
    name: str

    def __call__(self, theta: Points, rng: np.random.Generator) -> dict[str, Any]:
        found = np.asarray(self.estimate(theta, rng), dtype=np.float64)
        if found.shape != (theta.rows,):
            raise InputError(
                f"the estimate of the likelihood must be one number for each of {theta.rows} rows of theta; got shape "
                f"{found.shape}"
            )
        # A likelihood of zero is an answer, not a failure.
        return {"x": np.zeros(theta.rows), self.name: np.maximum(found, -1e300)}


def with_likelihood(
    prior: Distribution, estimate: Callable[[Points, np.random.Generator], Any], *, log: bool = True, **options: Any
) -> Problem:
    """A problem whose simulator is an estimate of the likelihood p(x*|θ), without bias: for `PseudoMarginal`.

    ``estimate(theta, rng)`` gives the logarithm of the estimate for each row of a batch (the estimate itself, of either
    sign, with ``log=False``). The estimate must be unbiased, not its logarithm. A known likelihood will do too.

    >>> import fbar, numpy as np
    >>> from scipy import stats
    >>> problem = fbar.with_likelihood(
    ...     fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: stats.norm.logpdf(1.0, t["theta"], 1.0)
    ... )
    >>> result = fbar.infer(problem, fbar.mean("theta"), method="pseudo-marginal", budget=2000, seed=1, progress=False)
    >>> abs(result.estimates[0].value - 0.5) < 0.1
    True
    """
    if not callable(estimate):
        raise InputError(f"estimate must be a function estimate(theta, rng); got {shown(estimate)}")
    name = LOG_LIKELIHOOD if flag(log, "log") else LIKELIHOOD
    return Problem(prior, _Estimating(estimate, name), 0.0, records=[name], **options)


@register(
    "pseudo-marginal",
    "your own unbiased estimate of the likelihood at each draw",
    needs="an estimate of the likelihood",
)
@dataclass(frozen=True)
class PseudoMarginal(WorthMethod):
    """Draws weighted by your own unbiased estimate of the likelihood, where they reduce the error most.

    The problem is made by `with_likelihood`, or its simulator records ``"log_likelihood"`` or ``"likelihood"``.

    Parameters
    ----------
    replicates
        Estimates that are averaged at each θ; by default chosen so that the variance of log a is 1.
    """

    replicates: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replicates is not None:
            positive_integer(self.replicates, "replicates")

    def valuation(self, start: Start) -> Valuation:
        records = start.problem.records
        name = next((name for name in (LOG_LIKELIHOOD, LIKELIHOOD) if name in records), None)
        if name is None:
            raise InputError(
                "the problem has no estimate of its likelihood; make it by fbar.with_likelihood(prior, estimate), or "
                f"let its simulator record {LOG_LIKELIHOOD!r} (records=[{LOG_LIKELIHOOD!r}])"
            )
        return Estimates(self.replicates, name)


class Estimates(ReplicatedValuation):
    """The valuation by a recorded estimate."""

    def __init__(self, replicates: int | None, name: str) -> None:
        super().__init__(replicates, 1, first=PILOT)
        self._name = name

    @property
    def about(self) -> str:
        return "the posterior"

    def value(self, waves: Sequence[Replicates]) -> Valued:
        (wave,) = waves
        given = np.asarray(wave.recorded[self._name], dtype=np.float64)
        if self._name == LIKELIHOOD:
            return Valued.of(np.where(wave.failed, 0.0, given).mean(axis=1))
        log_each = np.where(wave.failed, -np.inf, given)
        top = log_each.max(axis=1, keepdims=True)
        part = np.exp(log_each - np.where(np.isfinite(top), top, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_a = np.log(part.mean(axis=1)) + top[:, 0]
            # The variance of log a to first order: the squared coefficient of variation of the mean.
            variance = part.var(axis=1, ddof=1) / part.mean(axis=1) ** 2 / wave.each if wave.each > 1 else None
        return Valued.positive(np.where(log_a > -1e299, log_a, -np.inf), variance)

    @property
    def remark(self) -> str:
        return f"{self._chosen} estimates of the likelihood at each draw of θ" if self._chosen > 1 else ""
