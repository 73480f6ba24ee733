"""The posterior of one run as the prior of the next: data that come one after the other, and what the error bars know.

Let π₁ be the posterior after the first data, L(θ) = p(x₂|θ) and π₂ ∝ π₁ L the posterior after both. The first run gives
a sample π̂₁, that is E_π̂₁[g] with an error, for any g. The second run starts from a distribution q fitted to it
(`fbar.question.priors.fitted`), simulates the second data, and estimates T(π̂₂), π̂₂ ∝ q L, with the error of its own
simulations. To first order in q − π₁, with r = dπ₂/dπ₁ = L/∫π₁L and ψ the influence function of T at π₂,

    T(π̂₂) − T(π₂) = ∫ (q − π₁) r ψ = (E_π̂₁ − E_π₁)[r ψ]  −  (E_π̂₁ − E_q)[r ψ].

For T = E[f]: ∫qLf/∫qL − ∫π₁Lf/∫π₁L = ∫(q − π₁) L (f − T)/∫π₁L + …, the weights multiply. So one function g = r ψ has
both parts:

- the first term is the error of the first run's own estimate of E[g]. Its variance is what the first run says of it,
  with the bias that may remain where it answers at the data, and with the error of *its* prior if that was a posterior
  again. For n independent draws it is Var_π₁(rψ)/n, about Var(ψ)/n₂ with the effective size n₂ = n/E_π₁[r²]: of the
  first sample only what agrees with the new data counts;
- the second is what the fit distorts: the difference d between the sample and the fit, which is computed.

The covariance of an estimate is that of the second run's simulations, plus the first term's, plus d dᵀ. The two last do
not fall with more simulations of the second run, and are reported as its ``bias``. Where n₂ < 20, no error bar is
reliable: linearisation fails.

r is needed for error bars only. In coordinates e in which q is N(0, I), the second posterior has mean μ and covariance
S, and r is taken to be N(e; μ, S)/N(e; 0, I), with no eigenvalue of S above 1 and E_π̂₁[r] = 1. ψ of a target that is a
function of what the second simulator records is taken to be its regression on e and its products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.estimation.posterior import Further, FurtherError, Posterior
from fbar.question.points import Points
from fbar.question.priors import Distribution
from fbar.question.priors.base import evenly_spread
from fbar.question.priors.fitted import FittedToSample
from fbar.question.targets import Target
from fbar.question.targets.expectations import Expectation
from fbar.weights import effective_size

FEW = 20
"""Effective draws of the first sample that the new data leave, without which no error bar is reliable."""

COMPARED = 8192
"""Points of the fit that the sample is compared with."""

MOST_LOG_RATIO = 50.0
LEAST_EIGENVALUE = 1e-8


class PosteriorAsPrior(FittedToSample):
    """The posterior of a run as a prior, made by `Result.as_prior`.

    It is a density fitted to the posterior's weighted sample. Answers that use it include the error of that sample and
    of the fit, see ``fbar.estimation.sequential``.
    """

    def __init__(self, posterior: Posterior, base: Distribution) -> None:
        if np.ndim(posterior.weights) > 1:
            raise InputError("many trials are many posteriors; a prior needs one")
        if not posterior.has_errors:
            raise InputError("this posterior has no error bars, which an answer with it as prior needs")
        super().__init__(base, posterior.pictured.points, posterior.pictured.weights)
        self._posterior = posterior

    @property
    def posterior(self) -> Posterior:
        """The posterior that it stands for."""
        return self._posterior

    @property
    def effective_size(self) -> float:
        """The effective sample size of the posterior."""
        known = self._posterior.ess
        return self._effective if known is None else min(float(known), self._effective)

    def __repr__(self) -> str:
        return f"PosteriorAsPrior({', '.join(self.names)}; {self.effective_size:,.0f} effective draws)"


Psi = Callable[[Points], FloatArray]
"""An influence function of θ."""


class _Regressed:
    """The regression of ψ on scores and their products, for ψ that are known at the points of a posterior only."""

    def __init__(self, prior: PosteriorAsPrior, posterior: Posterior, psi: FloatArray) -> None:
        self._prior = prior
        root = np.sqrt(np.maximum(posterior.weights, 0.0))[:, None]
        x = self._regressors(posterior.points)
        self._slope = np.linalg.lstsq(root * x, root * psi, rcond=None)[0]

    def _regressors(self, points: Points) -> FloatArray:
        e = self._prior.scores(points)
        products = [e[:, i] * e[:, j] for i in range(e.shape[1]) for j in range(i + 1)]
        return np.stack([np.ones(len(e)), *e.T, *products], axis=1)

    def __call__(self, points: Points) -> FloatArray:
        return np.asarray(self._regressors(points) @ self._slope)


class _Ratio:
    """r = dπ₂/dπ₁ as a function of scores e: N(e; μ, S)/N(e; 0, I), times a constant."""

    def __init__(self, e: FloatArray, weights: FloatArray) -> None:
        self.mean = weights @ e
        centred = e - self.mean
        values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred)
        self._values, self._vectors = np.clip(values, LEAST_EIGENVALUE, 1.0), vectors
        self.scale = 1.0

    def __call__(self, e: FloatArray) -> FloatArray:
        away = ((e - self.mean) @ self._vectors) ** 2 / self._values
        log = 0.5 * ((e**2).sum(axis=1) - away.sum(axis=1) - np.log(self._values).sum())
        return np.asarray(self.scale * np.exp(np.minimum(log, MOST_LOG_RATIO)))


class ErrorOfPrior(FurtherError):
    """What a prior that is itself a posterior adds to the errors of an answer."""

    def __init__(self, prior: PosteriorAsPrior) -> None:
        self.prior = prior

    def _ratio(self, posterior: Posterior) -> tuple[_Ratio, float]:
        """r, and the effective size n₂ of the first sample under the weights times r."""
        first = self.prior.posterior
        weights = np.maximum(posterior.weights, 0.0)
        ratio = _Ratio(self.prior.scores(posterior.points), weights / weights.sum())
        at = ratio(self.prior.scores(first.points)) * np.maximum(first.weights, 0.0)
        total = float(at.sum())
        if not total > 0:
            return ratio, 0.0
        ratio.scale = 1 / total
        return ratio, self.prior.effective_size * effective_size(at) / effective_size(first.weights)

    def left_by(self, posterior: Posterior) -> float:
        """The effective size n₂ that the new data leave of the first sample."""
        return self._ratio(posterior)[1]

    def of(self, posterior: Posterior, targets: Sequence[Target]) -> Further:
        prior = self.prior
        ratio, left = self._ratio(posterior)
        functions = [self._psi(posterior, target) for target in targets]
        derived = posterior.points.derived

        def g(points: Points) -> FloatArray:
            known = points.with_derived(derived)
            columns = [np.atleast_2d(psi(known)) for psi in functions]
            return np.concatenate(columns, axis=1) * ratio(prior.scores(points))[:, None]

        fit = g(prior.from_unit(evenly_spread(COMPARED, prior.dimension))).mean(axis=0)
        found = prior.posterior.expect([Expectation(g, "error of the prior", vector=True)])
        distorted = np.atleast_1d(found[0].value) - fit
        covariance = np.asarray(found.covariance) + np.outer(distorted, distorted)
        doubt = "" if left >= FEW else self._too_few(left)
        return Further(covariance, np.atleast_1d(found[0].df), doubt)

    def _psi(self, posterior: Posterior, target: Target) -> Psi:
        """ψ as a function of θ alone."""
        psi = target.psi(posterior.points, posterior.weights)
        first = self.prior.posterior.points.take([0]).with_derived(posterior.points.derived)
        try:
            psi(first)
        except InputError:  # it is a function of what the second simulator records
            return _Regressed(self.prior, posterior, psi(posterior.points))
        return psi

    def _too_few(self, left: float) -> str:
        return (
            f"the prior is a sample of {self.prior.effective_size:,.0f} effective draws, of which the new data leave "
            f"{left:.2g}; give the first run more simulations, or ask about both data sets together"
        )


def with_error_of_prior(posterior: Posterior, prior: Distribution) -> Posterior:
    """The same posterior, whose error bars know of the prior's where that is the posterior of an earlier run."""
    if isinstance(prior, PosteriorAsPrior) and posterior.further is None:
        posterior.further = error = ErrorOfPrior(prior)
        about = (
            f"the prior is the posterior of an earlier run: {prior.effective_size:,.0f} effective draws, of which the "
            f"new data leave {error.left_by(posterior):,.0f}"
        )
        posterior.remark = "; ".join(text for text in (posterior.remark, about) if text)
    return posterior
