"""A mean that a few of many numbers know about: the problem of which summaries are learned."""

from __future__ import annotations

import numpy as np
from scipy import stats

import fbar

KNOWN, NOISE, SD = 5, 45, 10.0
PRECISE = 1 + KNOWN
"""θ ~ N(0, 1) and five numbers of N(θ, 1): the posterior is N(Σx/6, 1/6). Forty-five more numbers say nothing."""
MU = fbar.mean("theta")


def hidden(theta, rng):
    x = rng.standard_normal((theta.rows, KNOWN + NOISE))
    x[:, :KNOWN] += theta["theta"][:, None]
    x[:, KNOWN:] *= SD
    return x


DATA = hidden(fbar.Points({"theta": np.array([1.3])}), np.random.default_rng(4))[0]
HIDDEN = fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), hidden, DATA)
