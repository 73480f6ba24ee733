"""The model of a run that was recorded when a run without a tolerance had ABC's posterior."""

from scipy import stats

import fbar


def simulate(theta, rng):
    return theta["mu"] + 0.5 * rng.standard_normal(theta.rows)


problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, observed=0.8)
targets = [fbar.mean("mu"), fbar.variance("mu")]
method = fbar.SMC(accepted=60)
