"""What a run was asked to do, as JSON: to know it again, and to say what differs."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fbar.priors import Finite, ModelChoice, Prior
from fbar.problem import Problem
from fbar.simulators import each
from fbar.targets import Target

SOURCE = "source"
"""Under this key stands a hash of a function's source: a change is warned of, not refused."""

SUMMARY = "problem.summary.source"
"""But for the summary: outcomes are recorded after it, and those of two summaries cannot be compared."""

MOST_WRITTEN = 2000
"""Numbers of an array that are written out; of a larger one a hash stands for them."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _source(function: Callable[..., Any]) -> str:
    """A hash of a function's source, or of its compiled code where there is none."""
    try:
        return _digest(inspect.getsource(function).encode())
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return _digest(code.co_code + repr(code.co_names).encode()) if code is not None else "unknown"


def describe(value: Any) -> Any:
    """A value in JSON's terms: enough to see that it is the same again."""
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
        return _problem(value)
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
        return {"type": "each", SOURCE: _source(value.function)}
    if callable(value):
        return {"type": getattr(value, "__qualname__", type(value).__name__), SOURCE: _source(value)}
    public = {key: describe(item) for key, item in vars(value).items()} if hasattr(value, "__dict__") else {}
    return {"type": type(value).__name__, **{key: item for key, item in public.items() if not key.startswith("_")}}


def _problem(problem: Problem) -> dict[str, Any]:
    simulate: Any = problem.simulate
    return {
        "prior": describe(problem.prior),
        "simulator": describe(simulate),
        "observed": describe(problem.observed),
        "summary": describe(problem.summary),
        "distance": describe(problem._distance),
        "accept": describe(problem._accept),
        "derived": describe(problem.derived),
        "records": list(problem.records),
        "cost": describe(problem._cost),
    }


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two descriptions differ: the place, what it was and what it is."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            where = f"{path}.{key}" if path else str(key)
            yield from differences(before.get(key), after.get(key), where)
    elif before != after:
        yield path, before, after


def is_source(path: str) -> bool:
    """Whether a difference is one of source alone."""
    return path.split(".")[-1] == SOURCE and path != SUMMARY
