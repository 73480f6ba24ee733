"""The equations of "Measuring the accuracy of likelihood-free inference" for discrete parameters.

Pure functions of arrays. The last axis is the k parameter values θ_1 … θ_k; any leading axes (trials,
budgets, allocations) are carried along. Symbols are the paper's:

====================  =====================================================================
``prior``             π_i = p(θ_i), shape (..., k)
``p_star``            p_i* = p(x*|θ_i), the acceptance probability, shape (..., k)
``f``                 a target function at the θ_i: shape (k,), or (m, k) for a vector target
``counts``            n_i, the simulations run with θ_i, shape (..., k)
``f_bar``             f̄ = E[f(θ)|x*], shape (...,) or (..., m)
====================  =====================================================================

Equations are cited by section and by their label in the paper's source. Where the paper's text has a
slip (the prior enters α_i squared, section S3.1), the corrected form stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

import numpy as np
import numpy.typing as npt

from fbar.errors import InputError

Array = npt.NDArray[np.float64]
ArrayLike = npt.ArrayLike
Takes = ParamSpec("Takes")


def _a(values: ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)


def _equation(function: Callable[Takes, Array]) -> Callable[Takes, Array]:
    """An equation that refuses what is no number, and shapes that do not fit together.

    Where it has no value for the numbers that it is given, it gives NaN or an infinity.
    """
    takes, called = signature(function), f"theory.{function.__name__}"
    numbers = [name for name, parameter in takes.parameters.items() if "Callable" not in parameter.annotation]

    @wraps(function)
    def checked(*args: Takes.args, **kwargs: Takes.kwargs) -> Array:
        given = takes.bind(*args, **kwargs)
        arguments = given.arguments
        with np.errstate(all="ignore"):
            for name, value in arguments.items():
                if name in numbers and not (value is None and takes.parameters[name].default is None):
                    arguments[name] = _numbers(value, f"{name} of {called}")
            try:
                return function(*given.args, **given.kwargs)
            except (ValueError, IndexError) as error:
                if isinstance(error, InputError):
                    raise
                shapes = ", ".join(f"{name} {np.shape(arguments[name])}" for name in numbers if name in arguments)
                raise InputError(
                    f"{called} takes arrays whose last axis is the parameter values; these do not fit together: "
                    f"{shapes}"
                ) from None

    return checked


def _numbers(values: ArrayLike, name: str) -> Array:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and not isinstance(values, np.ma.MaskedArray):
        return values
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biufO" or np.ma.is_masked(values):
            raise TypeError
        return _a(found)
    except Exception:  # of objects, which may raise anything
        raise InputError(f"{name} must be numbers; got {type(values).__name__}") from None


def _ratio(top: Array, bottom: Array) -> Array:
    """top / bottom where 0/0 is 0: a cell that cannot matter needs no simulation."""
    top, bottom = np.broadcast_arrays(top, bottom)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(top == 0, 0.0, top / bottom)


@_equation
def normalise(weights: ArrayLike) -> Array:
    """Weights divided by their sum over the cells."""
    w = _a(weights)
    result: Array = w / w.sum(axis=-1, keepdims=True)
    return result


# ---------------------------------------------------------------- posterior and expectations


@_equation
def evidence(prior: ArrayLike, p_star: ArrayLike) -> Array:
    """p(x*) = Σ_i π_i p_i*, the μ_S of section 2."""
    return np.asarray((_a(prior) * _a(p_star)).sum(axis=-1))


@_equation
def posterior(prior: ArrayLike, p_star: ArrayLike) -> Array:
    """Bayes' theorem (section 1.1, e:bayes).

    >>> posterior([0.5, 0.5], [0.3, 0.05]).round(4)
    array([0.8571, 0.1429])
    """
    return normalise(_a(prior) * _a(p_star))


@_equation
def expectation(weights: ArrayLike, f: ArrayLike) -> Array:
    """f̄ = Σ_i w_i f_i under normalised weights; (..., m) for a vector target."""
    w, values = _a(weights), _a(f)
    return np.asarray(w @ values if values.ndim == 1 else w @ values.T)


@_equation
def deviation(weights: ArrayLike, f: ArrayLike) -> Array:
    """f_i − f̄ at every cell: (..., k), or (..., m, k) for a vector target."""
    return np.asarray(_a(f) - expectation(weights, f)[..., None])


@_equation
def squared_deviation(weights: ArrayLike, f: ArrayLike, importance: ArrayLike | None = None) -> Array:
    """Σ_j c_j (f_ij − f̄_j)², what a vector target puts in place of (f_i − f̄)²; shape (..., k).

    The MSE of a vector target is the sum over its components (section 1.2.1, e:MSE_discrepancy), so its
    optimal allocation has the square root of this sum where a scalar target has |f_i − f̄|.
    """
    squares = deviation(weights, f) ** 2
    if _a(f).ndim == 1:
        return squares
    c = np.ones(squares.shape[-2]) if importance is None else _a(importance)
    return np.asarray(np.einsum("...mk,m->...k", squares, c))


# ---------------------------------------------------------------- the delta method (section S2)


@_equation
def ratio_variance(
    mean_r: ArrayLike, mean_s: ArrayLike, var_r: ArrayLike, cov_rs: ArrayLike, var_s: ArrayLike
) -> Array:
    """var(R/S) to leading order (sections 2 and S2: e:delta_method_variance, e:delta_method_reorganized,
    e:delta_method_appendix).
    """
    r, s = _a(mean_r), _a(mean_s)
    return np.asarray(_a(var_r) / s**2 - 2 * r / s**3 * _a(cov_rs) + r**2 / s**4 * _a(var_s))


@_equation
def ratio_bias(mean_r: ArrayLike, mean_s: ArrayLike, cov_rs: ArrayLike, var_s: ArrayLike) -> Array:
    """E[R/S] − μ_R/μ_S to leading order: the expectation of section S2's remainder Δ.

    The second-order terms of the Taylor series of R/S give −cov(R,S)/μ_S² + μ_R var(S)/μ_S³, of order
    1/N; its square is negligible compared with the variance.
    """
    r, s = _a(mean_r), _a(mean_s)
    return np.asarray(r / s**3 * _a(var_s) - _a(cov_rs) / s**2)


def _likelihood_variance(prior: ArrayLike, p_star: ArrayLike, counts: ArrayLike) -> Array:
    """var(π_i p̂_i*) = π_i² p_i*(1 − p_i*)/n_i, the binomial variance of section 2."""
    p = _a(p_star)
    return _ratio(_a(prior) ** 2 * p * (1 - p), _a(counts))


@_equation
def variance(prior: ArrayLike, p_star: ArrayLike, f: ArrayLike, counts: ArrayLike) -> Array:
    """Asymptotic variance of the estimate of f̄ with n_i simulations at θ_i.

    Section 2, e:discrete_asymptotic_variance: μ_S⁻² Σ_i π_i² p_i*(1−p_i*)/n_i (f_i − f̄)².
    Infinite when a cell that matters gets no simulation. (..., m) for a vector target.

    >>> float(variance([0.5, 0.5], [0.3, 0.05], [1, 0], [50, 50]).round(6))
    0.006397
    """
    dev = deviation(posterior(prior, p_star), f)
    v = _likelihood_variance(prior, p_star, counts)
    if _a(f).ndim > 1:
        v = v[..., None, :]
    with np.errstate(invalid="ignore"):
        terms = np.where(dev == 0, 0.0, v * dev**2)
    scale = evidence(prior, p_star) ** 2
    return np.asarray(terms.sum(axis=-1) / (scale if _a(f).ndim == 1 else scale[..., None]))


@_equation
def bias(prior: ArrayLike, p_star: ArrayLike, f: ArrayLike, counts: ArrayLike) -> Array:
    """Leading-order bias of the same estimate: −μ_S⁻² Σ_i π_i² p_i*(1−p_i*)/n_i (f_i − f̄)."""
    dev = deviation(posterior(prior, p_star), f)
    v = _likelihood_variance(prior, p_star, counts)
    scale = evidence(prior, p_star) ** 2
    if _a(f).ndim == 1:
        return np.asarray(-(v * dev).sum(axis=-1) / scale)
    return np.asarray(-(v[..., None, :] * dev).sum(axis=-1) / scale[..., None])


@_equation
def unnormalised_variance(prior: ArrayLike, p_star: ArrayLike, counts: ArrayLike) -> Array:
    """Σ_i var(π_i p̂_i*), the error of the unnormalised posterior (S3.2, e:unnormalized_variance)."""
    return np.asarray(_likelihood_variance(prior, p_star, counts).sum(axis=-1))


@_equation
def independent_variance(
    prior: ArrayLike, p_star: ArrayLike, f: ArrayLike, q: ArrayLike, simulations: ArrayLike
) -> Array:
    """Asymptotic variance when the θ are drawn independently from q and weighted by π/q.

    Section S5.1, e:independent_sampling_variance: Σ_i (f_i − f̄)² π_i² p_i*/q_i / (N p(x*)²); with q the prior
    e:prior_sampling_variance, with q the posterior e:posterior_sampling_variance.
    """
    weights = posterior(prior, p_star)
    v = _ratio(_a(prior) ** 2 * _a(p_star), _a(q))
    dev = deviation(weights, f)
    if _a(f).ndim > 1:
        v = v[..., None, :]
    with np.errstate(invalid="ignore"):
        terms = np.where(dev == 0, 0.0, v * dev**2)
    scale = _a(simulations) * evidence(prior, p_star) ** 2
    return np.asarray(terms.sum(axis=-1) / (scale if _a(f).ndim == 1 else scale[..., None]))


# ---------------------------------------------------------------- optimal allocations (table 3, section S3)


@_equation
def optimal_shares(alpha: ArrayLike, cost: ArrayLike = 1.0) -> Array:
    """Minimiser of Σ α_i/n_i at a fixed total cost Σ c_i n_i: n_i ∝ √(α_i/c_i).

    Section S3.1 (e:MSE_alpha_i, e:sum_of_reciprocals, e:sum_of_reciprocals_argmin) has unit costs; with costs the
    Lagrangian's stationary point is α_i/n_i² = λ c_i. Shares are of the number of simulations and sum to one. Where
    all α are zero any allocation is as good as another, and the shares are equal.
    """
    root = np.sqrt(_a(alpha) / _a(cost))
    total = root.sum(axis=-1, keepdims=True)
    return np.where(total > 0, root / np.where(total > 0, total, 1.0), 1 / max(root.shape[-1], 1))


@_equation
def max_acceptance(prior: ArrayLike, p_star: ArrayLike) -> Array:
    """All simulations at the likeliest θ: maximises the acceptance rate and learns nothing else."""
    p = np.where(_a(prior) > 0, _a(p_star), -1.0)
    return normalise((p == p.max(axis=-1, keepdims=True)).astype(np.float64))


@_equation
def inverse_binomial(p_star: ArrayLike) -> Array:
    """n_i ∝ 1/p_i*: where inverse binomial sampling spends its simulations on average.

    A value that never matches takes them all.
    """
    p = _a(p_star)
    least = p.min(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return normalise(np.where(p == least, 1.0, least / p))


@_equation
def max_ess(prior: ArrayLike, p_star: ArrayLike, cost: ArrayLike = 1.0) -> Array:
    """n_i ∝ π_i √p_i*: maximises the effective sample size (section S3.3)."""
    return optimal_shares(_a(prior) ** 2 * _a(p_star), cost)


@_equation
def min_unnormalised_mse(prior: ArrayLike, p_star: ArrayLike, cost: ArrayLike = 1.0) -> Array:
    """n_i ∝ π_i √(p_i*(1−p_i*)): minimises the error of the unnormalised posterior (section S3.2)."""
    p = _a(p_star)
    return optimal_shares(_a(prior) ** 2 * p * (1 - p), cost)


@_equation
def min_mse(prior: ArrayLike, p_star: ArrayLike, f: ArrayLike, cost: ArrayLike = 1.0) -> Array:
    """n_i ∝ π_i √(p_i*(1−p_i*)) |f_i − f̄|: minimises the MSE of f̄ (section 2, e:discrete_optimal_n).

    >>> min_mse([0.5, 0.5], [0.3, 0.05], [1, 0]).round(4)
    array([0.2595, 0.7405])
    """
    p = _a(p_star)
    squares = squared_deviation(posterior(prior, p_star), f)
    return optimal_shares(_a(prior) ** 2 * p * (1 - p) * squares, cost)


@_equation
def independent_min_mse(prior: ArrayLike, p_star: ArrayLike, f: ArrayLike, cost: ArrayLike = 1.0) -> Array:
    """q_i ∝ π_i √p_i* |f_i − f̄|: the best q for independent draws (S5.1, e:independent_sampling_optimal_n)."""
    squares = squared_deviation(posterior(prior, p_star), f)
    return optimal_shares(_a(prior) ** 2 * _a(p_star) * squares, cost)


@_equation
def two_cell_optimum(p_star: ArrayLike) -> Array:
    """For k = 2, n_1 ∝ √(p_2*(1 − p_1*)): neither the prior nor f matters (section 2).

    >>> two_cell_optimum([0.3, 0.05]).round(4)
    array([0.2595, 0.7405])
    """
    p = _a(p_star)
    if p.shape[-1:] != (2,):
        raise InputError(f"the closed form holds for two cells; got {p.shape[-1] if p.ndim else 1}")
    return normalise(np.sqrt(p[..., ::-1] * (1 - p)))


# ---------------------------------------------------------------- other scores


@_equation
def expected_ess(prior: ArrayLike, p_star: ArrayLike, counts: ArrayLike) -> Array:
    """Large-count limit of the effective sample size: p(x*)² / Σ_i p_i* π_i²/n_i (section S3.3)."""
    spread = _ratio(_a(p_star) * _a(prior) ** 2, _a(counts)).sum(axis=-1)
    return np.asarray(evidence(prior, p_star) ** 2 / spread)


@_equation
def acceptance_rate(p_star: ArrayLike, shares: ArrayLike) -> Array:
    """Expected share of accepted simulations: Σ_i p_i* n_i/N."""
    return np.asarray((_a(p_star) * _a(shares)).sum(axis=-1))


@_equation
def phi_divergence(q_hat: ArrayLike, q: ArrayLike, phi: Callable[[Array], Array]) -> Array:
    """Σ_i φ(q̂_i/q_i) q_i (section 1.2.2, e:phi_divergence); swap the arguments for the other direction."""
    if not callable(phi):
        raise InputError(f"phi must be a function, such as theory.kullback_leibler; got {type(phi).__name__}")
    top, bottom = np.broadcast_arrays(_a(q_hat), _a(q))
    missing = bottom == 0
    t = np.where(missing, 1.0, top / np.where(missing, 1.0, bottom))
    terms = _given_by(phi, t) * bottom
    if missing.any():
        # q φ(q̂/q) → q̂ lim φ(t)/t: infinite for t log t, ½ for the total variation.
        slopes = [float(_given_by(phi, np.array([large]))[0] / large) for large in (1e100, 1e200)]
        slope = np.inf if slopes[1] > 1.01 * abs(slopes[0]) else slopes[1]
        terms = np.where(missing & (top > 0), np.where(top > 0, top, 1.0) * slope, np.where(missing, 0.0, terms))
    return np.asarray(terms.sum(axis=-1))


def _given_by(phi: Callable[[Array], Array], t: Array) -> Array:
    try:
        return np.broadcast_to(_a(phi(t)), t.shape)
    except Exception as error:
        raise InputError(f"phi must give a number for each of its values; it raised {type(error).__name__}") from error


@_equation
def kullback_leibler(t: Array) -> Array:
    """φ(t) = t log t, so that the divergence is KL(q̂‖q); φ''(1) = 1."""
    t = _a(t)
    return np.asarray(t * np.log(np.where(t > 0, t, 1.0)))


@_equation
def phi_divergence_approximation(q_hat: ArrayLike, q: ArrayLike, curvature: float = 1.0) -> Array:
    """φ''(1)/2 Σ_i (q̂_i − q_i)²/q_i, the leading term of the divergence in *both* directions.

    Sections 1.2.2 (e:phi_divergence_approximation) and S1: d(q̂, q) and d(q, q̂) differ only at third order.
    """
    difference = _a(q_hat) - _a(q)
    return np.asarray(0.5 * curvature * _ratio(difference**2, _a(q)).sum(axis=-1))


@_equation
def kl_scale(q: ArrayLike) -> Array:
    """½ Σ_i 1/q_i: what the mean KL is divided by to lie on the MSE of a two-cell indicator (figure 1).

    With k = 2 both cells err by the same amount δ, so that the approximation is δ² times this.
    """
    return np.asarray(0.5 * (1 / _a(q)).sum(axis=-1))


@_equation
def ibs_log_likelihood(draws: ArrayLike) -> Array:
    """Unbiased estimate of log p from the number of draws K up to the first hit: −Σ_{j<K} 1/j.

    van Opheusden, Acerbi & Ma (2020), inverse binomial sampling; −Σ_{j<K} 1/j = ψ(1) − ψ(K).
    """
    from scipy.special import digamma

    return np.asarray(digamma(1.0) - digamma(_a(draws)))


@_equation
def ibs_variance(draws: ArrayLike) -> Array:
    """Unbiased estimate of that estimate's variance: Σ_{j<K} 1/j² = ψ₁(1) − ψ₁(K)."""
    from scipy.special import polygamma

    return np.asarray(polygamma(1, 1.0) - polygamma(1, _a(draws)))
