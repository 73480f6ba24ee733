"""Problems with known truth: the catalogue, its models, and the numerical methods that give their true posteriors.

Users and studies import `load`, `names` and `register`; the paper's figures import the paper's own problems.
"""

from fbar.problems.benchmark import Benchmark, Recipe
from fbar.problems.catalogue import entries, load, names, register
from fbar.problems.models.continuous import nested_models, ramp, two_sided_exponential
from fbar.problems.models.discrete import discretised_gaussian, ten_values, two_hypotheses
from fbar.problems.models.filippi import filippi

__all__ = [
    "Benchmark",
    "Recipe",
    "discretised_gaussian",
    "entries",
    "filippi",
    "load",
    "names",
    "nested_models",
    "ramp",
    "register",
    "ten_values",
    "two_hypotheses",
    "two_sided_exponential",
]
