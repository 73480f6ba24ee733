"""ABC-SMC's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from fbar.checks import choice, non_negative_number, number, positive_integer, shown, store_number
from fbar.designs.proposals import (
    LocalNormalKernel,
    NormalKernel,
    OptimalLocalKernel,
    Perturbation,
    UniformKernel,
    as_perturbation,
)
from fbar.errors import InputError
from fbar.estimation.rounds import WEIGHTINGS
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.smc.run import SMCRun
from fbar.methods.smc.schedules import AcceptanceRateSchedule, QuantileSchedule, Schedule, Tolerances, as_schedule
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.distances import Scaled
from fbar.question.problem import Problem


def _in_study(weights: str, budget: int) -> SMC:
    """Rounds accept a twentieth of the budget, so that there are several at any budget."""
    return SMC(accepted=max(20, budget // 20), weights=weights)


@register(
    "smc",
    "ABC-SMC with the particles of all rounds, weighted by the mixture of their proposals",
    parts=(
        AcceptanceRateSchedule,
        QuantileSchedule,
        Tolerances,
        Scaled,
        LocalNormalKernel,
        NormalKernel,
        OptimalLocalKernel,
        UniformKernel,
    ),
    for_budget=partial(_in_study, "mixture"),
)
@dataclass(frozen=True)
class SMC(Method):
    """ABC-SMC with the particles of all rounds.

    The first round draws from the prior; each later one perturbs the accepted particles of the previous round, at a
    lower tolerance. Without a budget the run ends with its last tolerance; with one it continues there, with one more
    proposal that is then fixed, until the budget is spent or a stopping rule holds.

    Parameters
    ----------
    schedule
        Falling tolerances, ``[160, 40, 10, 1]``, or a rule that chooses them: `QuantileSchedule`,
        `AcceptanceRateSchedule`, each with the tolerance it ends at.
    accepted
        Acceptances that end a round (the sum of their weights, for a kernel), by index: the order in which
        simulations finish has no effect.
    simulations
        Instead of ``accepted``: simulations in a round.
    perturbation
        ``"olcm"``, ``"local-normal"``, ``"normal"``, ``"uniform"`` or one with settings, such as
        ``LocalNormalKernel(neighbours=30)``. Local kernels accept more; in five or more dimensions they are too narrow
        (``benchmarks/coverage_smc.csv``).
    weights
        How the particles of all rounds are weighted: ``"mixture"``, ``"ess"`` (the paper's),
        ``"inverse-variance"`` or ``"last"`` (the last round only), see `fbar.estimation.rounds`.
    kernel
        The acceptance kernel, see `Acceptance`.
    distance
        `Scaled` to learn the scales of the summaries; the problem's own distance by default.
    coordinates
        The coordinates in which particles are perturbed: ``"theta"``, or ``"normal"``, in which no proposal leaves the
        prior's support.
    jump
        The probability with which a discrete parameter or the model is drawn again from the prior.
    centres
        With more accepted particles than this, this many are resampled as centres of the next proposal: the cost of
        densities then grows in proportion to the number of particles, not to its square.
    least_rate
        A round whose acceptance rate is significantly lower than this ends the run.
    """

    schedule: Schedule | Sequence[float] = field(default_factory=QuantileSchedule)
    accepted: int = 1000
    simulations: int | None = None
    perturbation: str | Perturbation = "olcm"
    weights: str = "mixture"
    kernel: str = "uniform"
    distance: Scaled | None = None
    coordinates: str = "theta"
    jump: float = 0.2
    centres: int | None = None
    least_rate: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.schedule))
        if positive_integer(self.accepted, "accepted") < 2:
            raise InputError("accepted must be at least 2 particles a round; got 1")
        if self.simulations is not None:
            positive_integer(self.simulations, "simulations")
        as_perturbation(self.perturbation)
        choice(self.weights, WEIGHTINGS, "weights")
        Acceptance(1.0, self.kernel)
        if self.distance is not None and not isinstance(self.distance, Scaled):
            raise InputError(
                "distance must be fbar.Scaled(...), which learns scales; any other distance belongs to the Problem; "
                f"got {shown(self.distance)}"
            )
        if self.distance is not None and self.distance.each_round and isinstance(self.schedule, Tolerances):
            raise InputError(
                "scales that change each round have no fixed tolerances; use fbar.QuantileSchedule(...) as schedule, "
                "or fbar.Scaled(each_round=False)"
            )
        if not 0 <= number(self.jump, "jump") <= 1:
            raise InputError(f"jump must be a probability; got {shown(self.jump)}")
        store_number(self, "jump", float(self.jump))
        if self.centres is not None:
            positive_integer(self.centres, "centres")
        store_number(self, "least_rate", non_negative_number(self.least_rate, "least_rate"))
        assert isinstance(self.schedule, Schedule)
        if self.kernel != "uniform" and self.schedule.last == 0:
            raise InputError(f"the {self.kernel} acceptance kernel needs tolerances above 0; got 0")

    @property
    def ends_by_itself(self) -> bool:
        assert isinstance(self.schedule, Schedule)
        return self.schedule.last is not None

    @property
    def has_tolerance(self) -> bool:
        """It is the last one of the schedule."""
        return True

    @property
    def may_stop_short(self) -> bool:
        return True

    @property
    def final_tolerance(self) -> float | None:
        assert isinstance(self.schedule, Schedule)
        return self.schedule.last

    def answers_at_data(self, problem: Problem) -> bool:
        return self.final_tolerance is None and not problem.is_finite and problem.compares_numbers

    def at_tolerance(self, tolerance: float) -> Self:
        assert isinstance(self.schedule, Schedule)
        if tolerance == self.schedule.last:
            return self
        return replace(self, schedule=self.schedule.to(tolerance))

    def begin(self, start: Start) -> SMCRun:
        return SMCRun(self, start)


register("smc-last", "ABC-SMC with only the last round, as usual", for_budget=partial(_in_study, "last"))(
    partial(SMC, weights="last")
)
register(
    "smc-ess", "ABC-SMC with all rounds, weighted by their effective sample sizes", for_budget=partial(_in_study, "ess")
)(partial(SMC, weights="ess"))
