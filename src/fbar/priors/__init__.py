"""Priors: what is believed about θ before the data. A design, where to simulate, is a distribution of the same kind."""

from fbar.priors.base import Distribution, Mixture
from fbar.priors.density import Density
from fbar.priors.finite import Finite
from fbar.priors.independent import Prior, UnitTransform
from fbar.priors.marginals import Categorical, Marginal, truncate
from fbar.priors.model_choice import ModelChoice

__all__ = [
    "Categorical",
    "Density",
    "Distribution",
    "Finite",
    "Marginal",
    "Mixture",
    "ModelChoice",
    "Prior",
    "UnitTransform",
    "truncate",
]
