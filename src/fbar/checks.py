"""Validators for a user's input, one at each entrance and none inside, and values in messages."""

from __future__ import annotations

import difflib
import errno
import inspect
import math
import numbers
import os
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fbar.errors import InputError
from fbar.system.terminal import clean

MOST = 2**53
MOST_ROWS = 10**9
"""Rows of one batch."""
NEARLY_SPELT_SO = 0.6
"""How alike two names must be (difflib's ratio) for one to be a slip of the other: correlation and expectation have
0.55."""
MOST_NAME = 1_000
MOST_SHOWN = 120
MOST_ERROR = 300
"""Characters of a value, and of what a user's function raised, in a message."""
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
"""Where an object is in memory, which is of no use to a user."""


class _Shown(reprlib.Repr):
    """How values stand in messages: the first few parts of large ones, and of what cannot be printed its type."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict, self.maxset = 3, 6, 6, 4, 6
        self.maxstring, self.maxlong, self.maxother = 100, 40, MOST_SHOWN

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python does not write whole numbers of more than some 4,300 digits
            return f"a whole number of {x.bit_length():,} bits"

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, types.FunctionType | types.ModuleType | type):
            kind = {types.FunctionType: "function", types.ModuleType: "module"}.get(type(x), "class")
            return f"the {kind} {getattr(x, '__name__', '')}"
        try:
            text = repr(x)
        except Exception:
            text = f"<{type(x).__name__}>"
        return ADDRESS.sub("", " ".join(text.split()))


def shown(value: Any) -> str:
    """A user's value as it stands in a message: short, in one line, whatever it is; control characters are escaped.

    >>> shown(list(range(1000))), len(shown("a" * 1000))
    ('[0, 1, 2, 3, 4, 5, ...]', 100)
    """
    text = _Shown().repr(value)
    return one_line(text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…")


def one_line(text: object) -> str:
    """Text, such as a path, in one line of a message: cut where it is long, control characters escaped."""
    words = str(text)
    return clean(words if len(words) <= MOST_ERROR else words[: MOST_ERROR - 1] + "…")


def real(value: Any) -> float | None:
    """A real number as a float, infinite if it is too large for one; None for what is no real number, or NaN."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        return None
    try:
        with np.errstate(over="ignore"):
            found = float(value)
    except (TypeError, ValueError):  # numpy counts a time span among the whole numbers
        return None
    except OverflowError:
        found = -math.inf if abs(value) > value else math.inf
    return None if math.isnan(found) else found


def positive_integer(value: Any, name: str) -> int:
    """A whole number of at least one; 1e5 is whole, 0, -3, 2.5 and True are not accepted."""
    found = real(value)
    if found is None or found < 1 or (math.isfinite(found) and int(found) != value):
        raise InputError(f"{name} must be a positive integer; got {shown(value)}")
    if found > MOST:
        raise InputError(f"{name} must be at most 2**53, beyond which counts are not exact; got {shown(value)}")
    return int(value)


def whole_number(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """A whole number from ``least`` to ``most``."""
    found = real(value)
    if found is None or not least <= found <= most or int(found) != value:
        limits = f"of at least {least}" if most == MOST else f"from {least} to {most:,}"
        raise InputError(f"{name} must be a whole number {limits}; got {shown(value)}")
    return int(value)


def rows(value: Any, name: str) -> int:
    """How many rows are wanted at a time."""
    return whole_number(value, name, 0, MOST_ROWS)


def generator(value: Any, name: str = "rng") -> np.random.Generator:
    if not isinstance(value, np.random.Generator):
        raise InputError(f"{name} must be a generator of random numbers, np.random.default_rng(1); got {shown(value)}")
    return value


def store_number(record: Any, name: str, found: float) -> None:
    """Keep a setting of a frozen record as a plain number: numpy's, fractions and huge ones are made one."""
    value = getattr(record, name)
    if type(value) not in (int, float) or not abs(value) <= MOST:
        object.__setattr__(record, name, found)


def number(value: Any, name: str) -> float:
    found = real(value)
    if found is None:
        raise InputError(f"{name} must be a number; got {shown(value)}")
    return found


def text(value: Any, name: str) -> str:
    """Text that can be printed, stored and typed again."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text; got {shown(value)}")
    return value


def path(value: Any, name: str) -> Path:
    """A path that the system can take; whether there is anything is known when it is used."""
    try:
        if not isinstance(value, str | os.PathLike):
            raise TypeError
        given = os.fsdecode(os.fspath(value))
        os.fsencode(given)
    except Exception:  # of a path-like object of the user's, and of text that is not Unicode
        raise InputError(f"{name} must be a path; got {shown(value)}") from None
    if not given or "\0" in given:
        raise InputError(f"{name} must be a path; got {shown(given)}")
    try:
        os.lstat(given)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise InputError(f"{name} must be a path; got {shown(given)}: {error.strerror}") from None
    return Path(given)


def require_name(value: Any, what: str = "a parameter's name") -> str:
    """A name of the user's choice: text that can be printed, stored and typed again."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be text; got {shown(value)}")
    if not value or not value.isprintable() or len(value) > MOST_NAME:
        raise InputError(f"{what} must have 1 to {MOST_NAME} printable characters; got {shown(value)}")
    return value


def flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {shown(value)}")
    return bool(value)


def texts(values: Any, name: str, example: str) -> tuple[str, ...]:
    """Some names, as a tuple; a single one is refused, since it would be taken for its letters."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of names, such as {example}; got {shown(values)}")
    listed = listed_of(values, name)
    for value in listed:
        if not isinstance(value, str):
            raise InputError(f"{name} must be a list of names, such as {example}; {shown(value)} is not a name")
    return tuple(listed)


def listed_of(values: Any, name: str) -> list[Any]:
    """What a user's iterable gives; it may fail on the way."""
    if not isinstance(values, Iterable) or (isinstance(values, np.ndarray) and not values.ndim):
        raise InputError(f"{name} must be a list; got {shown(values)}")
    try:
        return list(values)
    except Exception as error:
        raise InputError(f"{name} cannot be iterated over: {in_words(error)}") from None


def mapping(value: Any, name: str, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping, such as {example}; got {shown(value)}")
    return value


def instance(value: Any, kind: type | tuple[type, ...], name: str, what: str) -> Any:
    """Refuse what is of another type than the wanted one; ``what`` names the wanted one in the user's words."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {what}; got {shown(value)}")
    return value


def function(value: Any, name: str) -> None:
    if not callable(value):
        raise InputError(f"{name} must be a function; got {shown(value)}")


def arguments(value: Callable[..., Any], names: Sequence[str], name: str) -> None:
    """Refuse a function that cannot be called so, before it is; one whose arguments are not known passes."""
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
    found = real(value)
    if found is None or found < 0:
        raise InputError(f"{name} must be a number of at least 0; got {shown(value)}")
    return found


def positive_number(value: Any, name: str) -> float:
    found = real(value)
    if found is None:
        raise InputError(f"{name} must be a number greater than 0; got {shown(value)}")
    if found <= 0:
        raise InputError(f"{name} must be greater than 0; got {shown(value)}")
    return found


LONGEST = 1e8
"""Seconds, three years: the clocks of the system overflow not far beyond."""


def time_limit(seconds: Any, name: str) -> float | None:
    """Seconds that something may take; none at all if they are more than three years."""
    limit = positive_number(seconds, name)
    return None if limit > LONGEST else limit


def in_words(error: BaseException) -> str:
    """What a user's function raised, in one line; if it wrote into what it was given, how to do without."""
    try:
        message = " ".join(str(error).split())
    except BaseException:
        message = "its message cannot be read"
    words = f"{type(error).__name__}: {one_line(message)}"
    if isinstance(error, ValueError) and "read-only" in message:
        words += " (it writes into its input, which is shared; let it work on a copy, such as theta['a'].copy())"
    return words


def between(value: Any, low: float, high: float, name: str) -> float:
    """A number from ``low`` to ``high``."""
    found = real(value)
    if found is None or not low <= found <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:g}; got {shown(value)}")
    return found


def share(value: Any, name: str) -> float:
    """A number between 0 and 1, both excluded."""
    found = real(value)
    if found is None or not 0 < found < 1:
        raise InputError(f"{name} must lie between 0 and 1; got {shown(value)}")
    return found


def finite_number(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"{name} must be finite; got {shown(value)}")
    return value


def counted(number: int, what: str) -> str:
    """A number of things in words.

    >>> counted(1, "simulation"), counted(2000, "simulation")
    ('1 simulation', '2,000 simulations')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def choice(value: Any, known: Iterable[str], name: str, where: str = "") -> str:
    """One of the known names; otherwise one that is spelt nearly so, or begins so, is suggested.

    ``where`` it was given follows it in the message, as in "unknown problem 'rampp' in targets=".
    """
    names = list(known)
    if isinstance(value, str) and value in names:
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"{name} must be one of {', '.join(names)}; got {shown(value)}")
    given = f"{shown(value)} {where}" if where else shown(value)
    raise InputError(f"unknown {name} {given}; {known_names(value, names)}")


def known_names(given: Any, names: Iterable[Any]) -> str:
    """What a message says after a name that is not among those: the one that was probably meant, and all.

    >>> known_names("Beta", ["beta", "gamma"]), known_names("delta", ["rate"])
    ("did you mean 'beta'? known: beta, gamma", 'known: rate')
    """
    listed = list(map(str, names))
    nearest = _nearest(given, listed) if isinstance(given, str) else None
    return (f"did you mean {nearest!r}? " if nearest else "") + f"known: {', '.join(listed)}"


def _nearest(given: str, names: Sequence[str]) -> str | None:
    """A name that is spelt nearly so, or begins so; or one whose part after the colon is: a target's parameter."""
    given = given[:MOST_SHOWN].lower()
    lower = dict(zip(map(str.lower, names), names, strict=True))
    after = {known.partition(":")[2]: name for known, name in lower.items() if ":" in known}
    for candidates in (lower, after if ":" not in given else {}):
        near = difflib.get_close_matches(given, candidates, n=1, cutoff=NEARLY_SPELT_SO)
        near = near or [known for known in candidates if len(given) > 2 and known.startswith(given)]
        if near:
            return candidates[near[0]]
    return None
