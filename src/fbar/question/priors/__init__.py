"""Priors: what is believed about θ before the data. A design, where to simulate, is a distribution of the same kind.

Everything that draws θ imports `Distribution` and its kinds from here.
"""

from fbar.question.priors.base import Distribution, Mixture
from fbar.question.priors.density import Density
from fbar.question.priors.finite import Finite
from fbar.question.priors.independent import Prior, UnitTransform
from fbar.question.priors.marginals import Categorical, Marginal, truncate
from fbar.question.priors.model_choice import ModelChoice
from fbar.question.priors.structures import Structure, structure

__all__ = [
    "Categorical",
    "Density",
    "Distribution",
    "Finite",
    "Marginal",
    "Mixture",
    "ModelChoice",
    "Prior",
    "Structure",
    "UnitTransform",
    "structure",
    "truncate",
]
