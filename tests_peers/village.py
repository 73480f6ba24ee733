"""The code of ``docs/how-to/coming-from.md``: found on the page, and the exact answers to compare with.

The epidemic of the page is Reed and Frost's: each of i ill villagers infects each of h healthy ones with probability
p, so that Bin(h, 1 − (1 − p)^i) fall ill next. The probability of a final size is a sum over these steps, and the
posterior of p a sum over a grid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import gammaln

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "coming-from.md"
OTHERS, ILL, HIGHEST = 99, 60, 0.03


def section(package: str) -> str:
    """What the page says about a package."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    [mine] = [part for part in parts if part.startswith(f"From {package}\n")]
    return mine


def code(package: str) -> str:
    """The one block of the package's own code."""
    [block] = re.findall(r"^```python\n(.*?)^```$", section(package), flags=re.M | re.S)
    return block


def shown(package: str) -> str:
    """What the page says that the code printed."""
    [block] = re.findall(r"^```text\n(.*?)^```$", section(package), flags=re.M | re.S)
    return block


def estimates(package: str) -> list[tuple[str, float, float]]:
    """fbar's stored answers in the package's section: name, value and standard error."""
    found = re.findall(r"^(mean:R0|probability:R0 > 1\.5) +(\d+\.(\d+))\((\d+)\)", section(package), flags=re.M)
    return [(name, float(value), float(error) / 10 ** len(digits)) for name, value, digits, error in found]


def printed(text: str) -> tuple[float, float]:
    """The last two numbers of what was printed: E[R0] and P(R0 > 1.5)."""
    first, second = re.findall(r"\d+\.\d+", text)[-2:]
    return float(first), float(second)


@dataclass(frozen=True)
class Answer:
    """What is to be found, with the posterior standard deviations of R0 and of the event."""

    mean: float
    probability: float
    deviation: float

    def errors(self, found: tuple[float, float]) -> tuple[float, float]:
        """How far two numbers are off, in posterior standard deviations."""
        spread = (self.probability * (1 - self.probability)) ** 0.5
        return (found[0] - self.mean) / self.deviation, (found[1] - self.probability) / spread


@cache
def exact(tolerance: int, cells: int = 300) -> Answer:
    """The answer of ABC at a tolerance, to about four digits; that of the posterior at 0."""
    p = HIGHEST * (np.arange(cells) + 0.5) / cells
    log_choose = gammaln(np.arange(OTHERS + 2)[:, None] + 1)
    reached = np.zeros((OTHERS + 1, OTHERS + 2, cells))  # by healthy, ill
    reached[OTHERS, 1] = 1
    ended = np.zeros((OTHERS + 1, cells))  # by healthy
    for healthy in range(OTHERS, -1, -1):
        new = np.arange(healthy + 1)[:, None]
        ways = log_choose[healthy] - log_choose[: healthy + 1] - log_choose[healthy::-1][: healthy + 1]
        for ill in range(1, OTHERS + 2 - healthy):
            escape = ill * np.log1p(-p)
            chance = np.exp(ways + new * np.log(-np.expm1(escape)) + (healthy - new) * escape) * reached[healthy, ill]
            ended[healthy] += chance[0]
            for k in range(1, healthy + 1):
                reached[healthy - k, k] += chance[k]
    sizes = OTHERS + 1 - np.arange(OTHERS + 1)
    weight = ended[abs(sizes - ILL) <= tolerance].sum(axis=0)
    weight /= weight.sum()
    r0 = OTHERS * p
    mean = float(weight @ r0)
    above = float(weight @ np.clip((r0 + r0[0] - 1.5) / (2 * r0[0]), 0, 1))  # the part of a cell above 1.5
    return Answer(mean, above, float(np.sqrt(weight @ (r0 - mean) ** 2)))
