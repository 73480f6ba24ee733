"""Methods and their runs: the ask/tell contract, written once.

A *round* is the unit of learning, a *block* the unit of work. What block b of round r asks for depends on
the seed and on the state at the round's start alone. `Run.tell` takes blocks in any order and grouping and
absorbs them in index order, so that neither the number of workers nor their speed can change a result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import instance, positive_integer, positive_number, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.methods.forecasts import Ahead, Forecast, forecast, proportional
from fbar.methods.history import Moment
from fbar.methods.other_tolerances import OtherTolerances
from fbar.methods.records import RecordedKinds
from fbar.question.outcomes import Batch, Failure, Outcomes, Seen, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target, as_targets
from fbar.seeds import Seeds

SLOW_BLOCK = 64
"""Simulations in a block, at most, of a simulator that runs them one by one: what is under way can be lost."""

NEARLY_ALL = 0.9
"""The share of the prior's simulations that is accepted from which on the answer is taken to be the prior."""

ROUNDS = 16
"""In how many rounds a budget is spent by default (section S4.2 of the paper)."""


@dataclass(frozen=True)
class Start:
    """What a run begins with, as `Method.start` has checked it."""

    problem: Problem
    targets: tuple[Target, ...]
    seeds: Seeds
    budget: int | None
    limit: int | None
    trials: int | None
    block_size: int | None


@dataclass(frozen=True)
class Stage:
    """A part of a run whose simulations come from one place: from where in words, how many, how many were accepted."""

    words: str
    simulations: int
    accepted: float | None = None
    tolerance: float | None = None


MISTAKEN = 40
"""Simulations after which it is a mistake in the problem if the output of none can be used."""


class Run(OtherTolerances):
    """An algorithm at work. Ask it for batches of θ, tell it their outcomes, take its posterior at any time.

    >>> import fbar
    >>> problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    >>> run = fbar.Rejection().start(problem, fbar.mean("theta"), seed=1, budget=1000)
    >>> while batches := run.ask():
    ...     run.tell(*((batch, fbar.simulate(problem, batch)) for batch in batches))
    >>> run.simulations
    1000
    """

    def __init__(self, start: Start) -> None:
        self.problem, self.targets, self.seeds = start.problem, start.targets, start.seeds
        self.budget, self.limit, self.trials = start.budget, start.limit, start.trials
        self.round = 0
        self.seen = Seen()
        self.warnings: list[str] = []
        self.expected: Forecast | None = None
        """What is left to do, as it was forecast at the end of the last round, where somebody watches."""
        self.history: list[Moment] = []
        """Its estimates when it had fewer simulations, where `fbar.drive` drove it; each time as they were then."""
        self.replayed = 0
        """How many of its simulations came from a record, where one was replayed."""
        self.mistake = ""
        """What is wrong with the problem, if the first simulations gave nothing that can be used, or nonsense."""
        self._proven = False
        self._kinds = RecordedKinds(start.problem)
        self._told_so_far = 0
        self._largest_block = SLOW_BLOCK if start.problem.simulator.one_by_one else None
        self._leg_round = self._leg_spent = 0
        self._asked = 0
        self._absorbed = 0
        self._told: dict[int, tuple[Batch, Outcomes]] = {}
        self._outstanding: dict[tuple[int, int], int] = {}
        self._under_way = 0
        self.unused = 0
        """Simulations that were run ahead of need and lay behind the end of their round; not among ``simulations``."""
        self._spent_cost: float | None = 0.0

    # ------------------------------------------------------------ what a method fills in

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the run has no more to ask, ever."""

    @property
    @abstractmethod
    def simulations(self) -> int:
        """Simulations told so far, in blocks without a gap."""

    @abstractmethod
    def posterior(self) -> Posterior:
        """The posterior from all blocks told so far without a gap."""

    def _told_apart(self, posterior: Posterior, tolerance: float, share: float) -> Posterior:
        """With a doubt where the data hardly tell the posterior from the prior.

        ``share`` is Z, the share of the prior's simulations that is accepted. With L(θ) ≤ 1 the acceptance probability,
        the posterior of any event differs from its prior by at most ∫ p (L/Z − 1)₊ ≤ 1 − Z: the mean of (L − Z)₊ is
        largest for an L that is 0 or 1, where it is Z(1 − Z). Exact matching has no tolerance to be lowered.
        """
        if tolerance > 0 and self.problem.has_summaries and share >= NEARLY_ALL:
            posterior.doubts = (
                *posterior.doubts,
                f"the tolerance {tolerance:.4g} accepts {min(share, 1.0):.0%} of the simulations from the prior, so "
                "that the answer is the prior's or hardly another; lower it",
            )
        return posterior

    def glance(self) -> Posterior:
        """The same, and no trace of it in the run: not even the rounding of what comes later depends on it."""
        return self.posterior()

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

    @property
    def settles(self) -> bool:
        """Whether it will come to the tolerance that is wanted, and stay there."""
        return True

    @property
    def settled(self) -> bool:
        """Whether its posterior is at the tolerance that is wanted."""
        return True

    @property
    def wanted_tolerance(self) -> float | None:
        """The tolerance that it is on its way to; None where there is none, or it is not known yet."""
        return None

    @property
    def ended(self) -> str:
        """Why a finished run ended."""
        return "budget spent"

    @property
    def dear(self) -> bool:
        """Whether its posterior takes longer than cheap simulations do; it is then taken at the end alone."""
        return False

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """What the present round's draws depend on beyond the seed, where it was fitted; None if nothing was."""
        return None

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the present round's state from a record, so that arithmetic elsewhere cannot fork the run."""
        raise InputError(f"{type(self).__name__} has no state to restore")

    # ------------------------------------------------------------ where simulations went, and how many are needed

    @property
    def learning(self) -> bool:
        """Whether simulations to come will be better than those that are there, so that forecasts would be too high."""
        return False

    def stages(self) -> list[Stage]:
        """Where its simulations came from, in order."""
        return [Stage("as the method asked for them", self.simulations)]

    def places(self, most: int) -> Points | None:
        """The θ that were simulated, or at most so many that stand for them; None where nothing is kept of them."""
        return None

    def ahead(self, posterior: Posterior, target: Target) -> Ahead:
        """The variance of a target's estimate after so many simulations more, if the run goes on as it would now."""
        return proportional(posterior, target)

    def forecast(self, target: Target, wanted: Any, posterior: Posterior | None = None) -> Forecast | None:
        """How many simulations more until a target's standard error is ``wanted``; None where nothing can be said.

        For a stopping rule see `StoppingRule.forecast`.
        """
        if posterior is not None and not isinstance(posterior, Posterior):
            raise InputError(f"posterior must be a run's posterior; got {shown(posterior)}")
        if not (isinstance(wanted, np.ndarray) and np.ndim(wanted) and wanted.dtype.kind == "f"):
            wanted = positive_number(wanted, "the wanted standard error")
        if posterior is None:
            if not self.settled:
                return None
            try:
                posterior = self.posterior()
            except NoPosterior:
                return None
        if np.ndim(posterior.simulations):
            return None  # trials, each with a number of its own
        estimate = posterior.expect(target)
        known = getattr(posterior.errors, "known_share", None)
        share = 1.0 if known is None else known(target.influence(posterior.points, posterior.weights))
        return forecast(self.ahead(posterior, target), wanted, estimate.df, self.simulations, share)

    def _default_block(self, size: int) -> int:
        """A block's size unless the user has said one: no clock decides it, the kind of simulator does."""
        return size if self._largest_block is None else min(size, self._largest_block)

    # ------------------------------------------------------------ going on after the end

    def extend(
        self,
        *,
        budget: int | None = None,
        limit: int | None = None,
        tolerance: float | None = None,
        targets: Target | Sequence[Target] | None = None,
    ) -> None:
        """Go on with a run that ended: more simulations, a smaller tolerance, other targets."""
        if self._outstanding:
            raise InputError("a run is extended at the end of a round; tell it the blocks that were asked for first")
        for name, value in (("budget", budget), ("limit", limit)):
            if value is not None and positive_integer(value, name) <= self.simulations:
                raise InputError(f"{name} {value} is spent already: the run has {self.simulations} simulations")
        if targets is not None:
            self.targets = as_targets(targets)
        self.budget = budget
        self.limit = limit
        self._leg_round, self._leg_spent = self.round, self.simulations
        self._extend(tolerance)

    @property
    def extended(self) -> bool:
        """Whether it went on after an end."""
        return self._leg_spent > 0

    def _extend(self, tolerance: float | None) -> None:
        """Plan the next round of an extended run."""
        raise InputError(f"{type(self).__name__} cannot be extended; start a new run")

    def _part_of_budget(self, rounds: int) -> int:
        """The present round's share of the budget: equal parts of what this leg adds."""
        assert self.budget is not None
        more, part = self.budget - self._leg_spent, self.round - self._leg_round
        return (part + 1) * more // rounds - part * more // rounds

    # ------------------------------------------------------------ ask and tell

    def ask(self, limit: int | None = None, *, ahead: int = 0, enough: int | None = None) -> list[Batch]:
        """The blocks that can be simulated now, with at most ``limit`` simulations together.

        Empty while the round waits for blocks that were asked before, and when the run is finished. Blocks
        are never cut: a limit below the next block's size is refused. ``ahead`` asks for so many blocks more in a
        round that its outcomes will end, to keep workers busy; those that turn out to lie behind its end are
        counted in ``unused`` and not used, so the result is the same. A run with a budget or a limit asks for none:
        it uses all the simulations that it may run, and what is run ahead would come on top of them. ``enough`` ends
        with the block that makes it so many simulations: the next call asks for those that follow, so that a round of
        many need not be in memory at once.
        """
        if limit is not None:
            positive_integer(limit, "limit")
        batches: list[Batch] = []
        used = 0
        if self._most < math.inf:
            ahead = 0
        while not self.finished and self._asked < self._blocks() + (ahead if self._open_ended else 0):
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
                    f"block {batch.key} was told already"
                    if past
                    else f"block {batch.key} was not asked for in round {self.round}, the present one"
                )
            if isinstance(outcomes, Simulated) and outcomes.simulations != batch.simulations:
                raise InputError(
                    f"block {batch.key} asked for {batch.simulations} simulations and was told "
                    f"{outcomes.simulations} outcomes"
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
        """Nobody will tell the blocks that are still under way; they were begun, and count as not used."""
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


class Method(ABC):
    """An algorithm's settings: its constructor arguments and nothing else."""

    @property
    def ends_by_itself(self) -> bool:
        """Whether its runs end without a budget or a stopping rule."""
        return False

    @property
    def final_tolerance(self) -> float | None:
        """The tolerance its runs end at; None if that is left open."""
        return getattr(self, "tolerance", None)

    @abstractmethod
    def _begin(self, start: Start) -> Run:
        """Make the run; what a method fills in."""

    def start(
        self,
        problem: Problem,
        targets: Target | Sequence[Target],
        seed: Any = None,
        budget: int | None = None,
        *,
        limit: int | None = None,
        trials: int | None = None,
        block_size: int | None = None,
    ) -> Run:
        """Begin a run.

        Parameters
        ----------
        seed
            A whole number; the same seed gives the same result. None for a fresh one.
        budget
            The number of simulations to plan for and to run.
        limit
            Without a budget: the number of simulations never to exceed, in rounds that grow, for runs that
            a stopping rule ends.
        trials
            Carry this many independent trials at once, as a leading axis of every array; for problems
            with tabulated probabilities.
        block_size
            Simulations in a block. Part of what the seed determines: another size gives other numbers.
        """

        instance(problem, Problem, "problem", "an fbar.Problem")

        def whole(value: int | None, name: str) -> int | None:
            return None if value is None else positive_integer(value, name)

        return self._begin(
            Start(
                problem,
                as_targets(targets),
                Seeds.of(seed),
                whole(budget, "budget"),
                whole(limit, "limit"),
                whole(trials, "trials"),
                whole(block_size, "block_size"),
            )
        )
