"""A problem of fbar in the terms that other packages understand: a standard normal prior, and distances.

Other packages want a prior object of their own kind. A problem's prior may be anything (named scipy distributions, one
parameter that depends on another, a function of the unit cube), so it is not translated. The package works on
coordinates z with the prior N(0, I), and θ = F⁻¹(Φ(z)) goes to the simulator (`prior.from_unit` is F⁻¹). That is the
same inference problem for every prior, nothing that a kernel or a regression proposes is outside the prior's support,
and weights need no Jacobian. What differs from the package's use on θ itself: kernels are Gaussian in z.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

HALF_A_STEP = 2.0**-54
"""Coordinates of the unit cube stay off its faces, where an unbounded parameter would be infinite."""


def to_theta(problem, z):
    """The parameters at normal coordinates z (n, dimension)."""
    unit = np.clip(ndtr(np.asarray(z, dtype=np.float64)), HALF_A_STEP, 1 - 2 * HALF_A_STEP)
    return problem.prior.from_unit(unit).with_derived(problem.derived)


def distances(problem, z, rng):
    """Simulate once at every row of z: how far each came from the data; 0 or 1 where the data are an event."""
    theta = to_theta(problem, z)
    if not problem.has_summaries:
        return np.where(problem.matches(theta, rng), 0.0, 1.0)
    return problem.distance_to_data(problem.simulate(theta, rng))


def population_size(given, budget):
    """Particles of a population: as given, or a twentieth of the budget, as of the study's own ``smc``."""
    return min(budget, max(20, budget // 20)) if given is None else given
