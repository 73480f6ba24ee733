"""What a result is about, in a line: the posterior, or ABC's at a tolerance and how far that is from the posterior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fbar.estimation.estimate import BIASED, Estimate, Estimates

if TYPE_CHECKING:
    from fbar.results.result import Result

LEAST_BIAS = 1e-3
"""The share of the standard error from which on a bias is printed."""

MOST_SHOWN = 6
"""Targets whose bias is printed, at most; of a longer vector, only the largest is."""


def about(result: Result) -> str:
    """What was estimated, and what is known of its bias."""
    words = f"about {result.posterior.about or 'the posterior'}"
    if result.is_at_data:
        left = [f"{item.name} {_bias(item)}" for item in result.estimates if _matters(item)]
        some = _first(left)
        return f"{words}, estimated at the data" + (
            f"; the errors allow for bias of either sign: {some}" if left else ""
        )
    if not result.tolerance or np.ndim(result.simulations):
        return words
    words += ", chosen from the budget" if result.own and result.run.chooses_tolerance else ""
    away = [item.difference for item in result.estimates]
    known = [f"{item.name} {_difference(item)}" for item in away if item is not None]
    if known:
        return f"{words}; estimate minus posterior: {_first(known)}"
    return f"{words}; how far it is from the posterior cannot be estimated from these simulations"


def _first(texts: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(texts) - MOST_SHOWN
    return ", ".join(texts[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def warning_of_bias(result: Result) -> str:
    """A warning of the estimates that a tolerance or lossy summaries bias, with what would help; or nothing."""
    large = [item.name for item in result.estimates if item.reliability == BIASED]
    if large and result.summary_loss is not None:
        error_bar = "its error bar" if len(large) == 1 else "their error bars"
        return f"the summaries lose information, which may shift {', '.join(large)} by more than {error_bar}"
    if not large or result.tolerance is None:
        return ""
    return f"the tolerance biases {', '.join(large)} by more than the error bar; lower it, or see result.at_data()"


def remaining_bias(estimates: Estimates) -> Estimates:
    """Of answers at the data: 0 with the standard deviation of the bias that may remain, for each of them."""
    found = [
        Estimate(
            item.name,
            np.zeros(np.shape(item.value)) if np.ndim(item.value) else 0.0,
            item.bias,
            math.inf,
            item.simulations,
            item.accepted,
            item.trusted,
            labels=item.labels,
            about="the bias that may remain",
        )
        for item in estimates
    ]
    ends = np.cumsum([np.size(item.value) for item in found])
    slices = [slice(int(end) - np.size(item.value), int(end)) for end, item in zip(ends, found, strict=True)]
    deviations = np.concatenate(
        [np.ravel(np.broadcast_to(item.standard_error, np.shape(item.value))) for item in found]
    )
    return Estimates(found, np.diag(deviations**2), slices)


def _matters(item: Estimate) -> bool:
    """Whether a bias is more than rounding beside the error that contains it."""
    return bool(np.any(np.asarray(item.bias) > LEAST_BIAS * np.asarray(item.standard_error)))


def _bias(item: Estimate) -> str:
    """The bias that may remain in a number, in each of a few, or in the one of many where it is largest."""
    sizes = np.ravel(np.broadcast_to(item.bias, np.shape(item.value)))
    if sizes.size > MOST_SHOWN:
        return f"±{sizes.max():.2g} (the largest of {sizes.size})"
    shown = ", ".join(f"±{size:.2g}" for size in sizes)
    return f"[{shown}]" if np.ndim(item.value) else shown


def _difference(item: Estimate) -> str:
    """The same of a difference from the posterior."""
    size = np.abs(np.ravel(item.value))
    if size.size <= MOST_SHOWN:
        return str(item)
    return f"{item.component(int(np.argmax(size)))} (the largest of {size.size})"
