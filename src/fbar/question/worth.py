"""What a draw of θ is worth: a number a with E[a|θ] proportional to the likelihood p(x*|θ).

Everything that likelihood-free inference weighs draws by is one: the indicator of a distance within a tolerance and its
kernels (`fbar.question.acceptance`), an unbiased estimate of a density from several simulations, a correction that is
negative half of the time. With w = p/q the estimate f̂ = Σ w a f / Σ w a is the same for all of them, and so are its
error bars (z = w a ψ / Σ w a, see `fbar.estimation.draws`) and the best place to simulate, q ∝ p √(E[a²|θ]/c) |ψ| with
c the cost of a draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray

DISTANCE, LOG_SIZE, SIGN = "distance", "log |a|", "sign of a"
"""What is kept of a draw, and a may be made of."""

UNSIGNED = "unsigned a"
"""A number of at least 0 whose expectation is that of an a of both signs, for samples and pictures."""


class Worth(ABC):
    """How a follows from what is kept of draws."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The columns that it is made of."""

    @property
    @abstractmethod
    def noisy(self) -> bool:
        """Whether the a of one draw, such as an indicator, says little of E[a²|θ]; its neighbours show it then."""

    @abstractmethod
    def of(self, columns: Mapping[str, npt.NDArray[Any]]) -> FloatArray:
        """a of every draw, up to a factor that is the same for all."""


@dataclass(frozen=True)
class Measured(Worth):
    """a as it was measured, kept as sign and logarithm since likelihoods differ by many powers of ten.

    ``largest`` is the log |a| that counts as 1. A ``power`` below 1 gives |a|^power, which is flatter: proposals come
    near the data step by step.
    """

    largest: float
    noisy: bool = False
    power: float = 1.0

    @property
    def needs(self) -> tuple[str, ...]:
        return LOG_SIZE, SIGN

    def of(self, columns: Mapping[str, npt.NDArray[Any]]) -> FloatArray:
        away = np.minimum(columns[LOG_SIZE] - self.largest, 0.0)
        with np.errstate(invalid="ignore"):  # a = 0 stays 0 where the power is 0 too
            size = np.where(np.isneginf(away), 0.0, np.exp(self.power * away))
        return np.asarray(size if self.power != 1 else size * columns[SIGN])
