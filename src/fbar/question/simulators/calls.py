"""Calls of a user's functions of a batch: summaries, distances, costs and acceptance probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import without_mask
from fbar.checks import in_words
from fbar.errors import InputError
from fbar.question.simulators.failures import PASSES, Nonsense, Unusable

MOST_INT = np.iinfo(np.int64).max


def called(what: str, function: Callable[..., Any], *arguments: Any) -> npt.NDArray[Any]:
    """What a user's function gives, as an array; what it raises is reported in one line, with its cause."""
    return as_values(what, returned(what, function, *arguments))


def returned(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a user's function returns."""
    try:
        return function(*arguments)
    except PASSES:
        raise
    except InputError as error:
        raise Unusable(str(error)) from error
    except BaseException as error:
        raise Unusable(f"{what} failed: {in_words(error)}") from error


def as_values(what: str, values: Any) -> npt.NDArray[Any]:
    """What a user's function returned, as an array."""
    try:
        return without_mask(values, f"the output of {what}")
    except InputError as error:
        raise Nonsense(str(error)) from None
    except Exception as error:
        raise Nonsense(f"the output of {what} is not an array: {in_words(error)}") from None


def for_user(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy, which a user's function may write into, in a type whose differences and sums do not wrap around.

    Images and counts come as unsigned or short whole numbers, of which 2 − 3 is 255.
    """
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and values.size and values.max() > MOST_INT:
        return values.astype(np.float64)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return values.astype(np.float64) if values.dtype == np.float16 else values.copy()
