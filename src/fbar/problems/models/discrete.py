"""The paper's problems on finite parameter spaces. Their acceptance probabilities, and so their truths, are exact."""

from __future__ import annotations

import numpy as np

from fbar.checks import choice
from fbar.question.priors import Finite
from fbar.question.problem import Problem


def two_hypotheses() -> Problem:
    """Figures 1 and 2, table 3: θ ∈ {1, 2} equally likely, p(x*|θ) = 0.3 and 0.05."""
    return Problem.tabulated(Finite(theta=[1, 2]), [0.3, 0.05])


def discretised_gaussian() -> Problem:
    """Figures S1 and S2: 101 evenly spaced θ from −5 to 5, equally likely, p(x*|θ) = exp(−θ²/2)."""
    theta = np.linspace(-5, 5, 101).round(1)
    return Problem.tabulated(Finite(theta=theta), np.exp(-(theta**2) / 2))


def ten_values(likelihood: str = "figures") -> Problem:
    """Figures S3 and S4: θ ∈ {1 … 10}, equally likely.

    The curves of the paper's figures belong to p(x*|θ) = exp(−(θ−5.5)²) (``"figures"``); its text has
    exp(−(θ−5.5)²/2) (``"text"``).
    """
    scale = {"figures": 1.0, "text": 2.0}[choice(likelihood, ("figures", "text"), "likelihood")]
    theta = np.arange(1, 11)
    return Problem.tabulated(Finite(theta=theta), np.exp(-((theta - 5.5) ** 2) / scale))
