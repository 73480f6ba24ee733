"""A run looked at otherwise: from which tolerance, and what its answers are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fbar.checks import non_negative_number
from fbar.errors import InputError
from fbar.question.targets import Target
from fbar.results.comparison import Compared, Reference
from fbar.results.summary_loss import LossOfTargets

if TYPE_CHECKING:
    from fbar.results.result import Result


def from_tolerance(result: Result, tolerance: float | None) -> float | None:
    """The tolerance that was given, or that of this result where it is not the run's own."""
    if tolerance is not None:
        return non_negative_number(tolerance, "tolerance")
    if result.looked_at is None and result.run.at_data:
        raise InputError(
            "the answer is about the posterior itself, so it has no tolerance; give one to start from ABC's answer "
            "there (tolerance=, --at)"
        )
    return result.looked_at


def given_or_own(result: Result, tolerance: float | None) -> float:
    """A tolerance that was given, or else the run's own, which there is where its bias was removed."""
    found = result.run.reported_tolerance if tolerance is None else tolerance
    assert found is not None
    return float(found)


def compared_with(
    result: Result, reference: Reference, targets: tuple[Target, ...], numbers: int
) -> Compared | LossOfTargets | None:
    """What knows how far the answers are from the posterior: at a tolerance, or by lossy summaries."""
    if result.is_at_data and result.summary_loss is not None:
        return LossOfTargets(result.summary_loss, result.posterior, targets)
    if not result.tolerance or np.ndim(result.simulations) or not result.run.problem.compares_numbers:
        return None
    return Compared(reference, targets, result.own, max(result.estimates.numbers, numbers))
