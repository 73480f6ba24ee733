"""Population Monte Carlo (Beaumont, Cornuet, Marin & Robert 2009, Biometrika 96, 983–990).

Population t has N particles within ε_t. Each comes from a particle of population t − 1, drawn by weight and moved by a
normal kernel K with twice the weighted variance of that population, coordinate by coordinate: of all multiples of the
variance the one for which the moved particles are nearest to their target (Kullback–Leibler). Its weight is

    w ∝ p(θ) / Σ_j w_j K(θ_j, θ).

The last population is the answer. This is `fbar.SMC` with its normal kernel and ``weights="last"``; only the kernel's
covariance, diagonal here, differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from fbar.methods.populations.last_population import LastPopulation, particles_for
from fbar.methods.registry import register


def _in_study(budget: int) -> PMC:
    return PMC(accepted=particles_for(budget))


@register(
    "pmc",
    "population Monte Carlo: the last of several populations, each moved by twice its variance",
    for_budget=_in_study,
)
@dataclass(frozen=True)
class PMC(LastPopulation):
    """Population Monte Carlo as published by Beaumont et al. (2009): the last population only.

    Without a tolerance it comes as close to the data as the budget allows. With a budget, the last population goes on
    growing until it is spent.

    Parameters
    ----------
    schedule
        Falling tolerances, ``[160, 40, 10, 1]``, or a rule that chooses them, `QuantileSchedule` by default.
    accepted
        Particles in a population.
    perturbation
        How particles move: by twice the variance of each coordinate, or another kernel, see `SMC`. ``"normal"`` uses
        the whole covariance.
    coordinates, jump, least_rate
        As for `SMC`.
    """
