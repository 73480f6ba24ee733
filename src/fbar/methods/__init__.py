"""Whole algorithms, asked and told."""

from fbar.methods.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.methods.allocation import Allocation
from fbar.methods.base import Method, Run
from fbar.methods.inverse_binomial import InverseBinomial
from fbar.methods.sampling import Importance, Rejection
from fbar.methods.smc import SMC
from fbar.methods.targeted import Targeted

__all__ = [
    "SMC",
    "AdaptiveAllocation",
    "AdaptivePosterior",
    "Allocation",
    "Importance",
    "InverseBinomial",
    "Method",
    "Rejection",
    "Run",
    "Targeted",
]
