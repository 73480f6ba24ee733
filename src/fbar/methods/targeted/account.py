"""What a targeted run has done with its simulations, and what more of them would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fbar.designs.proposals import FromPrior, Learned
from fbar.estimation.crossfitted import Crossfitted
from fbar.estimation.posterior import Posterior
from fbar.methods.forecasts import VarianceAfter, variance_after_draws
from fbar.methods.run import Stage
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.points import Points
from fbar.question.targets import Target

DESCENT = "towards the data"


def stages(store: Crossfitted, reached: Sequence[float], wanted: Acceptance, *, events: bool) -> list[Stage]:
    """Draws from the prior, rounds at falling tolerances, which were ``reached``, and those for the targets.

    ``events`` are accepted without a tolerance.
    """
    found: list[Stage] = []
    for r in range(store.rounds):
        proposals, (first, end) = store.proposals[r], store.of_round(r)
        if isinstance(proposals[0], FromPrior):
            words = "from the prior"
        elif reached[r] > wanted.tolerance:
            words = DESCENT
        else:
            words = "where the error of the targets falls most"
        at = reached[r] if words == DESCENT else wanted.tolerance
        asked = Acceptance(at, wanted.kernel)
        distances = store.everything.distances(first, end)
        n, hits = end - first, sum(int((accepted(asked, d) > 0).sum()) for _, d in distances)
        last = found[-1] if found else None
        if last is not None and last.words == words and words != DESCENT:
            found[-1] = Stage(words, last.simulations + n, (last.accepted or 0) + hits, wanted.tolerance)
        else:
            found.append(Stage(words, n, hits, None if events else at))
    return found


def simulated_points(store: Crossfitted, most: int) -> Points | None:
    """At most so many of the θ that were simulated."""
    rows = np.linspace(0, store.simulations - 1, min(most, store.simulations)).astype(np.int64)
    return store.space.points(store.take(rows)).with_derived(store.problem.derived)


def variance_after(store: Crossfitted, posterior: Posterior, target: Target) -> VarianceAfter | None:
    """What more simulations from the last proposals would leave of the variance."""
    draws = posterior.draws
    if draws is None or draws.row is None or not isinstance(store.proposals[-1][0], Learned):
        return None
    particles, group = store.take(draws.row), store.everything.group_of(draws.row)
    log_q = np.empty(len(particles))
    for a, proposal in enumerate(store.proposals[-1]):
        mine = np.flatnonzero(group == a)
        log_q[mine] = proposal.log_density(particles.take(mine))
    log_mixture = store.space.log_prior(particles) - draws.log_w
    return variance_after_draws(posterior, target, np.exp(log_q - log_mixture), posterior.simulations, 1.0)
