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
down L = ⌈log₂ rows⌉ halvings the chance that some part gives up is at most 1 − (1 − (1 − f)^K)^L, so that the
probability of success is (1 − f)(1 + b) with

    b ≤ f/(1 − f) · (1 − (1 − (1 − f)^K)^L),

below 0.0095 for every f and blocks of up to 2¹⁶ rows; rows that do not fail have none.

What was killed or ended by force may have been disturbed from outside. After `DOUBT` passes without a failure it is
repeated as it was, with the same numbers. If it then succeeds it is kept: the result is what it would have been.

A simulator that does not bear so many rows at once, for its memory say, breaks the assumption: S fails though no row
does, and passes would be thrown away until one fails. It is not guessed at but refused. After the first pass without a
failure, S is run with new numbers until it succeeds, as it must soon: that costs 1/(1 − p) runs. If it fails `WHOLE`
times in a row, and at most half of as many passes fail, the run ends with an error that names the remedy, a smaller
block_size. Passes and S fail equally often if rows are the cause, so that this is a false alarm with probability at
most max_p p^40 P(Bin(40, p) ≤ 20) < 10⁻⁸ for each block that fails. (A simulator that bears fewer rows than a block
has, and whose rows fail so often that a half is more likely to fail than not, escapes this.)

An output that cannot be used, such as one of another number of rows, is a failure of the block like any other. If every
output is like that, the problem is wrong and no row is guilty. So in the first block of a run, if it has `MANY` rows,
`PROBES` single rows are run with new numbers before anything else. If none can be used, the run ends with an error that
says why. Where a share f of all rows cannot be used that is a false alarm with probability f^40, 10⁻¹² for a half, at
the very start of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from fbar.engine.attempt import FIRST, Attempt, Part, attempt_part, has_row_streams
from fbar.errors import InputError, SimulatorFailed
from fbar.question.outcomes import FORCED, MISTAKES, Batch, Failure, Simulated
from fbar.question.outputs import COMPARABLE
from fbar.question.problem import Problem
from fbar.question.simulators import RowFailed, Rows
from fbar.question.simulators.hints import NEEDS_EACH

MOST_PASSES = 200
DOUBT = 8
WHOLE = 40
PROBES, MANY = 40, 10

_Steps: TypeAlias = Generator[list[Part], Sequence[Attempt], Simulated]
"""Yields parts to attempt, is sent what came of them, and returns the block's outcomes."""


class Recovery:
    """Finds out what failed in a block that failed as a whole.

    `begin` gives the parts to attempt, in any order or at once. What came of each goes to `take`, which gives the next
    parts, none while others are under way; or the block's outcomes, at the end.
    """

    def __init__(self, problem: Problem, batch: Batch, failed: RowFailed) -> None:
        whole = Part(0, batch.simulations)
        name = problem.simulator.name_of(batch.points)
        failed = replace(failed, message=f"{name}: {failed.message}") if name else failed
        if has_row_streams(problem, batch):
            self._steps = _row_by_row(problem, whole)
        elif batch.key == FIRST and failed.kind in MISTAKES and whole.rows >= MANY:
            self._steps = _unless_mistaken(problem, whole, failed)
        else:
            self._steps = _by_halves(problem, whole, failed, count())
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


def _unless_mistaken(problem: Problem, whole: Part, failed: RowFailed) -> _Steps:
    """The first block of a run, if not all of its rows are useless: then it is the problem that is wrong."""
    streams = count()
    rows = [number % whole.rows for number in range(PROBES)]
    attempts = yield [Part(row, row + 1, next(streams)) for row in rows]
    if all(isinstance(attempt, RowFailed) and attempt.kind in MISTAKES for attempt in attempts):
        raise InputError(failed.message)
    try:
        return (yield from _by_halves(problem, whole, failed, streams))
    except InputError:  # found in a part of it
        raise InputError(failed.message) from None


def _by_halves(problem: Problem, part: Part, failed: RowFailed, streams: Iterator[int]) -> _Steps:
    """Rows that share a stream, of which at least one failed."""
    if part.rows == 1:
        return problem.outcomes([failed], 1)
    middle = part.first + part.rows // 2
    for number in range(MOST_PASSES):
        halves = [Part(part.first, middle, next(streams)), Part(middle, part.last, next(streams))]
        attempts = yield halves
        if _any_failed(attempts):
            break
        if number == 0:
            yield from _require_that_rows_fail(part, failed, streams)
        if number + 1 == DOUBT and failed.kind in FORCED:
            (again,) = yield [part]
            if isinstance(again, Simulated):
                return again
    found: list[Simulated] = []
    for half, attempt in zip(halves, attempts, strict=True):
        if isinstance(attempt, RowFailed):
            attempt = yield from _by_halves(problem, half, attempt, streams)
        assert isinstance(attempt, Simulated)
        found.append(attempt)
    return joined(found)


def _any_failed(attempts: Sequence[Attempt]) -> bool:
    return any(isinstance(attempt, RowFailed) for attempt in attempts)


def _require_that_rows_fail(
    part: Part, failed: RowFailed, streams: Iterator[int]
) -> Generator[list[Part], Sequence[Attempt], None]:
    """End the run if it is the number of rows that the simulator does not bear."""
    for _ in range(WHOLE):
        whole = yield [Part(part.first, part.last, next(streams))]
        if not _any_failed(whole):
            return
    middle, passes = part.first + part.rows // 2, 0
    for _ in range(WHOLE):
        halves = yield [Part(part.first, middle, next(streams)), Part(middle, part.last, next(streams))]
        passes += _any_failed(halves)
    if passes <= WHOLE // 2 and (failed.kind in MISTAKES or failed.advice):
        one = f"; it works with one row: {NEEDS_EACH}" if part.rows == 2 and not failed.advice else ""
        raise InputError(("" if failed.kind in MISTAKES else "the simulator failed: ") + failed.message + one)
    if passes <= WHOLE // 2:
        raise SimulatorFailed(
            f"the simulator fails whenever it is given {part.rows} rows at once, and rarely with half as many "
            f"({failed.message}); give a smaller block_size (block_size=, --block-size)"
        )


def _recorded(name: str, part: Simulated) -> Any:
    return part.recorded[name]


def _alike(name: str, parts: Sequence[Simulated]) -> bool:
    """Whether an output can be one column: parts may lack what nobody asked for, or have it in another form."""
    columns = [part.recorded.get(name) for part in parts]
    forms = {None if c is None else (c.shape[1:], "" if c.dtype.kind in COMPARABLE else c.dtype.kind) for c in columns}
    return None not in forms and len(forms) == 1


def joined(parts: Sequence[Simulated]) -> Simulated:
    """Parts of a block, one after the other."""
    failure = np.concatenate([np.zeros(p.simulations, np.int8) if p.failure is None else p.failure for p in parts])
    alive = [p for p in parts if p.failure is None or np.isin(p.failure, (Failure.NONE, Failure.NOT_FINITE)).any()]
    alive = alive or list(parts)

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
        {name: column(partial(_recorded, name)) for name in alive[0].recorded if _alike(name, alive)},
        failure,
        {kind: text for p in reversed(parts) for kind, text in p.examples.items()},
        {kind: text for p in reversed(parts) for kind, text in p.details.items()},
        cost=cost,
    )
