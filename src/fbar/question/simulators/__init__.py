"""Simulators: what a problem's simulations come from, and what is known of it.

A user's function of a batch, a function of one parameter set (`each`), an external program (`fbar.program`), a choice
of models, two fidelities, or a known acceptance probability p(x*|θ) that stands in for simulations. All keep one
contract, `Simulator`, so that callers ask the simulator and never for its type.
"""

from fbar.question.simulators.base import Simulator, SimulatorFunction, Single, Vectorised, as_simulator, repeating
from fbar.question.simulators.choice import Model, as_models, choose, prior_of
from fbar.question.simulators.costs import COST, Costs, without_costs
from fbar.question.simulators.failures import PASSES, EndsRun, Nonsense, RowFailed, SimulationError, TimedOut, Unusable
from fbar.question.simulators.fidelities import Fidelities, RowNoise
from fbar.question.simulators.known import AcceptanceProbability, Bernoulli, KnownAcceptance, Separable, Tabulated
from fbar.question.simulators.rows import RowByRow, Rows, each, run_rows

__all__ = [
    "COST",
    "PASSES",
    "AcceptanceProbability",
    "Bernoulli",
    "Costs",
    "EndsRun",
    "Fidelities",
    "KnownAcceptance",
    "Model",
    "Nonsense",
    "RowByRow",
    "RowFailed",
    "RowNoise",
    "Rows",
    "Separable",
    "SimulationError",
    "Simulator",
    "SimulatorFunction",
    "Single",
    "Tabulated",
    "TimedOut",
    "Unusable",
    "Vectorised",
    "as_models",
    "as_simulator",
    "choose",
    "each",
    "prior_of",
    "repeating",
    "run_rows",
    "without_costs",
]
