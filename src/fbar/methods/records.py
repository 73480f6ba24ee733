"""Recorded outputs of one kind throughout a run: numbers or text, whatever single simulations give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fbar.arrays import IntArray
from fbar.question.outcomes import Failure, Outcomes, Simulated
from fbar.question.outputs import NUMBERS, not_alike
from fbar.question.points import Points
from fbar.question.problem import Problem


class RecordedKinds:
    """Knows what kind of values each recorded output of a run has, from its first simulations on.

    Blocks are shown in their order, so that all engines see the same. An output that was asked for (``records=``) is a
    number if any simulation gave one. Then those that gave text have failed, whenever they came: until the first number
    all gave text, so that everything before it has failed. Nobody misses outputs that were not asked for.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._numbers: dict[str, bool] = {}
        self._text: dict[str, str] = {}

    def turn(self, outcomes: Outcomes) -> str:
        """What is wrong with all simulations before this block, if it gives the first numbers of some output."""
        if not isinstance(outcomes, Simulated) or _all_failed(outcomes):
            return ""
        for name, values in outcomes.recorded.items():
            if name in self._problem.records and values.dtype.kind in NUMBERS and self._numbers.get(name) is False:
                return str(not_alike(name, self._text[name]))
        return ""

    def matched(self, outcomes: Outcomes) -> Outcomes:
        if not isinstance(outcomes, Simulated) or not outcomes.recorded or _all_failed(outcomes):
            return outcomes
        failure = np.zeros(outcomes.simulations, np.int8) if outcomes.failure is None else outcomes.failure
        recorded, examples = dict(outcomes.recorded), dict(outcomes.examples)
        for name, values in outcomes.recorded.items():
            if name in self._problem.names:  # from a record of before such simulations failed
                del recorded[name]
                continue
            numbers, asked = values.dtype.kind in NUMBERS, name in self._problem.records
            known = self._numbers.setdefault(name, numbers)
            if asked and not numbers:
                self._text.setdefault(name, str(values[int(np.argmax(failure == Failure.NONE))]))
            if numbers and asked:  # what came before was not what was meant, see `turn`
                self._numbers[name] = True
            elif numbers != known and not asked:
                del recorded[name]
            elif numbers != known:
                lost = failure == Failure.NONE
                failure = np.where(lost, np.int8(Failure.UNUSABLE), failure)
                example = str(not_alike(name, str(values[int(np.argmax(lost))])))
                examples.setdefault(Failure.UNUSABLE, example)
                recorded[name] = np.full(outcomes.simulations, np.nan)
        same = len(recorded) == len(outcomes.recorded) and failure is outcomes.failure
        return outcomes if same else replace(outcomes, recorded=recorded, failure=failure, examples=examples)


class RecordedBlocks(Protocol):
    """A run's record, as `fbar.ledger.LedgerReader` opens it."""

    def blocks(self) -> Iterator[tuple[int, int, Points, IntArray | None, Outcomes]]:
        """Every recorded block in the order of rounds and blocks: round, block, θ, repeats and outcomes."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """The blocks of a record, with recorded outputs of one kind throughout as the run has seen them."""

    problem: Problem
    record: RecordedBlocks

    def __iter__(self) -> Iterator[tuple[int, int, Outcomes]]:
        kinds = RecordedKinds(self.problem)
        for round, block, _, _, outcomes in self.record.blocks():
            yield round, block, kinds.matched(outcomes)


def _all_failed(outcomes: Simulated) -> bool:
    return outcomes.failure is not None and bool((np.asarray(outcomes.failure) != Failure.NONE).all())
