"""Which parameters are shown on a logarithmic axis.

A prior is log-scaled if ln θ spreads alike to both sides of its median, as under a log-uniform or log-normal prior, and
over a range that a linear axis would not show: with the quantiles a, m and b of 10, 50 and 90%,
|ln(a b/m²)| < 0.1 ln(b/a) and b > 5 a.
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray
from fbar.question.priors.marginals import Marginal

LEAST_RATIO = 5.0
"""Of the 90% quantile to the 10% quantile."""

MOST_UNEVEN = 0.1
"""How far the median may be from the middle between the two, in ln θ, as a share of their distance."""


def is_log_scaled(marginal: Marginal) -> bool:
    """Whether a continuous parameter's prior is log-scaled."""
    if marginal.discrete or marginal.support[0] < 0:
        return False
    return quantiles_are_log_scaled(np.asarray(marginal.ppf(np.array([0.1, 0.5, 0.9])), dtype=np.float64))


def quantiles_are_log_scaled(quantiles: FloatArray) -> bool:
    """The same of the quantiles of 10, 50 and 90%.

    >>> quantiles_are_log_scaled(np.array([0.1, 1.0, 10.0])), quantiles_are_log_scaled(np.array([1.0, 5.0, 9.0]))
    (True, False)
    """
    low, middle, high = quantiles.tolist()
    if not (low > 0 and high > LEAST_RATIO * low and math.isfinite(high)):
        return False
    return abs(math.log(low / middle * high / middle)) < MOST_UNEVEN * math.log(high / low)
