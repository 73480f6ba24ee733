"""How many chains there are, and how a budget is divided between a pilot, the burn-in and the chains' states."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fbar.checks import counted
from fbar.errors import InputError

LEAST_CHAINS, MOST_CHAINS = 4, 256

LEAST_STEPS = 25
"""Simulations (or sets of replicates) for each chain, at least, in all phases together."""

PILOT = 0.1
"""The share of the budget that is drawn from the prior, to start the chains from the best of it."""

BURN_IN = 0.3
"""The share of the chains' steps in which proposal and tolerance adapt, and which are not used."""

LEAST_BURN_IN = 8
"""Steps of each chain in the burn-in, at least."""

OPEN_ENDED = 20_000
"""Without a budget: the simulations that chains are planned for."""


@dataclass(frozen=True)
class Plan:
    """``chains`` of them, from a ``pilot`` of so many draws of the prior, which adapt for ``burn_in`` steps."""

    chains: int
    pilot: int
    burn_in: int

    @staticmethod
    def of(most: float, has_budget: bool, chains: int | None, replicates: int = 1) -> Plan:
        """For ``most`` simulations in all, ``replicates`` of them at each θ."""
        size = int(min(most, math.inf if has_budget else OPEN_ENDED)) if math.isfinite(most) else OPEN_ENDED
        steps = size // replicates
        number = min(max(round(math.sqrt(steps) / 5), LEAST_CHAINS), MOST_CHAINS) if chains is None else chains
        least = number * LEAST_STEPS
        if steps < least:
            sets = "" if replicates == 1 else f", each with {replicates} simulations at every θ"
            raise InputError(
                f"{counted(number, 'chain')} of {LEAST_STEPS} steps{sets} need at least "
                f"{least * replicates:,} simulations, and there are {size:,}; raise the budget"
                + ("" if number <= LEAST_CHAINS else ", or use fewer chains")
            )
        pilot = max(round(PILOT * steps), 2 * number)
        burn_in = max(round(BURN_IN * (steps - pilot) / number), LEAST_BURN_IN)
        if has_budget:  # what is left over when all chains have as many steps
            pilot += (steps - pilot) % number
        return Plan(number, pilot, burn_in)
