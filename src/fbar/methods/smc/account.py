"""What an ABC-SMC run has done with its simulations, and what more of them would do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fbar.estimation.posterior import Posterior
from fbar.estimation.round import Round
from fbar.estimation.rounds import MixtureErrors, Rounds
from fbar.methods.forecasts import VarianceAfter, variance_after_draws
from fbar.methods.run import Stage
from fbar.question.points import Points
from fbar.question.space import Proposal
from fbar.question.targets import Target


def stages(store: Rounds) -> list[Stage]:
    """One for each proposal and tolerance."""
    found: list[Stage] = []
    before: Round | None = None
    for round in store.begun:
        stage = Stage(_whence(round), round.simulations, round.accepted, round.tolerance)
        if before is not None and before.proposal is round.proposal and before.tolerance == round.tolerance:
            last = found.pop()
            accepted = (last.accepted or 0.0) + round.accepted
            stage = replace(stage, simulations=last.simulations + round.simulations, accepted=accepted)
        found.append(stage)
        before = round
    return found


def _whence(round: Round) -> str:
    return "from the prior" if round.origin is None else f"from particles of round {round.origin.round + 1}, perturbed"


def simulated_points(store: Rounds, most: int) -> Points | None:
    """At most so many of the θ that were simulated."""
    if not store.simulations:
        return None
    rows = np.arange(store.simulations)
    if rows.size > most:
        rows = np.linspace(0, rows.size - 1, most).astype(np.int64)
    return store.space.points(store.everything.theta.take(rows)).with_derived(store.problem.derived)


def variance_after(store: Rounds, proposal: Proposal, posterior: Posterior, target: Target) -> VarianceAfter | None:
    """What more simulations from a proposal would leave of the variance of the mixture of all rounds."""
    errors = posterior.errors
    if not isinstance(errors, MixtureErrors) or posterior.contributions(target) is None:
        return None
    ratio = store.density_ratios(errors.draws, proposal)
    if ratio is None:
        return None
    there = store.begun
    like = [round for round in there if round.proposal is proposal] or there[-1:]
    rate = sum(round.draws for round in like) / sum(round.simulations for round in like)
    return variance_after_draws(posterior, target, ratio, float(errors.draws.stratum_sizes.sum()), rate)
