"""Methods that are ABC-SMC with a single population at the end: settings of `fbar.SMC` under their published names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from fbar.designs.proposals import NormalKernel, Perturbation
from fbar.methods.method import Method
from fbar.methods.smc.descent import CentreWeights
from fbar.methods.smc.method import SMC
from fbar.methods.smc.run import SMCRun
from fbar.methods.smc.schedules import QuantileSchedule, Schedule, as_schedule
from fbar.methods.start import Start
from fbar.question.problem import Problem

ROUNDS_OF_BUDGET = 20
"""In a study a population has the budget divided by this many particles, as those of `fbar.SMC` do."""

LEAST_PARTICLES = 20


def particles_for(budget: int) -> int:
    """The particles of a population for a budget, so that there are several populations at any budget."""
    return max(LEAST_PARTICLES, budget // ROUNDS_OF_BUDGET)


@dataclass(frozen=True)
class LastPopulation(Method):
    """The settings that these methods share; see `fbar.SMC` for those of the same names."""

    schedule: Schedule | Sequence[float] = field(default_factory=QuantileSchedule)
    accepted: int = 1000
    perturbation: str | Perturbation = field(default_factory=lambda: NormalKernel(componentwise=True))
    coordinates: str = "theta"
    jump: float = 0.2
    least_rate: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.schedule))
        self._smc()  # which checks the settings

    def _smc(self) -> SMC:
        return SMC(
            self.schedule,
            self.accepted,
            perturbation=self.perturbation,
            weights="last",
            coordinates=self.coordinates,
            jump=self.jump,
            least_rate=self.least_rate,
        )

    @property
    def ends_by_itself(self) -> bool:
        return self._smc().ends_by_itself

    @property
    def has_tolerance(self) -> bool:
        """It is the last one of the schedule."""
        return True

    @property
    def may_stop_short(self) -> bool:
        return True

    @property
    def final_tolerance(self) -> float | None:
        return self._smc().final_tolerance

    def at_tolerance(self, tolerance: float) -> Self:
        return replace(self, schedule=self._smc().at_tolerance(tolerance).schedule)

    def _centre_weights(self, problem: Problem) -> CentreWeights | None:
        """How often particles are perturbed, where that is not by their weights."""
        return None

    def begin(self, start: Start) -> SMCRun:
        return SMCRun(self._smc(), start, centre_weights=self._centre_weights(start.problem))
