"""Markov chains: ABC-MCMC with a learned tolerance, and synthetic likelihoods.

Rooms above import the methods `MCMC` and `SyntheticLikelihoodMCMC`.
"""

from fbar.methods.chains.mcmc import MCMC

__all__ = ["MCMC"]
