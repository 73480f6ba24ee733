"""Simulators that draw from Python's or numpy's global random numbers instead of the generator they are given.

They are seeded block by block once they are found out, so that forked workers do not share their numbers and the same
seed gives the same result. The global state is left as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fbar.outcomes import Batch
from fbar.problem import Problem
from fbar.seeds import Purpose, Seeds

_drawn_from: WeakKeyDictionary[Problem, bool] = WeakKeyDictionary()
"""Whether a problem's simulator draws from global numbers, as its first block in this process showed."""


@contextmanager
def global_numbers(problem: Problem, batch: Batch, row: int = 0) -> Iterator[None]:
    if _drawn_from.get(problem) is False:
        yield
        return
    with seeded(batch.seeds, batch.round, batch.block, row):
        start = _state()
        try:
            yield
        finally:
            _drawn_from[problem] = _drawn_from.get(problem, False) or not _same(start, _state())


@contextmanager
def seeded(seeds: Seeds, round: int = 0, block: int = 0, row: int = 0) -> Iterator[None]:
    """Global numbers that follow from the seeds; the state before is put back."""
    before = _state()
    words = seeds.sequence(Purpose.GLOBAL, round, block, row).generate_state(4)
    np.random.seed(words)  # noqa: NPY002 - this is about the global generator
    random.seed(words.tobytes())
    try:
        yield
    finally:
        np.random.set_state(before[0])  # noqa: NPY002
        random.setstate(before[1])


def _state() -> tuple[Any, Any]:
    return np.random.get_state(), random.getstate()  # noqa: NPY002


def _same(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    (_, key, place, *_), (_, other, where, *_) = first[0], second[0]
    return place == where and np.array_equal(key, other) and first[1] == second[1]
