"""Targets: what is wanted of the posterior, with influence functions."""

from fbar.question.targets.base import Target, as_target, as_targets, whole_name
from fbar.question.targets.make import (
    covariance,
    density_at,
    expectation,
    interval,
    mean,
    model_probability,
    parse,
    posterior,
    probability,
    quantile,
    second_moment,
    variance,
)

__all__ = [
    "Target",
    "as_target",
    "as_targets",
    "covariance",
    "density_at",
    "expectation",
    "interval",
    "mean",
    "model_probability",
    "parse",
    "posterior",
    "probability",
    "quantile",
    "second_moment",
    "variance",
    "whole_name",
]
