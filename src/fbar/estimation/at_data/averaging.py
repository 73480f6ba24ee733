"""Two estimates that are averaged: of all simulations, and of those within reach of the posterior.

Draws from where the posterior has no mass cost variance, or a bias that an estimate's own error hardly shows
(`fbar.estimation.at_data.reach`). So the estimate from the simulations within reach is preferred, unless its error is
much the larger. With many given summaries there is more to it. Regions are wide there, and what is cut off may be as
good for a regression as the rest: in some problems the squared error without the cut is half of that with it, in others
it is larger, and the estimated errors do not tell which. But the errors of the two have a correlation of about a half,
so that their mean is as good as the better one, or better. The shares are in inverse proportion to the estimated
squared errors.

*Bias.* Let the biases of the two have the mean square b² and the correlation ρ. Then the mean square of the bias of
their mean is (α² + (1 − α)² + 2α(1 − α)ρ) b² = (1 − 2α(1 − α)(1 − ρ)) b². For b² the larger of the two estimates is
taken, or what the two differ by (with chance added to it, as in `fbar.estimation.at_data.moments`) where that is more:
a bias that neither shows. For ρ the correlation of their errors by chance is taken, which the influence values give: it
is 1 where both rest on the same simulations. Then nothing is gained by a mean, and there is none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fbar.estimation.at_data.choice import ENOUGH, Step
from fbar.estimation.at_data.doubts import doubts_of
from fbar.estimation.at_data.moments import Companions, Difference
from fbar.estimation.at_data.parts import Part

MUCH = 4.0
"""A squared error that is larger by this factor is much larger. It must rest on `ENOUGH` effective simulations; where
it does not, any larger error is much larger."""

SAME = 0.95
"""Two estimates whose errors have a larger correlation are the same."""


def of(within: Step | None, step: Step, both: bool = True) -> list[Part]:
    """The parts of a posterior, from an estimate and the one from the simulations within its reach, where there is one.

    They are about the same posterior. Whether ``both`` may be parts is said; an estimate on the way needs only one.
    """
    if within is None or not preferred(within, step):
        return [Part(1.0, step)]
    if not both or not averaged(within, step):
        return [Part(1.0, within)]
    apart, correlation = compared(within, step)
    if correlation > SAME:
        return [Part(1.0, within)]
    share = step.error / (within.error + step.error)
    left = 1 - 2 * share * (1 - share) * (1 - max(correlation, 0.0))
    bias = left * max(within.bias, step.bias, apart)
    return [Part(share, replace(within, bias=bias)), Part(1 - share, replace(step, bias=bias))]


def compared(first: Step, other: Step) -> tuple[float, float]:
    """The mean squared difference of two estimates, with chance added to it, in posterior variances; and the
    correlation of their errors.
    """
    mine, others = first.moved.seen, other.moved.seen
    rows = mine.prepared.rows[mine.rows], others.prepared.rows[others.rows]
    places = np.unique(np.concatenate(rows), return_inverse=True)[1]
    companions = Companions.around(mine, first.weights)
    found = replace(companions.moments(mine, first.weights), rows=places[: rows[0].size])
    against = replace(companions.moments(others, other.weights), rows=places[rows[0].size :])
    return Difference.between(found, against).bound, found.correlation(against)


def preferred(within: Step, step: Step) -> bool:
    """Whether an estimate from the simulations within reach counts beside the one that it was found from."""
    factor = MUCH if within.weights.ess >= ENOUGH else 1.0
    return within.error < factor * step.error


def averaged(within: Step, step: Step) -> bool:
    """Whether both count: with many given summaries, where nothing speaks against the one from all simulations."""
    prepared = step.moved.prepared
    return (
        prepared.bending
        and not prepared.model.any()
        and 0 < step.error < MUCH * within.error
        and not doubts_of(step)
        and not doubts_of(within)
    )
