"""What a run was asked to do, as JSON: to know it again, and to say what differs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fbar.question.priors import Finite, ModelChoice, Prior
from fbar.question.problem import Problem
from fbar.question.simulators import Simulator, each
from fbar.question.targets import Target

SOURCE = "source"
"""Under this key stands a hash of a function's source: a change is warned of, not refused."""

SUMMARY = "problem.summary.source"
"""But for the summary: outcomes are recorded after it, and those of two summaries cannot be compared."""

NAMES = "summary_names"
"""Under this key stand the names of the summaries, which change no result."""

MOST_WRITTEN = 2000
"""Numbers of an array that are written out; of a larger one a hash stands for them."""


CONSTANT = (bool, int, float, str, tuple, np.ndarray, np.generic)

_described: WeakKeyDictionary[Problem, dict[str, Any]] = WeakKeyDictionary()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _source(function: Any) -> str:
    """A hash of all that a function's result may depend on: its source, what it encloses, the constants it reads."""
    parts = _parts(function, set())
    return _digest(json.dumps(parts, default=lambda other: type(other).__name__, sort_keys=True).encode())


def _parts(function: Any, seen: set[int]) -> Any:
    if id(function) in seen:
        return None
    seen.add(id(function))
    if isinstance(function, functools.partial):
        return [_parts(function.func, seen), describe(list(function.args)), describe(function.keywords)]
    if isinstance(function, Simulator) and function.made_of is not function:
        return _inner(function.made_of, seen)
    code = getattr(function, "__code__", None)
    if code is None:  # an object that can be called: its class, and what it holds
        held = vars(function) if hasattr(function, "__dict__") else {}
        return [_text(type(function)), {name: _inner(value, seen) for name, value in held.items()}]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
    enclosed = {name: _inner(cell.cell_contents, seen) for name, cell in cells.items() if _filled(cell)}
    read = {n: function.__globals__[n] for n in code.co_names if n in getattr(function, "__globals__", {})}
    constants = {name: _inner(value, seen) for name, value in read.items() if _is_constant(value, function)}
    defaults = [describe(list(function.__defaults__ or ())), describe(dict(function.__kwdefaults__ or {}))]
    return [_text(function), enclosed, constants, defaults]


def _inner(value: Any, seen: set[int]) -> Any:
    if callable(value) and not isinstance(value, type):
        return _parts(value, seen)
    if isinstance(value, Mapping | tuple):  # such as the models of a choice
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        return {str(key): _inner(item, seen) for key, item in items}
    return describe(value) if isinstance(value, CONSTANT) else type(value).__name__


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _is_constant(value: Any, function: Any) -> bool:
    """Numbers, texts and arrays of the module, and its own functions; not what simulators may write down in lists."""
    if isinstance(value, CONSTANT):
        return True
    return hasattr(value, "__code__") and value.__module__ == function.__module__


def _text(thing: Any) -> str:
    """The source of a function or class, or its compiled code where there is none."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return thing.__qualname__ if code is None else f"{code.co_code.hex()} {code.co_names}"


def describe(value: Any) -> Any:
    """A value as JSON values: enough to see that it is the same again."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.size <= MOST_WRITTEN and value.dtype.kind in "biufU":
            return value.tolist()
        return {"shape": list(value.shape), "digest": _digest(np.ascontiguousarray(value.astype(str)).tobytes())}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [describe(item) for item in value]
    if isinstance(value, Target):
        return value.name
    if isinstance(value, Problem):
        # Once: what a simulator counts or remembers while it works is no change of the problem.
        if value not in _described:
            _described[value] = _problem(value)
        return _described[value]
    if isinstance(value, Prior):
        return {name: describe(marginal) for name, marginal in value.marginals.items()}
    if isinstance(value, ModelChoice):
        return {"models": describe(value.models), "probabilities": value.probabilities.tolist()}
    if isinstance(value, Finite):
        return {"values": {n: describe(value.points[n]) for n in value.names}, "p": describe(value.probabilities)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if hasattr(value, "dist") and hasattr(value, "args"):  # scipy's frozen distributions
        return {"type": value.dist.name, "args": describe(list(value.args)), "kwds": describe(dict(value.kwds))}
    if isinstance(value, each):
        return {"type": "each", SOURCE: _source(value)}
    if callable(value):
        return {"type": getattr(value, "__qualname__", type(value).__name__), SOURCE: _source(value)}
    public = {key: describe(item) for key, item in vars(value).items()} if hasattr(value, "__dict__") else {}
    return {"type": type(value).__name__, **{key: item for key, item in public.items() if not key.startswith("_")}}


def _problem(problem: Problem) -> dict[str, Any]:
    given = problem.arguments
    return {
        "prior": describe(problem.prior),
        "simulator": describe(problem.simulate),
        "observed": describe(problem.observed),
        "summary": describe(problem.summary),
        "distance": describe(given["distance"]),
        "accept": describe(given["accept"]),
        "derived": describe(problem.derived),
        "records": list(problem.records),
        "cost": describe(given["cost"]),
        **({NAMES: problem.summary_names} if problem.summary_names else {}),
    }


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two descriptions differ: the place, what it was and what it is. Names of summaries are not compared."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            where = f"{path}.{key}" if path else str(key)
            if where == f"problem.{NAMES}":
                continue
            yield from differences(before.get(key), after.get(key), where)
    elif before != after:
        yield path, before, after


def is_source(path: str) -> bool:
    """Whether a difference is one of source alone."""
    return path.split(".")[-1] == SOURCE and path != SUMMARY
