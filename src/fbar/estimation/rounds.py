"""Posteriors from the particles of all rounds of ABC-SMC (section S7 of the paper), with their error bars.

Every simulation of every round is kept with its distance, so estimates at any tolerance are possible. Accepted
particles are weighted by p over

- ``mixture``: Σ_r n_r q_r / N, the mixture of all rounds' proposals (balance heuristic, e:ABC_SMC_keep_proposal), from
  which each particle's own kernel is left out, see below;
- ``ess``: their own round's q_r, normalised within the round, the rounds by α_r = their effective sample size at the
  tolerance (e:ABC_SMC_heuristic_keep_weights);
- ``inverse-variance``: the same with α_r one over the estimated variance of the round's estimate, for each target;
- ``last``: their own round's q_r, only those of the last round.

A round that ends at its k-th acceptance has exchangeable draws before that one, and not after: where the number of
draws matters, in the mixture, the last draw and its acceptance are left out ((k−1)/(n−1) is unbiased, k/n is not).

A particle is a centre of the next round's proposal, so that the mixture is higher at its place, and its weight lower,
than for a particle that was not there: estimates of tails come out too small. For particle i of round r, q_{r+1} is
therefore taken without i: (q − t_i)/(1 − w_i), t_i its own kernel's part. On a Gaussian problem in five dimensions with
local kernels this reduced a bias of 1.1 standard deviations to 0.3 (``benchmarks/coverage_smc.py``); in two it changes
nothing. How far it moves an estimate measures what remains of the effect; if that is large, the estimate is unreliable.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import choice
from fbar.estimation.coordinates import Coordinates
from fbar.estimation.doubts import none_within
from fbar.estimation.draws import DrawErrors, Draws
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.inverse_variance import SELF_INFLUENCE, InverseVariancePosterior
from fbar.estimation.mixture import Component, Mixture, components
from fbar.estimation.posterior import Posterior
from fbar.estimation.round import OfParticles, Origin, Round
from fbar.estimation.simulations import Structure
from fbar.estimation.store import Store
from fbar.question.acceptance import Acceptance
from fbar.question.distances import PNorm
from fbar.question.outcomes import Seen
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.space import Particles, Proposal, Space
from fbar.weights import effective_size, normalised, relative

WEIGHTINGS = ("mixture", "ess", "inverse-variance", "last")

MOST_RATIOS = 20_000
"""Particles at which a new proposal's density is looked up for a forecast, at most in a round."""

LEAST_OTHERS = 0.05
"""The least share of the density at a particle that is left to others."""


class Rounds:
    """All rounds of a run, with a store of their simulations and the mixture of their proposals."""

    def __init__(self, problem: Problem, space: Space, *, needs_summaries: bool = False) -> None:
        self.problem, self.space = problem, space
        theta = Coordinates(space.dimension, len(space.parts) > 1, None)
        self.everything: Store[Particles] = Store(theta, needs_summaries=needs_summaries)
        self.rounds: list[Round] = []
        self.mixture = Mixture(self._log_density, self._log_prior, self._own_part)

    def open(
        self, number: int, proposal: Proposal, tolerance: float, measure: PNorm | None, origin: Origin | None
    ) -> Round:
        """Begin a round; one with the proposal of the round before goes on with it."""
        last = self.rounds[-1] if self.rounds else None
        if last is not None and last.proposal is proposal:
            made_in, origin = last.made_in, last.origin
        else:
            made_in = self._new_number()
        self.rounds.append(Round(self.everything, number, proposal, tolerance, measure, made_in, origin))
        return self.rounds[-1]

    def restore(self, round: Round, proposal: Proposal, of_particles: OfParticles) -> None:
        """Give a round that has no simulations yet another proposal, made of the same particles."""
        assert round.origin is not None
        round.proposal, round.origin = proposal, replace(round.origin, proposal=of_particles)
        round.made_in = self._new_number()

    def _new_number(self) -> int:
        return 1 + max((round.made_in for round in self.rounds), default=-1)

    def _made_in(self, number: int) -> Round:
        """The round that made a proposal."""
        return next(round for round in self.rounds if round.made_in == number)

    def upto(self, number: int) -> Rounds:
        """The first rounds only, as if the run had ended there."""
        part = copy(self)
        part.rounds = self.rounds[:number]
        return part

    @property
    def simulations(self) -> int:
        return sum(round.simulations for round in self.rounds)

    @property
    def begun(self) -> list[Round]:
        """The rounds of which some simulations are there."""
        return [round for round in self.rounds if round.simulations]

    def points(self, rows: IntArray) -> Points:
        """θ of simulations, with what they recorded."""
        return self.theta_of(rows).with_columns(self.everything.recorded(rows))

    def all_failed(self) -> None:
        """Every simulation so far has failed after all."""
        self.everything.all_failed()
        for round in self.rounds:
            round.accepted = 0.0

    def posterior(self, acceptance: Acceptance, weighting: str, seen: Seen) -> Posterior:
        choice(weighting, WEIGHTINGS, "weights")
        if weighting == "mixture":
            return self._mixture(acceptance, seen)
        rounds = self.begun
        if weighting == "last":
            last = ([round for round in rounds if round.complete] or rounds)[-1]
            rounds = [round for round in rounds if round.proposal is last.proposal]
        found = self._accepted([(round, round.weights(acceptance)) for round in rounds])
        if not found:
            raise none_within(self.simulations, acceptance.tolerance, seen)
        log_w = []
        for round, places, a in found:
            own = round.log_weights(places)
            w = relative(own, a)
            log_w.append(own - own.max() - np.log(w.sum()) + np.log(effective_size(w)))
        draws = self._draws(found, np.concatenate(log_w), [round.draws for round in self.begun], seen)
        draws = replace(draws, relative=True)
        if weighting == "inverse-variance":
            return InverseVariancePosterior(draws)
        return _average(draws, None)

    @staticmethod
    def _accepted(
        weighed: Sequence[tuple[Round, FloatArray]],
    ) -> list[tuple[Round, IntArray, FloatArray]]:
        """The accepted simulations of rounds that have some, and their acceptance weights."""
        found = [(round, np.flatnonzero(a), a) for round, a in weighed]
        return [(round, places, a[places]) for round, places, a in found if places.size]

    def _draws(
        self,
        found: Sequence[tuple[Round, IntArray, FloatArray]],
        log_w: FloatArray,
        sizes: Sequence[int],
        seen: Seen,
    ) -> Draws:
        rows = np.concatenate([round.first + places for round, places, _ in found])
        return Draws(
            self.problem,
            self.points(rows),
            np.concatenate([a for _, _, a in found]),
            log_w,
            self.simulations,
            "independent",
            np.array(sizes, dtype=np.int64),
            np.repeat([round.number for round, _, _ in found], [places.size for _, places, _ in found]),
            None,
            seen,
            rows,
        )

    # ------------------------------------------------------------ the mixture of all proposals

    def _mixture(self, acceptance: Acceptance, seen: Seen) -> Posterior:
        rounds = self.begun
        weights = [(round, round.weights(acceptance)) for round in rounds]
        found = self._accepted([(round, a[:-1] if round.stopped else a) for round, a in weights])
        if not found:
            return self.posterior(acceptance, "ess", seen)  # nothing, or only acceptances that ended a round
        rows = np.concatenate([round.first + places for round, places, _ in found])
        log_w, own = self.mixture.weighed(rows, self.components())
        draws = self._draws(found, log_w, [round.draws - round.stopped for round in rounds], seen)
        return _average(draws, own)

    def components(self) -> list[Component]:
        """The proposals of the rounds, with the draws of each that are exchangeable."""
        return components([(round.made_in, round.draws - round.stopped) for round in self.begun])

    def _log_prior(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.everything.further["log_prior"].take(rows))

    def _log_density(self, number: int, rows: IntArray) -> FloatArray:
        result, others = np.empty(rows.size), np.ones(rows.size, dtype=bool)
        for round in self.begun:
            if round.made_in == number:
                low, high = np.searchsorted(rows, [round.first, round.first + round.simulations])
                mine = rows[low:high]
                result[low:high] = self._log_prior(mine) - round.log_weights(mine - round.first) if mine.size else 0.0
                others[low:high] = False
        if others.any():
            proposal = self._made_in(number).proposal
            result[others] = proposal.log_density(self.everything.theta.take(rows[others]))
        return result

    def _own_part(self, number: int, rows: IntArray, log_q: FloatArray) -> FloatArray:
        origin = self._made_in(number).origin
        return np.zeros(rows.size) if origin is None else origin.own_part(rows, log_q)

    # ------------------------------------------------------------ the view of every simulation

    def theta_of(self, rows: IntArray) -> Points:
        """θ of simulations."""
        return self.space.points(self.everything.theta.take(rows)).with_derived(self.problem.derived)

    def log_weights_of(self, rows: IntArray) -> FloatArray:
        """log p/q̄ with q̄ the mixture of all rounds' proposals without a particle's own kernel; not remembered."""
        log_w, own = Mixture(self._log_density, self._log_prior, self._own_part).weighed(rows, self.components())
        return np.asarray(log_w - np.log(np.maximum(1 - own, LEAST_OTHERS)))

    def structure_of(self, rows: IntArray) -> Structure:
        """Each round is a stratum; its last acceptance, where that ended it, and what lies behind do not count."""
        begun = self.begun
        stratum = np.searchsorted([round.first for round in begun], rows, side="right") - 1
        ends = np.array([round.first + round.used - round.stopped for round in begun])
        sizes = np.array([round.draws - round.stopped for round in begun], dtype=np.int64)
        return Structure("independent", stratum, None, sizes, rows < ends[stratum])

    # ------------------------------------------------------------ forecasts

    def density_ratios(self, draws: Draws, proposal: Proposal) -> FloatArray | None:
        """A proposal's density over that of the mixture, at draws weighted by that; None if it takes too long."""
        rows = draws.row
        assert rows is not None
        log_q = np.empty(rows.size)
        for round in self.begun:
            low, high = np.searchsorted(rows, [round.first, round.first + round.simulations])
            mine = rows[low:high]
            if proposal is round.proposal:
                log_q[low:high] = self._log_prior(mine) - round.log_weights(mine - round.first) if mine.size else 0.0
                continue
            log_q[low:high] = self._remembered(proposal, mine)
            if np.isnan(log_q[low:high]).any():
                if mine.size > MOST_RATIOS:
                    return None
                log_q[low:high] = proposal.log_density(self.everything.theta.take(mine))
        return np.exp(log_q - self._log_prior(rows) + draws.log_w)

    def _remembered(self, proposal: Proposal, rows: IntArray) -> FloatArray:
        """log q of a proposal, NaN where it is not remembered."""
        last = self.begun[-1]
        if last.proposal is not proposal:
            return np.full(rows.size, np.nan)
        return self.mixture.last_density(last.made_in, rows)


def _average(draws: Draws, own: FloatArray | None) -> Posterior:
    """``own`` is the share of the mixture's density at each particle that it owes to itself."""
    errors: DrawErrors
    if own is None:
        weights = normalised(draws.log_w, draws.weight)
        errors = DrawErrors(draws, weights)
    else:
        w = relative(draws.log_w, draws.weight)
        without = w / np.maximum(1 - own, LEAST_OTHERS)
        weights = without / without.sum()
        errors = MixtureErrors(draws, weights, w / w.sum())
    return Posterior(draws.points, weights, errors, draws.simulations, float(draws.weight.sum()))


@dataclass(frozen=True, eq=False)
class MixtureErrors(DrawErrors):
    """Error bars of the mixture weights, with a look at how far particles influence their own weights.

    ``naive`` are the weights with the particles' own kernels; see the module's text.
    """

    naive: FloatArray

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        bars = super().error_bars(influence)
        shift = np.abs((self.naive[:, None] * influence).sum(axis=0))
        doubt = shift > SELF_INFLUENCE * bars.standard_error
        text = (
            f"particles influence their own weights, by more than {SELF_INFLUENCE:g} standard errors; use more "
            "particles per round or a wider perturbation kernel"
        )
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (doubt, text)))
