"""Blocks simulated by an engine outside the loop of a run, such as new simulations from its posterior."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from fbar.engine.base import Session
from fbar.question.outcomes import Batch, Outcomes


class SimulatedBlocks:
    """Blocks as they are done, in any order, with no more under way than keep the workers busy.

    After ``begin_within`` seconds none but the first is begun; after ``end_within`` seconds those under way are given
    up, where the engine can do that. ``begun`` are those that were begun.
    """

    def __init__(
        self,
        session: Session,
        batches: Sequence[Batch],
        *,
        begin_within: float = math.inf,
        end_within: float = math.inf,
    ) -> None:
        self._session, self._batches = session, batches
        self._begin_within, self._end_within = begin_within, end_within
        self.begun: list[Batch] = []

    def __iter__(self) -> Iterator[list[tuple[Batch, Outcomes]]]:
        start, done = time.monotonic(), 0
        while done < len(self._batches):
            spent = time.monotonic() - start
            if not self.begun or spent <= self._begin_within:
                self._begin(done)
            if len(self.begun) == done:
                return
            answers = self._session.collect_within(self._end_within - spent)
            if not answers:
                return
            done += len(answers)
            yield answers

    def _begin(self, done: int) -> None:
        while len(self.begun) < len(self._batches) and len(self.begun) - done < max(1, self._session.ahead):
            batch = self._batches[len(self.begun)]
            self._session.submit([batch])
            self.begun.append(batch)
