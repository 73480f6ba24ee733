"""The mixture of proposals that simulations were drawn from, and the weights that it gives them.

A simulation that came from any of the proposals q_1, q_2, …, with n_c draws from q_c, is weighted by the *balance
heuristic* (Veach & Guibas 1995; e:ABC_SMC_keep_proposal of the paper),

    w = p / (Σ_c n_c q_c / N),        N = Σ_c n_c,

wherever it came from itself. Proposals are numbered by the round that made them: a proposal that serves several rounds
is one component, with the draws of all of them. Rounds are only ever added, so Σ_c n_c q_c is kept for all components
but the last, whose n_c may still grow; of that one log q is kept. No density is evaluated twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.kept import missing


@dataclass(frozen=True)
class Component:
    """A proposal by its number, and how many draws came from it."""

    number: int
    draws: int


def components(numbered: Sequence[tuple[int, int]]) -> list[Component]:
    """The components of rounds, each given as the number of its proposal and its draws; rounds without any left out.

    >>> components([(0, 100), (1, 50), (1, 70), (2, 0)])
    [Component(number=0, draws=100), Component(number=1, draws=120)]
    """
    found: dict[int, int] = {}
    for number, draws in numbered:
        if draws:
            found[number] = found.get(number, 0) + draws
    return [Component(number, draws) for number, draws in found.items()]


Density = Callable[[int, IntArray], FloatArray]
"""log q of a proposal, by its number, at some simulations."""

OwnPart = Callable[[int, IntArray, FloatArray], FloatArray]
"""How much of q at simulations is due to their own part in the proposal, from its number and log q there."""


@dataclass(eq=False)
class _Known:
    """What is known at simulations that were asked for before, in order of their rows."""

    rows: IntArray
    log_prior: FloatArray
    closed: FloatArray
    """log Σ n_c q_c over the first ``upto`` components."""
    upto: IntArray
    own: FloatArray
    """The part of that sum, not of its logarithm, that a simulation owes to itself."""
    last: FloatArray
    """log q of the proposal ``last_number``."""
    last_number: IntArray

    @staticmethod
    def nothing() -> _Known:
        whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
        return _Known(whole, real, real, whole, real, real, whole)

    def with_rows(self, new: IntArray, log_prior: FloatArray) -> _Known:
        at, zero = np.searchsorted(self.rows, new), np.zeros(new.size)
        return _Known(
            np.insert(self.rows, at, new),
            np.insert(self.log_prior, at, log_prior),
            np.insert(self.closed, at, zero - np.inf),
            np.insert(self.upto, at, 0),
            np.insert(self.own, at, zero),
            np.insert(self.last, at, zero),
            np.insert(self.last_number, at, -1),
        )

    def copy(self) -> _Known:
        return _Known(
            self.rows.copy(),
            self.log_prior.copy(),
            self.closed.copy(),
            self.upto.copy(),
            self.own.copy(),
            self.last.copy(),
            self.last_number.copy(),
        )

    def forget(self, places: IntArray) -> None:
        self.closed[places], self.upto[places], self.own[places] = -np.inf, 0, 0.0


class Mixture:
    """Σ_c n_c q_c at the simulations of a run, those that were asked for remembered.

    Parameters
    ----------
    log_density, log_prior
        log q of a proposal, and log p, at simulations by their rows.
    own_part
        Where simulations are centres of proposals: how much of q at each is due to itself.
    carried
        Whether a component is evaluated at every simulation that was ever asked for, rather than at those that are
        asked for now: in fewer and larger batches, whose rounding does not depend on what is asked for.
    """

    def __init__(
        self,
        log_density: Density,
        log_prior: Callable[[IntArray], FloatArray],
        own_part: OwnPart | None = None,
        *,
        carried: bool = False,
    ) -> None:
        self._log_density, self._log_prior, self._own_part = log_density, log_prior, own_part
        self._carried = carried
        self._counted: list[Component] = []
        self._known = _Known.nothing()

    def copy(self) -> Mixture:
        """The same with a separate memory: what the copy is asked for leaves no trace in this one."""
        made = copy(self)
        made._counted = list(self._counted)
        made._known = self._known.copy()
        return made

    def log_weights(self, rows: IntArray, listed: Sequence[Component]) -> FloatArray:
        """log p − log(Σ n_c q_c / N) at simulations, each row once; components in the order of their rounds."""
        return self.weighed(rows, listed)[0]

    def weighed(self, rows: IntArray, listed: Sequence[Component]) -> tuple[FloatArray, FloatArray]:
        """The same, and the share of the mixture's density at each simulation that is due to itself."""
        self._look_at(rows)
        self._count(rows, listed[:-1])
        at, last = np.searchsorted(self._known.rows, rows), listed[-1]
        known = self._known
        log_q = self._last(last.number, np.arange(known.rows.size) if self._carried else at)
        log_q = log_q[at] if self._carried else log_q
        with np.errstate(divide="ignore"):
            log_sum = np.logaddexp(known.closed[at], math.log(last.draws) + log_q)
        total = math.log(sum(component.draws for component in listed))
        log_w = known.log_prior[at] - log_sum + total
        if self._own_part is None:
            return log_w, np.zeros(rows.size)
        own = known.own[at] + last.draws * self._own_part(last.number, rows, log_q)
        return log_w, own * np.exp(-log_sum)

    def last_density(self, number: int, rows: IntArray) -> FloatArray:
        """log q of the proposal that was looked at last, NaN where it is not remembered."""
        known = self._known
        at = np.minimum(np.searchsorted(known.rows, rows), max(known.rows.size - 1, 0))
        if not known.rows.size:
            return np.full(rows.size, np.nan)
        there = (known.rows[at] == rows) & (known.last_number[at] == number)
        return np.where(there, known.last[at], np.nan)

    # ------------------------------------------------------------ what is remembered

    def _look_at(self, rows: IntArray) -> None:
        new = missing(rows, self._known.rows)
        if new.size:
            self._known = self._known.with_rows(new, self._log_prior(new))

    def _count(self, rows: IntArray, listed: Sequence[Component]) -> None:
        """Bring the closed sums up to the given components."""
        known, before = self._known, self._counted
        same = next((k for k, (a, b) in enumerate(zip(before, listed, strict=False)) if a != b), None)
        if same is not None:  # other numbers of draws than before
            known.forget(np.flatnonzero(known.upto > same))
            before = before[:same]
        scope = np.arange(known.rows.size) if self._carried else np.searchsorted(known.rows, rows)
        known.forget(scope[known.upto[scope] > len(listed)])  # sums over more components than are asked for
        for k, component in enumerate(listed):
            new = scope[known.upto[scope] == k]
            if new.size:
                self._close(component, new)
        self._counted = list(listed if len(listed) > len(before) or self._carried else before)

    def _close(self, component: Component, places: IntArray) -> None:
        known, number = self._known, component.number
        log_q = self._last(number, places)
        known.closed[places] = np.logaddexp(known.closed[places], math.log(component.draws) + log_q)
        if self._own_part is not None:
            known.own[places] += component.draws * self._own_part(number, known.rows[places], log_q)
        known.upto[places] += 1

    def _last(self, number: int, places: IntArray) -> FloatArray:
        """log q of a proposal at remembered simulations, evaluated where it was not the last one to be."""
        known = self._known
        new = places[known.last_number[places] != number]
        if new.size:
            known.last[new] = self._log_density(number, known.rows[new])
            known.last_number[new] = number
        return known.last[places]
