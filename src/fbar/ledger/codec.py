"""Blocks as bytes: a header of one line in JSON, then raw arrays. Nothing is ever unpickled.

Bytes may come from anywhere. What they announce is checked against how many there are before memory is taken for it,
and that a block's parts belong together before anyone counts on it.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import IntArray
from fbar.errors import FbarError, InputError
from fbar.question.outcomes import Batch, Failure, Outcomes, Seen, Simulated, Tally
from fbar.question.points import Points
from fbar.system.json_values import as_json

Arrays = Mapping[str, npt.NDArray[Any]]

ROUNDING = 1e-9
"""Relative differences that arithmetic makes between machines, at most; draws of another design differ by more."""

MOST_HEADER = 16_000_000
MOST_ARRAYS = 100_000
MOST_REPEATS = 2**53
PLAIN = re.compile(r"[<>|=][biufcSU][0-9]{1,9}|[<>|=][Mm]8(\[[0-9a-zA-Zμ]{1,12}\])?")
"""Types of arrays that are written: numbers, text and times, no Python objects and no structures."""

NUMBERS_AND_LABELS = "biufcSU"
"""Kinds of arrays that parameters and summaries are."""

GARBAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError, RecursionError)
"""What reading bytes that make no sense may raise."""


def checksum(*parts: bytes | str | float | None) -> int:
    total = 0
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(str(len(data)).encode(), total))
    return total


def pack(arrays: Arrays, **about: Any) -> bytes:
    """Arrays and some JSON as one string of bytes."""
    listed, parts = [], []
    for name, given in arrays.items():
        array = np.ascontiguousarray(given)
        if array.dtype.hasobject and (name.startswith("theta:") or all(isinstance(x, str) for x in array.ravel())):
            array = np.ascontiguousarray(array.astype(str))
        if array.dtype.kind in "OV":
            raise InputError(
                f"{name.removeprefix('recorded:')!r} of the simulator's output holds Python objects; a recorded run "
                "keeps only numbers and text"
            )
        listed.append([name, array.dtype.str, list(np.shape(given))])
        parts.append(array.tobytes())
    header = json.dumps({"arrays": listed, **about}).encode()
    return b"".join([header, b"\n", *parts])


def unpack(payload: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What `pack` was given: arrays that are aligned and can be written to, as a simulator's own are."""
    end = payload.index(b"\n")
    if end > MOST_HEADER:
        raise ValueError("its header is too long")
    about = json.loads(payload[:end])
    listed = about.pop("arrays")
    if len(listed) > MOST_ARRAYS:
        raise ValueError("it has too many arrays")
    arrays, start = {}, end + 1
    for name, code, shape in listed:
        if not isinstance(name, str) or not PLAIN.fullmatch(code):
            raise ValueError(f"an array cannot be of type {code!r}")
        if not all(type(length) is int and 0 <= length <= len(payload) for length in shape):
            raise ValueError(f"an array cannot be of shape {shape!r}")
        dtype, count = np.dtype(code), math.prod(shape)
        if count * max(dtype.itemsize, 1) > len(payload) - start:
            raise ValueError("it announces more than it holds")
        values = np.frombuffer(payload, dtype, count, start) if count and dtype.itemsize else np.empty(count, dtype)
        arrays[name] = values.reshape(shape).copy()
        start += count * dtype.itemsize
    if start != len(payload):
        raise ValueError("it holds more than it announces")
    return arrays, about


def encode(batch: Batch, outcomes: Outcomes) -> bytes:
    """A block's θ and outcomes."""
    points = batch.points
    arrays: dict[str, npt.NDArray[Any]] = {f"theta:{name}": points[name] for name in points}
    arrays |= {f"present:{name}": points.present(name) for name in points if not points.present(name).all()}
    if batch.repeats is not None:
        arrays["repeats"] = batch.repeats
    if isinstance(outcomes, Tally):
        arrays |= {"weight": outcomes.weight, "square": outcomes.square}
        return pack(arrays, kind="tally", seed=str(batch.seeds.entropy), closest=as_json(outcomes.seen.closest))
    arrays["summaries"] = outcomes.summaries
    arrays |= {f"recorded:{name}": np.asarray(values) for name, values in outcomes.recorded.items()}
    if outcomes.failure is not None and outcomes.failure.any():
        arrays["failure"] = outcomes.failure
    if outcomes.cost is not None:
        arrays["cost"] = outcomes.cost
    if outcomes.raw is not None:
        arrays["raw"] = outcomes.raw
    return pack(
        arrays,
        kind="simulated",
        seed=str(batch.seeds.entropy),
        examples={int(kind): text for kind, text in outcomes.examples.items()},
        details={int(kind): text for kind, text in outcomes.details.items()},
    )


@dataclass(frozen=True)
class Block:
    """What is recorded of a block."""

    seed: str
    points: Points
    repeats: IntArray | None
    outcomes: Outcomes

    @property
    def simulations(self) -> int:
        return self.points.rows if self.repeats is None else int(self.repeats.sum())

    def answers(self, batch: Batch) -> bool:
        """Whether it was recorded for what is asked now."""
        if self.seed != str(batch.seeds.entropy) or set(self.points) != set(batch.points):
            return False
        if (self.repeats is None) != (batch.repeats is None) or not np.array_equal(
            self.repeats if self.repeats is not None else 1, batch.repeats if batch.repeats is not None else 1
        ):
            return False
        return all(_same(self.points[name], batch.points[name]) for name in batch.points)


def decode(payload: bytes, seconds: float = 0.0) -> Block:
    """A block's seed, θ, repeats and outcomes; one of `GARBAGE` if the bytes are no block."""
    arrays, about = unpack(payload)

    def under(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}

    try:
        points = Points(under("theta:"), present=under("present:"))
    except FbarError as error:
        raise ValueError(str(error)) from None
    seed, repeats = about["seed"], arrays.get("repeats")
    _require(isinstance(seed, str))
    _require(all(points[name].dtype.kind in NUMBERS_AND_LABELS for name in points))
    _require(all(mask.dtype == bool and mask.shape == (points.rows,) for mask in under("present:").values()))
    if repeats is not None:
        _require(repeats.dtype.kind in "iu" and repeats.shape[-1:] == (points.rows,))
        _require(repeats.size == 0 or 0 <= repeats.min() <= repeats.max() <= MOST_REPEATS)
    if about["kind"] == "tally":
        return Block(seed, points, repeats, _tally(arrays, about, points.rows, repeats))
    _require(about["kind"] == "simulated" and (repeats is None or repeats.ndim == 1))
    rows = points.rows if repeats is None else int(repeats.sum())
    return Block(seed, points, repeats, _simulated(arrays, about, under("recorded:"), rows, seconds))


def _tally(arrays: Arrays, about: Mapping[str, Any], rows: int, repeats: IntArray | None) -> Tally:
    weight, square, closest = arrays["weight"], arrays["square"], about["closest"]
    shape = (rows,) if repeats is None else repeats.shape
    _require(all(numbers.dtype.kind in "biuf" and numbers.shape == shape for numbers in (weight, square)))
    _require(closest is None or isinstance(closest, int | float))
    return Tally(weight, square, Seen() if closest is None else Seen(closest))


def _simulated(arrays: Arrays, about: Mapping[str, Any], recorded: Arrays, rows: int, seconds: float) -> Simulated:
    summaries = arrays["summaries"]
    failure, cost = arrays.get("failure", np.zeros(rows, dtype=np.int8)), arrays.get("cost")
    raw = arrays.get("raw")
    _require(failure.dtype.kind in "iu" and failure.shape == (rows,) and summaries.shape[:1] == (rows,))
    _require(summaries.dtype.kind in NUMBERS_AND_LABELS)
    _require(rows == 0 or (failure.min() >= 0 and failure.max() < len(Failure)))
    _require(cost is None or (cost.dtype.kind == "f" and cost.shape == (rows,)))
    _require(raw is None or (raw.dtype.kind == "f" and raw.ndim >= 1 and len(raw) <= rows))
    _require(all(values.shape[:1] == (rows,) for values in recorded.values()))
    _require(isinstance(seconds, int | float))
    examples, details = (
        {Failure(int(kind)): str(text) for kind, text in about[name].items()} for name in ("examples", "details")
    )
    return Simulated(summaries, recorded, failure, examples, details, seconds, cost, raw)


def _require(holds: Any) -> None:
    if not holds:
        raise ValueError("its parts do not belong together")


def _same(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    """Whether two columns of θ are the same draws: up to rounding, which another processor does in another way."""
    if first.dtype.kind in "f" and second.dtype.kind in "f":
        if first.shape != second.shape:
            return False
        large = np.abs(first[np.isfinite(first)]).max(initial=0.0)
        return np.allclose(first, second, rtol=ROUNDING, atol=1e-3 * ROUNDING * large, equal_nan=True)
    try:
        return np.array_equal(first.astype(str) if second.dtype == object else first, second.astype(first.dtype))
    except (ValueError, TypeError):  # text that is no number
        return False
