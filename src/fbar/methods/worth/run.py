"""A run of draws that are each worth a number a with E[a|θ] ∝ p(x*|θ), see `fbar.question.worth`.

θ is drawn from the prior first, then from proposals that follow q ∝ p √(E[a²|θ]/c) g, g² = Σ_j c_j ψ_j²: the design of
least error of section S5.1 of the paper, in the groups of `fbar.estimation.crossfitted`. While a few draws carry nearly
all of the likelihood, proposals follow a flatter one, |a|^β, with β the largest power that leaves enough draws.

A *generation* of draws has the same proposals. It takes a round of ask and tell for each of its waves, see
`fbar.methods.worth.valuation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.designs.proposals import FromPrior, Learned
from fbar.errors import InputError, NoPosterior
from fbar.estimation.counted import CORRECTED, DRAWS, Counted
from fbar.estimation.crossfitted import Crossfitted
from fbar.estimation.doubts import all_rejected
from fbar.estimation.posterior import Posterior
from fbar.estimation.store import Entry
from fbar.methods.aiming.aim import Aim
from fbar.methods.aiming.learning import learn
from fbar.methods.aiming.plan import RoundPlan, defence_in
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.methods.worth.pieces import Piece, Settings
from fbar.methods.worth.search import FLATTEST, largest_power
from fbar.methods.worth.so_far import draws_so_far
from fbar.methods.worth.valuation import Asked, Replicates, Valuation
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.question.points import Points
from fbar.question.space import Proposal, Space
from fbar.question.worth import LOG_SIZE, SIGN, Measured
from fbar.seeds import Purpose
from fbar.weights import relative

BLOCK_SIZE = 4096
"""Simulations in a block, about: a block holds whole draws."""

FIRST, FIRST_PER_DIMENSION = 40, 10
"""Draws of the first generation, at least, and for each dimension."""

GENERATIONS = 5
"""Parts of a budget: proposals are learned between them."""

SEARCH = 20
"""Parts of a budget while proposals follow a flatter likelihood: many small steps find the posterior."""

FEW_EFFECTIVE = 15
"""Independent draws that the draws of θ must be worth for error bars to be called reliable: a single draw that carries
everything has no spread."""

NEGLIGIBLE = 50
"""A last generation of less than this part of all draws is not drawn; it is left over where draws take fewer
simulations than a budget reserves for them."""


class WorthRun(Run):
    """Draws in generations, valued by a `Valuation`."""

    def __init__(self, start: Start, valuation: Valuation, settings: Settings) -> None:
        super().__init__(start)
        self.valuation, self.settings = valuation, settings
        self.aim = Aim.of(self.targets, settings.goal, settings.importance)
        self.space = Space(self.problem.prior, "normal")
        self.defence = settings.defence or defence_in(self.space.dimension)
        self.store = self._new_store()
        self._block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._simulations = self._cut_short = self._draws_before = 0
        self._searching = False
        self._wave = 0
        self._latest: Posterior | None = None
        self._asked_for: dict[int, tuple[Piece, Asked]] = {}
        self._told_pieces: list[Piece] = []
        self._complete: list[Piece] = []
        self._waiting: list[Piece] = []
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        if self._most < valuation.most * 2 * settings.groups:
            raise InputError(
                f"{self._most} simulations are too few: a draw takes up to {valuation.most}, and there must be "
                f"{2 * settings.groups} draws or more; raise the budget to at least "
                f"{2 * settings.groups * valuation.most}"
            )
        self._open(self._from_prior(), self._first_size())

    def _new_store(self) -> Crossfitted:
        return Crossfitted(self.problem, self.space, self.settings.groups, needs_costs=self.settings.per == "second")

    def _from_prior(self) -> list[Proposal]:
        return [FromPrior(self.space)] * self.settings.groups

    # ------------------------------------------------------------ state

    @property
    def simulations(self) -> int:
        return self._simulations

    @property
    def final_tolerance(self) -> float | None:
        return self.valuation.tolerance

    @property
    def reported_tolerance(self) -> float | None:
        return self.valuation.tolerance or None

    @property
    def counted_as(self) -> Counted:
        return CORRECTED if self.valuation.noisy else DRAWS

    @property
    def draws(self) -> int:
        """Draws of θ that are valued."""
        return self._draws_before + self.store.simulations

    @property
    def learning(self) -> bool:
        return not self.finished and len(self.store.proposals) < GENERATIONS

    # ------------------------------------------------------------ generations, waves and blocks

    def _first_size(self) -> int:
        least = self._least_size
        return max(least, int(self._affordable * self._share)) if self.budget is not None else 4 * least

    @property
    def _least_size(self) -> int:
        return max(FIRST, FIRST_PER_DIMENSION * self.space.dimension, 2 * self.settings.groups)

    @property
    def _share(self) -> float:
        return self.valuation.next_share or 1 / GENERATIONS

    @property
    def _affordable(self) -> int:
        """Draws that the simulations which are left suffice for."""
        left = self._most - self._simulations
        return 2**40 if left == math.inf else int(left // self.valuation.most)

    def _open(self, proposals: Sequence[Proposal], draws: int) -> None:
        """Plan a generation; what would be left for a very small last one is drawn with it."""
        affordable = self._affordable
        size = min(draws, affordable)
        if affordable - size < 2 * self.settings.groups:
            size = affordable
        self._plan = RoundPlan.of(size, self.settings.groups, max(1, self._block_size // self._repeats(0)), False)
        self.store.proposals.append(proposals)
        self._wave = 0

    def _repeats(self, wave: int) -> int:
        return self.valuation.ask(wave, 0, np.random.default_rng(0)).repeats

    def _blocks(self) -> int:
        return len(self._plan.sizes) if self._wave == 0 else len(self._waiting)

    def _block(self, block: int) -> Batch:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, block)
        if self._wave == 0:
            group = block % self.settings.groups
            piece = Piece(self.store.proposals[-1][group].draw(rng, self._plan.sizes[block]), group)
        else:
            piece = self._waiting[block]
        asked = self.valuation.ask(self._wave, len(piece.particles), rng).after(piece.waves)
        self._asked_for[block] = piece, asked
        points = self.space.points(piece.particles).with_derived(self.problem.derived)
        if asked.columns:
            points = points.with_columns(asked.columns)
        repeats = None if asked.repeats == 1 else np.full(points.rows, asked.repeats, dtype=np.int64)
        return Batch(self.round, block, points, repeats, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        outcomes = require_simulated(outcomes)
        distance, seen = self.problem.distances(outcomes)
        self.seen = self.seen + seen.by(self.problem.simulator.name_of(batch.points))
        self._simulations += batch.simulations
        piece, asked = self._asked_for.pop(batch.block)
        n, r = batch.points.rows, asked.repeats
        failed = np.isnan(distance)
        if outcomes.failure is not None:
            failed |= outcomes.failure != 0
        flat = outcomes.summaries.reshape(n * r, -1)
        numbers = flat.astype(np.float64) if flat.dtype.kind in "biuf" else np.full((n * r, 1), np.nan)
        numbers[failed] = np.nan
        cost = self.problem.costs(batch, outcomes)
        piece.waves.append(
            Replicates(
                numbers.reshape(n, r, -1),
                distance.reshape(n, r),
                failed.reshape(n, r),
                {name: np.asarray(values).reshape(n, r) for name, values in outcomes.columns.items()},
                asked.columns,
                None if cost is None else np.nansum(cost.reshape(n, r), axis=1),
                asked.hidden,
            )
        )
        self._told_pieces.append(piece)

    def _all_failed(self) -> None:
        for piece in (*self._told_pieces, *self._complete):
            for wave in piece.waves:
                wave.failed[:], wave.distance[:], wave.summaries[:] = True, np.nan, np.nan

    def _end_round(self) -> None:
        told, self._told_pieces = self._told_pieces, []
        complete, waiting = self._sorted(told)
        self._complete += complete
        draws = sum(len(piece.particles) for piece in waiting)
        if waiting and draws * self._repeats(self._wave + 1) <= self._most - self._simulations:
            self._waiting, self._wave = waiting, self._wave + 1
            return
        self._cut_short += draws
        pieces, self._complete, self._waiting = [*self._complete, *waiting], [], []
        self._end_generation(pieces)

    def _sorted(self, told: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Draws that are complete, and those that need a further wave."""
        complete, waiting = [], []
        for piece in told:
            done = self.valuation.complete(piece.waves)
            if done.all():
                complete.append(piece)
                continue
            waiting.append(piece.take(np.flatnonzero(~done)))
            if done.any():
                complete.append(piece.take(np.flatnonzero(done)))
        return complete, waiting

    def _end_generation(self, pieces: Sequence[Piece]) -> None:
        generation = len(self.store.proposals) - 1
        for piece in pieces:
            valued = self.valuation.value(piece.waves)
            a_is_zero = np.isneginf(valued.log_size)
            costs = [wave.cost for wave in piece.waves if wave.cost is not None]
            self.store.add(
                Entry(
                    generation,
                    piece.group,
                    piece.particles,
                    np.where(a_is_zero, np.inf, 0.0),
                    {},
                    None,
                    np.sum(costs, axis=0) if costs else None,
                    near=np.flatnonzero(~a_is_zero),
                    further={LOG_SIZE: valued.log_size, SIGN: valued.sign, **valued.kept},
                )
            )
        self._latest = None
        rows, log_a = self._with_worth()
        self._searching = rows.size >= 2 * self.settings.groups and self._power(rows, log_a) < 1
        self._learn_to_value(pieces)
        if self.store.rounds:
            self.valuation.survey(draws_so_far(self.store, self._worth, self.aim))
        if self._affordable < max(2 * self.settings.groups, self.draws // NEGLIGIBLE):
            self._ended = "budget spent"
        else:
            self._next_generation()

    def _learn_to_value(self, pieces: Sequence[Piece]) -> None:
        """Let the valuation learn; where draws are worth something else now, those of before are not used.

        While few draws carry the likelihood they teach little, and are needed to find the posterior.
        """
        first, last = self.store.of_round(self.store.rounds - 1)
        rows = np.arange(first, last)
        size = np.abs(self.store.everything.worth(self._worth, rows)) * relative(self.store.log_weights(rows))
        if not size.sum() > 0 or self._affordable < 2 * self.settings.groups:
            return
        waves, weights = [piece.waves for piece in pieces], size / size.sum()
        if self._searching and not self.valuation.unbiased:
            self.valuation.examine(waves, weights)
            return
        changed = self.valuation.learn(waves, weights, self._most - self._simulations)
        if changed and not self.valuation.unbiased:
            proposals = [self._fitted(a) for a in range(self.settings.groups)]
            self._draws_before += self.store.simulations
            self.store = self._new_store()
            self._open(proposals, self._next_size())

    # ------------------------------------------------------------ learning where to draw

    @property
    def _worth(self) -> Measured:
        largest = max((float(part.max()) for _, part in self._log_sizes()), default=0.0)
        return Measured(largest if math.isfinite(largest) else 0.0, self.valuation.noisy)

    def _log_sizes(self) -> Any:
        column = self.store.everything.further.get(LOG_SIZE)
        return () if column is None else column.between(0, self.store.simulations)

    def _next_size(self) -> int:
        if self.budget is None:
            return max(self._first_size(), self.draws // 2)
        whole = (self.budget - self._leg_spent) // self.valuation.most
        if self._searching:
            return max(self._least_size, int(whole / SEARCH))
        return max(self._least_size, int(whole * self._share))

    def _with_worth(self, group: int | None = None) -> tuple[IntArray, FloatArray]:
        """Draws that are worth anything, however little beside the best, and log |a|."""
        flat = Measured(self._worth.largest, self.valuation.noisy, FLATTEST)
        rows, a = self.store.everything.accepted(flat, without=group)
        return rows, np.log(a) / FLATTEST

    def _next_generation(self) -> None:
        if len(self.store.proposals) > self.store.rounds:  # planned already, for draws that are valued in another way
            return
        proposals = [self._fitted(a) for a in range(self.settings.groups)]
        self._open(proposals, self._next_size())

    def _fitted(self, group: int) -> Proposal:
        """For the targets, or while few draws carry the likelihood, for a flatter one."""
        rows, log_a = self._with_worth(group)
        if rows.size < 2 * self.settings.groups:
            return self.store.proposals[-1][group]
        power = self._power(rows, log_a)
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1 - group)
        worth = Measured(self._worth.largest, self.valuation.noisy, power)
        return learn(self.store, group, worth, self.aim if power == 1 else None, self.defence, rng).proposal

    def _power(self, rows: IntArray, log_a: FloatArray) -> float:
        if self.valuation.noisy:
            return 1.0
        return largest_power(self.store.log_weights(rows), log_a, self.space.dimension)

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        if self._latest is None:
            self._latest = self._estimated()
        return self._latest

    def _estimated(self) -> Posterior:
        if not self.store.simulations:
            raise NoPosterior("no generation of draws is complete yet; run more simulations")
        if not self.store.everything.accepted(self._worth)[0].size:
            if why := self.valuation.why_nothing:
                raise NoPosterior(f"none of {self.draws} draws is worth anything: {why}")
            raise all_rejected(self.simulations, self.seen, tolerance=False)
        posterior = self.store.posterior(self._worth, self.seen, self.simulations)
        if self.valuation.noisy:  # as an indicator's, the sum of a is a number of simulations
            posterior.accepted *= math.exp(self._worth.largest)
        else:  # likelihoods have no scale: what is counted are the draws that have one
            posterior.accepted, posterior.parts_in_words = float(posterior.points.rows), "draws of θ"
        posterior.counted_as = self.counted_as
        posterior.about, posterior.remark = self.valuation.about, self.valuation.remark
        cut = (
            f"{self._cut_short} of {self.draws} draws were cut short by the budget, so the answer is biased; raise it"
            if self._cut_short
            else ""
        )
        is_few = posterior.ess is not None and posterior.ess < FEW_EFFECTIVE
        few = (
            f"the draws of θ are worth fewer than {FEW_EFFECTIVE} independent ones; raise the budget" if is_few else ""
        )
        posterior.doubts = (*posterior.doubts, *self.valuation.doubts, *filter(None, [cut, few]))
        return posterior

    def stages(self) -> list[Stage]:
        found: list[Stage] = []
        each = self.simulations / max(self.draws, 1)
        for r in range(self.store.rounds):
            first, last = self.store.of_round(r)
            prior = isinstance(self.store.proposals[r][0], FromPrior)
            words = "from the prior" if prior else "where the error of the targets falls most"
            count = round((last - first) * each)
            if found and found[-1].words == words:
                found[-1] = Stage(words, found[-1].simulations + count)
            else:
                found.append(Stage(words, count))
        return found

    def simulated_points(self, most: int) -> Points | None:
        if not self.store.simulations:
            return None
        rows = np.linspace(0, self.store.simulations - 1, min(most, self.store.simulations)).astype(np.int64)
        return self.store.theta_of(rows)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or self._wave or not all(isinstance(q, Learned) for q in self.store.proposals[-1]):
            return None
        found: dict[str, npt.NDArray[Any]] = {"draws": np.array(self._plan.simulations, dtype=np.int64)}
        found |= {f"valuation/{name}": values for name, values in self.valuation.state().items()}
        for a, proposal in enumerate(self.store.proposals[-1]):
            assert isinstance(proposal, Learned)
            found |= {f"{a}/{name}": array for name, array in proposal.arrays().items()}
        return found

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        def part(of: str) -> dict[str, npt.NDArray[Any]]:
            return {name.partition("/")[2]: array for name, array in state.items() if name.startswith(f"{of}/")}

        self.valuation.restore(part("valuation"))
        self.store.proposals[-1] = [
            Learned.of(part(str(a)), self.space, self.defence) for a in range(self.settings.groups)
        ]
        draws = max(1, self._block_size // self._repeats(0))
        self._plan = RoundPlan.of(int(state["draws"]), self.settings.groups, draws, False)

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            raise InputError("the run cannot go on at another tolerance; start another run with it")
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.aim = Aim.of(self.targets, self.settings.goal, self.settings.importance)
        self._ended = ""
        if len(self.store.proposals) > self.store.rounds:  # planned, and not asked for
            self.store.proposals.pop()
        if self.store.simulations:
            self._next_generation()
        else:
            self._open(self._from_prior(), self._first_size())
