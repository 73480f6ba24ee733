"""A model file in the names that fbar had when the run beside it was recorded."""

import numpy as np
from scipy import stats

import fbar
import fbar.targets.make as makers
from fbar.targets.kinds import DensityAt, Expectation

prior = fbar.Prior(rate=stats.uniform(0, 10))


def simulate(theta, rng):
    return rng.poisson(theta["rate"])


problem = fbar.Problem(prior, simulate, observed=4)
targets = [
    fbar.mean("rate"),
    fbar.interval("rate", 2, 5),
    makers.density_at("rate", 4),
    Expectation(lambda t: np.log(t["rate"]), "log"),
]
assert isinstance(targets[2], DensityAt)
method = fbar.Targeted(tolerance=0, importance={"interval:2<rate<5": 2.0})
