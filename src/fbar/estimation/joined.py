"""Targets that consist of others, such as the two ends of an interval: estimates of the parts, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fbar.estimation.estimate import Estimate, Estimates
from fbar.question.targets import Target
from fbar.question.targets.limits import LimitsOfVector


def joined(parts: Estimates, targets: Sequence[Target]) -> Estimates:
    """Estimates of the targets from those of all their parts, in the same order."""
    if len(parts) == len(targets):
        return parts
    found, slices, first = [], [], 0
    for target in targets:
        last = first + len(target.parts)
        found.append(parts[first] if last == first + 1 else _vector(target, parts[first:last]))
        slices.append(slice(parts.slices[first].start, parts.slices[last - 1].stop))
        first = last
    return Estimates(found, parts.covariance, slices)


def _vector(target: Target, parts: Sequence[Estimate]) -> Estimate:
    """One estimate of several numbers that were estimated one by one."""

    def stacked(values: Sequence[Any]) -> Any:
        return np.stack(np.broadcast_arrays(*values), axis=-1)

    return replace(
        parts[0],
        name=target.name,
        value=stacked([part.value for part in parts]),
        standard_error=stacked([part.standard_error for part in parts]),
        df=stacked([part.df for part in parts]),
        trusted=stacked([part.trusted for part in parts]),
        bias=stacked([part.bias for part in parts]),
        warnings=tuple(dict.fromkeys(text for part in parts for text in part.warnings)),
        labels=target.labels,
        inverted=LimitsOfVector.of([part.inverted for part in parts]),
    )
