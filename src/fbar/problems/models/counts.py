"""Counts that are Poisson or geometric: a choice between two models with exact evidences.

After Didelot, Everitt, Johansen & Lawson 2011: each count ~ Poisson(λ) with λ ~ Exp(1), or geometric on {0, 1, …} with
p ~ U(0, 1), both models equally likely. With s = Σx the evidences are Γ(s+1) / ((n+1)^{s+1} Π x_i!) and B(n+1, s+1),
and the posteriors λ ~ Gamma(s+1, n+1) and p ~ Beta(n+1, s+1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, expit, gammaln

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.benchmark import Recipe
from fbar.question.points import Points
from fbar.question.priors import ModelChoice, Prior
from fbar.question.simulators import Model, choose
from fbar.question.truth import Known, Reference, Truth

SIZE = 20
MOST = 10**15


def _poisson(theta: Points, rng: np.random.Generator) -> FloatArray:
    return rng.poisson(theta["rate"][:, None], (theta.rows, SIZE)).astype(np.float64)


def _geometric(theta: Points, rng: np.random.Generator) -> FloatArray:
    """By the inverse of the distribution function, ⌊log U / log(1 − p)⌋; a p below 10⁻¹² counts as 10⁻¹²."""
    p = np.clip(theta["p"], 1e-12, 1 - 1e-16)[:, None]
    u = 1.0 - rng.random((theta.rows, SIZE))
    return np.asarray(np.floor(np.log(u) / np.log1p(-p)) + 0.0)


MODELS: dict[Any, Model] = {
    "poisson": Model(_poisson, Prior(rate=stats.expon())),
    "geometric": Model(_geometric, Prior(p=stats.uniform())),
}


class CountsPosterior(Reference):
    """Both models' conjugate posteriors."""

    how = "closed form"

    def __init__(self, x: FloatArray) -> None:
        n, s = x.size, float(x.sum())
        log_poisson = float(gammaln(s + 1) - (s + 1) * math.log(n + 1) - gammaln(x + 1).sum())
        log_geometric = float(betaln(n + 1, s + 1))
        self.log_evidences = {"poisson": log_poisson, "geometric": log_geometric}
        self.probabilities = {
            "poisson": float(expit(log_poisson - log_geometric)),
            "geometric": float(expit(log_geometric - log_poisson)),
        }
        self.posteriors = {
            "poisson": ("rate", stats.gamma(s + 1, scale=1 / (n + 1))),
            "geometric": ("p", stats.beta(n + 1, s + 1)),
        }

    def truth(self) -> Truth:
        """The means of rate and p are conditional on their model, so that one draw tells of them with its probability.

        ψ = 1[model] (f − f̄)/P(model): its standard deviation is that of f in its model over √P(model).
        """
        known = []
        for model, share in self.probabilities.items():
            other = sum(v for k, v in self.probabilities.items() if k != model)  # 1 − share, without cancellation
            known.append(Known(f"model_probability:{model}", share, 0.0, math.sqrt(share * other)))
            name, posterior = self.posteriors[model]
            m1, m2, m4 = (float(posterior.moment(k)) for k in (1, 2, 4))
            rarity = 1 / math.sqrt(share) if share > 0 else math.inf
            known.append(Known(f"mean:{name}", m1, 0.0, float(posterior.std()) * rarity))
            known.append(Known(f"second_moment:{name}", m2, 0.0, math.sqrt(max(m4 - m2 * m2, 0.0)) * rarity))
        return Truth(known, self.how)

    def log_density(self, points: Points) -> FloatArray:
        result = np.full(points.rows, -np.inf)
        for model, share in self.probabilities.items():
            rows = np.flatnonzero(points["model"] == model)
            name, posterior = self.posteriors[model]
            if rows.size and share > 0:
                result[rows] = math.log(share) + posterior.logpdf(points[name][rows])
        return result

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        poisson = rng.random(size) < self.probabilities["poisson"]
        columns: dict[str, Any] = {"model": np.where(poisson, "poisson", "geometric")}
        present = {}
        for model, mask in (("poisson", poisson), ("geometric", ~poisson)):
            name, posterior = self.posteriors[model]
            column = np.full(size, np.nan)
            column[mask] = posterior.rvs(int(mask.sum()), random_state=rng)
            columns[name] = column
            if not mask.all():
                present[name] = mask
        return Points(columns, present=present)


def summary(x: FloatArray) -> FloatArray:
    """log(1 + Σ x) and log(1 + Σ log x!): sufficient for both models and for the choice between them."""
    return np.column_stack([np.log1p(x.sum(axis=1)), np.log1p(gammaln(x + 1).sum(axis=1))])


def check_data(x: FloatArray) -> None:
    bad = (x < 0) | (x != np.rint(x)) | (x > MOST)
    if bad.any():
        raise InputError(f"the data of poisson-or-geometric must be whole numbers from 0 to 1e15; got {x[bad][0]:g}")


def poisson_or_geometric() -> Recipe:
    return Recipe(
        "poisson-or-geometric",
        "twenty counts of one of two models",
        "Didelot, Everitt, Johansen & Lawson 2011",
        ModelChoice({label: model.prior for label, model in MODELS.items()}),
        choose(MODELS, "model"),
        (SIZE,),
        CountsPosterior,
        seed=206,
        summary=summary,
        sufficient=True,
        # Equal summaries, which are sufficient, give the posterior itself.
        truth_at=lambda x, tolerance: CountsPosterior(x).truth() if tolerance == 0 else None,
        check_data=check_data,
    )
