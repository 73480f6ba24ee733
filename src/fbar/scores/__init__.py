"""Scores: how far an approximate posterior is from the true one (table 2 of the paper).

Studies, figures and users import ``Score``, ``register``, ``as_score`` and the functions behind the scores from here.

>>> as_score("tv").range
'[0, 1]'
>>> print(listing().splitlines()[0])
mse                  squared error of posterior expectations, S_d_f, by target
"""

from __future__ import annotations

from fbar.scores.approximation import Approximation, Given, as_approximation, as_points, checked_weights
from fbar.scores.base import Scene, Score, all_scores, as_score, register

# isort: off
# A module registers its scores when it is imported: this is the order of the paper's table 2, then of others.
from fbar.scores.expectation import Summary, TrialError, posterior_deviation, summarise, trial_errors
from fbar.scores import metrics as metrics
from fbar.scores import spending as spending
from fbar.scores import divergences as divergences
from fbar.scores import hypothesis as hypothesis
from fbar.scores.calibration import expected_coverage, uniformity
from fbar.scores import predictive as predictive
# isort: on

__all__ = [
    "Approximation",
    "Given",
    "Scene",
    "Score",
    "Summary",
    "TrialError",
    "all_scores",
    "as_approximation",
    "as_points",
    "as_score",
    "checked_weights",
    "expected_coverage",
    "listing",
    "posterior_deviation",
    "register",
    "summarise",
    "trial_errors",
    "uniformity",
]


def listing() -> str:
    """Every score in one line."""
    return "\n".join(f"{name:<20} {score.title}" for name, score in all_scores().items())
