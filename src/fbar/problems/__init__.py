"""Problems with known truth."""

from fbar.problems.discrete import discretised_gaussian, ten_values, two_hypotheses

__all__ = ["discretised_gaussian", "ten_values", "two_hypotheses"]
