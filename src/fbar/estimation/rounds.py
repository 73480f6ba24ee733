"""Posteriors from the particles of all rounds of ABC-SMC (section S7 of the paper), with their error bars.

Every simulation of every round is here with its distance, so any tolerance can be looked at. Accepted particles are
weighted by p over

- ``mixture``: Σ_r n_r q_r / N, the mixture of all rounds' proposals (balance heuristic, e:ABC_SMC_keep_proposal), from
  which each particle's own kernel is left out, see below;
- ``ess``: their own round's q_r, normalised within the round, the rounds by α_r = their effective sample size at the
  tolerance (e:ABC_SMC_heuristic_keep_weights);
- ``inverse-variance``: the same with α_r one over the estimated variance of the round's estimate, for each target;
- ``last``: their own round's q_r, the last round alone.

A round that ends at its k-th acceptance has exchangeable draws before that one, and not after: where the number of
draws matters, in the mixture, the last draw and its acceptance are left out ((k−1)/(n−1) is unbiased, k/n is not).

A particle is a centre of the next round's proposal, so that the mixture is higher at its place, and its weight lower,
than for a particle that was not there: estimates of tails come out too small. For particle i of round r, q_{r+1} is
therefore taken without i: (q − t_i)/(1 − w_i), t_i its own kernel's part. On a Gaussian problem in five dimensions with
local kernels this reduced a bias of 1.1 standard deviations to 0.3 (``benchmarks/coverage_smc.py``); in two it changes
nothing. How far it moves an estimate is a measure of what is left of the effect, and a reason for doubt if it is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, choice
from fbar.designs.proposals import Particles, Perturbed, Proposal, Space
from fbar.errors import NoPosterior
from fbar.estimation.doubts import FEW_ACCEPTED
from fbar.estimation.draws import DrawErrors, Draws, recorded_columns
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.distances import PNorm
from fbar.question.outcomes import Seen
from fbar.question.problem import Problem
from fbar.question.targets import Target

WEIGHTINGS = ("mixture", "ess", "inverse-variance", "last")
SELF_INFLUENCE = 0.25
"""By how many standard errors particles may weigh themselves before it is a reason for doubt."""


MOST_RATIOS = 20_000
"""Particles at which a new proposal's density is looked up for a forecast, at most in a round."""

LEAST_OTHERS = 0.05
"""The least share of the density at a particle that is left to others."""


@dataclass(frozen=True, eq=False)
class Piece:
    """The simulations of one block, in index order. ``position`` counts draws, those outside the support included."""

    particles: Particles
    log_prior: FloatArray
    distance: FloatArray
    position: IntArray
    draws: int
    recorded: Mapping[str, npt.NDArray[Any]]
    summaries: npt.NDArray[Any] | None


class Round:
    """One round: its proposal, its tolerance and every one of its simulations.

    ``used`` simulations count; those behind the acceptance that ended the round are kept and not used. ``accepted``
    counts the acceptances of all, by the tolerance of then. ``draws`` counts proposals outside the prior's support too.
    ``stopped`` says that an acceptance ended the round. ``measure`` is the distance that the tolerance is meant in,
    where its scales are learnt.
    """

    def __init__(self, number: int, proposal: Proposal, tolerance: float, measure: PNorm | None = None) -> None:
        self.number, self.proposal, self.tolerance, self.measure = number, proposal, tolerance, measure
        self.pieces: list[Piece] = []
        self.simulations = 0
        self.used = 0
        self.draws = 0
        self.accepted = 0.0
        self.stopped = False
        self.complete = False

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.simulations += len(piece.distance)
        self.used += len(piece.distance)
        self.draws += piece.draws
        self._forget()

    def stop_at(self, row: int) -> None:
        """The acceptance in ``row`` of the last piece ended the round."""
        last = self.pieces[-1]
        self.used += row + 1 - len(last.distance)
        self.draws += int(last.position[row]) + 1 - last.draws
        self.stopped = True

    def measured(self, distances: Sequence[FloatArray]) -> None:
        """Give every piece new distances, by another measure."""
        self.pieces = [replace(piece, distance=d) for piece, d in zip(self.pieces, distances, strict=True)]
        self.__dict__.pop("distance", None)

    def all_failed(self) -> None:
        """Every simulation so far has failed after all."""
        self.pieces = [replace(p, distance=np.full(len(p.distance), np.nan), recorded={}) for p in self.pieces]
        self.accepted = 0.0
        self.__dict__.pop("distance", None)

    def _forget(self) -> None:
        for name in ("particles", "log_prior", "distance", "log_own", "memory"):
            self.__dict__.pop(name, None)

    @property
    def surplus(self) -> int:
        """Simulations behind the acceptance that ended the round."""
        return self.simulations - self.used

    @cached_property
    def particles(self) -> Particles:
        return Particles.concatenate([piece.particles for piece in self.pieces])

    @cached_property
    def log_prior(self) -> FloatArray:
        return np.concatenate([piece.log_prior for piece in self.pieces])

    @cached_property
    def distance(self) -> FloatArray:
        """NaN where a simulation failed."""
        return np.concatenate([piece.distance for piece in self.pieces])

    @property
    def summaries(self) -> npt.NDArray[Any]:
        return np.concatenate([piece.summaries for piece in self.pieces if piece.summaries is not None])

    def recorded(self, rows: IntArray) -> dict[str, npt.NDArray[Any]]:
        return recorded_columns([(len(piece.distance), piece.recorded) for piece in self.pieces], rows)

    @cached_property
    def log_own(self) -> FloatArray:
        """log q of the round at its own simulations; NaN where it was not needed yet."""
        return np.full(self.simulations, np.nan)

    @cached_property
    def memory(self) -> _Memory:
        return _Memory(self.simulations)

    def log_weights(self, rows: IntArray) -> FloatArray:
        """log p/q with the round's own q."""
        new = rows[np.isnan(self.log_own[rows])]
        if new.size:
            self.log_own[new] = self.proposal.log_density(self.particles.take(new))
        return self.log_prior[rows] - self.log_own[rows]

    def weights(self, acceptance: Acceptance) -> FloatArray:
        """The acceptance weights of the simulations that count; 0 for one that failed."""
        return accepted(acceptance, self.distance[: self.used])


class _Memory:
    """What is known of Σ_r n_r q_r at a round's simulations, so that no density is evaluated twice.

    ``closed`` is the log of the sum over the first ``upto`` proposals; ``current`` log q of the last one; ``own``
    how much of the sum each particle owes to the kernel around itself.
    """

    def __init__(self, size: int) -> None:
        self.closed = np.full(size, -np.inf)
        self.upto = np.zeros(size, dtype=np.int64)
        self.current = np.full(size, np.nan)
        self.current_number = -1
        self.own = np.zeros(size)


@dataclass(frozen=True, eq=False)
class _Stage:
    """Rounds that draw from the same proposal, as one component of the mixture."""

    proposal: Proposal
    draws: int
    source: Round | None


class Rounds:
    """All rounds of a run."""

    def __init__(self, problem: Problem, space: Space) -> None:
        self.problem, self.space = problem, space
        self.rounds: list[Round] = []
        self.sources: dict[int, tuple[Round, IntArray]] = {}
        """For a proposal (by identity): the round whose particles it was made of, and their rows."""

    def upto(self, number: int) -> Rounds:
        """The first rounds alone, as if the run had ended there."""
        part = Rounds(self.problem, self.space)
        part.rounds, part.sources = self.rounds[:number], self.sources
        return part

    @property
    def simulations(self) -> int:
        return sum(round.simulations for round in self.rounds)

    @property
    def _told(self) -> list[Round]:
        """The rounds of which some simulations are there."""
        return [round for round in self.rounds if round.pieces]

    def posterior(self, acceptance: Acceptance, weighting: str, seen: Seen) -> Posterior:
        choice(weighting, WEIGHTINGS, "weights")
        if weighting == "mixture":
            return self._mixture(acceptance, seen)
        rounds = self._told
        if weighting == "last":
            last = ([round for round in rounds if round.complete] or rounds)[-1]
            rounds = [round for round in rounds if round.proposal is last.proposal]
        found = [(round, round.weights(acceptance)) for round in rounds]
        groups = [(round, np.flatnonzero(a), a[np.flatnonzero(a)]) for round, a in found]
        groups = [group for group in groups if group[1].size]
        self._require(groups, acceptance, seen)
        log_w = []
        for round, rows, a in groups:
            own = round.log_weights(rows)
            w = a * np.exp(own - own.max())
            alpha = w.sum() ** 2 / (w**2).sum()
            log_w.append(own - own.max() - np.log(w.sum()) + np.log(alpha))
        draws = self._draws(groups, np.concatenate(log_w), [round.draws for round in self._told], seen)
        draws = replace(draws, relative=True)
        if weighting == "inverse-variance":
            return InverseVariancePosterior(draws)
        return _average(draws, None)

    def _require(self, groups: Sequence[Any], acceptance: Acceptance, seen: Seen) -> None:
        if not groups:
            raise NoPosterior(
                f"none of {self.simulations} simulations came within the tolerance {acceptance.tolerance:g} ({seen}); "
                "look at a larger tolerance, or raise the budget"
            )

    def _draws(
        self,
        groups: Sequence[tuple[Round, IntArray, FloatArray]],
        log_w: FloatArray,
        sizes: Sequence[int],
        seen: Seen,
    ) -> Draws:
        particles = Particles.concatenate([round.particles.take(rows) for round, rows, _ in groups])
        points = self.space.points(particles).with_derived(self.problem.derived)
        recorded = [round.recorded(rows) for round, rows, _ in groups]
        names = [name for name in recorded[0] if all(name in part for part in recorded)]
        points = points.with_columns({n: np.concatenate([part[n] for part in recorded]) for n in names})
        return Draws(
            self.problem,
            points,
            np.concatenate([a for _, _, a in groups]),
            log_w,
            self.simulations,
            "independent",
            np.array(sizes, dtype=np.int64),
            np.repeat([round.number for round, _, _ in groups], [rows.size for _, rows, _ in groups]),
            None,
            seen,
            self._row(groups),
        )

    def _row(self, groups: Sequence[tuple[Round, IntArray, FloatArray]]) -> IntArray:
        """The simulations' numbers among all that were told."""
        starts, start = {}, 0
        for round in self._told:
            starts[id(round)] = start
            start += round.simulations
        return np.concatenate([starts[id(round)] + rows for round, rows, _ in groups])

    # ------------------------------------------------------------ the mixture of all proposals

    def _mixture(self, acceptance: Acceptance, seen: Seen) -> Posterior:
        groups, sizes = [], []
        for round in self._told:
            a = round.weights(acceptance)
            if round.stopped:
                a = a[:-1]
            rows = np.flatnonzero(a)
            sizes.append(round.draws - round.stopped)
            groups.append((round, rows, a[rows]))
        groups = [group for group in groups if group[1].size]
        if not groups:
            return self.posterior(acceptance, "ess", seen)  # nothing, or round-ending acceptances alone
        stages = self._stages(sizes)
        total = np.log(sum(stage.draws for stage in stages))
        log_q, own = [], []
        for round, rows, _ in groups:
            log_sum, part = self._log_sum(round, rows, stages)
            log_q.append(log_sum)
            own.append(part * np.exp(-log_sum))
        log_p = np.concatenate([round.log_prior[rows] for round, rows, _ in groups])
        log_w = log_p - np.concatenate(log_q) + total
        draws = self._draws(groups, log_w, sizes, seen)
        return _average(draws, np.concatenate(own))

    def _stages(self, sizes: Sequence[int]) -> list[_Stage]:
        stages: list[_Stage] = []
        for round, size in zip(self._told, sizes, strict=True):
            if stages and stages[-1].proposal is round.proposal:
                stages[-1] = _Stage(round.proposal, stages[-1].draws + size, stages[-1].source)
            else:
                source = self.sources.get(id(round.proposal))
                stages.append(_Stage(round.proposal, size, source[0] if source else None))
        return stages

    def _log_sum(self, round: Round, rows: IntArray, stages: Sequence[_Stage]) -> tuple[FloatArray, FloatArray]:
        """log Σ_r n_r q_r at some simulations of a round, and the part that each owes to its own kernel."""
        memory = round.memory
        ahead = rows[memory.upto[rows] >= len(stages)]  # of a longer list of rounds than this one
        memory.closed[ahead], memory.upto[ahead], memory.own[ahead] = -np.inf, 0, 0.0
        for number, stage in enumerate(stages[:-1]):
            new = rows[memory.upto[rows] <= number]
            if new.size:
                log_q = self._log_density(round, new, stage)
                memory.closed[new] = np.logaddexp(memory.closed[new], np.log(stage.draws) + log_q)
                memory.own[new] += self._own_part(round, new, stage, log_q)
                memory.upto[new] = number + 1
        stage = stages[-1]
        if memory.current_number != len(stages):
            memory.current[:], memory.current_number = np.nan, len(stages)
        new = rows[np.isnan(memory.current[rows])]
        if new.size:
            memory.current[new] = self._log_density(round, new, stage)
        log_q = memory.current[rows]
        own = memory.own[rows] + self._own_part(round, rows, stage, log_q)
        with np.errstate(divide="ignore"):
            return np.logaddexp(memory.closed[rows], np.log(stage.draws) + log_q), own

    def density_ratios(self, draws: Draws, proposal: Proposal) -> FloatArray | None:
        """A proposal's density over that of the mixture, at draws weighted by that; None if it takes too long."""
        assert draws.row is not None
        told = self._told
        stages = self._stages([round.draws for round in told])
        starts = np.cumsum([0, *(round.simulations for round in told)])
        log_r = np.empty(draws.row.size)
        for round, start, end in zip(told, starts, starts[1:], strict=False):
            mine = np.flatnonzero((draws.row >= start) & (draws.row < end))
            rows, memory = draws.row[mine] - start, round.memory
            if proposal is round.proposal:
                log_q = round.log_prior[rows] - round.log_weights(rows)
            elif stages[-1].proposal is proposal and memory.current_number == len(stages):
                log_q = memory.current[rows]
            elif rows.size <= MOST_RATIOS:
                log_q = proposal.log_density(round.particles.take(rows))
            else:
                return None
            log_r[mine] = log_q - round.log_prior[rows] + draws.log_w[mine]
        return None if np.isnan(log_r).any() else np.exp(log_r)

    def _log_density(self, round: Round, rows: IntArray, stage: _Stage) -> FloatArray:
        if stage.proposal is round.proposal:
            return round.log_prior[rows] - round.log_weights(rows)
        return stage.proposal.log_density(round.particles.take(rows))

    def _own_part(self, round: Round, rows: IntArray, stage: _Stage, log_q: FloatArray) -> FloatArray:
        """n (q − q₋ᵢ) with q₋ᵢ the proposal without particle i: (t − w q)/(1 − w), t its own kernel's part of q."""
        if stage.source is not round or not isinstance(stage.proposal, Perturbed):
            return np.zeros(rows.size)
        _, parents = self.sources[id(stage.proposal)]
        log_t, w = np.full(round.simulations, -np.inf), np.zeros(round.simulations)
        log_t[parents], w[parents] = stage.proposal.own_share(parents.size)
        t, mine = np.exp(log_t[rows]), w[rows]
        part = (t - mine * np.exp(log_q)) / np.maximum(1 - mine, 1e-12)
        return np.where(mine > 0, stage.draws * part, 0.0)


def _average(draws: Draws, own: FloatArray | None) -> Posterior:
    """``own`` is the share of the mixture's density at each particle that it owes to itself."""
    w = draws.weight * np.exp(draws.log_w - draws.log_w.max())
    errors: DrawErrors
    if own is None:
        weights = w / w.sum()
        errors = DrawErrors(draws, weights)
    else:
        without = w / np.maximum(1 - own, LEAST_OTHERS)
        weights = without / without.sum()
        errors = MixtureErrors(draws, weights, w / w.sum())
    return Posterior(draws.points, weights, errors, draws.simulations, float(draws.weight.sum()))


@dataclass(frozen=True, eq=False)
class MixtureErrors(DrawErrors):
    """Error bars of the mixture weights, with a look at how far particles weigh themselves.

    ``naive`` are the weights with the particles' own kernels; see the module's text.
    """

    naive: FloatArray

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        bars = super().error_bars(influence)
        shift = np.abs((self.naive[:, None] * influence).sum(axis=0))
        doubt = shift > SELF_INFLUENCE * bars.standard_error
        text = (
            "particles weigh in the proposals that weigh them, by over "
            f"{SELF_INFLUENCE:g} standard errors; take more particles a round or a wider perturbation kernel"
        )
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (doubt, text)))


class InverseVariancePosterior(Posterior):
    """Each target's own combination of the rounds' estimates, by one over their estimated variances."""

    inverts = False

    def __init__(self, draws: Draws) -> None:
        w = draws.weight * np.exp(draws.log_w - draws.log_w.max())
        weights = w / w.sum()
        super().__init__(
            draws.points, weights, DrawErrors(draws, weights), draws.simulations, float(draws.weight.sum())
        )
        groups = [np.flatnonzero(draws.stratum == number) for number in np.unique(draws.stratum)]
        enough = [rows for rows in groups if rows.size >= FEW_ACCEPTED]
        self._groups = enough or [max(groups, key=len)]

    def _parts(self, target: Target) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Values (rounds, m), weights of the rounds (rounds, m), and each round's z = w ψ (rows, m)."""
        values, variances, z = [], [], []
        for rows in self._groups:
            points, w = self.points.take(rows), self.weights[rows] / self.weights[rows].sum()
            psi = target.influence(points, w)
            values.append(target.value(points, w))
            z.append(w[:, None] * psi)
            variances.append((z[-1] ** 2).sum(axis=0))
        with np.errstate(divide="ignore"):
            precision = 1 / np.array(variances)
        precision = np.where(np.isfinite(precision), precision, 0.0)
        total = precision.sum(axis=0)
        share = np.where(total > 0, precision / np.where(total > 0, total, 1.0), 1 / len(values))
        return np.array(values), share, z

    def value(self, target: Target) -> FloatArray:
        values, share, _ = self._parts(target)
        return np.asarray((share * np.where(share > 0, values, 0.0)).sum(axis=0))

    def contributions(self, target: Target) -> FloatArray:
        _, share, z = self._parts(target)
        column = np.zeros((self.points.rows, share.shape[1]))
        for part, rows, own in zip(share, self._groups, z, strict=True):
            column[rows] = np.where(part > 0, part * own, 0.0)
        return column

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        columns = [self.contributions(target) for target in targets]
        influence = np.concatenate(columns, axis=1) / self.weights[:, None]  # whose z are those of the combination
        assert self.errors is not None
        bars = self.errors.error_bars(influence)
        # A round that happened to see little spread has a small estimated variance and a large say.
        shift = np.concatenate([self.value(target) - Posterior.value(self, target) for target in targets])
        text = (
            "rounds weighted by one over their estimated variance disagree with rounds weighted by their effective "
            f"sample size by over {SELF_INFLUENCE:g} standard errors: a known bias; take weights='mixture'"
        )
        doubt = np.abs(shift) > SELF_INFLUENCE * bars.standard_error
        return ErrorBars(bars.covariance, bars.df, (*bars.doubts, (doubt, text)))
