"""Validators for a user's input: one at each entrance, none inside."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
MOST = 2**53
MOST_SHORT = 80
NEARLY_SPELT_SO = 0.6
"""How alike two names must be (difflib's ratio) for one to be a slip of the other: correlation and expectation have
0.55."""


def positive_integer(value: Any, name: str) -> int:
    """A whole number of at least one; 1e5 is whole, 0, -3, 2.5 and True are not accepted."""
    whole = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if not whole or not math.isfinite(value) or int(value) != value or value < 1:
        raise InputError(f"{name} must be a positive integer; got {value!r}")
    if value > MOST:
        raise InputError(f"{name} must be at most 2**53, beyond which counts are not exact; got {value!r}")
    return int(value)


def number(value: Any, name: str) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_) or math.isnan(value):
        raise InputError(f"{name} must be a number; got {value!r}")
    return float(value)


def function(value: Any, name: str) -> None:
    if not callable(value):
        raise InputError(f"{name} must be a function; got {value!r}")


def arguments(value: Callable[..., Any], names: Sequence[str], name: str) -> None:
    """Refuse a function that cannot be called so, before it is; one that does not tell its arguments is let be."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*names)
    except TypeError:
        given = getattr(value, "__name__", type(value).__name__)
        raise InputError(
            f"{name} is called with {len(names)} arguments, as {name}({', '.join(names)}); {given}{signature} cannot be"
        ) from None


def non_negative_number(value: Any, name: str) -> float:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if not number or math.isnan(value) or value < 0:
        raise InputError(f"{name} must be a number of at least 0; got {value!r}")
    return float(value)


def positive_number(value: Any, name: str) -> float:
    if non_negative_number(value, name) == 0:
        raise InputError(f"{name} must be greater than 0; got {value!r}")
    return float(value)


LONGEST = 1e8
"""Seconds, three years: the clocks of the system overflow not far beyond."""


def time_limit(seconds: Any, name: str) -> float | None:
    """Seconds that something may take; none at all if they are more than three years."""
    limit = positive_number(seconds, name)
    return None if limit > LONGEST else limit


def in_words(error: BaseException) -> str:
    """What a user's function raised; if it wrote into what it was given, how to do without."""
    try:
        said = str(error)
    except BaseException:
        said = "(it cannot be said in words)"
    text = f"{type(error).__name__}: {said}"
    if isinstance(error, ValueError) and "read-only" in said:
        text += " (it writes into its input, which is shared; let it work on a copy, such as theta['a'].copy())"
    return text


def short(value: Any) -> str:
    """A value as it is written in Python, if that is short and can be done."""
    try:
        text = " ".join(reprlib.repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHORT else text[: MOST_SHORT - 1] + "…"


def without_mask(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array; refused if some are masked, since numpy would take what lies under the mask for data."""
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(values).sum())
        if masked:
            raise InputError(
                f"{name} is masked in {masked} of {values.size} places, and there is no value for these; leave them "
                "out, or fill them in (numpy.ma.filled)"
            )
        return np.ma.getdata(values)
    if isinstance(values, list | tuple):
        for part in values:  # numpy forgets the masks of arrays in a list
            if isinstance(part, np.ma.MaskedArray):
                without_mask(part, name)
    return np.asarray(values)


def same_alone(alone: npt.NDArray[Any], among: npt.NDArray[Any], row: int) -> bool:
    """Whether a row has the value by itself that it has in its batch: no function of θ or of data may mix the rows.

    Grossly, to a hundredth of their spread: numbers may depend on the batch by rounding, or by a solver's steps. What
    cannot be compared is let pass.
    """
    if alone.shape != (1, *among.shape[1:]) or among.dtype.kind not in "biuf" or alone.dtype.kind not in "biuf":
        return True
    values = np.asarray(among, dtype=np.float64)
    known = np.isfinite(values)
    spread = float(np.std(values, where=known)) if known.any() else 0.0
    return bool(np.allclose(alone[0], values[row], rtol=1e-2, atol=1e-2 * spread, equal_nan=True))


def finite_number(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"{name} must be finite; got {value!r}")
    return value


def numeric_array(values: Any, name: str) -> FloatArray:
    """Numbers as an array of their own: the caller may change its array later."""
    try:
        given = without_mask(values, name)
        if given.dtype.kind not in "biufO":
            raise TypeError
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} must be numbers; got {values!r}") from None


def probabilities(values: Any, name: str = "probabilities") -> FloatArray:
    """Numbers in [0, 1], such as p(x*|θ) at each θ."""
    p = numeric_array(values, name)
    bad = ~((p >= 0) & (p <= 1))
    if bad.any():
        raise InputError(f"{name} must lie in [0, 1]; got {p[bad].flat[0]:g}")
    return p


def distribution(values: Any, size: int, name: str = "probabilities") -> FloatArray:
    """Probabilities of ``size`` cells that sum to one; rounding in the last digits is mended."""
    p = probabilities(values, name)
    if p.shape != (size,):
        raise InputError(f"{name} must be {size} numbers, one for each parameter value; got shape {p.shape}")
    total = float(p.sum())
    if not math.isclose(total, 1.0, abs_tol=1e-8):
        raise InputError(f"{name} must sum to 1; they sum to {total:.10g} (divide them by their sum)")
    return p / total


def counted(number: int, what: str) -> str:
    """A number of things in words.

    >>> counted(1, "simulation"), counted(2000, "simulation")
    ('1 simulation', '2,000 simulations')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def choice(value: str, known: Iterable[str], name: str) -> str:
    """One of the known names; otherwise one that is spelt nearly so, or begins so, is suggested."""
    names = list(known)
    if value in names:
        return value
    given, lower = str(value).lower(), [known.lower() for known in names]
    near = difflib.get_close_matches(given, lower, n=1, cutoff=NEARLY_SPELT_SO)
    near = near or [known for known in lower if len(given) > 2 and known.startswith(given)]
    nearest = next((known for known in names if near and known.lower() == near[0]), None)
    hint = f"did you mean {nearest!r}? " if nearest else ""
    raise InputError(f"unknown {name} {value!r}; {hint}known: {', '.join(names)}")
