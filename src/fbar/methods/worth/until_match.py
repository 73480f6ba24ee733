"""Inverse binomial sampling: simulate until every datum has been matched (van Opheusden, Acerbi & Ma 2020).

For independent trials with whole numbers or labels as data, N_i is the number of simulations at θ until the i-th trial
has matched its datum m times. Then

* for m ≥ 2, (m − 1)/(N_i − 1) has the mean p_i = p(x_i|θ) (Haldane 1945), so a = Π_i (m − 1)/(N_i − 1) has the
  likelihood for its mean, since trials are independent;
* for m = 1, −Σ_{k<N_i} 1/k has the mean log p_i and Σ_{k<N_i} 1/k² that of its variance (van Opheusden et al., section
  2). With R independent repetitions and sums over trials, ℓ̂ is about normal, and a = exp(ℓ̂ − v̂/2) has about the
  likelihood for its mean.

Both spend m/p_i simulations on a trial on average. Whole data sets are simulated until the last trial is done; what a
trial gives after its last match is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.checks import choice, positive_integer
from fbar.errors import InputError
from fbar.methods.registry import register
from fbar.methods.start import Start
from fbar.methods.worth.method import WorthMethod
from fbar.methods.worth.valuation import Asked, Replicates, Valuation, Valued

KINDS = ("likelihood", "log-likelihood")

GROWTH = 2
"""Each wave has this many times the simulations of the one before."""

GIVEN_UP = 100
"""Simulations for each match after which a draw is given up."""

MATTERS = 0.01
"""The posterior weight of draws that were given up above which the answer is doubted."""


@register(
    "until-match",
    "simulations at each draw until every datum is matched (inverse binomial sampling)",
    needs="independent whole numbers",
)
@dataclass(frozen=True)
class UntilMatch(WorthMethod):
    """Inverse binomial sampling (van Opheusden, Acerbi & Ma 2020) with draws where they reduce the error most.

    For data that are independent choices or counts of few values, each simulated number standing for the datum at its
    place. It needs neither summaries nor a tolerance, and the answer is about the true posterior.

    Parameters
    ----------
    kind
        ``"likelihood"``: a is unbiased; ``"log-likelihood"``: its logarithm is, and a is corrected for its variance.
    matches
        How often each datum is matched; by default about as often as there are data, which makes the variance of log a
        about 1.
    most
        Simulations after which a draw is given up; by default a hundred times the matches. Its likelihood is then
        overestimated, so the answer is doubted unless such draws hardly matter.
    """

    kind: str = "likelihood"
    matches: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.kind, KINDS, "kind")
        if self.most is not None:
            positive_integer(self.most, "most")
        if self.matches is not None and positive_integer(self.matches, "matches") < 2 and self.kind == "likelihood":
            raise InputError("an unbiased likelihood needs at least 2 matches of each datum; got matches=1")

    def valuation(self, start: Start) -> Valuation:
        problem = start.problem
        observed = problem.observed
        if problem.summary is not None:
            raise InputError("data are matched one by one; leave out summary=")
        if observed is None or not problem.compares_numbers or observed.dtype.kind not in "biu" or observed.ndim > 1:
            raise InputError("data are matched one by one: they must be a list of whole numbers")
        matches = self.matches or max(2, observed.size)
        return Matches(self.kind, matches, self.most or GIVEN_UP * matches, observed.astype(np.float64).ravel())


class Matches(Valuation):
    """The valuation of inverse binomial sampling."""

    def __init__(self, kind: str, matches: int, limit: int, observed: FloatArray) -> None:
        self._kind, self.matches, self._limit, self._observed = kind, matches, limit, observed
        self._each = 4.0 * matches
        self._given_up = 0.0

    @property
    def about(self) -> str:
        return "the posterior"

    @property
    def most(self) -> int:
        """What a draw has taken on average, with room for more."""
        return math.ceil(1.5 * self._each)

    def ask(self, wave: int, draws: int, rng: np.random.Generator) -> Asked:
        return Asked(2 * self.matches * (1 if wave == 0 else (GROWTH - 1) * GROWTH ** (wave - 1)))

    def value(self, waves: Sequence[Replicates]) -> Valued:
        matched = np.concatenate([(wave.summaries == self._observed) for wave in waves], axis=1)
        complete = matched.sum(axis=1).min(axis=1) >= self.matches
        given_up = matched.shape[1] >= self._limit
        log_a, variance = self._log_likelihood(matched)
        return Valued(log_a, np.ones(len(log_a)), variance, complete | given_up)

    def _log_likelihood(self, matched: BoolArray) -> tuple[FloatArray, FloatArray]:
        """From matches (draws, simulations, data): log a, and the variance of log a."""
        m, size = self.matches, matched.shape[1]
        if self._kind == "likelihood":
            when = _when(matched, m)  # as if the next ones matched, where there were too few
            with np.errstate(divide="ignore"):
                return np.log((m - 1) / (when - 1)).sum(axis=1), _polygamma_tail(when, m).sum(axis=1)
        total, variance = np.zeros(len(matched)), np.zeros(len(matched))
        harmonic = np.concatenate([[0.0, 0.0], np.cumsum(1 / np.arange(1, size + m + 1))])
        squares = np.concatenate([[0.0, 0.0], np.cumsum(1 / np.arange(1, size + m + 1) ** 2)])
        before = np.zeros((len(matched), matched.shape[2]), dtype=np.int64)
        for k in range(1, m + 1):
            when = _when(matched, k)
            waited = np.maximum(when - before, 1)
            total -= harmonic[waited].sum(axis=1) / m
            variance += squares[waited].sum(axis=1) / m**2
            before = when
        return total - variance / 2, variance

    def learn(self, draws: Sequence[Sequence[Replicates]], weights: FloatArray, left: float) -> bool:
        """How many simulations a draw takes, and whether those that were given up matter."""
        sizes = np.concatenate([np.full(waves[0].draws, sum(w.each for w in waves)) for waves in draws])
        self._each = max(float(sizes.mean()), 2.0 * self.matches)
        open_yet = []
        for waves in draws:
            matched = sum((wave.summaries == self._observed).sum(axis=1) for wave in waves)
            open_yet.append(np.min(matched, axis=1) < self.matches)
        self._given_up = float(weights[np.concatenate(open_yet)].sum())
        return False

    @property
    def doubts(self) -> tuple[str, ...]:
        if self._given_up <= MATTERS:
            return ()
        return (
            f"draws that were given up after {self._limit} simulations carry {self._given_up:.0%} of the posterior, "
            "and their likelihood is overestimated; raise most=, or match coarser data",
        )

    @property
    def remark(self) -> str:
        return f"{self._each:.0f} simulations at a draw of θ on average, until each datum had {self.matches} matches"

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"each": np.array(self._each), "given_up": np.array(self._given_up)}

    def restore(self, state: object) -> None:
        assert isinstance(state, dict)
        self._each, self._given_up = float(state["each"]), float(state["given_up"])


def _when(matched: BoolArray, k: int) -> IntArray:
    """The simulation that was the k-th match of every datum, from 1 on; where there are fewer, as if the next were.

    >>> _when(np.array([[[True], [False], [True]]]), 2).tolist(), _when(np.array([[[True], [False]]]), 3).tolist()
    ([[3]], [[4]])
    """
    counts = np.cumsum(matched, axis=1)
    reached = counts >= k
    there = reached.any(axis=1)
    missing = k - counts[:, -1]
    return np.asarray(np.where(there, reached.argmax(axis=1) + 1, matched.shape[1] + missing), dtype=np.int64)


def _polygamma_tail(when: IntArray, m: int) -> FloatArray:
    """About the variance of log((m − 1)/(N − 1)): (1 − p)/m with p estimated by m/N."""
    return np.asarray((1 - m / np.maximum(when, m)) / m)
