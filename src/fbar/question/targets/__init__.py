"""Targets: what is wanted of the posterior, each with its influence function; a kind of target is a file here.

Other rooms import `Target`, what checks targets that users give, and the functions that make them.
"""

from fbar.question.targets.asked import AnyTargets, SeveralTargets, as_target, as_targets
from fbar.question.targets.base import Target, column_of, whole_name
from fbar.question.targets.bayes_factors import bayes_factor
from fbar.question.targets.conditions import OneModel, within
from fbar.question.targets.correlations import correlation, sd
from fbar.question.targets.covariances import covariance, variance
from fbar.question.targets.densities import density_at
from fbar.question.targets.expectations import (
    expectation,
    mean,
    model_probability,
    probabilities,
    probability,
    probability_between,
    second_moment,
)
from fbar.question.targets.intervals import credible_interval, hdi
from fbar.question.targets.quantiles import quantile
from fbar.question.targets.registry import KINDS, Kind, parameter, parse, register, registered

__all__ = [
    "KINDS",
    "AnyTargets",
    "Kind",
    "OneModel",
    "SeveralTargets",
    "Target",
    "as_target",
    "as_targets",
    "bayes_factor",
    "column_of",
    "correlation",
    "covariance",
    "credible_interval",
    "density_at",
    "expectation",
    "hdi",
    "mean",
    "model_probability",
    "parameter",
    "parse",
    "probabilities",
    "probability",
    "probability_between",
    "quantile",
    "register",
    "registered",
    "sd",
    "second_moment",
    "variance",
    "whole_name",
    "within",
]
