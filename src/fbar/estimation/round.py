"""One round of ABC-SMC: its proposal, the particles that this was made of, its tolerance and its simulations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.store import Entry, Store
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.distances import PNorm
from fbar.question.space import Particles, Proposal


class OfParticles(Protocol):
    """A proposal with a kernel around each of some particles."""

    def own_share(self, size: int) -> tuple[FloatArray, FloatArray]:
        """For each of ``size`` particles: log of its own kernel's part of q at its place, and its weight."""


@dataclass(frozen=True, eq=False)
class Origin:
    """The particles that a proposal perturbs: their round, and their numbers among all simulations."""

    round: int
    rows: IntArray
    proposal: OfParticles

    @cached_property
    def own(self) -> tuple[FloatArray, FloatArray]:
        return self.proposal.own_share(self.rows.size)

    def own_part(self, rows: IntArray, log_q: FloatArray) -> FloatArray:
        """q − q₋ᵢ with q₋ᵢ the proposal without particle i: (t − w q)/(1 − w), t its own kernel's part of q."""
        result = np.zeros(rows.size)
        at = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        there = np.flatnonzero(self.rows[at] == rows)
        if there.size:
            log_t, w = (values[at[there]] for values in self.own)
            part = (np.exp(log_t) - w * np.exp(log_q[there])) / np.maximum(1 - w, 1e-12)
            result[there] = np.where(w > 0, part, 0.0)
        return result


class Round:
    """One round: its proposal, its tolerance and its simulations, which are some of the store's.

    ``used`` simulations count; those behind the acceptance that ended the round are kept and not used. ``accepted``
    counts the acceptances of all, by the tolerance of then. ``draws`` counts proposals outside the prior's support too.
    ``stopped`` says that an acceptance ended the round. ``measure`` is the distance that the tolerance is meant in,
    where its scales are learned. ``made_in`` is the number of its proposal, by the round that made it.
    """

    def __init__(
        self,
        store: Store[Particles],
        number: int,
        proposal: Proposal,
        tolerance: float,
        measure: PNorm | None,
        made_in: int,
        origin: Origin | None,
    ) -> None:
        self._store, self.first = store, store.simulations
        self.number, self.proposal, self.tolerance, self.measure = number, proposal, tolerance, measure
        self.made_in, self.origin = made_in, origin
        self.simulations = 0
        self.used = 0
        self.draws = 0
        self.accepted = 0.0
        self.stopped = False
        self.complete = False
        self._log_own = np.zeros(0)

    def add(self, entry: Entry[Particles], log_prior: FloatArray, draws: int) -> None:
        """A block, in ``draws`` of which its simulations lay inside the prior's support."""
        size = len(entry.distance)
        self._store.add(replace(entry, further={"log_prior": log_prior}))
        self.simulations += size
        self.used += size
        self.draws += draws

    def stop_at(self, row: int, position: IntArray, draws: int) -> None:
        """The acceptance in ``row`` of the last block ended the round; ``position`` is that of rows among its draws."""
        self.used += row + 1 - len(position)
        self.draws += int(position[row]) + 1 - draws
        self.stopped = True

    @property
    def surplus(self) -> int:
        """Simulations behind the acceptance that ended the round."""
        return self.simulations - self.used

    @property
    def rows(self) -> IntArray:
        """Its simulations' numbers among all."""
        return np.arange(self.first, self.first + self.simulations)

    @property
    def particles(self) -> Particles:
        return self.take(np.arange(self.simulations))

    def take(self, places: IntArray) -> Particles:
        """Some of its particles."""
        return self._store.theta.take(self.first + places)

    @property
    def log_prior(self) -> FloatArray:
        return np.asarray(self._store.further["log_prior"].take(self.rows))

    @property
    def distance(self) -> FloatArray:
        """NaN where a simulation failed."""
        return np.asarray(self._store.distance.take(self.rows))

    def summaries(self, places: IntArray, size: int) -> FloatArray:
        """The ``size`` numbers of each of some simulations, where all are kept."""
        return self._store.summaries.flat(self.first + places, size)

    def log_weights(self, places: IntArray) -> FloatArray:
        """log p/q with the round's own q, at some of its simulations."""
        if self._log_own.size < self.simulations:
            more = self.simulations - self._log_own.size
            self._log_own = np.concatenate([self._log_own, np.full(more, np.nan)])
        new = places[np.isnan(self._log_own[places])]
        if new.size:
            self._log_own[new] = self.proposal.log_density(self.take(new))
        return np.asarray(self._store.further["log_prior"].take(self.first + places) - self._log_own[places])

    def weights(self, acceptance: Acceptance) -> FloatArray:
        """The acceptance weights of the simulations that count; 0 for one that failed."""
        return accepted(acceptance, self.distance[: self.used])
