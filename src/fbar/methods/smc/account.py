"""What an ABC-SMC run has done with its simulations, and what more of them would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fbar.designs.proposals import Particles, Proposal
from fbar.estimation.posterior import Posterior
from fbar.estimation.rounds import MixtureErrors, Round, Rounds
from fbar.methods.forecasts import Ahead, draws_ahead
from fbar.methods.run import Stage
from fbar.question.points import Points
from fbar.question.targets import Target


def stages(store: Rounds) -> list[Stage]:
    """One for each proposal and tolerance."""
    found: list[Stage] = []
    before: Round | None = None
    for round in told(store.rounds):
        stage = Stage(_whence(store, round), round.simulations, round.accepted, round.tolerance)
        if before is not None and before.proposal is round.proposal and before.tolerance == round.tolerance:
            last = found.pop()
            accepted = (last.accepted or 0.0) + round.accepted
            stage = replace(stage, simulations=last.simulations + round.simulations, accepted=accepted)
        found.append(stage)
        before = round
    return found


def told(rounds: Sequence[Round]) -> list[Round]:
    """The rounds of which some simulations are there."""
    return [round for round in rounds if round.pieces]


def _whence(store: Rounds, round: Round) -> str:
    source = store.sources.get(id(round.proposal))
    return "from the prior" if source is None else f"from particles of round {source[0].number + 1}, perturbed"


def simulated_points(store: Rounds, most: int) -> Points | None:
    """At most so many of the θ that were simulated."""
    parts = [round.particles for round in told(store.rounds)]
    if not parts:
        return None
    particles = Particles.concatenate(parts)
    if len(particles) > most:
        particles = particles.take(np.linspace(0, len(particles) - 1, most).astype(np.int64))
    return store.space.points(particles).with_derived(store.problem.derived)


def mixture_ahead(store: Rounds, proposal: Proposal, posterior: Posterior, target: Target) -> Ahead | None:
    """What more simulations from a proposal would leave of the variance of the mixture of all rounds."""
    errors = posterior.errors
    if not isinstance(errors, MixtureErrors) or posterior.contributions(target) is None:
        return None
    ratio = store.density_ratios(errors.draws, proposal)
    if ratio is None:
        return None
    there = told(store.rounds)
    like = [round for round in there if round.proposal is proposal] or there[-1:]
    rate = sum(round.draws for round in like) / sum(round.simulations for round in like)
    return draws_ahead(posterior, target, ratio, float(errors.draws.stratum_sizes.sum()), rate)
