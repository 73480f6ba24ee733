"""An estimate explained: where the simulations went and why, the most influential ones, and alternatives.

Figures take from here what stands for the prior and for the simulations, and what halving an error costs.
"""

from fbar.diagnostics.explanation.account import explain, halving, prior_of, simulated_of, target_of
from fbar.diagnostics.explanation.data import VALUES, Explanation
from fbar.diagnostics.explanation.words import regression_in_words

__all__ = [
    "VALUES",
    "Explanation",
    "explain",
    "halving",
    "prior_of",
    "regression_in_words",
    "simulated_of",
    "target_of",
]
