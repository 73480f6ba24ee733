"""What the simulations at one θ are worth: the contract between a run of draws and the method that values them.

A draw of θ is simulated in *waves*. The first asks for some simulations of every draw; after it, draws that are not
complete go into a further one: another simulator (the real one behind a cheap one), or more simulations of the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.errors import InputError


@dataclass(frozen=True, eq=False)
class Asked:
    """What a wave asks for: simulations of each draw, and further columns that the simulator sees.

    ``hidden`` columns are kept for the valuation, and the simulator does not see them. A draw keeps the columns of its
    earlier waves, unless a later one has others of the same names.
    """

    repeats: int
    columns: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    hidden: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    def after(self, before: Sequence[Replicates]) -> Asked:
        """With the columns of the wave before."""
        if not before:
            return self
        last = before[-1]
        return Asked(self.repeats, {**last.columns, **self.columns}, {**last.hidden, **self.hidden})


@dataclass(frozen=True, eq=False)
class Replicates:
    """What a wave gave: n draws with r simulations each.

    ``summaries`` has the shape (n, r, numbers), NaN where a simulation ``failed``; ``distance`` to the data and
    ``recorded`` outputs that are one number have the shape (n, r). ``columns`` and ``hidden`` are what the wave asked
    with, ``cost`` what each draw cost.
    """

    summaries: FloatArray
    distance: FloatArray
    failed: BoolArray
    recorded: Mapping[str, npt.NDArray[np.generic]]
    columns: Mapping[str, npt.NDArray[np.generic]]
    cost: FloatArray | None = None
    hidden: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    @property
    def draws(self) -> int:
        return len(self.failed)

    @property
    def each(self) -> int:
        """Simulations of a draw."""
        return int(self.failed.shape[1])

    def take(self, rows: IntArray) -> Replicates:
        return Replicates(
            self.summaries[rows],
            self.distance[rows],
            self.failed[rows],
            {name: values[rows] for name, values in self.recorded.items()},
            {name: values[rows] for name, values in self.columns.items()},
            None if self.cost is None else self.cost[rows],
            {name: values[rows] for name, values in self.hidden.items()},
        )


@dataclass(frozen=True, eq=False)
class Valued:
    """a = sign · exp(log_size) of n draws.

    ``log_variance`` is the variance of log |a| given θ, NaN where it is not known. Draws that are not ``complete`` need
    a further wave; without one they are worth what is given here, and counted as cut short. ``kept`` are further
    numbers of each draw, for `Valuation.survey`, and may have `fbar.question.worth.UNSIGNED`.
    """

    log_size: FloatArray
    sign: FloatArray
    log_variance: FloatArray
    complete: BoolArray
    kept: Mapping[str, FloatArray] = field(default_factory=dict)

    @staticmethod
    def positive(log_size: FloatArray, log_variance: FloatArray | None = None) -> Valued:
        """Complete draws of positive worth; −∞ is worth nothing."""
        n = len(log_size)
        unknown = np.full(n, np.nan) if log_variance is None else log_variance
        return Valued(log_size, np.ones(n), unknown, np.ones(n, dtype=bool))

    @staticmethod
    def of(a: FloatArray, complete: BoolArray | None = None, kept: Mapping[str, FloatArray] | None = None) -> Valued:
        """Numbers of either sign."""
        with np.errstate(divide="ignore"):
            log_size = np.log(np.abs(a))
        done = np.ones(a.shape, dtype=bool) if complete is None else complete
        return Valued(log_size, np.where(a < 0, -1.0, 1.0), np.full(a.shape, np.nan), done, kept or {})


@dataclass(frozen=True, eq=False)
class DrawsSoFar:
    """All draws of a run, in order: what was kept of them, and what they add to the variance of the targets.

    ``last_generation`` begins at this draw. ``variance_parts`` gives w²g² at some of them, g² = Σ c ψ² as in
    `fbar.methods.aiming.aim`; times a² it is what a draw adds to the variance. The rows must have all draws with
    a ≠ 0 among them.
    """

    kept: Mapping[str, FloatArray]
    last_generation: int
    variance_parts: Callable[[IntArray], FloatArray]


class Valuation(ABC):
    """How a run's draws are valued; it may learn from round to round."""

    unbiased: bool = True
    """Whether E[a|θ] is the same multiple of the likelihood, whatever was learned. If not, what was valued before
    something changed is not used."""

    noisy: bool = False
    """Whether one draw's a says little of E[a²|θ]; see `fbar.question.worth.Worth`."""

    tolerance: float | None = None
    """The tolerance of the posterior, where it is ABC's."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What the posterior is."""

    @property
    @abstractmethod
    def most(self) -> int:
        """Simulations of a draw, at most, as far as a budget has to reserve them."""

    @abstractmethod
    def ask(self, wave: int, draws: int, rng: np.random.Generator) -> Asked:
        """What a wave asks of so many draws."""

    @abstractmethod
    def value(self, waves: Sequence[Replicates]) -> Valued:
        """What draws are worth after one wave or more, of which every one has the same draws."""

    def complete(self, waves: Sequence[Replicates]) -> BoolArray:
        """Which draws need no further wave."""
        return self.value(waves).complete

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        """Learn from the draws of a generation; whether what later ones are worth is something else now.

        ``draws`` are the waves of one block after the other, ``weights`` the |w a| of all of them in that order, which
        sum to 1; ``left`` is the number of simulations that are left.
        """
        return False

    def examine(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray) -> None:
        """Look for what to doubt, of draws as `learn` has them, without a change of what draws are worth."""
        return

    @property
    def next_share(self) -> float | None:
        """The part of a budget for the next generation; None for the usual one."""
        return None

    def survey(self, draws: DrawsSoFar) -> None:
        """Learn from all draws how to go on, where that does not change E[a|θ]."""
        return

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the error bars are unreliable, whatever the target."""
        return ()

    @property
    def why_nothing(self) -> str:
        """What may be the reason if no draw is worth anything, and what to do about it."""
        return ""

    @property
    def remark(self) -> str:
        """What was learned, in a line."""
        return ""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """What was learned, as it is recorded."""
        return {}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take from a record what was learned."""
        if state:
            raise InputError(f"{type(self).__name__} has no state to restore")
