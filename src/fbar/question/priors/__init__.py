"""Priors: what is believed about θ before the data. A design, where to simulate, is a distribution of the same kind.

Everything that draws θ imports `Distribution` and its kinds from here.
"""

from fbar.question.priors.base import Distribution, Mixture
from fbar.question.priors.density import Density
from fbar.question.priors.finite import Finite
from fbar.question.priors.independent import Prior, UnitTransform
from fbar.question.priors.marginals import Categorical, Marginal
from fbar.question.priors.model_choice import ModelChoice
from fbar.question.priors.orders import ordered
from fbar.question.priors.restricted import truncate
from fbar.question.priors.simplex import dirichlet
from fbar.question.priors.structures import Determined, Structure, structure

__all__ = [
    "Categorical",
    "Density",
    "Determined",
    "Distribution",
    "Finite",
    "Marginal",
    "Mixture",
    "ModelChoice",
    "Prior",
    "Structure",
    "UnitTransform",
    "dirichlet",
    "ordered",
    "structure",
    "truncate",
]
