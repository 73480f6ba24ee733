"""What a result warns of as a whole, beyond what single estimates do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbar.checks import counted
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.results.about import warning_of_bias

if TYPE_CHECKING:
    from fbar.results.result import Result


def warnings_of(result: Result) -> tuple[str, ...]:
    """Doubts about all estimates, the run's warnings, failures, a model that may be wrong, bias, and notes."""
    seen = result.run.seen
    were = "was" if seen.failures == 1 else "were"
    failed = f"{counted(seen.failures, 'simulation')} failed and {were} rejected: {seen.failed}"
    found = (
        *result.posterior.doubts,
        *result.run.warnings,
        failed if seen.failures else "",
        result.model_check.warning,
        warning_of_bias(result),
        *result.notes,
    )
    return tuple(dict.fromkeys(text for text in found if text))


def doubt_damaged(posterior: Posterior, run: Run) -> None:
    """Trust nothing of a posterior that a damaged record cut short."""
    text = f"part of the record is damaged: only {counted(run.simulations, 'simulation')} are used"
    posterior.doubts = tuple(dict.fromkeys((*posterior.doubts, text)))
