"""A prior as a table: each parameter with its exact distribution, its median and its central 95%."""

from __future__ import annotations

from typing import Any

import numpy as np

from fbar.question.points import Points
from fbar.question.priors import Distribution, structure
from fbar.question.priors.fitted import FittedToSample
from fbar.question.priors.independent import Prior
from fbar.question.priors.marginals import Categorical, Marginal, Scipy, Truncated, Uniform
from fbar.question.priors.orders import First, Next
from fbar.question.priors.restricted import Restricted
from fbar.question.priors.simplex import NextPart, Part, Remainder
from fbar.question.problem import Problem

DRAWS = 20_000
"""Draws that give the quantiles of a parameter whose distribution is not known by itself."""

MOST_VALUES = 8
"""Values of a finite parameter that are written out, at most."""

PriorRow = tuple[str, str, str, str]


def prior_rows(problem: Problem) -> list[PriorRow]:
    """Parameter, distribution, median and central 95%; of a model choice with the model in front of the parameter."""
    prior, known = problem.prior, structure(problem.prior)
    drawn = prior.sample(DRAWS, rng=np.random.default_rng(0)).with_derived(problem.derived)
    rows: list[PriorRow] = []
    if known.models is not None:
        choice = known.models
        shares = zip(choice.models, choice.probabilities.tolist(), strict=True)
        rows.append((choice.name, ", ".join(f"{label} {share:.4g}" for label, share in shares), "", ""))
        for label, inner in choice.models.items():
            rows += [] if inner is None else _of_distribution(inner, _inside(drawn, choice.name, label), f"{label}: ")
    else:
        rows += _of_distribution(prior, drawn, "")
    for name in problem.derived:
        words = "1 minus the other shares" if isinstance(problem.derived[name], Remainder) else "derived"
        rows.append((name, words, *_quantiles(drawn, name)))
    rows += [(name, "recorded with each simulation", "", "") for name in problem.records]
    return rows


def in_words(marginal: Marginal) -> str:
    """A distribution exactly.

    >>> from scipy import stats
    >>> in_words(Uniform(0.5, 4)), in_words(Scipy(stats.loguniform(0.1, 100))), in_words(Scipy(stats.gamma(2, scale=3)))
    ('uniform from 0.5 to 4', 'log-uniform from 0.1 to 100', 'gamma(a=2, scale=3)')
    """
    if isinstance(marginal, Uniform):
        return f"uniform from {marginal.low:.6g} to {marginal.high:.6g}"
    if isinstance(marginal, Categorical):
        return _of_values(marginal.values.tolist(), marginal.probabilities.tolist())
    if isinstance(marginal, Truncated):
        low, high = marginal.support
        return f"{in_words(marginal.base)}, truncated to the range {low:.6g} to {high:.6g}"
    if isinstance(marginal, Scipy):
        return _of_scipy(marginal.given)
    if isinstance(marginal, Part):
        return f"beta(a={marginal.alpha:g}, b={marginal.beta:g}), a share of a Dirichlet distribution"
    if isinstance(marginal, First):
        first, second = list(marginal.chain.marginals)[:2]
        return f"{in_words(marginal.chain.marginals[first])}, ordered below {second}"
    return str(marginal)


def _given_others(prior: Distribution, name: str) -> str:
    """The distribution of a parameter that depends on others."""
    if isinstance(prior, FittedToSample):
        return "fitted to a sample, jointly with the other parameters"
    if isinstance(prior, Restricted):
        known = structure(prior.base).marginals.get(name)
        words = _given_others(prior.base, name) if known is None else in_words(known)
        return f"{words}, where {prior.where if isinstance(prior.where, str) else 'a condition holds'}"
    given = prior.marginals.get(name) if isinstance(prior, Prior) else None
    if isinstance(given, NextPart):
        return f"a share of a Dirichlet distribution, given {', '.join(given.before)}"
    if isinstance(given, Next):
        names = list(given.chain.marginals)
        return f"{in_words(given.chain.marginals[name])}, ordered above {names[given.place - 1]}"
    return "depends on other parameters"


def _of_scipy(given: Any) -> str:
    """A frozen distribution by its name and arguments; a new-style one as it prints."""
    inner = getattr(given, "dist", None)
    if inner is None:
        return str(given)
    arguments = _arguments(given)
    at, scale = arguments.get("loc", 0), arguments.get("scale", 1)
    name = inner.name
    if name in ("loguniform", "reciprocal") and at == 0 and scale == 1:
        return f"log-uniform from {arguments['a']:.6g} to {arguments['b']:.6g}"
    if name == "norm":
        return f"normal, mean {at:.6g}, sd {scale:.6g}"
    if name == "lognorm" and at == 0:
        return f"log-normal, median {scale:.6g}, sd of the logarithm {arguments['s']:.6g}"
    if name == "randint" and at == 0:
        return f"uniform over the whole numbers {arguments['low']:.6g} to {arguments['high'] - 1:.6g}"
    if name == "expon" and at == 0:
        return f"exponential, mean {scale:.6g}"
    return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in arguments.items())})"


def _arguments(given: Any) -> dict[str, Any]:
    """By name; those that are left out have their defaults."""
    shapes = [part.strip() for part in (given.dist.shapes or "").split(",") if part.strip()]
    return {**dict(zip([*shapes, "loc", "scale"], given.args, strict=False)), **given.kwds}


def _of_distribution(prior: Distribution, drawn: Points, before: str) -> list[PriorRow]:
    known = structure(prior)
    rows: list[PriorRow] = []
    for name in prior.names:
        marginal = known.marginals.get(name)
        if known.values is not None:
            values = np.asarray(known.values.points[name])
            single = len(known.values.names) == 1
            words = _of_values(values.tolist(), known.values.probabilities.tolist() if single else [])
            rows.append((before + name, words, "", ""))
        elif marginal is None:
            rows.append((before + name, _given_others(prior, name), *_quantiles(drawn, name)))
        elif isinstance(marginal, Categorical):
            rows.append((before + name, in_words(marginal), "", ""))
        else:
            low, middle, high = np.asarray(marginal.ppf(np.array([0.025, 0.5, 0.975]))).tolist()
            rows.append((before + name, in_words(marginal), f"{middle:.4g}", f"{low:.4g} to {high:.4g}"))
    return rows


def _of_values(values: list[Any], probabilities: list[float]) -> str:
    unique = list(dict.fromkeys(values))
    equal = len(unique) < len(values) or not probabilities or max(probabilities) - min(probabilities) < 1e-12
    shown = unique[:MOST_VALUES]
    words = [_short(value) for value in shown]
    if not equal:
        words = [f"{word} ({share:.3g})" for word, share in zip(words, probabilities, strict=False)]
    more = f", … ({len(unique)} values)" if len(unique) > MOST_VALUES else ""
    ahead = "uniform over " if equal and len(unique) == len(values) and probabilities else ""
    return f"{ahead}{', '.join(words)}{more}"


def _inside(drawn: Points, column: str, label: Any) -> Points:
    return drawn.take(np.flatnonzero(drawn[column] == label))


def _quantiles(drawn: Points, name: str) -> tuple[str, str]:
    """The median and the central 95% of draws, in three digits."""
    column = np.asarray(drawn[name])[drawn.present(name)]
    if column.dtype.kind not in "biuf":
        return "", ""
    column = column[np.isfinite(column.astype(np.float64))]
    if not column.size:
        return "", ""
    low, middle, high = np.quantile(column, [0.025, 0.5, 0.975]).tolist()
    return f"{middle:.3g}", f"{low:.3g} to {high:.3g}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
