"""Divergences, and the errors of the posterior and of the likelihood themselves.

For t = p̂/p a φ-divergence is E_p[φ(t)] (section 1.2.2, e:phi_divergence). On a finite space it is an exact sum.
Elsewhere it is a mean over draws from the truth, with the approximation's own density or the estimate of
`fbar.scores.density`; multiples of t − 1, whose expectation is zero, are added to φ so that it is never negative and
its mean less noisy. Mass that p̂ puts where p has none is not seen by draws from p.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fbar import theory
from fbar.arrays import FloatArray, numeric_array
from fbar.checks import shown
from fbar.errors import InputError
from fbar.scores.approximation import Approximation
from fbar.scores.arrays import distributions, is_finite, probabilities, true_probabilities
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.scores.density import log_ratio

Phi = Callable[[FloatArray], FloatArray]


def phi_kl(t: FloatArray) -> FloatArray:
    """t log t − t + 1: KL(p̂‖p)."""
    return np.asarray(theory.kullback_leibler(t) - t + 1)


def phi_reverse_kl(t: FloatArray) -> FloatArray:
    """−log t + t − 1: KL(p‖p̂), infinite where p̂ is zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(t) + t - 1)


def phi_chi2(t: FloatArray) -> FloatArray:
    """(t − 1)²: ∫ (p̂ − p)²/p."""
    return np.asarray((t - 1) ** 2)


def phi_hellinger(t: FloatArray) -> FloatArray:
    """(√t − 1)²/2: the squared Hellinger distance, 1 − ∫ √(p̂ p)."""
    return np.asarray((np.sqrt(t) - 1) ** 2 / 2)


def phi_jensen_shannon(t: FloatArray) -> FloatArray:
    """½ (t log t − (1 + t) log((1 + t)/2)): ½ KL(p̂‖m) + ½ KL(p‖m) with m = (p̂ + p)/2."""
    return np.asarray((theory.kullback_leibler(t) - (1 + t) * np.log((1 + t) / 2)) / 2)


def _sum(
    p_hat: npt.ArrayLike, p: npt.ArrayLike, function: Callable[[FloatArray, FloatArray], FloatArray]
) -> FloatArray:
    a, b = np.broadcast_arrays(*distributions(p_hat, p))
    return np.asarray(function(a, b).sum(axis=-1))


def _kl(a: FloatArray, b: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 0, a * np.log(a / b), 0.0)


def kl(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """KL(p̂‖p) = Σ p̂ log(p̂/p) over a finite space, shape (..., k); infinite where p̂ > 0 = p.

    >>> float(kl([0.5, 0.5], [0.5, 0.5])), float(kl([1.0, 0.0], [0.5, 0.5]).round(6))
    (0.0, 0.693147)
    """
    return _sum(p_hat, p, _kl)


def chi2(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """Σ (p̂ − p)²/p; infinite where p̂ > 0 = p."""

    def term(a: FloatArray, b: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((a == 0) & (b == 0), 0.0, (a - b) ** 2 / b)

    return _sum(p_hat, p, term)


def hellinger(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """√(½ Σ (√p̂ − √p)²), between 0 and 1."""
    return np.asarray(np.sqrt(_sum(p_hat, p, lambda a, b: (np.sqrt(a) - np.sqrt(b)) ** 2 / 2)))


def jensen_shannon(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """½ KL(p̂‖m) + ½ KL(p‖m) with m = (p̂ + p)/2, between 0 and log 2."""
    return _sum(p_hat, p, lambda a, b: (_kl(a, (a + b) / 2) + _kl(b, (a + b) / 2)) / 2)


def posterior_mse(p_hat: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """Σ (p̂_i − p_i)² (section 1.2.2, d_post)."""
    return _sum(p_hat, p, lambda a, b: (a - b) ** 2)


def unnormalised_mse(prior: npt.ArrayLike, likelihood: npt.ArrayLike, true_likelihood: npt.ArrayLike) -> FloatArray:
    """Σ π_i² (p̂_i* − p_i*)² (section S3.2: the error of the unnormalised posterior)."""
    pi, a, b = (numeric_array(v, "likelihoods") for v in (prior, likelihood, true_likelihood))
    return np.asarray((pi**2 * (a - b) ** 2).sum(axis=-1))


def log_likelihood_mse(
    prior: npt.ArrayLike, log_likelihood: npt.ArrayLike, true_likelihood: npt.ArrayLike
) -> FloatArray:
    """Σ π_i (log p̂_i* − log p_i*)²; infinite where p̂_i* is zero, or has no estimate (NaN), and p_i* is not.

    >>> float(log_likelihood_mse([0.5, 0.5], [np.log(0.2), -np.inf], [0.2, 0.1]))
    inf
    """
    pi, a, p = (numeric_array(v, "likelihoods") for v in (prior, log_likelihood, true_likelihood))
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = np.where(np.isnan(a), -np.inf, a), np.log(p)
        square = np.where(np.isneginf(a) & np.isneginf(b), 0.0, (a - b) ** 2)
        return np.asarray(np.where(pi > 0, pi * square, 0.0).sum(axis=-1))


# ---------------------------------------------------------------- scores


_SAMPLES = "; for samples it is infinite without a density estimate, on which the number then depends"


@register
@dataclass(frozen=True)
class PosteriorMSE(Score):
    """∫ (p̂ − p)² dθ: exactly on a finite space, elsewhere as E_p[(p̂ − p)²/p] over draws from the truth."""

    name: ClassVar[str] = "posterior-mse"
    title: ClassVar[str] = "squared error of the normalised posterior"
    formula: ClassVar[str] = "∫ (p̂(θ) − p(θ))² dθ"
    range: ClassVar[str] = "[0, ∞), in units of a density"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "density"
    blind_spot: ClassVar[str] = (
        "S_d_f with f = δ(θ′ − θ), not free of f: emphasises errors where the posterior is large, and depends on the "
        f"parameters' units{_SAMPLES}"
    )

    bandwidth: str = "scott"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if is_finite(scene):
            return {"": float(posterior_mse(probabilities(approximation, scene), true_probabilities(scene)))}
        ratio = np.exp(log_ratio(approximation, scene, self.bandwidth))
        return {"": float((np.exp(scene.true_log_density) * (ratio - 1) ** 2).mean())}


def likelihoods(approximation: Approximation, scene: Scene, *, log: bool) -> tuple[FloatArray, FloatArray]:
    """p̂(x*|θ_i), or its log, and p(x*|θ_i) at the values of a finite prior.

    An algorithm may estimate both, each without bias: its own estimates of log p* are used for the log, those of its
    posterior for p* itself; one is made from the other where there is one alone.
    """
    if not is_finite(scene):
        raise InputError(
            f"this score needs a prior on finitely many values; this problem has {shown(scene.problem.prior)}"
        )
    size, true = scene.problem.finite.size, scene.problem.p_star
    if true is None:
        raise InputError("the true likelihood of this problem is not known at the values of its prior")
    given = approximation.likelihood
    own = None if approximation.posterior is None else approximation.posterior.likelihood
    if given is None and own is None:
        raise InputError("this algorithm gave no estimates of the likelihood; its scale cannot be found from weights")
    if own is None or (log and given is not None):
        estimate = numeric_array(given, "log-likelihoods")
        estimate = estimate if log else np.exp(np.where(np.isnan(estimate), -np.inf, estimate))
    else:
        with np.errstate(divide="ignore"):
            estimate = np.log(own) if log else own
    if estimate.shape != (size,):
        raise InputError(f"likelihoods must be {size} numbers, one for each value; got shape {estimate.shape}")
    return estimate, true


@register
@dataclass(frozen=True)
class UnnormalisedMSE(Score):
    """Σ π²(p̂* − p*)² on a finite prior."""

    name: ClassVar[str] = "unnormalised-mse"
    title: ClassVar[str] = "squared error of the unnormalised posterior"
    formula: ClassVar[str] = "Σ π_i² (p̂(x*|θ_i) − p(x*|θ_i))²"
    range: ClassVar[str] = "[0, ∞)"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "finite"
    blind_spot: ClassVar[str] = "the error of the normalising constant, which can be most of the posterior's error"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        p, true = likelihoods(approximation, scene, log=False)
        return {"": float(unnormalised_mse(scene.problem.finite.probabilities, p, true))}


@dataclass(frozen=True)
class Divergence(Score):
    """A φ-divergence. ``bandwidth`` is that of the density estimate, where one is needed."""

    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "density"
    phi: ClassVar[Phi]
    root: ClassVar[bool] = False

    bandwidth: str = "scott"

    @abstractmethod
    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        """On a finite space."""

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if is_finite(scene):
            return {"": float(self.exact(probabilities(approximation, scene), true_probabilities(scene)))}
        with np.errstate(over="ignore"):
            value = float(type(self).phi(np.exp(log_ratio(approximation, scene, self.bandwidth))).mean())
        return {"": value**0.5 if self.root else value}


_SMOOTH = "emphasises errors where the posterior is small"


@register
@dataclass(frozen=True)
class KL(Divergence):
    name: ClassVar[str] = "kl"
    title: ClassVar[str] = "Kullback–Leibler divergence of the approximation from the truth"
    formula: ClassVar[str] = "KL(p̂‖p) = ∫ p̂ log(p̂/p)"
    range: ClassVar[str] = "[0, ∞]"
    blind_spot: ClassVar[str] = f"{_SMOOTH}, whether or not a target cares{_SAMPLES}"
    phi: ClassVar[Phi] = staticmethod(phi_kl)

    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        return kl(p_hat, p)


@register
@dataclass(frozen=True)
class ReverseKL(Divergence):
    name: ClassVar[str] = "reverse-kl"
    title: ClassVar[str] = "Kullback–Leibler divergence of the truth from the approximation"
    formula: ClassVar[str] = "KL(p‖p̂) = ∫ p log(p/p̂)"
    range: ClassVar[str] = "[0, ∞]"
    blind_spot: ClassVar[str] = (
        f"the same as kl, to which it is equal at leading order; infinite if p̂ misses a value{_SAMPLES}"
    )
    phi: ClassVar[Phi] = staticmethod(phi_reverse_kl)

    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        return kl(p, p_hat)


@register
@dataclass(frozen=True)
class ChiSquared(Divergence):
    name: ClassVar[str] = "chi2"
    title: ClassVar[str] = "χ²-divergence"
    formula: ClassVar[str] = "∫ (p̂ − p)²/p"
    range: ClassVar[str] = "[0, ∞]"
    blind_spot: ClassVar[str] = f"{_SMOOTH}, more than kl does; its estimate from draws can have no variance{_SAMPLES}"
    phi: ClassVar[Phi] = staticmethod(phi_chi2)

    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        return chi2(p_hat, p)


@register
@dataclass(frozen=True)
class Hellinger(Divergence):
    name: ClassVar[str] = "hellinger"
    title: ClassVar[str] = "Hellinger distance"
    formula: ClassVar[str] = "(½ ∫ (√p̂ − √p)²)^½"
    range: ClassVar[str] = "[0, 1]"
    blind_spot: ClassVar[str] = f"its square is a smooth divergence: {_SMOOTH}{_SAMPLES}"
    phi: ClassVar[Phi] = staticmethod(phi_hellinger)
    root: ClassVar[bool] = True

    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        return hellinger(p_hat, p)


@register
@dataclass(frozen=True)
class JensenShannon(Divergence):
    name: ClassVar[str] = "jensen-shannon"
    title: ClassVar[str] = "Jensen–Shannon divergence"
    formula: ClassVar[str] = "½ KL(p̂‖m) + ½ KL(p‖m), m = (p̂ + p)/2"
    range: ClassVar[str] = "[0, log 2]"
    blind_spot: ClassVar[str] = f"{_SMOOTH}{_SAMPLES}"
    phi: ClassVar[Phi] = staticmethod(phi_jensen_shannon)

    def exact(self, p_hat: FloatArray, p: FloatArray) -> FloatArray:
        return jensen_shannon(p_hat, p)


@register
@dataclass(frozen=True)
class LogLikelihood(Score):
    """Σ π (log p̂* − log p*)² on a finite prior; unbiased estimates of log p* (inverse binomial sampling) are used."""

    name: ClassVar[str] = "log-likelihood"
    title: ClassVar[str] = "squared error of the log-likelihood, averaged over the prior"
    formula: ClassVar[str] = "Σ π_i (log p̂(x*|θ_i) − log p(x*|θ_i))²"
    range: ClassVar[str] = "[0, ∞]"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "finite"
    blind_spot: ClassVar[str] = (
        "dominated by differences between small and very small likelihoods, which seldom matter; infinite if a value "
        "was never matched"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        log_p, true = likelihoods(approximation, scene, log=True)
        return {"": float(log_likelihood_mse(scene.problem.finite.probabilities, log_p, true))}
