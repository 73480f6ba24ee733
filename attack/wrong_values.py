"""Values that no argument of fbar should be given, each with words for it."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import fbar

LONG = 1_000_000
"""Elements of the long list, and characters of the long text."""
DEEP = 20_000
"""Levels of the deep list and of the deep text."""


class SpoiltRepr:
    """Cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("this object cannot be printed")


class SpoiltArray:
    """Cannot be made an array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("this object is no array")


class Spoilt(SpoiltRepr, SpoiltArray):
    """Raises whatever is done with it."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("this object can do nothing")

    __float__ = __int__ = __index__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = __getitem__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = __contains__ = __fspath__ = _raise
    __str__ = _raise


class ManyLines:
    """Printed on several lines, with codes for the terminal."""

    def __repr__(self) -> str:
        return "first\nsecond\x1b[2J\r\ud800third"


def _recursive() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def _deep() -> list[Any]:
    levels: list[Any] = []
    for _ in range(DEEP):
        levels = [levels]
    return levels


def _generator() -> Iterator[int]:
    yield from (1, 2, 3)


def _raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("this function fails\non two lines")


_LONG_LIST = list(range(LONG))


NUMBERS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "5e-324": lambda: 5e-324,
    "10**400": lambda: 10**400,
    "2**53": lambda: 2**53,
    "-2**70": lambda: -(2**70),
    "1j": lambda: 1j,
    "Decimal nan": lambda: decimal.Decimal("nan"),
    "Decimal snan": lambda: decimal.Decimal("snan"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "float16 nan": lambda: np.float16("nan"),
    "longdouble": lambda: np.longdouble("1e4000"),
    "int8": lambda: np.int8(-3),
    "uint64": lambda: np.uint64(2**64 - 1),
    "bool_": lambda: np.bool_(True),
    "str_": lambda: np.str_("x"),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64 nat": lambda: np.timedelta64("NaT"),
    "void": lambda: np.void(b"abc"),
}

TEXTS: dict[str, Callable[[], Any]] = {
    "''": str,
    "'x'": lambda: "x",
    "'a'": lambda: "a",
    "'a > 0'": lambda: "a > 0",
    "'mean:a'": lambda: "mean:a",
    "'nan'": lambda: "nan",
    "'inf%'": lambda: "inf%",
    "a surrogate": lambda: "\ud800",
    "a NUL": lambda: "a\0b",
    "escape codes": lambda: "\x1b[2J\x1b]52;c;YQ==\x07",
    "two lines": lambda: "a\nb",
    "a million characters": lambda: "x" * LONG,
    "deep brackets": lambda: "(" * DEEP + "a" + ")" * DEEP,
    "many minuses": lambda: "-" * 5_000 + "a > 0",
    "many digits": lambda: "a > " + "9" * 5_000,
    "a power": lambda: "a > 9**9**9**9",
    "bytes": lambda: b"a",
    "bytearray": lambda: bytearray(b"a"),
    "a path": lambda: Path("no/such/place"),
}

CONTAINERS: dict[str, Callable[[], Any]] = {
    "[]": list,
    "{}": dict,
    "()": tuple,
    "a set": lambda: {1, 2},
    "[1, 2, 3]": lambda: [1, 2, 3],
    "[nan, inf]": lambda: [float("nan"), float("inf")],
    "[0.5, -0.5, 1]": lambda: [0.5, -0.5, 1.0],
    "a ragged list": lambda: [[1], [2, 3]],
    "a recursive list": _recursive,
    "a deep list": _deep,
    "a long list": lambda: _LONG_LIST,
    "['a', 'a']": lambda: ["a", "a"],
    "['a', 1]": lambda: ["a", 1],
    "[None]": lambda: [None],
    "[10**400]": lambda: [10**400, 1],
    "a list of the spoilt": lambda: [Spoilt(), 1],
    "{1: 2}": lambda: {1: 2},
    "{'a': 'x'}": lambda: {"a": "x"},
    "{'a': nan}": lambda: {"a": float("nan")},
    "{'mean:a': -1}": lambda: {"mean:a": -1},
    "{'a': [1, 2]}": lambda: {"a": [1, 2]},
    "{'a': the spoilt}": lambda: {"a": Spoilt()},
    "{'': None}": lambda: {"": None},
    "{surrogate: 1}": lambda: {"\ud800": 1},
    "a generator": _generator,
    "a range": lambda: range(3),
    "a slice": lambda: slice(None),
}

ARRAYS: dict[str, Callable[[], Any]] = {
    "array of no axis": lambda: np.array(1.0),
    "empty array": lambda: np.empty(0),
    "array (2, 3, 4)": lambda: np.zeros((2, 3, 4)),
    "array (0, 2)": lambda: np.zeros((0, 2)),
    "array of nan": lambda: np.full(3, np.nan),
    "array of inf": lambda: np.full((2, 2), np.inf),
    "array of 1e300": lambda: np.full(3, 1e300),
    "array of ints": lambda: np.array([3, -1, 2]),
    "array of text": lambda: np.array(["a", "b"]),
    "array of objects": lambda: np.array([None, object()], dtype=object),
    "array of the spoilt": lambda: np.array([SpoiltRepr(), SpoiltRepr()], dtype=object),
    "complex array": lambda: np.array([1j, 2.0]),
    "structured array": lambda: np.zeros(2, dtype=[("a", float), ("b", int)]),
    "masked array": lambda: np.ma.masked_array([1.0, 2.0], [False, True]),
    "datetime array": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "bool array": lambda: np.array([True, False]),
}

OBJECTS: dict[str, Callable[[], Any]] = {
    "an object": object,
    "an object that cannot be printed": SpoiltRepr,
    "an object that is no array": SpoiltArray,
    "a spoilt object": Spoilt,
    "an object of many lines": ManyLines,
    "a class": lambda: dict,
    "a module": lambda: np,
    "an exception": lambda: ValueError("x"),
    "Ellipsis": lambda: ...,
    "a frozen distribution": lambda: stats.norm(0, 1),
    "an improper distribution": lambda: stats.norm(0, -1),
    "an unfrozen distribution": lambda: stats.norm,
    "a generator of numbers": lambda: np.random.default_rng(1),
    "a target": lambda: fbar.mean("a"),
    "a target of nothing": lambda: fbar.mean("nothing"),
    "a prior": lambda: fbar.Prior(c=stats.norm(0, 1)),
    "a finite prior": lambda: fbar.Finite(c=[1, 2]),
    "points": lambda: fbar.Points({"c": [1.0, 2.0]}),
    "a method": lambda: fbar.Rejection(),
    "a stopping rule": lambda: fbar.Budget(3),
}

FUNCTIONS: dict[str, Callable[[], Any]] = {
    "a function of nothing": lambda: lambda: 1.0,
    "a function that fails": lambda: _raises,
    "a function that gives None": lambda: lambda *_: None,
    "a function that gives text": lambda: lambda *_: "x",
    "a function that gives nan": lambda: lambda *_: float("nan"),
    "a function that gives -1": lambda: lambda *_: -1.0,
    "a function that gives a wrong shape": lambda: lambda *_: np.zeros((2, 3)),
    "a function that gives a ragged list": lambda: lambda *_: [[1], [2, 3]],
    "a function that gives the spoilt": lambda: lambda *_: Spoilt(),
    "a function that gives complex numbers": lambda: lambda *_: 1j,
}

WRONG: dict[str, Callable[[], Any]] = {**NUMBERS, **TEXTS, **CONTAINERS, **ARRAYS, **OBJECTS, **FUNCTIONS}
