"""Whole algorithms, asked for simulations and told their outcomes.

Other rooms import methods and runs from here, and from `fbar.methods.registry` what methods are called.
"""

from fbar.methods.base import Method
from fbar.methods.finite.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.methods.finite.allocation import Allocation
from fbar.methods.finite.inverse_binomial import InverseBinomial
from fbar.methods.registry import Registered, register, registered, unregister
from fbar.methods.run import Run
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
    "Registered",
    "Rejection",
    "Run",
    "Targeted",
    "register",
    "registered",
    "unregister",
]
