"""fbar: likelihood-free inference that says how wrong it is.

Name the function f you care about; get E[f(θ)|x*] with an honest error bar, from simulations spent where
they reduce that error.
"""

from fbar import theory
from fbar.engine import InProcess, simulate
from fbar.errors import FbarError, InputError, MissingExtra, NoPosterior
from fbar.estimate import Estimate, Estimates
from fbar.inference import Result, drive, infer
from fbar.methods import (
    AdaptiveAllocation,
    AdaptivePosterior,
    Allocation,
    Importance,
    InverseBinomial,
    Method,
    Rejection,
    Run,
)
from fbar.points import Points
from fbar.posterior import Posterior
from fbar.priors import Finite, Prior
from fbar.problem import Acceptance, Problem, each
from fbar.seeds import Seeds
from fbar.stopping import Acceptances, Budget, StandardError, StoppingRule
from fbar.targets import (
    Target,
    covariance,
    expectation,
    interval,
    mean,
    model_probability,
    posterior,
    probability,
    second_moment,
    variance,
)

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "Acceptances",
    "AdaptiveAllocation",
    "AdaptivePosterior",
    "Allocation",
    "Budget",
    "Estimate",
    "Estimates",
    "FbarError",
    "Finite",
    "Importance",
    "InProcess",
    "InputError",
    "InverseBinomial",
    "Method",
    "MissingExtra",
    "NoPosterior",
    "Points",
    "Posterior",
    "Prior",
    "Problem",
    "Rejection",
    "Result",
    "Run",
    "Seeds",
    "StandardError",
    "StoppingRule",
    "Target",
    "covariance",
    "drive",
    "each",
    "expectation",
    "infer",
    "interval",
    "mean",
    "model_probability",
    "posterior",
    "probability",
    "second_moment",
    "simulate",
    "theory",
    "variance",
]
