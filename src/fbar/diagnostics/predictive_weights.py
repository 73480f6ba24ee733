"""A run's own simulations as a sample of what the model simulates at the posterior, or under the prior.

Simulation i was made at θ_i, drawn with density q̄, and has w_i = p(θ_i)/q̄(θ_i). With the weights w_i π̂(θ_i)/p(θ_i),
where π̂ is a mixture of Student's t distributions fitted to the posterior sample (in normal coordinates of the prior, a
mixture for each model), the simulations are a sample of ∫ p(y|θ) π̂(θ) dθ, the posterior predictive distribution. Those
near the data are not favoured: weights depend on θ only, never on y. No simulation is run. With the weights w_i it is
a sample of the prior predictive distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals.student import fit
from fbar.errors import InputError
from fbar.estimation.posterior import Posterior
from fbar.estimation.simulations import Portion, Simulations
from fbar.question.outcomes import Failure
from fbar.question.points import Points
from fbar.question.priors import Distribution, structure
from fbar.question.targets import OneModel
from fbar.weights import effective_size, relative, systematic

MOST, MOST_NUMBERS = 20_000, 10_000_000
"""Simulations that are used, at most, spread evenly over the run, and the numbers that their summaries may have."""

SAMPLED = 1000
"""The size of a sample; simulations that are drawn several times are in it once, with a weight."""

FITTED = 1500
"""Points of the posterior sample that the mixture is fitted to, at most."""

INSIDE = 1e-12
"""Unit coordinates stay this far from 0 and 1."""

SEED = 20_100_331
"""Of the resampling: the same simulations give the same sample."""


@dataclass(frozen=True, eq=False)
class PredictiveSample:
    """Summaries (m, d) of simulations, with weights (m,)."""

    summaries: FloatArray
    weights: FloatArray

    @property
    def effective_simulations(self) -> float:
        return effective_size(self.weights) if self.weights.size else 0.0


@dataclass(frozen=True, eq=False)
class Usable:
    """Simulations of a run that succeeded and count: θ, log w and summaries."""

    points: Points
    log_w: FloatArray
    summaries: FloatArray

    @classmethod
    def of(cls, simulations: Simulations) -> Usable:
        """Some of a run's simulations, spread evenly over it; refused where their summaries are not numbers."""
        observed = simulations.problem.observed
        numbers = 0 if observed is None else observed.size
        most = min(MOST, max(MOST_NUMBERS // max(numbers, 1), SAMPLED))
        if not len(simulations):
            raise InputError("the run has no simulations yet")
        step = -(-len(simulations) // most)
        if simulations.in_memory:
            portion = simulations.take(np.arange(0, len(simulations), step))
            return cls._of(portion, np.arange(len(portion)))
        parts = [cls._of(part, np.flatnonzero(part.rows % step == 0)) for part in simulations.portions()]
        return cls(
            Points.concatenate([part.points for part in parts]),
            np.concatenate([part.log_w for part in parts]),
            np.concatenate([part.summaries for part in parts]),
        )

    @classmethod
    def _of(cls, portion: Portion, places: IntArray) -> Usable:
        """Those at some places of a portion."""
        assert portion.summaries is not None
        finite = np.isfinite(portion.summaries).all(axis=1)
        usable = finite & np.isfinite(portion.log_w) & (portion.failure == Failure.NONE)
        kept, names = places[usable[places]], portion.problem.prior.names
        others = [name for name in portion.points if name not in names]
        return cls(portion.points.take(kept).without(others), portion.log_w[kept], portion.summaries[kept])

    def of_model(self, model: OneModel) -> Usable:
        """Those of one model of a model choice."""
        rows = np.flatnonzero(model.mask(self.points))
        return Usable(self.points.take(rows), self.log_w[rows], self.summaries[rows])

    def prior_predictive(self) -> PredictiveSample:
        return self._sample(self.log_w)

    def posterior_predictive(self, prior: Distribution, posterior: Posterior) -> PredictiveSample:
        return self._sample(self.log_w + _log_ratio(prior, posterior, self.points))

    def _sample(self, log_weights: FloatArray) -> PredictiveSample:
        if not log_weights.size or not np.isfinite(log_weights).any():
            return PredictiveSample(self.summaries[:0], np.zeros(0))
        rng = np.random.default_rng(SEED)
        drawn = systematic(relative(log_weights), SAMPLED, rng)
        rows, times = np.unique(drawn, return_counts=True)
        return PredictiveSample(self.summaries[rows], times.astype(np.float64))


def _log_ratio(prior: Distribution, posterior: Posterior, at: Points) -> FloatArray:
    """log π̂(θ)/p(θ), with π̂ fitted to the posterior sample; −∞ for models that the sample does not have."""
    rng = np.random.default_rng(SEED)
    weights = np.maximum(posterior.pictured.weights, 0.0)
    drawn = posterior.pictured.points.take(systematic(weights, FITTED, rng))
    sample, z = _normal(prior, drawn), _normal(prior, at)
    choice = structure(prior).models
    if choice is None:
        return _log_ratio_within(sample, z, rng)
    found = np.full(at.rows, -np.inf)
    for label, share in zip(choice.models, choice.probabilities, strict=True):
        mine, rows = np.flatnonzero(drawn[choice.name] == label), np.flatnonzero(at[choice.name] == label)
        if mine.size and rows.size:
            found[rows] = np.log(mine.size / drawn.rows / share) + _log_ratio_within(
                sample[mine, 1:], z[np.ix_(rows, np.arange(1, z.shape[1]))], rng
            )
    return found


def _log_ratio_within(sample: FloatArray, z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same within a model, where the prior is standard normal."""
    varying = np.flatnonzero(z.max(axis=0) > z.min(axis=0))
    if not varying.size or len(sample) < 2:
        return np.zeros(len(z))
    fitted = fit(sample[:, varying], np.ones(len(sample)), rng)
    inside = z[:, varying]
    return np.asarray(fitted.log_density(inside) + 0.5 * (inside**2).sum(axis=1))


def _normal(prior: Distribution, points: Points) -> FloatArray:
    unit = np.asarray(prior.to_unit(points), dtype=np.float64)
    if not np.isfinite(unit).all():
        raise InputError("the prior cannot place these parameters in its unit cube")
    return np.asarray(ndtri(np.clip(unit, INSIDE, 1 - INSIDE)))
