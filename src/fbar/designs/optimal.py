"""The designs of section 3 of the paper for a known acceptance probability, as distributions of θ.

Each is p(θ)·factor(θ), normalised:

====================  ==========================================  =========================================
`posterior`           p*                                          where most methods would like to simulate
`max_ess`             √p*                                         maximises the effective sample size
`targeted`            √p* √Σ_j c_j ψ_j²                           best for independent draws (S5.1)
`stratified`          √(p*(1−p*)) √Σ_j c_j ψ_j²                   best for stratified draws (S5.2)
====================  ==========================================  =========================================

In one dimension, and for products (`Separable`), they are drawn exactly by numerical inversion. Otherwise they
are approximated by a density constant on boxes, whose own density is known exactly (``Partition``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import instance, listed_of, non_negative_number, positive_number, shown
from fbar.checks import share as as_share
from fbar.designs.boxes import Partition
from fbar.errors import InputError, ZeroDensity
from fbar.question.points import Points
from fbar.question.priors import Density, Distribution, Mixture, ModelChoice, Prior, structure
from fbar.question.priors.marginals import Marginal, Tilted, Uniform
from fbar.question.problem import Problem
from fbar.question.targets import Target, as_targets

TINY = 1e-16

REFERENCE = 2**14
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Factor:
    """A function of θ to multiply the prior with; ``parts`` are its factors where it is a product."""

    function: Callable[[Points], FloatArray]
    parts: Mapping[str, Callable[[FloatArray], FloatArray]] | None = None


def build(prior: Distribution, factor: Factor, *, floor: bool = False) -> tuple[Distribution, float]:
    """The distribution ∝ p·factor, and its normalising constant ∫ p·factor.

    With ``floor``, a model that the factor leaves without mass still gets a small share: it cannot matter to
    the targets of a design, but other questions would go without it.
    """
    known = structure(prior)
    if known.models is not None:
        return _build_models(known.models, factor, floor)
    if known.product:
        if prior.dimension == 1:
            name = prior.names[0]
            return _product(known.marginals, {name: lambda x: factor.function(Points({name: x}))})
        constant = _constant_rest(prior, factor)
        if constant is not None and factor.parts is not None:
            parts = {name: part for name, part in factor.parts.items() if name in prior.names}
            design, mass = _product(known.marginals, parts)
            return design, mass * constant
    partition = Partition(prior, factor.function)
    return partition, partition.mass


def _constant_rest(prior: Distribution, factor: Factor) -> float | None:
    """What the product of the parts leaves over of the factor, if it is the same everywhere; None if it is not.

    |ψ| of a model's indicator is constant within each model, |ψ| of a mean is not.
    """
    if factor.parts is None:
        return None
    probe = prior.from_unit(np.random.default_rng(0).random((64, prior.dimension)))
    rest = factor.function(probe)
    for name, part in factor.parts.items():
        if name in prior.names:
            with np.errstate(divide="ignore", invalid="ignore"):
                rest = rest / part(probe[name])
    rest = rest[np.isfinite(rest)]
    if not rest.size or np.ptp(rest) > 1e-9 * abs(float(rest.mean())):
        return None
    if not rest.mean() > 0:
        raise ZeroDensity("the wanted density is zero everywhere; it cannot be normalised")
    return float(rest.mean())


def _product(
    base: Mapping[str, Marginal],
    parts: Mapping[str, Callable[[FloatArray], FloatArray]],
) -> tuple[Distribution, float]:
    """Each marginal times its part: a uniform one as a density of θ, others in their unit coordinate."""
    marginals: dict[str, Marginal] = {}
    mass = 1.0
    for name, marginal in base.items():
        if name not in parts:
            marginals[name] = marginal
            continue
        if isinstance(marginal, Uniform):
            density = Density(_times(marginal, parts[name]), *marginal.support)
            marginals[name] = density
        else:
            density = Density(_at_unit(marginal, parts[name]), 0.0, 1.0)
            marginals[name] = Tilted(marginal, density)
        mass *= density.mass
    return Prior(marginals), mass


def _times(marginal: Marginal, part: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    return lambda x: np.asarray(np.exp(marginal.logpdf(x)) * part(x))


def _at_unit(marginal: Marginal, part: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    # The ends of the interval may be infinite values of θ, which no draw ever takes.
    return lambda u: np.asarray(part(marginal.ppf(np.clip(u, TINY, 1 - TINY))))


def _within(factor: Factor, prior: ModelChoice, label: object) -> Callable[[Points], FloatArray]:
    """The factor as a function of one model's own parameters."""
    return lambda points: factor.function(prior.embed(label, points))


def _build_models(prior: ModelChoice, factor: Factor, floor: bool) -> tuple[Distribution, float]:
    """Each model by itself; the models' probabilities are their masses."""
    designs: dict[object, Distribution | None] = {}
    masses = []
    for label, inner in prior.models.items():
        if inner is None:
            designs[label] = None
            masses.append(float(factor.function(prior.embed(label, None))[0]))
            continue
        try:
            design, mass = build(inner, Factor(_within(factor, prior, label), factor.parts))
        except ZeroDensity:
            design, mass = inner, 0.0
        designs[label] = design
        masses.append(mass)
    weights = prior.probabilities * np.array(masses)
    total = float(weights.sum())
    if not total > 0:
        raise ZeroDensity("the wanted density is zero in every model; it cannot be normalised")
    if floor:
        weights = np.where(weights > 0, weights, LEAST_SHARE * prior.probabilities * total)
    return ModelChoice(designs, weights / weights.sum(), name=prior.name), total


# ---------------------------------------------------------------- what is known of the problem


def _p_star(problem: Problem, tolerance: float) -> Factor:
    if not problem.knows_acceptance:
        raise InputError(
            "this design needs an acceptance probability that the problem does not know; "
            "give Problem(..., p_star=...), or draw from the prior"
        )
    known = problem.simulator.known
    parts = None if known is None else known.factors
    return Factor(lambda points: problem.acceptance_probability(points, tolerance), parts)


def _after(
    outer: Callable[[FloatArray], FloatArray], inner: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    return lambda x: outer(inner(x))


def _map(factor: Factor, function: Callable[[FloatArray], FloatArray], separable: bool = True) -> Factor:
    parts = None
    if factor.parts is not None and separable:
        parts = {name: _after(function, part) for name, part in factor.parts.items()}
    return Factor(lambda points: function(factor.function(points)), parts)


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

    known = structure(design)
    if known.models is not None:
        models, parts, weights = known.models, [], []
        for label, share in zip(models.labels, models.probabilities, strict=True):
            inner = models.models[label.item()]
            points, w = (None, np.ones(1)) if inner is None else _reference(inner, problem, tolerance)
            parts.append(models.embed(label.item(), points).with_derived(problem.derived))
            weights.append(share * w)
        return Points.concatenate(parts), np.concatenate(weights)
    if design.dimension == 1:
        for name, only in known.marginals.items():
            if isinstance(only, Density | Tilted):
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
    if tolerances is not None:
        tolerances = listed_of(tolerances, "tolerances")
        if len(tolerances) != len(targets):
            raise InputError(f"give one tolerance for each of {len(targets)} targets; got {len(tolerances)}")
        for value in tolerances:
            positive_number(value, "a target's tolerance")
    points, weights = reference(problem, tolerance)
    psi_of = [target.psi(points, weights) for target in targets]
    scales: list[float] = []
    for j, psi in enumerate(psi_of):
        if tolerances is not None:
            scales.append(1 / tolerances[j] ** 2)
        elif len(targets) == 1:
            scales.append(1.0)
        else:
            variance = float((weights[:, None] * psi(points) ** 2).sum())
            scales.append(1 / variance if variance > 0 else 0.0)

    if not any((psi(points) != 0).any() for psi in psi_of):
        names = ", ".join(target.name for target in targets)
        raise InputError(f"{names} is the same everywhere, so that no simulation helps; choose another target")

    def scale(at: Points) -> FloatArray:
        at = at.with_derived(problem.derived)
        total = np.zeros(at.rows)
        for c, psi in zip(scales, psi_of, strict=True):
            total = total + c * (psi(at) ** 2).sum(axis=-1)
        return np.asarray(np.sqrt(total))

    return scale


# ---------------------------------------------------------------- the designs


def _asked(problem: Problem, tolerance: float) -> float:
    """The tolerance, checked, of a design for a problem."""
    instance(problem, Problem, "problem", "an fbar.Problem")
    return non_negative_number(tolerance, "tolerance")


def posterior(problem: Problem, *, tolerance: float = 0.0) -> Distribution:
    """q = p(θ|x*)."""
    tolerance = _asked(problem, tolerance)
    return true_posterior(problem, tolerance)[0]


def max_ess(problem: Problem, *, tolerance: float = 0.0) -> Distribution:
    """q ∝ p √p*, which maximises the effective sample size (Fearnhead & Prangle 2012; section S3.3)."""
    tolerance = _asked(problem, tolerance)
    return build(problem.prior, _map(_p_star(problem, tolerance), np.sqrt))[0]


def targeted(
    problem: Problem,
    targets: Target | str | Sequence[Target | str],
    *,
    tolerance: float = 0.0,
    tolerances: Sequence[float] | None = None,
) -> Distribution:
    """q ∝ p √p* |ψ|, the best for independent draws (section S5.1: e:independent_sampling_optimal_n,
    e:independent_sampling_optimal_n_appendix).

    Several targets share it, each weighted by 1/Var(ψ_j), or by 1/tolerance_j² if tolerances are given.
    """
    tolerance, listed = _asked(problem, tolerance), as_targets(targets)
    scale = _influence_scale(problem, listed, tolerance, tolerances)
    base = _map(_p_star(problem, tolerance), np.sqrt)
    return build(problem.prior, Factor(lambda t: base.function(t) * scale(t), base.parts), floor=True)[0]


def stratified(
    problem: Problem,
    targets: Target | str | Sequence[Target | str],
    *,
    tolerance: float = 0.0,
    tolerances: Sequence[float] | None = None,
) -> Distribution:
    """q ∝ p √(p*(1−p*)) |ψ|, the best for stratified draws (section S5.2, e:stratified_optimal_n)."""
    tolerance, listed = _asked(problem, tolerance), as_targets(targets)
    scale = _influence_scale(problem, listed, tolerance, tolerances)
    p_star = _p_star(problem, tolerance).function

    def factor(points: Points) -> FloatArray:
        p = p_star(points)
        return np.asarray(np.sqrt(p * np.maximum(1 - p, 0.0)) * scale(points))

    return build(problem.prior, Factor(factor), floor=True)[0]


class Defensive(Mixture):
    """(1−δ) q + δ p: a design that leaves nothing out, whose weights p/q are at most 1/δ (Hesterberg 1995)."""

    def __init__(self, q: Distribution, prior: Distribution, share: float) -> None:
        super().__init__([q, prior], [1 - share, share])
        self.prior, self._share = prior, share

    def log_relative(self, points: Points) -> FloatArray:
        inner = np.log1p(-self._share) - log_weights(self.prior, self.components[0], points)
        return np.asarray(np.logaddexp(inner, np.log(self._share)))


def defensive(q: Distribution, prior: Distribution, share: float = 0.1) -> Distribution:
    """A mixture of a design with a share of the prior."""
    return Defensive(q, prior, as_share(share, "the prior's share"))


def log_weights(prior: Distribution, q: Distribution, points: Points) -> FloatArray:
    """log p(θ)/q(θ); −∞ never arises at draws from q that the prior can make."""
    if q is prior:
        return np.zeros(points.rows)
    if isinstance(q, Partition | Defensive) and q.prior is prior:
        return -q.log_relative(points)
    models, proposed = structure(prior).models, structure(q).models
    if models is not None and proposed is not None and models.models.keys() == proposed.models.keys():
        return _model_log_weights(models, proposed, points)
    return prior.logpdf(points) - q.logpdf(points)


def _model_log_weights(prior: ModelChoice, q: ModelChoice, points: Points) -> FloatArray:
    """Model by model, so that each model's rows are looked up once."""
    result = np.empty(points.rows)
    for label, inner, rows in prior.split(points):
        proposal = q.models[label]
        with np.errstate(divide="ignore"):
            share = np.log(prior.probability(label)) - np.log(q.probability(label))
        if inner is None and proposal is None:
            result[rows] = share
        elif inner is None or proposal is None:
            raise InputError(f"model {shown(label)} has parameters in the prior or in q, but not in both")
        elif rows.size:
            result[rows] = share + log_weights(inner, proposal, prior.parameters_of(label, points.take(rows)))
    return result


NAMED: dict[str, Callable[[Problem, Sequence[Target], float], Distribution]] = {
    "prior": lambda problem, targets, tolerance: problem.prior,
    "posterior": lambda problem, targets, tolerance: posterior(problem, tolerance=tolerance),
    "max-ess": lambda problem, targets, tolerance: max_ess(problem, tolerance=tolerance),
    "targeted": lambda problem, targets, tolerance: targeted(problem, targets, tolerance=tolerance),
    "stratified": lambda problem, targets, tolerance: stratified(problem, targets, tolerance=tolerance),
}
"""The designs by name."""


@lru_cache(maxsize=64)
def named(name: str, problem: Problem, targets: tuple[Target, ...], tolerance: float) -> Distribution:
    """A design by its name; built once for a problem and its targets."""
    return NAMED[name](problem, targets, tolerance)


@lru_cache(maxsize=64)
def lost_mass(problem: Problem, q: Any, tolerance: float) -> float:
    """The share of the prior's mass, or where it is known of the posterior's, at which q has no density."""
    prior = problem.prior
    points = prior.from_unit(np.random.default_rng(0).random((4096, prior.dimension)))
    density = -log_weights(prior, q, points)
    if np.isnan(density).any() or np.isposinf(density).any():
        raise InputError("the design's log density is not a finite number at some points that the prior can reach")
    weight = np.ones(points.rows)
    if problem.knows_acceptance:
        weight = problem.acceptance_probability(points.with_derived(problem.derived), tolerance)
    total = float(weight.sum())
    return float(weight[np.isneginf(density)].sum()) / total if total > 0 else 0.0
