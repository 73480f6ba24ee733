"""Scores: how far an approximate posterior is from the true one (table 2 of the paper).

>>> as_score("tv").range
'[0, 1]'
>>> print(listing().splitlines()[0])
mse                  squared error of posterior expectations, S_d_f, by target
"""

from __future__ import annotations

from typing import Any

from fbar.checks import choice, shown
from fbar.errors import InputError
from fbar.scores.approximation import Approximation, Given, as_approximation, as_points, checked_weights
from fbar.scores.base import Scene, Score
from fbar.scores.calibration import (
    ErrorBarCoverage,
    SimulationBasedCalibration,
    TrueParameters,
    ZScore,
    expected_coverage,
    uniformity,
)
from fbar.scores.divergences import (
    KL,
    ChiSquared,
    Hellinger,
    JensenShannon,
    LogLikelihood,
    PosteriorMSE,
    ReverseKL,
    UnnormalisedMSE,
)
from fbar.scores.expectation import (
    ExpectationMSE,
    Summary,
    TrialError,
    posterior_deviation,
    summarise,
    trial_errors,
)
from fbar.scores.hypothesis import ClassifierTest, KolmogorovSmirnovTest, LogisticClassifierTest
from fbar.scores.metrics import (
    JointWasserstein,
    Kolmogorov,
    MaximumMeanDiscrepancy,
    SlicedWasserstein,
    TotalVariation,
    Wasserstein,
)
from fbar.scores.predictive import PredictiveCheck
from fbar.scores.sampling import AcceptanceRate, EffectiveSampleSize, RelativeEfficiency

_ALL: tuple[type[Score], ...] = (
    ExpectationMSE,
    TotalVariation,
    Wasserstein,
    JointWasserstein,
    SlicedWasserstein,
    MaximumMeanDiscrepancy,
    Kolmogorov,
    AcceptanceRate,
    EffectiveSampleSize,
    RelativeEfficiency,
    PosteriorMSE,
    UnnormalisedMSE,
    KL,
    ReverseKL,
    ChiSquared,
    Hellinger,
    JensenShannon,
    LogLikelihood,
    KolmogorovSmirnovTest,
    ClassifierTest,
    LogisticClassifierTest,
    TrueParameters,
    PredictiveCheck,
    SimulationBasedCalibration,
    ErrorBarCoverage,
    ZScore,
)

SCORES: dict[str, type[Score]] = {score.name: score for score in _ALL}
"""Every score by name, in the order of the paper's table 2 and those in common use beside it."""


def as_score(given: Any) -> Score:
    """A score, by its name or as it is."""
    if isinstance(given, Score):
        return given
    if isinstance(given, str):
        return SCORES[choice(given, SCORES, "score")]()
    raise InputError(f"a score is a name such as 'mse', or a fbar.scores.Score; got {shown(given)}")


def listing() -> str:
    """Every score in one line."""
    return "\n".join(f"{name:<20} {score.title}" for name, score in SCORES.items())


def markdown() -> str:
    """The table of all scores, as it stands in ``docs/scores.md``."""

    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    lines = [
        "| score | what it is | formula | range | better | needs of the truth | blind spot |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, score in SCORES.items():
        better = f"near {score.nominal:g}" if score.better == "nominal" else score.better
        texts = (f"`{name}`", score.title, score.formula, score.range, better, score.needs, score.blind_spot)
        lines.append("| " + " | ".join(cell(text) for text in texts) + " |")
    return "\n".join(lines)


__all__ = [
    "SCORES",
    "Approximation",
    "Given",
    "Scene",
    "Score",
    "Summary",
    "TrialError",
    "as_approximation",
    "as_points",
    "as_score",
    "checked_weights",
    "expected_coverage",
    "listing",
    "markdown",
    "posterior_deviation",
    "summarise",
    "trial_errors",
    "uniformity",
]
