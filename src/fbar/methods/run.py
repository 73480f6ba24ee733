"""An algorithm at work: asked for batches of θ and told their outcomes, it has a posterior at any time."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import positive_integer, positive_number, shown
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data import AtData, PosteriorAtData
from fbar.estimation.at_data.prepared import Prepared
from fbar.estimation.counted import ACCEPTED, Counted
from fbar.estimation.estimate import Estimate
from fbar.estimation.posterior import Posterior
from fbar.estimation.sequential import with_error_of_prior
from fbar.estimation.simulations import Drawn, Simulations
from fbar.methods.ask_tell import AskTell
from fbar.methods.forecasts import Forecast, VarianceAfter, proportional, until_error
from fbar.methods.history import AT_DATA_GROWTH, Moment
from fbar.methods.other_tolerances import OtherTolerances
from fbar.methods.records import RecordedBlocks, Replayed
from fbar.methods.start import Start
from fbar.methods.total_error import Decline
from fbar.question.outcomes import Batch, Tally
from fbar.question.points import Points
from fbar.question.targets import Target

ROUNDS = 16
"""In how many rounds a budget is spent by default (section S4.2 of the paper)."""

NOTICED = 2.0
"""Seconds of an estimate from which on whoever watches the run is notified of it."""

NEARLY_ALL = 0.9
"""The share of the prior's simulations that is accepted from which on the answer is taken to be the prior."""


FORMER = {
    "ahead": "variance_after",
    "dear": "posterior_is_slow",
    "glance": "peek",
    "measure_told": "learned_distance",
    "places": "simulated_points",
    "settled": "at_final_tolerance",
    "settles": "has_final_tolerance",
    "tolerance_told": "reported_tolerance",
    "wanted_tolerance": "final_tolerance",
}
"""What attributes of a run were called, and what they are called now."""


@dataclass(frozen=True)
class Stage:
    """A part of a run whose simulations come from one place: from where in words, how many, how many were accepted."""

    words: str
    simulations: int
    accepted: float | None = None
    tolerance: float | None = None


class Run(AskTell, OtherTolerances):
    """A running algorithm. Ask it for batches of θ, tell it their outcomes, and take its posterior at any time.

    >>> import fbar
    >>> problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    >>> run = fbar.Rejection().start(problem, fbar.mean("theta"), seed=1, budget=1000)
    >>> while batches := run.ask():
    ...     run.tell(*((batch, fbar.simulate(problem, batch)) for batch in batches))
    >>> run.simulations
    1000
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self._ended = ""  # the reason, once one has ended it
        self.warnings: list[str] = []
        self.expected: Forecast | None = None
        """What is left to do, as it was forecast at the end of the last round, where somebody watches."""
        self.history: list[Moment] = []
        """Its estimates when it had fewer simulations, where `fbar.drive` drove it; each time as they were then."""
        self._leg_round = self._leg_spent = 0  # where it was last extended
        self.at_data = start.at_data
        """Whether its posterior is that at the data, and not ABC's at a tolerance."""
        self.estimator_at_data = AtData(learn=start.learns)
        """How it is estimated at the data."""
        self.estimating = False
        """Whether an estimate at the data is being computed that takes a while."""
        self.watcher: Callable[[Run], None] | None = None
        """Called with the run before such an estimate."""
        self._at_data: PosteriorAtData | None = None
        self._provisional: PosteriorAtData | None = None
        self._seconds_each = 0.0  # of the last estimate, for each simulation

    if not TYPE_CHECKING:  # a checker would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            if name in FORMER:
                raise AttributeError(f"{type(self).__name__}.{name} is now {type(self).__name__}.{FORMER[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ------------------------------------------------------------ what a method fills in

    @abstractmethod
    def posterior(self) -> Posterior:
        """The posterior from all blocks told so far without a gap."""

    def posterior_at_data(self) -> PosteriorAtData:
        """The posterior itself, by regression at the data on all simulations, see `fbar.estimation.at_data`."""
        if not self.simulations:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        found = self._at_data
        if found is None or found.simulations != self.simulations:
            with self._estimation():
                found = self._at_data = self.estimator_at_data.posterior(self.all_simulations())
                with_error_of_prior(found, self.problem.prior)
        return found

    def provisional_posterior(self) -> PosteriorAtData:
        """The posterior at the data while the run goes on: a cheaper estimate, made once at the end of a round."""
        if not self.simulations:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        found = self._provisional
        if found is None or found.simulations != self.simulations:
            found = self._provisional_from(self.estimator_at_data.prepared(self.all_simulations()))
        return found

    def posterior_so_far(self) -> Posterior:
        """The posterior while the run goes on; at the data the provisional one, unless there is a better one."""
        found = self._at_data
        if not self.at_data or (found is not None and found.simulations == self.simulations):
            return self.posterior()
        return self.provisional_posterior()

    def _provisional_from(self, prepared: Prepared) -> PosteriorAtData:
        with self._estimation():
            found = self._provisional = self.estimator_at_data.provisional(prepared)
            with_error_of_prior(found, self.problem.prior)
        return found

    @contextmanager
    def _estimation(self) -> Iterator[None]:
        """Notify the watcher of an estimate that will take a while, as far as the last one shows."""
        if self.watcher is not None and self._seconds_each * self.simulations > NOTICED:
            self.estimating = True
            self.watcher(self)
        begun = time.monotonic()
        try:
            yield
        finally:
            self.estimating = False
            self._seconds_each = (time.monotonic() - begun) / self.simulations

    def _require_tolerance(self) -> None:
        """Refuse what is about the tolerance of an answer that has none."""
        if self.at_data:
            raise InputError("the answer is about the posterior itself, so it has no tolerance")

    def _refuse_tolerance(self, tolerance: float) -> None:
        """Refuse to go on at a tolerance with a run that answers at the data."""
        raise InputError(
            f"the run answers about the posterior itself, so it cannot go on at the tolerance {tolerance:g}; for ABC's "
            "posterior start another run with that tolerance"
        )

    @property
    def reported_tolerance(self) -> float | None:
        """The tolerance of its posterior, where it has one above 0; an answer at the data has none."""
        return None if self.at_data else super().reported_tolerance

    def _described(self, posterior: Posterior, tolerance: float, share: float) -> Posterior:
        """With what it is about, and a doubt where the data hardly change the prior.

        ``share`` is Z, the share of the prior's simulations that is accepted. With L(θ) ≤ 1 the acceptance probability,
        the posterior of any event differs from its prior by at most ∫ p (L/Z − 1)₊ ≤ 1 − Z: the mean of (L − Z)₊ is
        largest for an L that is 0 or 1, where it is Z(1 − Z). Exact matching has no tolerance to be lowered.
        """
        with_error_of_prior(posterior, self.problem.prior)
        if not (tolerance > 0 and self.problem.has_summaries):
            posterior.about = self.problem.posterior_in_words
            return posterior
        if math.isinf(tolerance):
            posterior.about = "the prior, as an infinite tolerance accepts every simulation"
            why = "an infinite tolerance accepts every simulation, so the answer is the prior; give a finite one"
            posterior.doubts = (*posterior.doubts, why)
            return posterior
        posterior.about = f"ABC's posterior at tolerance {tolerance:.4g}"
        if share >= NEARLY_ALL:
            posterior.doubts = (
                *posterior.doubts,
                f"the tolerance {tolerance:.4g} accepts {min(share, 1.0):.0%} of the simulations from the prior, so "
                "the answer is almost the prior; lower it",
            )
        return posterior

    def peek(self) -> Posterior:
        """The posterior, without a trace in the run: not even the rounding of what comes later depends on it."""
        return self.posterior()

    @property
    def has_final_tolerance(self) -> bool:
        """Whether its tolerance ends at a final one; a schedule may lower it for ever."""
        return True

    @property
    def at_final_tolerance(self) -> bool:
        """Whether its posterior is at the final tolerance."""
        return True

    @property
    def final_tolerance(self) -> float | None:
        """The tolerance that it ends at; None where there is none, or it is not known yet."""
        return None

    @property
    def counted_as(self) -> Counted:
        """What its posterior counts as accepted, in words."""
        return ACCEPTED

    @property
    def finished(self) -> bool:
        """Whether it has nothing more to ask: a reason has ended it."""
        return bool(self._ended)

    @property
    def ended(self) -> str:
        """Why a finished run ended."""
        return self._ended or "budget spent"

    @property
    def posterior_is_slow(self) -> bool:
        """Whether its posterior takes longer than cheap simulations do; it is then taken only at the end."""
        return self.at_data

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        """What the present round's draws depend on beyond the seed, where it was fitted; None if nothing was."""
        return None

    def state_as_now(self, state: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A round's state that an earlier version recorded, as it would be recorded now."""
        return state

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the present round's state from a record, so that arithmetic elsewhere cannot fork the run."""
        raise InputError(f"{type(self).__name__} has no state to restore")

    # ------------------------------------------------------------ where simulations went, and how many are needed

    @property
    def learning(self) -> bool:
        """Whether simulations to come will be better than those that are there, so that forecasts would be too high."""
        return False

    def log_likelihood(self) -> Estimate | None:
        """log p(x*|θ_i) of every value of a finite space, for a method that estimates it without bias."""
        return None

    def stages(self) -> list[Stage]:
        """Where its simulations came from, in order."""
        return [Stage("as the method asked for them", self.simulations)]

    def simulated_points(self, most: int) -> Points | None:
        """The θ that were simulated, or at most ``most`` that represent them; None where they are not kept."""
        return None

    def variance_after(self, posterior: Posterior, target: Target) -> VarianceAfter:
        """The variance of a target's estimate after more simulations, if the run goes on as it would now."""
        return proportional(posterior, target)

    @property
    def reading_growth(self) -> float:
        """Simulations when a stopping rule reads a run at the data over those at the reading before, about."""
        return AT_DATA_GROWTH

    def forecast(self, target: Target, wanted: Any, posterior: Posterior | None = None) -> Forecast | None:
        """How many more simulations until a target's standard error is ``wanted``; None where that is not known.

        For a stopping rule see `StoppingRule.forecast`.
        """
        if posterior is not None and not isinstance(posterior, Posterior):
            raise InputError(f"posterior must be a run's posterior; got {shown(posterior)}")
        if not (isinstance(wanted, np.ndarray) and np.ndim(wanted) and wanted.dtype.kind == "f"):
            wanted = positive_number(wanted, "the wanted standard error")
        if posterior is None:
            if not self.at_final_tolerance:
                return None
            try:
                posterior = self.posterior_so_far()
            except NoPosterior:
                return None
        if np.ndim(posterior.simulations):
            return None  # trials, each with a number of its own
        if isinstance(posterior, PosteriorAtData):
            present = self.estimate_so_far(target, posterior)
            found = Decline.of_history(self.history, present, wanted, self.simulations, self.reading_growth)
            return None if found is None else found.forecast()
        estimate = posterior.expect(target)
        share = posterior.known_share(target.influence(posterior.points, posterior.weights))
        return until_error(self.variance_after(posterior, target), wanted, estimate.df, self.simulations, share)

    def estimate_so_far(self, target: Target, posterior: Posterior) -> Estimate:
        """A target's estimate in the posterior so far; that of the last moment where it is the same."""
        last = self.history[-1] if self.history and self.at_data else None
        found = last.estimate(target.name) if last is not None and last.simulations == posterior.simulations else None
        return posterior.expect(target) if found is None else found

    # ------------------------------------------------------------ every simulation

    def all_simulations(self, recorded: RecordedBlocks | None = None) -> Simulations:
        """Every simulation so far, accepted or not: θ, weight, summaries, records, cost and failure of each.

        ``recorded`` is the run's open record, an ``fbar.ledger.LedgerReader``: what is not in memory is read from it.
        """
        drawn = self._drawn_from()
        if drawn is None:
            raise InputError(
                "this run counts the simulations of each parameter value and keeps no individual ones; "
                "fbar export --all writes those of a recorded run"
            )
        nothing = Tally(np.zeros(0), np.zeros(0))

        def cost_at(points: Points) -> FloatArray | None:
            try:
                return self.problem.cost_of(points)
            except InputError:  # at some θ it is not a positive number
                return self.problem.costs(Batch(0, 0, points, None, self.seeds), nothing)

        blocks = None if recorded is None else Replayed(self.problem, recorded)
        return Simulations(self.problem, drawn, cost_at, blocks)

    def _drawn_from(self) -> Drawn | None:
        """What is known of its draws, one by one; None where only counts are kept."""
        return None

    # ------------------------------------------------------------ going on after the end

    def extend(
        self,
        *,
        budget: int | None = None,
        limit: int | None = None,
        tolerance: float | None = None,
        targets: Target | str | Sequence[Target | str] | None = None,
    ) -> None:
        """Continue a run that ended: more simulations, a smaller tolerance, other targets."""
        if self._outstanding:
            raise InputError(
                "a run can be extended only at the end of a round; give it the outcomes of all blocks first"
            )
        for name, value in (("budget", budget), ("limit", limit)):
            if value is not None and positive_integer(value, name) <= self.simulations:
                raise InputError(
                    f"{name} {value} is already spent: it counts all simulations of the run, which has "
                    f"{self.simulations:,}; give more than that"
                )
        if targets is not None:
            self.targets = self.problem.posed(targets)
        self.budget = budget
        self.limit = limit
        self._leg_round, self._leg_spent = self.round, self.simulations
        self._extend(tolerance)

    @property
    def extended(self) -> bool:
        """Whether it was extended after its end."""
        return self._leg_spent > 0

    def _extend(self, tolerance: float | None) -> None:
        """Plan the next round of an extended run."""
        raise InputError(f"{type(self).__name__} cannot be extended; start a new run")

    def _part_of_budget(self, rounds: int) -> int:
        """The present round's share of the budget: equal parts of what this leg adds."""
        assert self.budget is not None
        more, part = self.budget - self._leg_spent, self.round - self._leg_round
        return (part + 1) * more // rounds - part * more // rounds
