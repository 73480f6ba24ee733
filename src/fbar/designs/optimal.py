"""The designs of section 3 of the paper for a known acceptance probability, as distributions of θ.

Each is p(θ)·factor(θ), normalised:

====================  ==========================================  =========================================
`posterior`           p*                                          where most methods would like to simulate
`max_ess`             √p*                                         maximises the effective sample size
`targeted`            √p* √Σ_j c_j ψ_j²                           best for independent draws (S5.1)
`stratified`          √(p*(1−p*)) √Σ_j c_j ψ_j²                   best for stratified draws (S5.2)
====================  ==========================================  =========================================

In one dimension, and for products (`Separable`), they are drawn exactly by numerical inversion. Otherwise they
are approximated by a density constant on boxes, whose own density is known exactly (`Partition`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fbar.checks import FloatArray
from fbar.designs.partition import Partition
from fbar.errors import InputError, ZeroDensity
from fbar.points import Points
from fbar.priors import Density, Distribution, Mixture, ModelChoice, Prior
from fbar.priors.marginals import Marginal
from fbar.problem import Problem
from fbar.simulators import Separable
from fbar.targets import Target, as_targets

FAR = 1e-14
"""Tails of a prior with infinite support are left out beyond this probability on each side."""

REFERENCE = 2**14
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Factor:
    """A function of θ to multiply the prior with; ``parts`` are its factors where it is a product."""

    function: Callable[[Points], FloatArray]
    parts: Mapping[str, Callable[[FloatArray], FloatArray]] | None = None
    breaks: Mapping[str, Sequence[float]] | None = None


def build(prior: Distribution, factor: Factor) -> tuple[Distribution, float]:
    """The distribution ∝ p·factor, and its normalising constant ∫ p·factor."""
    if isinstance(prior, ModelChoice):
        return _build_models(prior, factor)
    if isinstance(prior, Prior) and all(isinstance(m, Marginal) and not m.discrete for m in prior.marginals.values()):
        if prior.dimension == 1:
            name = prior.names[0]
            parts = {name: lambda x: factor.function(Points({name: x}))}
            return _product(prior, parts, factor.breaks)
        if factor.parts is not None:
            return _product(prior, factor.parts, factor.breaks)
    design = Partition(prior, factor.function)
    return design, design.mass


def _product(
    prior: Prior,
    parts: Mapping[str, Callable[[FloatArray], FloatArray]],
    breaks: Mapping[str, Sequence[float]] | None,
) -> tuple[Distribution, float]:
    marginals: dict[str, Marginal] = {}
    mass = 1.0
    for name, marginal in prior.marginals.items():
        assert isinstance(marginal, Marginal)
        if name not in parts:
            marginals[name] = marginal
            continue
        low, high = marginal.support
        ends = marginal.ppf(np.array([FAR, 1 - FAR]))
        low, high = (float(ends[0]) if np.isinf(low) else low), (float(ends[1]) if np.isinf(high) else high)
        density = Density(_times(marginal, parts[name]), low, high, (breaks or {}).get(name, ()))
        marginals[name] = density
        mass *= density.mass
    return Prior(marginals), mass


def _times(marginal: Marginal, part: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    return lambda x: np.asarray(np.exp(marginal.logpdf(x)) * part(x))


def _within(factor: Factor, prior: ModelChoice, label: object) -> Callable[[Points], FloatArray]:
    """The factor as a function of one model's own parameters."""
    return lambda points: factor.function(prior.embed(label, points))


def _build_models(prior: ModelChoice, factor: Factor) -> tuple[Distribution, float]:
    """Each model by itself; the models' probabilities are their masses."""
    designs: dict[object, Distribution | None] = {}
    masses = []
    for label, own in prior.models.items():
        if own is None:
            designs[label] = None
            masses.append(float(factor.function(prior.embed(label, None))[0]))
            continue
        parts = factor.parts
        if parts is not None:
            # What the product leaves over must be constant in this model, such as |ψ| of a model's indicator.
            probe = own.from_unit(np.random.default_rng(0).random((64, own.dimension)))
            rest = _within(factor, prior, label)(probe)
            for name, part in parts.items():
                if name in own.names:
                    rest = rest / part(probe[name])
            rest = rest[np.isfinite(rest)]
            constant = float(rest.mean())
            if np.ptp(rest) > 1e-9 * abs(constant):
                parts = None
            else:
                parts = {name: part for name, part in parts.items() if name in own.names}
        own_factor = Factor(_within(factor, prior, label), parts, factor.breaks)
        try:
            design, mass = build(own, own_factor)
        except ZeroDensity:
            design, mass = own, 0.0
        exact = parts is not None and own.dimension > 1
        designs[label] = design
        masses.append(mass * constant if exact else mass)
    weights = prior.probabilities * np.array(masses)
    # A model that cannot matter to the targets still gets a share, or other questions would go without it.
    weights = np.where(weights > 0, weights, LEAST_SHARE * prior.probabilities * weights.sum())
    return ModelChoice(designs, weights / weights.sum(), name=prior.name), float(weights.sum())


# ---------------------------------------------------------------- what is known of the problem


def _p_star(problem: Problem, tolerance: float) -> Factor:
    if not problem.knows_acceptance:
        raise InputError(
            "this design needs an acceptance probability that the problem does not know; "
            "give Problem(..., p_star=...), or draw from the prior"
        )
    known = getattr(problem.simulate, "p_star", None)
    parts = known.parts if isinstance(known, Separable) else None
    return Factor(lambda points: problem.acceptance_probability(points, tolerance), parts)


def _after(
    outer: Callable[[FloatArray], FloatArray], inner: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    return lambda x: outer(inner(x))


def _map(factor: Factor, function: Callable[[FloatArray], FloatArray], separable: bool = True) -> Factor:
    parts = None
    if factor.parts is not None and separable:
        parts = {name: _after(function, part) for name, part in factor.parts.items()}
    return Factor(lambda points: function(factor.function(points)), parts, factor.breaks)


@lru_cache(maxsize=16)
def true_posterior(problem: Problem, tolerance: float = 0.0) -> tuple[Distribution, float]:
    """p(θ|x*) and the evidence p(x*), where the acceptance probability is known."""
    return build(problem.prior, _p_star(problem, tolerance))


@lru_cache(maxsize=16)
def reference(problem: Problem, tolerance: float = 0.0) -> tuple[Points, FloatArray]:
    """Weighted points that stand for the true posterior: quadrature nodes in one dimension, quasi-random ones beyond.

    Where the problem's acceptance probability is known. The influence functions of targets are taken from it.
    """
    return _reference(true_posterior(problem, tolerance)[0], problem, tolerance)


def _reference(design: Distribution, problem: Problem, tolerance: float) -> tuple[Points, FloatArray]:
    from scipy.stats import qmc

    if isinstance(design, ModelChoice):
        parts, weights = [], []
        for label, share in zip(design.labels, design.probabilities, strict=True):
            own = design.models[label.item()]
            points, w = (None, np.ones(1)) if own is None else _reference(own, problem, tolerance)
            parts.append(design.embed(label.item(), points).with_derived(problem.derived))
            weights.append(share * w)
        return Points.concatenate(parts), np.concatenate(weights)
    if isinstance(design, Prior):
        name = design.names[0]
        only = design.marginals[name]
        if design.dimension == 1 and isinstance(only, Density):
            return Points({name: only.nodes}, problem.derived), only.weights
    points = design.from_unit(qmc.Sobol(design.dimension, rng=np.random.default_rng(0)).random(REFERENCE))
    points = points.with_derived(problem.derived)
    if isinstance(design, Partition):
        w = problem.acceptance_probability(points, tolerance) * np.exp(-design.log_relative(points))
        return points, w / w.sum()
    return points, np.full(points.rows, 1 / points.rows)


def _influence_scale(
    problem: Problem, targets: Sequence[Target], tolerance: float, tolerances: Sequence[float] | None
) -> Callable[[Points], FloatArray]:
    """√Σ_j c_j ψ_j², with c_j = 1/Var(ψ_j), or 1/tolerance_j²; with one target c = 1."""
    points, weights = reference(problem, tolerance)
    psi_of = [target.psi(points, weights) for target in targets]
    scales = []
    for j, psi in enumerate(psi_of):
        if tolerances is not None:
            scales.append(1 / tolerances[j] ** 2)
        elif len(targets) == 1:
            scales.append(1.0)
        else:
            scales.append(1 / float((weights[:, None] * psi(points) ** 2).sum()))

    def scale(at: Points) -> FloatArray:
        at = at.with_derived(problem.derived)
        total = np.zeros(at.rows)
        for c, psi in zip(scales, psi_of, strict=True):
            total = total + c * (psi(at) ** 2).sum(axis=-1)
        return np.asarray(np.sqrt(total))

    return scale


# ---------------------------------------------------------------- the designs


def posterior(problem: Problem, *, tolerance: float = 0.0) -> Distribution:
    """q = p(θ|x*)."""
    return true_posterior(problem, tolerance)[0]


def max_ess(problem: Problem, *, tolerance: float = 0.0) -> Distribution:
    """q ∝ p √p*, which maximises the effective sample size (Fearnhead & Prangle 2012; section S3.3)."""
    return build(problem.prior, _map(_p_star(problem, tolerance), np.sqrt))[0]


def targeted(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    tolerance: float = 0.0,
    tolerances: Sequence[float] | None = None,
) -> Distribution:
    """q ∝ p √p* |ψ|, the best for independent draws (section S5.1, e:independent_sampling_optimal_n).

    Several targets share it, each weighted by 1/Var(ψ_j), or by 1/tolerance_j² if tolerances are given.
    """
    listed = as_targets(targets)
    scale = _influence_scale(problem, listed, tolerance, tolerances)
    base = _map(_p_star(problem, tolerance), np.sqrt)
    return build(problem.prior, Factor(lambda t: base.function(t) * scale(t), base.parts))[0]


def stratified(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    tolerance: float = 0.0,
    tolerances: Sequence[float] | None = None,
) -> Distribution:
    """q ∝ p √(p*(1−p*)) |ψ|, the best for stratified draws (section S5.2, e:stratified_optimal_n)."""
    listed = as_targets(targets)
    scale = _influence_scale(problem, listed, tolerance, tolerances)
    p_star = _p_star(problem, tolerance).function

    def factor(points: Points) -> FloatArray:
        p = p_star(points)
        return np.asarray(np.sqrt(p * np.maximum(1 - p, 0.0)) * scale(points))

    return build(problem.prior, Factor(factor))[0]


class Defensive(Mixture):
    """(1−δ) q + δ p: a design that leaves no place out, whose weights p/q are at most 1/δ (Hesterberg 1995)."""

    def __init__(self, q: Distribution, prior: Distribution, share: float) -> None:
        super().__init__([q, prior], [1 - share, share])
        self._prior, self._share = prior, share

    def log_relative(self, points: Points) -> FloatArray:
        inner = np.log1p(-self._share) - log_weights(self._prior, self.components[0], points)
        return np.asarray(np.logaddexp(inner, np.log(self._share)))


def defensive(q: Distribution, prior: Distribution, share: float = 0.1) -> Distribution:
    """A mixture of a design with a share of the prior."""
    if not 0 < share < 1:
        raise InputError(f"the prior's share must lie between 0 and 1; got {share!r}")
    return Defensive(q, prior, share)


def log_weights(prior: Distribution, q: Distribution, points: Points) -> FloatArray:
    """log p(θ)/q(θ); −∞ never arises at draws from q that the prior can make."""
    if q is prior:
        return np.zeros(points.rows)
    relative = getattr(q, "log_relative", None)
    if relative is not None:
        return -np.asarray(relative(points))
    if isinstance(prior, ModelChoice) and isinstance(q, ModelChoice) and prior.models.keys() == q.models.keys():
        return _model_log_weights(prior, q, points)
    return prior.logpdf(points) - q.logpdf(points)


def _model_log_weights(prior: ModelChoice, q: ModelChoice, points: Points) -> FloatArray:
    """Model by model, so that each model's rows are looked up once."""
    result = np.empty(points.rows)
    with np.errstate(divide="ignore"):
        shares = np.log(prior.probabilities) - np.log(q.probabilities)
    for share, (label, own, rows) in zip(shares, prior.split(points), strict=True):
        if rows.size:
            proposal = q.models[label]
            same = own is None or proposal is None
            part = None if same or own is None else points.take(rows).only(own.names)
            result[rows] = share + (0.0 if part is None else log_weights(own, proposal, part))  # type: ignore[arg-type]
    return result


NAMED: dict[str, Callable[[Problem, Sequence[Target], float], Distribution]] = {
    "prior": lambda problem, targets, tolerance: problem.prior,
    "posterior": lambda problem, targets, tolerance: posterior(problem, tolerance=tolerance),
    "max-ess": lambda problem, targets, tolerance: max_ess(problem, tolerance=tolerance),
    "targeted": lambda problem, targets, tolerance: targeted(problem, targets, tolerance=tolerance),
    "stratified": lambda problem, targets, tolerance: stratified(problem, targets, tolerance=tolerance),
}
"""The designs by name."""


def lost_mass(prior: Distribution, q: Distribution, size: int = 4096) -> float:
    """The share of the prior's mass where q has no density, from fixed draws of the prior."""
    if q is prior or hasattr(q, "log_relative"):
        return 0.0
    points = prior.from_unit(np.random.default_rng(0).random((size, prior.dimension)))
    density = q.logpdf(points)
    if np.isnan(density).any():
        raise InputError("the design's log density is not a number at some places the prior can reach")
    return float(np.mean(np.isneginf(density)))
