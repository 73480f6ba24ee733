"""Types of arrays, and validators of arrays that users give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import MOST, in_words, shown
from fbar.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def without_mask(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array; refused if some are masked, since numpy would take what lies under the mask for data."""
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(values).sum())
        if masked:
            raise InputError(
                f"{name} is masked at {masked} of {values.size} positions, which have no value; leave them "
                "out, or fill them in (numpy.ma.filled)"
            )
        return np.ma.getdata(values)
    if isinstance(values, list | tuple):
        for part in values:  # numpy forgets the masks of arrays in a list
            if isinstance(part, np.ma.MaskedArray):
                without_mask(part, name)
    return as_array(values, name)


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as numpy takes them; what it cannot take is refused, whatever it raises."""
    if isinstance(values, np.ndarray):
        return values
    try:
        return np.asarray(values)
    except Exception as error:
        raise InputError(f"{name} must be an array; got {shown(values)}, {_no_array(error)}") from None


def _no_array(error: Exception) -> str:
    """Why numpy cannot make an array of something."""
    if isinstance(error, ValueError) and "inhomogeneous" in str(error):
        return "whose rows differ in length"
    if isinstance(error, ValueError) and "maximum number of dimension" in str(error):
        return "which is nested too deeply"
    return f"of which numpy cannot make one ({in_words(error)})"


def same_alone(alone: npt.NDArray[Any], among: npt.NDArray[Any], row: int) -> bool:
    """Whether a row has the value by itself that it has in its batch: no function of θ or of data may mix the rows.

    Grossly, to a hundredth of their spread: numbers may depend on the batch by rounding, or by a solver's steps. What
    cannot be compared passes.
    """
    if alone.shape != (1, *among.shape[1:]) or among.dtype.kind not in "biuf" or alone.dtype.kind not in "biuf":
        return True
    values = np.asarray(among, dtype=np.float64)
    known = np.isfinite(values)
    spread = float(np.std(values, where=known)) if known.any() else 0.0
    return bool(np.allclose(alone[0], values[row], rtol=1e-2, atol=1e-2 * spread, equal_nan=True))


def floats(values: Any, name: str) -> FloatArray:
    """Numbers as an array, which is the caller's where it can be."""
    given = without_mask(values, name)
    if given.dtype == np.float64:
        return given
    if given.dtype.kind not in "biufO":
        raise InputError(f"{name} must be numbers; got {shown(values)}")
    try:
        with np.errstate(over="ignore"):
            return given.astype(np.float64)
    except Exception:  # of objects, which may raise anything
        raise InputError(f"{name} must be numbers; got {shown(values)}") from None


def numeric_array(values: Any, name: str) -> FloatArray:
    """Numbers as a new array: the caller may change its array later."""
    return np.array(floats(values, name))


def whole_numbers(values: Any, name: str) -> IntArray:
    """Whole numbers as an array."""
    given = floats(values, name)
    if not (np.isfinite(given).all() and (given == np.rint(given)).all() and (np.abs(given) <= MOST).all()):
        raise InputError(f"{name} must be whole numbers; got {shown(values)}")
    return given.astype(np.int64)


def probabilities(values: Any, name: str = "probabilities") -> FloatArray:
    """Numbers in [0, 1], such as p(x*|θ) at each θ."""
    p = numeric_array(values, name)
    bad = ~((p >= 0) & (p <= 1))
    if bad.any():
        raise InputError(f"{name} must lie in [0, 1]; got {p[bad].flat[0]:g}")
    return p


def distribution(values: Any, size: int, name: str = "probabilities", each: str = "parameter value") -> FloatArray:
    """Probabilities of ``size`` cells that sum to one; rounding in the last digits is corrected."""
    p = probabilities(values, name)
    if p.shape != (size,):
        raise InputError(f"{name} must be {size} numbers, one for each {each}; got shape {p.shape}")
    total = float(p.sum())
    if not math.isclose(total, 1.0, abs_tol=1e-8):
        raise InputError(f"{name} must sum to 1; they sum to {total:.10g} (divide them by their sum)")
    return p / total
