"""Whole algorithms, by ask and tell: a method says where to simulate next, and turns outcomes into a posterior.

Rooms above import the methods, `Method`, `Run`, and the registry through which command line and studies know them.
"""

from fbar.methods.chains import MCMC, SyntheticLikelihoodMCMC
from fbar.methods.finite.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.methods.finite.allocation import Allocation
from fbar.methods.finite.inverse_binomial import InverseBinomial
from fbar.methods.levels import Multilevel
from fbar.methods.method import Method
from fbar.methods.populations import PMC, AdaptiveWeights, ReplicaSMC
from fbar.methods.registry import Registered, register, registered, unregister
from fbar.methods.run import Run
from fbar.methods.sampling import Importance, Rejection
from fbar.methods.smc import SMC
from fbar.methods.surrogates import BOLFI
from fbar.methods.targeted import Targeted
from fbar.methods.worth.density import DensityApproximation
from fbar.methods.worth.multifidelity import Multifidelity
from fbar.methods.worth.pseudo_marginal import PseudoMarginal, with_likelihood
from fbar.methods.worth.synthetic import SyntheticLikelihood
from fbar.methods.worth.until_match import UntilMatch

__all__ = [
    "BOLFI",
    "MCMC",
    "PMC",
    "SMC",
    "AdaptiveAllocation",
    "AdaptivePosterior",
    "AdaptiveWeights",
    "Allocation",
    "DensityApproximation",
    "Importance",
    "InverseBinomial",
    "Method",
    "Multifidelity",
    "Multilevel",
    "PseudoMarginal",
    "Registered",
    "Rejection",
    "ReplicaSMC",
    "Run",
    "SyntheticLikelihood",
    "SyntheticLikelihoodMCMC",
    "Targeted",
    "UntilMatch",
    "register",
    "registered",
    "unregister",
    "with_likelihood",
]
