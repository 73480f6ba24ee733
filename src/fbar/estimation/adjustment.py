"""Local linear regression adjustment of accepted simulations (Beaumont, Zhang & Balding 2002), with its error bar.

In coordinates ζ of the parameters, ζ = α + (s − s*)β + e is fitted by least squares with the weights W ∝ w a
(importance weight times acceptance kernel) of the simulations within the tolerance, and each is moved to the data,

    ζ* = ζ − (s − s*) β̂.

Where E[ζ|s] is linear over the tolerance and the distribution of e the same at every s, the adjusted points are the
posterior at tolerance 0, as for a linear Gaussian model with any tolerance. How the spread of e depends on s is not
corrected: where s informs about the variance only, nothing is gained. ζ = Φ⁻¹(u), u the prior's unit coordinates, so
that no adjusted θ leaves the prior's support; for a normal prior this is θ itself in its own scale.

Residuals are too small by what the fit took from them. With g = (1, s − s̄), A = Σ W g gᵀ and V = Σ W² g gᵀ the variance
of a residual is σ² (1 − 2h + gᵀA⁻¹VA⁻¹g), h = W gᵀA⁻¹g, if that of e is σ² everywhere (1 − h for equal weights); ζ* are
α̂ + e over the root of that factor, and centred again.

The error bar is the sandwich, by linearisation: β̂ is itself an estimate from the same simulations. To first order
δβ = M⁻¹ Σ W (s − s̄) eᵀ with M = Σ W (s − s̄)(s − s̄)ᵀ, and a target T moves with β by D_kj = ∂T/∂β_kj =
−Σ W (s − s*)_k ∂ψ/∂ζ_j, so that the influence function of simulation i is

    ψ(θ*_i) + Σ_j D_jᵀ M⁻¹ (s_i − s̄) e_ij,

whose second term for the mean of ζ makes the first the sandwich variance of the intercept α̂. It goes through the plain
estimator's formula for the variance of Σ W·influence, whatever the draws' scheme. ∂ψ/∂ζ_j is a central difference with
the step sd(e_j) n_eff^(−1/5): exact for moments in ζ, and for probabilities and quantiles, whose ψ have jumps, a kernel
estimate of the density there. The covariances' second-order terms leave the estimation of β out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from fbar.arrays import FloatArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.question.priors import Distribution, structure
from fbar.question.problem import Problem
from fbar.question.targets import Target

SPARE = 10
"""Accepted simulations beyond one for each summary, at the least."""

EACH = 10
"""Effective simulations for each summary; with 9 of them 95% intervals for a probability held it in 91% of runs."""

LEAST_SHARE = 0.1
"""The least share of a residual's variance that is taken to be left after the fit."""

AT_ONCE = 100_000
"""Points that are looked at together: few calls of the prior, and not much memory."""

TINY = 2.0**-53


class AdjustedPosterior(Posterior):
    """A posterior whose points were moved to the data by regression on the summaries.

    ``away`` is s − s* of the posterior's points, shape (n, d). ``slope`` is β̂ (d, dimension) in working coordinates.
    """

    def __init__(self, posterior: Posterior, away: FloatArray, problem: Problem) -> None:
        self.problem = problem
        _require_continuous(problem.prior, posterior.points)
        x, weights = away[:, np.ptp(away, axis=0) > 0], posterior.weights
        if posterior.points.rows < x.shape[1] + SPARE:
            raise InputError(
                f"{posterior.points.rows} simulations were accepted, too few to regress on {x.shape[1]} summaries; at "
                f"least {x.shape[1] + SPARE} are needed: raise the tolerance or the budget"
            )
        zeta = ndtri(np.clip(problem.prior.to_unit(posterior.points), TINY, 1 - TINY))
        centred = x - weights @ x
        self._inverse = np.linalg.pinv((weights[:, None] * centred).T @ centred, rcond=1e-12, hermitian=True)
        self.slope = self._inverse @ (weights[:, None] * centred).T @ zeta
        fitted = zeta - x @ self.slope
        middle = weights @ fitted
        residual = (fitted - middle) / np.sqrt(self._left(centred, weights))[:, None]
        self._away, self._centred, self._residual = x, centred, residual - weights @ residual
        self._zeta = middle + self._residual
        super().__init__(
            self._moved_to(self._zeta), weights, posterior.errors, posterior.simulations, posterior.accepted
        )

    def _left(self, centred: FloatArray, weights: FloatArray) -> FloatArray:
        """The share of each residual's variance that the fit has left."""
        # A⁻¹ is 1 for the intercept and M⁻¹ for the slopes: centred regressors are orthogonal to the constant.
        g = np.concatenate([np.ones((len(centred), 1)), centred], axis=1)
        moved = np.concatenate([np.ones((len(centred), 1)), centred @ self._inverse], axis=1)
        leverage = weights * (g * moved).sum(axis=1)
        v = (weights[:, None] ** 2 * g).T @ g
        return np.asarray(np.maximum(1 - 2 * leverage + ((moved @ v) * moved).sum(axis=1), LEAST_SHARE))

    def _moved_to(self, zeta: FloatArray) -> Points:
        unit = np.clip(ndtr(zeta), TINY, 1 - TINY)
        return self.problem.prior.from_unit(unit).with_derived(self.problem.derived)

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        bars = super()._error_bars(targets)
        few = np.full(bars.df.shape, self.ess < EACH * self._away.shape[1])
        text = f"fewer than {EACH} effective simulations were accepted for each summary that θ is regressed on"
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (few, text)))

    def _influences(self, targets: tuple[Target, ...]) -> list[FloatArray]:
        """ψ with what the estimation of β adds to it."""
        w = self.weights
        psi = [target.psi(self.points, w) for target in targets]
        influences = super()._influences(targets)
        step = np.sqrt(w @ self._residual**2) * (w**2).sum() ** 0.2
        moving = np.flatnonzero(step)  # the summaries may determine a coordinate
        n = w.size
        for some in np.array_split(moving, max(1, 2 * n * moving.size // AT_ONCE)):
            if some.size == 0:
                continue
            moves = np.eye(step.size)[some] * step
            moved = self._moved_to(np.concatenate([self._zeta + sign * m for m in moves for sign in (1, -1)]))
            for number, own in enumerate(psi):
                both = own(moved).reshape(some.size, 2, n, -1)
                for j, (up, down) in zip(some, both, strict=True):
                    d = -(w[:, None] * self._away).T @ ((up - down) / (2 * step[j]))
                    added = (self._centred @ (self._inverse @ d)) * self._residual[:, j, None]
                    influences[number] = influences[number] + added
        return influences


def _require_continuous(prior: Distribution, points: Points) -> None:
    known = structure(prior)
    if known.values is not None or known.models is not None:
        raise InputError(
            "adjustment moves parameters, so it needs one model with continuous ones; use extrapolated() instead"
        )
    for name in prior.names:
        if name in known.discrete or points[name].dtype.kind != "f":
            raise InputError(
                f"adjustment moves parameters, and {shown(name)} takes single values only; use extrapolated() instead"
            )
