"""What failed in a block whose rows share one stream of random numbers? Found out without drawing any row twice.

When a vectorised simulator raises, hangs or kills its process, which of its rows did it is not known, and its rows
cannot be repeated alone: they would draw other numbers. Running them again and keeping what then succeeds would give
the guilty row a second chance. With f the probability that a row fails and P₀ that no other row of its block does, its
probability to succeed would be (1 − f)(1 + f P₀) in place of 1 − f.

Let every row of a block S fail independently of the others, and S fail if one of its rows does. What is wanted, given
that S failed, is a draw from the joint law of all its rows' outcomes, given that at least one of them failed. That law
has a rejection sampler. Split S into halves A and B and run both with new numbers, until at least one of them fails
(a *pass* in which both succeed is thrown away whole). The half that succeeded, if one did, then has outcomes from the
right law. The half that failed is in the place where S was; go on with it. A single row that failed has failed. So
each row's outcome has exactly the law that it would have had alone: it fails with probability f, and the rest is as
it should be, whatever the composition of the block. No design, stratum or allocation needs to know of it.

A block that fails with probability p needs 1/p passes on average; since it fails with probability p, that is one more
run of all blocks for each halving, whatever p is. But a block that failed once in a thousand would need a thousand
passes, and one that was killed from outside would never end. After `MOST_PASSES` = K passes without a failure the last
one is kept. That is the one bias that is left: the row that should have failed then counts as a success. On the way
down L = log₂ rows halvings the chance that some part gives up is at most 1 − (1 − (1 − f)^K)^L, so that the probability
of success is (1 − f)(1 + b) with

    b ≤ f/(1 − f) · (1 − (1 − (1 − f)^K)^L),

below 0.0095 for every f and blocks of up to 2¹⁶ rows; rows that do not fail have none.

Two other causes are told apart on the way, after `DOUBT` passes without a failure. If the failed attempt succeeds when
it is repeated as it was, with the same numbers, it had been disturbed from outside, and is kept: the result is what it
would have been without the disturbance. If new runs of all rows of S together go on failing while its halves never do,
it is their number that the simulator does not bear (its memory, say), and the halves are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from fbar.engine.attempt import Attempt, Part, attempt_part, has_row_streams
from fbar.outcomes import Batch, Simulated
from fbar.problem import Problem
from fbar.simulators import RowFailed, Rows

MOST_PASSES = 200
DOUBT = 8

_Steps: TypeAlias = Generator[list[Part], Sequence[Attempt], Simulated]
"""Yields parts to attempt, is sent what came of them, and returns the block's outcomes."""


class Recovery:
    """Finds out what failed in a block that failed as a whole.

    `begin` gives the parts to attempt, in any order or at once. What came of each goes to `take`, which gives the next
    parts, none while others are under way; or the block's outcomes, at the end.
    """

    def __init__(self, problem: Problem, batch: Batch, failed: RowFailed) -> None:
        whole = Part(0, batch.simulations)
        by_row = has_row_streams(problem, batch)
        self._steps = _row_by_row(problem, whole) if by_row else _by_halves(problem, whole, failed, count())
        self._parts: list[Part] = []
        self._found: dict[Part, Attempt] = {}

    def begin(self) -> list[Part] | Simulated:
        return self._step(None)

    def take(self, part: Part, attempt: Attempt) -> list[Part] | Simulated:
        self._found[part] = attempt
        return [] if len(self._found) < len(self._parts) else self._step([self._found[part] for part in self._parts])

    def _step(self, attempts: Sequence[Attempt] | None) -> list[Part] | Simulated:
        self._found = {}
        try:
            self._parts = next(self._steps) if attempts is None else self._steps.send(attempts)
        except StopIteration as end:
            outcomes: Simulated = end.value
            return outcomes
        return self._parts


def recover_here(problem: Problem, batch: Batch, failed: RowFailed, timeout: float | None = None) -> Simulated:
    """The outcomes of a block that failed as a whole, found out in this process."""
    recovery = Recovery(problem, batch, failed)
    step = recovery.begin()
    while not isinstance(step, Simulated):
        for part in step:
            step = recovery.take(part, attempt_part(problem, batch, part, timeout))
    return step


def _row_by_row(problem: Problem, whole: Part) -> _Steps:
    """Rows that have streams of their own repeat themselves: each alone, and the guilty ones fail again."""
    attempts = yield [Part(row, row + 1) for row in range(whole.rows)]
    outputs: list[Any] = []
    cost: list[float] = []
    for attempt in attempts:
        outputs.append(attempt[0] if isinstance(attempt, Rows) else attempt)
        cost.append(float(attempt.cost[0]) if isinstance(attempt, Rows) else np.nan)
    return problem.outcomes(Rows(outputs, cost), whole.rows)


def _by_halves(problem: Problem, part: Part, failed: RowFailed, streams: Iterator[int]) -> _Steps:
    """Rows that share a stream, of which at least one failed."""
    if part.rows == 1:
        return problem.outcomes([failed], 1)
    middle = part.first + part.rows // 2
    for number in range(MOST_PASSES):
        halves = [Part(part.first, middle, next(streams)), Part(middle, part.last, next(streams))]
        attempts = yield halves
        if any(isinstance(attempt, RowFailed) for attempt in attempts):
            break
        if number + 1 == DOUBT:
            (again,) = yield [part]
            if isinstance(again, Simulated):
                return again
            whole = yield [Part(part.first, part.last, next(streams)) for _ in range(DOUBT)]
            if all(isinstance(attempt, RowFailed) for attempt in whole):
                break
    found: list[Simulated] = []
    for half, attempt in zip(halves, attempts, strict=True):
        if isinstance(attempt, RowFailed):
            attempt = yield from _by_halves(problem, half, attempt, streams)
        assert isinstance(attempt, Simulated)
        found.append(attempt)
    return joined(found)


def _recorded(name: str, part: Simulated) -> Any:
    return part.recorded[name]


def joined(parts: Sequence[Simulated]) -> Simulated:
    """Parts of a block, one after the other."""
    failure = np.concatenate([np.zeros(p.simulations, np.int8) if p.failure is None else p.failure for p in parts])
    alive = [p for p in parts if p.failure is None or not p.failure.all()] or list(parts)

    def column(values: Callable[[Simulated], Any]) -> Any:
        """A part whose rows all failed has placeholders, which need not be of the others' type."""
        like = values(alive[0])
        return np.concatenate(
            [values(p) if p in alive else np.zeros((p.simulations, *like.shape[1:]), like.dtype) for p in parts]
        )

    cost = None
    if all(p.cost is not None for p in alive):
        cost = np.concatenate([np.full(p.simulations, np.nan) if p.cost is None else p.cost for p in parts])
    return Simulated(
        column(lambda p: p.summaries),
        {name: column(partial(_recorded, name)) for name in alive[0].recorded},
        failure,
        {kind: text for p in reversed(parts) for kind, text in p.examples.items()},
        {kind: text for p in reversed(parts) for kind, text in p.details.items()},
        cost=cost,
    )
