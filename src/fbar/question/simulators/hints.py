"""What to change in a simulator, as far as what it raised shows it.

Beginners write a simulator of one parameter set and give it as one of a batch, or the reverse. Python then complains
about arrays and scalars; the words here say what that means for a simulator.
"""

from __future__ import annotations

import re

from fbar.question.points import Points

NEEDS_EACH = "wrap a simulator of one parameter set with fbar.each"

COUNT_ROWS = "the number of simulations is theta.rows; len(theta) is the number of parameters"

RETURNED_NONE = "it returned None; is a return missing?"
"""Why a simulation without an output failed."""

_SCALARS = (
    "truth value of an array",
    "can be converted to",  # only 0-dimensional (length-1, size-1, integer scalar) arrays …
    "cannot be interpreted as an integer",
    "only integer scalar arrays",
    "must be real number, not",
)
"""What Python and numpy say of an array in the place of a number, in part."""

_ARRAYS = (
    "invalid index to scalar",
    "has no len()",
    "object is not subscriptable",
    "object is not iterable",
    "0-d array",
    "too many indices for array",
)
"""What they say of a number in the place of an array."""


def for_batch(message: str, theta: Points) -> str:
    """What to change in a simulator that was called with a batch and gave nothing usable; empty if that is unclear."""
    first = next(iter(theta))
    if any(words in message for words in _SCALARS):
        return f"theta[{first!r}] is an array with a value for each simulation; {NEEDS_EACH}"
    numbers = set(map(int, re.findall(r"\d{1,18}", message)[:20]))
    if "broadcast" in message and {len(theta), theta.rows} <= numbers and len(theta) != theta.rows:
        return COUNT_ROWS
    return ""


def for_one(message: str) -> str:
    """The same of a simulator that was called with one parameter set."""
    if any(words in message for words in _ARRAYS):
        return "fbar.each calls it with one parameter set, of numbers; leave fbar.each out if it takes a whole batch"
    return ""
