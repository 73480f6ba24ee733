"""The settings of runs with a Gaussian-process surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fbar.checks import choice, positive_integer, positive_number, store_number
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.surrogates.acquisition import ACQUISITIONS
from fbar.methods.surrogates.distances import POWERS
from fbar.methods.surrogates.run import SurrogateRun


@register(
    "bolfi",
    "a Gaussian process of the distance, for 50 to 1,000 simulations, run where it may be smallest",
    needs="continuous parameters",
)
@dataclass(frozen=True)
class BOLFI(Method):
    """Bayesian optimisation for likelihood-free inference, for simulators that can be run 50 to 1,000 times.

    A Gaussian process is fitted to the distances of the simulations so far. It decides where to simulate next, and
    gives the posterior: a simulation is expected to come within the tolerance with probability Φ((h − μ)/√(v + σ²)).

    Parameters
    ----------
    acquisition
        Where to simulate next: ``"lcb"``, where the lower confidence bound of the distance is smallest (Gutmann &
        Corander 2016); ``"eiv"``, where a simulation is expected to leave least variance of the posterior density
        (Järvenpää et al. 2019), which is more accurate. Answers by ``"lcb"`` are flagged as unreliable, since their
        intervals held too rarely.
    tolerance
        The distance that counts as a match; above 0. None for the smallest expected distance at a simulated θ.
        The error bars are about ABC's posterior at that tolerance.
    scale
        What is modelled as normal: the square ``"root"`` of the distance, its ``"log"``, or the distance itself
        (``"plain"``).
    initial
        Simulations from the prior before the first fit; 20, or 10 for each parameter if that is more, by default.
    batch
        Simulations between two decisions, which can run in parallel.
    """

    acquisition: str = "lcb"
    tolerance: float | None = None
    scale: str = "root"
    initial: int | None = None
    batch: int = 10

    def __post_init__(self) -> None:
        choice(self.acquisition, ACQUISITIONS, "acquisition")
        if self.tolerance is not None:
            store_number(self, "tolerance", positive_number(self.tolerance, "tolerance"))
        choice(self.scale, POWERS, "scale")
        if self.initial is not None:
            positive_integer(self.initial, "initial")
        positive_integer(self.batch, "batch")

    def begin(self, start: Start) -> SurrogateRun:
        return SurrogateRun(self, start)


register(
    "bolfi-eiv",
    "the same, run where simulations leave least variance of the posterior density",
    needs="continuous parameters",
)(partial(BOLFI, acquisition="eiv"))
