"""Problems with known truth."""

from fbar.problems.continuous import filippi, nested_models, ramp, two_sided_exponential
from fbar.problems.discrete import discretised_gaussian, ten_values, two_hypotheses

__all__ = [
    "discretised_gaussian",
    "filippi",
    "nested_models",
    "ramp",
    "ten_values",
    "two_hypotheses",
    "two_sided_exponential",
]
