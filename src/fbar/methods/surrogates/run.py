"""A run with a Gaussian-process surrogate: an initial design from the prior, and batches that the surrogate asks for.

A round is a batch. Hyperparameters are fitted again when simulations have grown by a third or so; in between, the
Gaussian process is conditioned on the new simulations with those that are there. The points of a batch, and the
hyperparameters that they were chosen with, are the state of a round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray
from fbar.checks import counted, non_negative_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.estimation.simulations import Simulations
from fbar.methods.forecasts import Forecast
from fbar.methods.records import RecordedBlocks
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.methods.surrogates import distances
from fbar.methods.surrogates.acquisition import next_points
from fbar.methods.surrogates.gaussian_process import GaussianProcess, Hyperparameters, fitted
from fbar.methods.surrogates.posterior import POINTS, surrogate_posterior
from fbar.methods.surrogates.sampling import Threshold, particles_of, prior_points, sampled
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.question.points import Points
from fbar.question.priors import structure
from fbar.question.space import Space
from fbar.question.targets import Target
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.surrogates.method import BOLFI

MOST_SIMULATIONS = 1_500
"""Simulations of a run, at most: its own time grows with their cube."""

LEAST_SIMULATIONS = 10
"""Simulations that a surrogate is fitted to, at least, and three more than there are parameters."""

INITIAL, INITIAL_PER_DIMENSION = 20, 10

FEW_WITHIN = 5
"""With fewer simulations within the tolerance, an answer is more the surrogate's than theirs."""

HELD_TOO_RARELY = (
    "95% intervals after simulations by lower confidence bound held in only 81% of runs on some test problems; "
    "acquisition='eiv' (method bolfi-eiv) is more accurate and held in 97% or more"
)
"""As measured in benchmarks/systems/surrogates.csv."""

GROWTH = 1.3
"""How much simulations grow before hyperparameters are fitted again."""

POSTERIOR, ACQUIRED = 2**32 - 1, 2**32 - 2
"""The blocks whose streams the posterior's points and a round's batch are drawn from."""

ACQUIRED_IN_WORDS = {
    "lcb": "where the lower confidence bound of the distance is smallest",
    "eiv": "where they leave least variance of the posterior density",
}


@dataclass(frozen=True, eq=False)
class Answer:
    """A posterior, its tolerance, and the number of simulations that it comes from."""

    simulations: int
    tolerance: float
    posterior: Posterior


class SurrogateRun(Run):
    """A run with a surrogate at work."""

    def __init__(self, method: BOLFI, start: Start) -> None:
        super().__init__(start)
        self.method = method
        self._check(start)
        self.space = Space(self.problem.prior, "normal")
        self.problem.check_targets(self.targets)
        self.tolerance, self._power = method.tolerance, distances.POWERS[method.scale]
        d = self.space.dimension
        self.initial = max(INITIAL, INITIAL_PER_DIMENSION * d) if method.initial is None else method.initial
        self._least = max(LEAST_SIMULATIONS, d + 3)
        if self._most < self._least:
            raise InputError(
                f"a surrogate of {counted(d, 'parameter')} needs at least {self._least} simulations, better "
                f"{2 * self.initial}; got {self._most:.0f}"
            )
        one_by_one = self.problem.simulator.one_by_one  # a batch of slow simulations keeps many workers busy
        self.block_size = start.block_size or (1 if one_by_one else MOST_SIMULATIONS)
        self.hyperparameters: Hyperparameters | None = None
        self._fitted_to = 0
        self._x: list[FloatArray] = []
        self._distance: list[FloatArray] = []
        self._latest: Answer | None = None
        rng = self.seeds.generator(Purpose.DESIGN, 0, ACQUIRED)
        self._batch = prior_points(self.space, int(min(self.initial, self._most)), rng)

    def _check(self, start: Start) -> None:
        """Refuse what a surrogate of continuous parameters cannot do."""
        problem, known = start.problem, structure(start.problem.prior)
        if start.trials is not None:
            raise InputError("trials= needs a finite parameter space; run one trial at a time")
        if known.values is not None or known.models is not None or known.discrete:
            what = "a choice of models" if known.models is not None else "discrete parameters"
            raise InputError(
                f"a Gaussian-process surrogate needs continuous parameters, and this prior has {what}; use fbar.SMC or "
                "fbar.Targeted"
            )
        if not problem.has_summaries:
            raise InputError(
                "a surrogate is fitted to distances, and simulations of this problem only match its data or do not; "
                "use fbar.Targeted"
            )
        if self.method.tolerance is not None:
            problem.check_acceptance(Acceptance(self.method.tolerance))
        if start.budget is not None and start.budget > MOST_SIMULATIONS:
            raise InputError(
                f"a surrogate takes at most {MOST_SIMULATIONS:,} simulations, because its own time grows with their "
                f"cube; got a budget of {start.budget:,}. For that many use fbar.Targeted or fbar.SMC"
            )

    # ------------------------------------------------------------ state

    @property
    def _most(self) -> float:
        return min(super()._most, MOST_SIMULATIONS)

    @property
    def simulations(self) -> int:
        return sum(len(part) for part in self._distance)

    @property
    def x(self) -> FloatArray:
        """The simulated θ in normal coordinates."""
        return np.concatenate([np.zeros((0, self.space.dimension)), *self._x])

    @property
    def distance(self) -> FloatArray:
        """Their distances from the data, NaN where a simulation failed."""
        return np.concatenate([np.zeros(0), *self._distance])

    @property
    def final_tolerance(self) -> float | None:
        return self.tolerance

    @property
    def posterior_is_slow(self) -> bool:
        return True

    # ------------------------------------------------------------ rounds and blocks

    def _blocks(self) -> int:
        return -(-len(self._batch) // self.block_size)

    def _rows(self, block: int) -> FloatArray:
        return self._batch[block * self.block_size : (block + 1) * self.block_size]

    def _block(self, block: int) -> Batch:
        points = self.space.points(particles_of(self._rows(block))).with_derived(self.problem.derived)
        return Batch(self.round, block, points, None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        distance, seen = self.problem.distances(require_simulated(outcomes), self.tolerance or 0.0)
        self._x.append(self._rows(batch.block))
        self._distance.append(distance)
        self.seen = self.seen + seen

    def _all_failed(self) -> None:
        self._distance = [np.full(len(part), np.nan) for part in self._distance]

    def _end_round(self) -> None:
        if self.simulations >= self._most:
            self._ended = "budget spent"
            if self.simulations >= MOST_SIMULATIONS:
                self._ended = f"{MOST_SIMULATIONS:,} simulations, the most that a surrogate takes"
            return
        self._plan()

    def _plan(self) -> None:
        """Choose the next batch."""
        size = int(min(self.method.batch, self._most - self.simulations))
        rng = self.seeds.generator(Purpose.DESIGN, self.round, ACQUIRED)
        process = self._process()
        if process is None:
            self._batch = prior_points(self.space, size, rng)
            return
        threshold = self._threshold(process, self.tolerance)
        if threshold.given is not None:  # far below what the surrogate expects anywhere, nothing could be chosen by it
            threshold = Threshold(None, threshold.given)
        self._batch = next_points(self.method.acquisition, process, self.space, threshold, size, rng)

    def _process(self) -> GaussianProcess | None:
        """The Gaussian process given all simulations; None where there is nothing to learn from."""
        distance = self.distance
        y = distances.scaled(distance, self._power)
        if np.isfinite(distance).sum() < self._least or distances.constant(y):
            return None
        if self.hyperparameters is None or len(y) >= GROWTH * self._fitted_to:
            self.hyperparameters, self._fitted_to = fitted(self.x, y, self.hyperparameters), len(y)
        return GaussianProcess(self.x, y, self.hyperparameters)

    def _threshold(self, process: GaussianProcess, tolerance: float | None) -> Threshold:
        """That of a tolerance; without one, the smallest mean at a simulated point, where it is not extrapolated."""
        positive = self.distance[self.distance > 0]  # not NaN
        least = float(positive.min()) if positive.size else 1.0
        given = None if tolerance is None else distances.threshold(tolerance, self._power)
        return Threshold(given, max(distances.threshold(least, self._power), process.least_simulated))

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        return self._posterior(self.tolerance)

    def posterior_at(self, tolerance: float) -> Posterior:
        at = non_negative_number(tolerance, "tolerance")
        if not 0 < at < math.inf:
            raise InputError(f"the posterior of a surrogate needs a finite tolerance above 0; got {at:g}")
        return self._posterior(at)

    def _posterior(self, tolerance: float | None) -> Posterior:
        if not self.simulations:
            raise NoPosterior("there are no simulations yet; ask the run for batches and tell it their outcomes")
        own = tolerance == self.tolerance
        found = self._latest if own else None
        if found is None or found.simulations != self.simulations:
            found = self._estimated(tolerance)
        if own:
            self._latest = found
        return found.posterior

    def _estimated(self, tolerance: float | None) -> Answer:
        distance = self.distance
        usable = int(np.isfinite(distance).sum())
        if usable < self._least:
            failed = f" ({self.seen})" if str(self.seen) else ""
            raise NoPosterior(
                f"only {usable} of {counted(self.simulations, 'simulation')} have a distance to the data{failed}; a "
                f"surrogate needs {self._least}"
            )
        y = distances.scaled(distance, self._power)
        if distances.constant(y):
            raise NoPosterior(
                f"all {usable} simulations are equally far from the data ({float(np.nanmin(distance)):.4g}), so the "
                "surrogate cannot learn where they come closer; check the distance and the summaries"
            )
        rng = self.seeds.generator(Purpose.DESIGN, self.round, POSTERIOR)
        # A fit for the posterior leaves no trace, so that a run goes on as if none had been asked for.
        hyperparameters = self.hyperparameters
        if hyperparameters is None or self._fitted_to < self.simulations:
            hyperparameters = fitted(self.x, y, hyperparameters)
        process = GaussianProcess(self.x, y, hyperparameters)
        found = sampled(process, self.space, self._threshold(process, tolerance), POINTS, rng)
        at = distances.tolerance(found.threshold, self._power) if tolerance is None else tolerance
        accepted = int((distance <= at).sum())
        others = [
            (self._on_scale(power, distance), distances.threshold(at, power))
            for power in distances.POWERS.values()
            if power != self._power
        ]
        posterior = surrogate_posterior(self.problem, self.space, process, found, others, accepted, rng)
        posterior = self._described(posterior, at, found.accepted_share)
        if tolerance is None:
            posterior.about += ", the smallest distance that the surrogate expects"
        posterior.doubts = (*posterior.doubts, *self._doubts(at, accepted))
        return Answer(self.simulations, at, posterior)

    def _doubts(self, tolerance: float, accepted: int) -> list[str]:
        found = [HELD_TOO_RARELY] if self.method.acquisition == "lcb" else []
        if accepted < FEW_WITHIN:
            found.append(
                f"{counted(accepted, 'simulation')} came within the tolerance {tolerance:.4g} and the closest within "
                f"{self.seen.closest:.4g}, so the surrogate extrapolates; raise the tolerance or the budget"
            )
        if self.simulations <= self.initial:
            found.append(
                f"all {self.simulations} simulations are from the prior, and none was chosen by the surrogate; raise "
                f"the budget above {self.initial}"
            )
        return found

    def _on_scale(self, power: float, distance: FloatArray) -> GaussianProcess:
        """A Gaussian process of the distances on another scale."""
        y = distances.scaled(distance, power)
        return GaussianProcess(self.x, y, fitted(self.x, y))

    def _posterior_tolerance(self) -> float:
        if self.tolerance is not None:
            return self.tolerance
        if self._latest is None:
            raise InputError("the tolerance is known when the posterior is; ask for that first")
        return self._latest.tolerance

    @property
    def present_tolerance(self) -> float | None:
        return self.tolerance

    def _biased(self, tolerance: float | None) -> tuple[float, Posterior]:
        raise InputError(
            "the posterior of a surrogate is not made of weighted simulations, so it cannot be adjusted or "
            "extrapolated; for a smaller tolerance use result.at(...)"
        )

    def forecast(self, target: Target, wanted: Any, posterior: Posterior | None = None) -> Forecast | None:
        """None: a part of the error does not fall with more simulations."""
        return None

    def stages(self) -> list[Stage]:
        first = min(self.initial, self.simulations)
        found = [Stage("evenly spread over the prior", first)]
        if self.simulations > first:
            found.append(Stage(ACQUIRED_IN_WORDS[self.method.acquisition], self.simulations - first))
        return found

    def simulated_points(self, most: int) -> Points | None:
        rows = np.linspace(0, self.simulations - 1, min(most, self.simulations)).astype(np.int64)
        return self.space.points(particles_of(self.x[rows])).with_derived(self.problem.derived)

    def all_simulations(self, recorded: RecordedBlocks | None = None) -> Simulations:
        raise InputError(
            "a surrogate chooses its simulations and does not draw them, so they have no weights; use its posterior, "
            "or fbar export --all for a recorded run"
        )

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or self.hyperparameters is None:
            return None
        return {"x": self._batch, "fitted to": np.array(self._fitted_to), **self.hyperparameters.arrays()}

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._batch, self._fitted_to = np.asarray(state["x"]), int(state["fitted to"])
        self.hyperparameters = Hyperparameters.of(state)

    def _extend(self, tolerance: float | None) -> None:
        self.problem.check_targets(self.targets)
        if self.budget is not None and self.budget > MOST_SIMULATIONS:
            raise InputError(f"a surrogate takes at most {MOST_SIMULATIONS:,} simulations; got {self.budget:,}")
        if tolerance is not None:
            self.tolerance = tolerance
        self._ended, self._latest = "", None
        if self.simulations:
            self._plan()
