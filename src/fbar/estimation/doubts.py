"""What makes an error bar unreliable, and when there is no posterior at all: in one place for all estimators."""

from __future__ import annotations

from typing import Any

from fbar.errors import NoPosterior
from fbar.question.outcomes import Seen

FEW_ACCEPTED = 10
"""With fewer accepted simulations, an error bar is unreliable."""

ONE_CARRIES = 0.2
"""The share of the variance that a single simulation may contribute."""

FEW_WERE_ACCEPTED = f"fewer than {FEW_ACCEPTED} simulations were accepted"


def carried(share: float = ONE_CARRIES) -> str:
    """Why an error bar is unreliable that rests on one simulation."""
    return f"one accepted simulation contributes more than {share:.0%} of the variance"


def all_rejected(simulations: Any, seen: Seen, *, tolerance: bool = True) -> NoPosterior:
    """No simulation was accepted. ``tolerance`` is whether there is one that could be raised."""
    raised = "the tolerance or the budget" if tolerance else "the budget"
    return NoPosterior(
        f"all {simulations} simulations were rejected{_in_brackets(seen)}, so there is no posterior; raise {raised}, "
        "or check the simulator against the data"
    )


def none_within(simulations: int, tolerance: float, seen: Seen) -> NoPosterior:
    """No simulation was accepted at a tolerance that somebody asked for."""
    return NoPosterior(
        f"none of {simulations} simulations was accepted at the tolerance {tolerance:g}{_in_brackets(seen)}; "
        "use a larger tolerance, or raise the budget"
    )


def _in_brackets(seen: Seen) -> str:
    return f" ({seen})" if str(seen) else ""
