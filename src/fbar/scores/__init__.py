"""Scores: how far an approximate posterior is from the true one (table 2 of the paper)."""

from fbar.scores.approximation import Approximation, Given, as_approximation, as_points, checked_weights
from fbar.scores.base import Scene, Score

__all__ = ["Approximation", "Given", "Scene", "Score", "as_approximation", "as_points", "checked_weights"]

from fbar.scores.provisional import as_score as as_score
