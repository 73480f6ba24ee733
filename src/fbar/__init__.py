"""fbar: likelihood-free inference that says how wrong it is.

Name the function f you care about; get E[f(θ)|x*] with an honest error bar, from simulations spent where
they reduce that error.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from fbar import designs, former, theory
from fbar.designs.proposals import LocalNormalKernel, NormalKernel, OptimalLocalKernel, UniformKernel
from fbar.designs.schemes import Independent, Sobol, Stratified
from fbar.engine import Dask, Futures, InProcess, Workers, simulate
from fbar.errors import (
    EngineFailed,
    FbarError,
    InputError,
    LedgerError,
    MissingExtra,
    NoPosterior,
    RunInUse,
    SimulatorFailed,
    UntrustedModel,
)
from fbar.estimation import DoublyRobust, KernelRegression, WeightedAverage
from fbar.estimation.estimate import Estimate, Estimates
from fbar.estimation.posterior import Posterior
from fbar.estimation.sequential import PosteriorAsPrior
from fbar.methods import (
    BOLFI,
    PMC,
    AdaptiveAllocation,
    AdaptivePosterior,
    AdaptiveWeights,
    Allocation,
    DensityApproximation,
    Importance,
    InverseBinomial,
    Method,
    Multifidelity,
    Multilevel,
    PseudoMarginal,
    Rejection,
    ReplicaSMC,
    Run,
    SyntheticLikelihood,
    Targeted,
    UntilMatch,
    with_likelihood,
)
from fbar.methods.chains import MCMC, SyntheticLikelihoodMCMC
from fbar.methods.forecasts import Forecast
from fbar.methods.smc import SMC
from fbar.methods.smc.schedules import AcceptanceRateSchedule, QuantileSchedule
from fbar.methods.stopping import AcceptedCount, Budget, CostBudget, RelativeError, StandardError, StoppingRule
from fbar.question.acceptance import Acceptance
from fbar.question.distances import PNorm, Scaled
from fbar.question.points import Points
from fbar.question.priors import (
    Categorical,
    Density,
    Distribution,
    Finite,
    Mixture,
    ModelChoice,
    Prior,
    UnitTransform,
    dirichlet,
    ordered,
    truncate,
)
from fbar.question.problem import Problem
from fbar.question.program import program
from fbar.question.simulators import Fidelities, Model, RowNoise, Separable, each
from fbar.question.targets import (
    Target,
    bayes_factor,
    correlation,
    covariance,
    credible_interval,
    density_at,
    expectation,
    hdi,
    mean,
    model_probability,
    probabilities,
    probability,
    probability_between,
    quantile,
    sd,
    second_moment,
    variance,
)
from fbar.seeds import Seeds

if TYPE_CHECKING:
    from fbar import plot, problems, scores
    from fbar.diagnostics.explanation import Explanation
    from fbar.diagnostics.model_check import ModelCheck
    from fbar.diagnostics.predictions import Predictions
    from fbar.results.result import Result
    from fbar.running import drive, extend, infer, load
    from fbar.running.summaries import LearnedSummaries
    from fbar.study import Study, StudyResult

__version__ = "0.1.0"

__all__ = [
    "BOLFI",
    "MCMC",
    "PMC",
    "SMC",
    "Acceptance",
    "AcceptanceRateSchedule",
    "AcceptedCount",
    "AdaptiveAllocation",
    "AdaptivePosterior",
    "AdaptiveWeights",
    "Allocation",
    "Budget",
    "Categorical",
    "CostBudget",
    "Dask",
    "Density",
    "DensityApproximation",
    "Distribution",
    "DoublyRobust",
    "EngineFailed",
    "Estimate",
    "Estimates",
    "Explanation",
    "FbarError",
    "Fidelities",
    "Finite",
    "Forecast",
    "Futures",
    "Importance",
    "InProcess",
    "Independent",
    "InputError",
    "InverseBinomial",
    "KernelRegression",
    "LearnedSummaries",
    "LedgerError",
    "LocalNormalKernel",
    "Method",
    "MissingExtra",
    "Mixture",
    "Model",
    "ModelCheck",
    "ModelChoice",
    "Multifidelity",
    "Multilevel",
    "NoPosterior",
    "NormalKernel",
    "OptimalLocalKernel",
    "PNorm",
    "Points",
    "Posterior",
    "PosteriorAsPrior",
    "Predictions",
    "Prior",
    "Problem",
    "PseudoMarginal",
    "QuantileSchedule",
    "Rejection",
    "RelativeError",
    "ReplicaSMC",
    "Result",
    "RowNoise",
    "Run",
    "RunInUse",
    "Scaled",
    "Seeds",
    "Separable",
    "SimulatorFailed",
    "Sobol",
    "StandardError",
    "StoppingRule",
    "Stratified",
    "Study",
    "StudyResult",
    "SyntheticLikelihood",
    "SyntheticLikelihoodMCMC",
    "Target",
    "Targeted",
    "UniformKernel",
    "UnitTransform",
    "UntilMatch",
    "UntrustedModel",
    "WeightedAverage",
    "Workers",
    "bayes_factor",
    "correlation",
    "covariance",
    "credible_interval",
    "density_at",
    "designs",
    "dirichlet",
    "drive",
    "each",
    "expectation",
    "extend",
    "hdi",
    "infer",
    "load",
    "mean",
    "model_probability",
    "ordered",
    "plot",
    "probabilities",
    "probability",
    "probability_between",
    "problems",
    "program",
    "quantile",
    "scores",
    "sd",
    "second_moment",
    "simulate",
    "theory",
    "truncate",
    "variance",
    "with_likelihood",
]


_MODULES = ("plot", "problems", "scores", "study")
_LATER = {
    "Explanation": "fbar.diagnostics.explanation",
    "LearnedSummaries": "fbar.running.summaries",
    "ModelCheck": "fbar.diagnostics.model_check",
    "Predictions": "fbar.diagnostics.predictions",
    "Result": "fbar.results.result",
    "Study": "fbar.study",
    "StudyResult": "fbar.study",
    "drive": "fbar.running",
    "extend": "fbar.running",
    "infer": "fbar.running",
    "load": "fbar.running",
}
"""What is not needed to pose a problem is loaded when it is used: modules, and names with their places."""

if not TYPE_CHECKING:  # to whom every name is known

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"fbar.{name}")
        if name in _LATER:
            globals()[name] = found = getattr(import_module(_LATER[name]), name)
            return found
        present = former.now(name)
        if present is not None:
            return getattr(sys.modules[__name__], present)
        raise AttributeError(former.removed(name))


def __dir__() -> list[str]:
    """What is public, loaded or not, and nothing else."""
    return sorted([*__all__, "__version__"])
