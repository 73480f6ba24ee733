"""Adaptive SMC with replicas and MCMC moves: its settings (Del Moral, Doucet & Jasra 2012, Statistics and Computing 22,
1009–1020). The algorithm is in `fbar.methods.populations.replica_run`."""

from __future__ import annotations

from dataclasses import dataclass

from fbar.checks import between, choice, non_negative_number, positive_integer, store_number
from fbar.errors import InputError
from fbar.methods.method import Method
from fbar.methods.populations.replica_run import ReplicaRun
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.question.space import COORDINATES

PARTICLES = 1000
"""As published."""

STEPS = 50
"""A budget is planned to suffice for this many simulations of every particle."""

LEAST_PARTICLES = 20


@register("smc-replicas", "SMC with MCMC moves of particles that are simulated several times, at falling tolerances")
@dataclass(frozen=True)
class ReplicaSMC(Method):
    """Adaptive SMC with replicas and MCMC moves, as published by Del Moral, Doucet & Jasra (2012).

    N particles, each simulated M times. The tolerance falls so that the effective sample size falls by a tenth in each
    step; particles are resampled when it is below N/2, and moved by a random walk that is accepted by the ratio of
    replicas within the tolerance. The population at the final tolerance is the answer; with a budget it is moved on,
    and the answer is the average over its moves, until the budget is spent.

    Parameters
    ----------
    particles
        N. By default 1,000, or with a budget as many as can be simulated in 50 steps.
    replicas
        M, the simulations at each θ.
    tolerance
        The final tolerance. None for the one at which fewer than ``least_rate`` of the moves are accepted.
    survival
        The share of the effective sample size that each step keeps, α.
    resample_below
        Particles are resampled when the effective sample size is below this share of their number.
    scale
        Moves have this many times the covariance of the population.
    least_rate
        Without a tolerance: the acceptance rate of moves below which the tolerance stays as it is.
    coordinates
        Where particles are moved: ``"theta"``, or ``"normal"`` where no move leaves the prior's support.
    jump
        The probability with which a discrete parameter or the model is redrawn from the prior.
    """

    particles: int | None = None
    replicas: int = 1
    tolerance: float | None = None
    survival: float = 0.9
    resample_below: float = 0.5
    scale: float = 2.0
    least_rate: float = 0.015
    coordinates: str = "theta"
    jump: float = 0.2

    def __post_init__(self) -> None:
        if self.particles is not None and positive_integer(self.particles, "particles") < 2:
            raise InputError("particles must be at least 2; got 1")
        positive_integer(self.replicas, "replicas")
        if self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
        store_number(self, "survival", between(self.survival, 0.01, 0.999, "survival"))
        store_number(self, "resample_below", between(self.resample_below, 0, 1, "resample_below"))
        store_number(self, "scale", between(self.scale, 1e-18, 1e4, "scale of the covariance"))
        store_number(self, "least_rate", between(self.least_rate, 0, 1, "least_rate"))
        choice(self.coordinates, COORDINATES, "coordinates")
        store_number(self, "jump", between(self.jump, 0, 1, "jump"))

    @property
    def ends_by_itself(self) -> bool:
        return True

    @property
    def may_stop_short(self) -> bool:
        return True

    def population(self, most: float) -> int:
        """N, for a run of at most ``most`` simulations."""
        wanted = self.particles
        if wanted is None:
            wanted = int(max(LEAST_PARTICLES, min(PARTICLES, most // (STEPS * self.replicas))))
        if wanted * self.replicas > most:
            raise InputError(
                f"{wanted:,} particles with {self.replicas:,} replicas need {wanted * self.replicas:,} simulations "
                f"before the first move, and only {most:,.0f} are allowed; raise the budget or lower particles="
            )
        return wanted

    def begin(self, start: Start) -> ReplicaRun:
        return ReplicaRun(self, start)
