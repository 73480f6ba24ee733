"""The ask/tell contract, written once.

A *round* is the unit of learning, a *block* the unit of work. What block b of round r asks for depends on
the seed and on the state at the round's start alone. ``tell`` takes blocks in any order and grouping and
absorbs them in index order, so that neither the number of workers nor their speed can change a result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from fbar.checks import counted, positive_integer
from fbar.errors import InputError
from fbar.methods.records import RecordedKinds
from fbar.methods.start import Start
from fbar.question.outcomes import Batch, Failure, Outcomes, Seen, Simulated
from fbar.question.raw_numbers import RawNumbers

SLOW_BLOCK = 64
"""Simulations in a block, at most, of a simulator that runs them one by one: what is under way can be lost."""

MISTAKEN = 40
"""Simulations after which it is a mistake in the problem if the output of none can be used."""


class AskTell(ABC):
    """Gives out blocks of simulations and absorbs their outcomes in order; `Run` makes an algorithm of it."""

    def __init__(self, start: Start) -> None:
        self.problem, self.targets, self.seeds = start.problem, start.targets, start.seeds
        self.budget, self.limit, self.trials = start.budget, start.limit, start.trials
        self.round = 0
        self.seen = Seen()
        self.replayed = 0
        """How many of its simulations came from a record, where one was replayed."""
        self.mistake = ""
        """What is wrong with the problem, if the first simulations gave nothing that can be used, or nonsense."""
        self.raw_numbers = RawNumbers(start.problem.raw_numbers)
        """Those of a sample of its simulations, where the problem has a summary function."""
        self._proven = False
        self._kinds = RecordedKinds(start.problem)
        self._largest_block = SLOW_BLOCK if start.problem.simulator.one_by_one else None
        self._told_so_far = 0
        self._asked = 0
        self._absorbed = 0
        self._told: dict[int, tuple[Batch, Outcomes]] = {}
        self._outstanding: dict[tuple[int, int], int] = {}
        self._under_way = 0
        self.unused = 0
        """Simulations that were run ahead and came after the end of their round; not among ``simulations``."""
        self._spent_cost: float | None = 0.0

    # ------------------------------------------------------------ what a method fills in

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the run has nothing more to ask."""

    @property
    @abstractmethod
    def simulations(self) -> int:
        """Simulations told so far, in blocks without a gap."""

    @abstractmethod
    def _blocks(self) -> int:
        """The number of blocks in the present round; so far needed for sure, if only outcomes will end it."""

    def _round_over(self) -> bool:
        """Whether the blocks absorbed so far complete the round."""
        return self._absorbed == self._asked == self._blocks()

    @property
    def _open_ended(self) -> bool:
        """Whether the present round ends by its outcomes, so that blocks may be asked for ahead of need."""
        return False

    @abstractmethod
    def _block(self, block: int) -> Batch:
        """What a block of the present round asks for."""

    @abstractmethod
    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        """Take in the outcomes of the next block in index order."""

    @abstractmethod
    def _all_failed(self) -> None:
        """Every simulation so far turned out to have failed: as many as before, and none accepted."""

    @abstractmethod
    def _end_round(self) -> None:
        """Learn from a complete round, and plan the next one unless the run is finished."""

    @property
    def spent_cost(self) -> float | None:
        """What the simulations told so far, in blocks without a gap, have cost together; None if it is not known.

        In seconds of simulator time where it is measured. Failed simulations count where their cost is known.
        """
        return self._spent_cost

    @property
    def _most(self) -> float:
        """The number of simulations never to exceed."""
        most = self.limit if self.budget is None else self.budget
        return math.inf if most is None else most

    def _default_block(self, size: int) -> int:
        """A block's size unless the user has said one: no clock decides it, the kind of simulator does."""
        return size if self._largest_block is None else min(size, self._largest_block)

    # ------------------------------------------------------------ ask and tell

    def ask(self, limit: int | None = None, *, extra_blocks: int = 0, enough: int | None = None) -> list[Batch]:
        """The blocks that can be simulated now, with at most ``limit`` simulations together.

        Empty while the round waits for blocks that were asked before, and when the run is finished. Blocks are never
        cut: a limit below the next block's size is refused. ``extra_blocks`` asks for more blocks in a round that its
        outcomes will end, to keep workers busy; those that turn out to come after its end are counted in ``unused`` and
        not used, so the result is the same. A run with a budget or a limit asks for no extra blocks: it uses all the
        simulations that it may run, and extra ones would exceed them. ``enough`` ends with the block that reaches this
        number of simulations: the next call asks for those that follow, so that a large round need not be in memory at
        once.
        """
        if limit is not None:
            positive_integer(limit, "limit")
        batches: list[Batch] = []
        used = 0
        if self._most < math.inf:
            extra_blocks = 0
        while not self.finished and self._asked < self._blocks() + (extra_blocks if self._open_ended else 0):
            if enough is not None and used >= enough:
                break
            batch = self._block(self._asked)
            used += batch.simulations
            if limit is not None and used > limit:
                if not batches:
                    raise InputError(
                        f"limit {limit} is below the next block's {batch.simulations} simulations; "
                        "raise it, or start the run with a smaller block_size"
                    )
                break
            batches.append(batch)
            self._outstanding[batch.key] = batch.simulations
            self._under_way += batch.simulations
            self._asked += 1
        return batches

    def tell(self, *answers: tuple[Batch, Outcomes]) -> None:
        """Take the outcomes of blocks, as pairs (batch, outcomes), in any order and grouping."""
        for answer in answers:
            if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Batch):
                raise InputError(f"tell takes pairs (batch, outcomes); got {type(answer).__name__}")
            batch, outcomes = answer
            if batch.key not in self._outstanding:
                past = batch.round < self.round or (batch.round == self.round and batch.block < self._asked)
                raise InputError(
                    f"the outcomes of block {batch.key} have already been given"
                    if past
                    else f"block {batch.key} was not asked for in round {self.round}, the current one"
                )
            if isinstance(outcomes, Simulated) and outcomes.simulations != batch.simulations:
                raise InputError(
                    f"block {batch.key} has {counted(batch.simulations, 'simulation')} and got "
                    f"{counted(outcomes.simulations, 'outcome')}"
                )
            self._under_way -= self._outstanding.pop(batch.key)
            if batch.round == self.round:
                self._told[batch.block] = (batch, outcomes)
            else:  # it was asked for ahead of need, and the round ended before it
                self.unused += batch.simulations
        over = False
        while not over and self._absorbed in self._told:
            batch, outcomes = self._told.pop(self._absorbed)
            wrong = self._kinds.turn(outcomes)
            if wrong:
                self.seen = self.seen.all_failed(self._told_so_far, Failure.UNUSABLE, wrong)
                self._all_failed()
            outcomes = self._kinds.matched(outcomes)
            if isinstance(outcomes, Simulated) and outcomes.raw is not None:
                self.raw_numbers.add(self.simulations, batch.simulations, outcomes.raw)
            self._absorb(batch, outcomes)
            self._told_so_far += batch.simulations
            self._spend(batch, outcomes)
            self._look_for_mistake()
            self._absorbed += 1
            over = self._round_over()
        if over:
            self.round += 1
            self._asked = self._absorbed = 0
            self.unused += sum(batch.simulations for batch, _ in self._told.values())
            self._told.clear()
            self._end_round()

    @property
    def under_way(self) -> tuple[int, int]:
        """Simulations that were asked for and not told yet, and their blocks."""
        return self._under_way, len(self._outstanding)

    def abandon(self) -> None:
        """The blocks that are still under way will not be told; they were started, and count as unused."""
        self.unused += sum(self._outstanding.values())
        self._outstanding.clear()
        self._under_way = 0

    def _look_for_mistake(self) -> None:
        """Block by block and so the same with any engine, however blocks came in."""
        if self.round == self._absorbed == 0:
            self.mistake = self.seen.nonsense
        self._proven = self._proven or self.seen.failures < self.simulations
        if not self._proven and not self.mistake and self.simulations - self.replayed >= MISTAKEN:
            self.mistake = self.seen.mistake

    def _spend(self, batch: Batch, outcomes: Outcomes) -> None:
        more = self.problem.cost_of_block(batch, outcomes) if self._spent_cost is not None else None
        self._spent_cost = None if more is None or self._spent_cost is None else self._spent_cost + more
