"""Markov chains: ABC-MCMC with a learned tolerance, and synthetic likelihoods.

Rooms above import the methods `MCMC` and `SyntheticLikelihoodMCMC`.
"""

from fbar.methods.chains.mcmc import MCMC
from fbar.methods.chains.synthetic import SyntheticLikelihoodMCMC

__all__ = ["MCMC", "SyntheticLikelihoodMCMC"]
