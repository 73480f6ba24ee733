"""Multilevel ABC at work: a pilot down the ladder of tolerances, and then every level with its share of the budget.

A round of the pilot belongs to one level, and a level may take several; so does a round of the first sweep over the
levels, since the box of a level is that of the accepted draws of the level above. Later sweeps (of a run without a
budget, or one that is extended) keep the boxes, and have all levels in one round.

Where it departs from the published algorithm: the distribution functions are those of the draws, without a grid and
smoothed indicators; a level has a fixed number of simulations rather than of acceptances, n_l c_l with c_l from the
pilot, so that the budget is kept; the cost of a draw is its simulations, not seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import non_negative_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.doubts import all_rejected
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.posterior import Posterior
from fbar.estimation.store import Entry, failures, numbers
from fbar.estimation.telescope import TelescopingPosterior, check_signed
from fbar.methods.levels.drawn import DrawnLevels
from fbar.methods.levels.plans import LEAST_BUDGET, MOST_LEVELS, PILOT_SHARE, Level, first_ladder, parts_of, shares
from fbar.methods.run import Run, Stage
from fbar.methods.smc.descent import surely_below
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Batch, Outcomes, require_simulated
from fbar.question.points import Points
from fbar.question.priors import structure

if TYPE_CHECKING:
    from fbar.methods.levels.multilevel import Multilevel

WEIGHTS = ("telescope", "mixture")

BLOCK_SIZE = 4096

FIRST_SWEEP = 4000
"""Simulations of the first sweep over the levels, where there is no budget."""

LEAST_TRIALS = 20
"""Accepted simulations that a level of the pilot should have, with the smallest budgets."""

SHARE_OF_LEVEL = 0.5
"""The part of what the pilot has left that a level may take, where others follow."""

FEW_TRIALS = 10
"""Accepted simulations that a level of the pilot must have, where no more can be spent on it."""

SIGNED = "the weights are signed: samples, predictions and pictures are those of the draws of the last level"


class MultilevelRun(Run):
    """Multilevel ABC at work."""

    def __init__(self, method: Multilevel, start: Start) -> None:
        super().__init__(start)
        self.method = method
        self._refuse(start)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._trials = int(min(method.trials, max(LEAST_TRIALS, self._most // 200)))
        self.drawn = DrawnLevels(self.problem, self.seeds, self._most)
        self.ladder: tuple[float, ...] = () if method.tolerances is None else tuple(method.tolerances)
        self._piloting, self._swept = True, False
        self._level_end = math.inf  # the number of simulations at which the pilot leaves its present level
        self._sizes: list[int] = []  # simulations of the levels in the first sweep
        cube = np.zeros(self.problem.prior.dimension), np.ones(self.problem.prior.dimension)
        self._open(True, *cube)
        self._plan([(0, int(min(4 * self._trials, max(self._pilot_most / 2, 20))))])

    def _refuse(self, start: Start) -> None:
        """What it cannot do is refused before any simulation runs."""
        problem = self.problem
        if start.trials is not None:
            raise InputError("Multilevel runs one trial at a time; leave out trials=")
        if not problem.has_summaries:
            raise InputError("Multilevel needs distances to the data, and this problem only has acceptances")
        problem.check_acceptance(Acceptance(1.0))
        known = structure(problem.prior)
        if known.values is not None or known.models is not None:
            what = "a finite set of values" if known.models is None else "a choice of models"
            raise InputError(
                f"Multilevel couples its levels parameter by parameter, which the prior, {what}, does not allow; use "
                "fbar.SMC or fbar.Targeted"
            )
        if self._most < LEAST_BUDGET:
            raise InputError(
                f"Multilevel needs at least {LEAST_BUDGET} simulations for its pilot and its levels; got {self._most}"
            )
        if self.budget is None and self.method.final_tolerance is None:
            raise InputError("Multilevel chooses its tolerance from the budget; give budget=, or tolerance=")
        self._check_targets()

    def _check_targets(self) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        elif self.method.weights == "telescope":
            try:
                self.problem.check_targets(self.targets)
            except InputError as error:
                raise InputError(
                    f"{error}; a multilevel sum has no recorded outputs at the partners of its draws: use "
                    "fbar.Multilevel(weights='mixture') for targets of them"
                ) from None
        if self.method.weights == "telescope":
            for target in self.targets:
                check_signed(target)

    # ------------------------------------------------------------ state

    @property
    def simulations(self) -> int:
        return self.drawn.everything.simulations

    @property
    def levels(self) -> list[Level]:
        """Those of the pilot, and then those whose draws are used."""
        return self.drawn.levels

    @property
    def pilot(self) -> list[Level]:
        """The levels of the pilot, without one that it could not reach."""
        return [level for level in self.levels if level.pilot and level.number < max(len(self.ladder), 1)]

    @property
    def main(self) -> list[Level]:
        """The levels whose draws are used."""
        return [level for level in self.levels if not level.pilot]

    @property
    def _pilot_most(self) -> float:
        return self._most * PILOT_SHARE

    @property
    def tolerance(self) -> float:
        """That of the posterior so far."""
        return self._used()[-1].tolerance

    def _used(self) -> list[Level]:
        """The levels that the posterior is made of: those of the pilot until every level has its draws."""
        pilot = self.pilot
        found = self.main if self._swept else pilot[:-1] or pilot if self._piloting else pilot
        empty = next((place for place, level in enumerate(found) if not level.accepted), len(found))
        return found[: max(empty, 1)]

    @property
    def final_tolerance(self) -> float | None:
        wanted = self.method.final_tolerance
        return wanted if wanted is not None else None if self._piloting else self.ladder[-1]

    @property
    def chooses_tolerance(self) -> bool:
        return self.method.chooses_tolerance

    @property
    def at_final_tolerance(self) -> bool:
        return self._swept and self.tolerance == self.final_tolerance

    @property
    def posterior_is_slow(self) -> bool:
        return self.method.weights == "telescope"

    @property
    def learning(self) -> bool:
        return self._piloting

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, pilot: bool, low: FloatArray, high: FloatArray) -> None:
        """Begin a level, the next one of the pilot or of the first sweep."""
        number = sum(level.pilot == pilot for level in self.levels)
        tolerance = self.ladder[number] if number < len(self.ladder) else math.inf
        self.levels.append(Level(number, pilot, tolerance, low, high))

    def _plan(self, parts: list[tuple[int, int]]) -> None:
        """Plan a round: numbers of simulations for levels, by their places in the list."""
        blocks = []
        for place, size in parts:
            many = math.ceil(size / self.block_size)
            blocks += [(place, size // many + (block < size % many)) for block in range(many)]
        self.drawn.plans.append(blocks)

    def _blocks(self) -> int:
        return len(self.drawn.plans[self.round])

    def _block(self, block: int) -> Batch:
        points = self.drawn.points_at(self.drawn.unit(self.round, block))
        return Batch(self.round, block, points, None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        place, _ = self.drawn.plans[batch.round][batch.block]
        level, outcomes = self.levels[place], require_simulated(outcomes)
        distance, seen = self.problem.distances(outcomes, level.tolerance)
        level.add(self.drawn.unit(batch.round, batch.block), distance, self.simulations)
        self.drawn.everything.add(
            Entry(
                self.round,
                place,
                batch.points.with_columns(outcomes.columns),
                distance,
                outcomes.columns,
                numbers(outcomes.summaries),
                outcomes.cost,
                failures(outcomes, distance),
                near=level.rows[-1] - self.simulations,
            )
        )
        self.seen = self.seen + seen

    def _all_failed(self) -> None:
        self.drawn.everything.all_failed()
        for level in self.levels:
            level.clear()

    # ------------------------------------------------------------ from round to round

    def _end_round(self) -> None:
        if self._piloting:
            self._after_pilot_round()
        elif len(self.main) < len(self.ladder):
            self._next_level()
        else:
            self._swept = True
            self._next_sweep()

    def _after_pilot_round(self) -> None:
        level = self.levels[-1]
        if level.tolerance == math.inf:
            self.ladder = first_ladder(np.concatenate(level.distance), self.method.tolerance, self.method.ratio)
            level.narrow(self.ladder[0])
        enough = level.accepted >= self._trials
        left = self._pilot_most - self.simulations
        more = min(left, self._level_end - self.simulations)
        hopeless = not enough and surely_below(level.accepted, level.simulations, self.method.least_rate)
        if not enough and more >= 1 and not hopeless:
            rate = (level.accepted + 1) / (level.simulations + 1)
            wanted = max(math.ceil(1.1 * (self._trials - level.accepted) / rate), self._trials)
            self._plan([(len(self.levels) - 1, math.floor(min(wanted, 8 * level.simulations, more)))])
            return
        usable = level.accepted >= FEW_TRIALS
        if left < 1 or not usable:  # it is the last level, or the one above is
            self.ladder = self.ladder[: max(level.number + usable, 1)]
        elif self.chooses_tolerance and enough and self._affords_another(level):
            self.ladder = (*self.ladder, level.tolerance / self.method.ratio)
        if level.number + 1 < len(self.ladder):
            self._open(True, *level.box())
            follow = not self.chooses_tolerance and level.number + 2 < len(self.ladder)
            most = max(left * SHARE_OF_LEVEL, 1) if follow else left
            self._level_end = self.simulations + most
            self._plan([(len(self.levels) - 1, math.floor(min(max(2 * self._trials * level.cost, 1), most)))])
            return
        self._begin_levels()

    def _affords_another(self, level: Level) -> bool:
        """Whether the pilot can pay for one more level, if the cost of a draw goes on rising as it did."""
        before = self.levels[-2].cost if len(self.levels) > 1 else 1.0
        expected = self._trials * level.cost * max(level.cost / before, 1.0)
        lower = 0 < level.tolerance < math.inf and len(self.ladder) < MOST_LEVELS
        return lower and expected <= self._pilot_most - self.simulations

    def _begin_levels(self) -> None:
        """The pilot is over: share out the simulations."""
        self._piloting = False
        if self._short:
            self.warnings.append(self._short)
        left = FIRST_SWEEP if self.budget is None else self.budget - self.simulations
        size = int(min(left, self._most - self.simulations))
        self._sizes = parts_of(size, self._shares(self.pilot, size)).tolist()
        self._next_level()

    def _next_level(self) -> None:
        """Begin the next level of the first sweep, within the box of the one above."""
        main = self.main
        self._open(False, *(main[-1].box() if main else (self.pilot[0].low, self.pilot[0].high)))
        self._plan([(len(self.levels) - 1, self._sizes[len(main)])])

    def _next_sweep(self) -> None:
        """All levels once more, where simulations are left."""
        left = self._most - self.simulations
        if left < 1:
            self._ended = "budget spent"
            return
        growth = left if self.budget is not None else max(FIRST_SWEEP, self.simulations // 4)
        size = int(min(growth, left))
        sizes = parts_of(size, self._shares(self._used(), size))
        places = [place for place, level in enumerate(self.levels) if not level.pilot]
        self._plan([(place, size) for place, size in zip(places, sizes.tolist(), strict=False) if size])

    def _shares(self, levels: list[Level], total: int) -> FloatArray:
        """The levels' parts of the simulations, for the targets."""
        costs = np.array([level.cost for level in levels])
        if self.problem.records or any(level.accepted < 2 for level in levels):
            return shares(np.zeros((0, 0)), costs, total, self._trials)
        known = TelescopingPosterior(self.problem, [level.draws() for level in levels], self.simulations)
        variances = known.variances([part for target in self.targets for part in target.parts])
        return shares(variances, costs, total, self._trials)

    @property
    def _short(self) -> str:
        """The warning of a run that did not reach its tolerance; or nothing."""
        wanted = self.method.final_tolerance
        at = self.ladder[-1] if not self._swept else self.tolerance
        if self._piloting or wanted is None or at <= wanted:
            return ""
        return (
            f"the requested tolerance {wanted:g} was not reached: the estimates are those at the tolerance {at:.4g}, "
            "of a wider posterior"
        )

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self.round == 0 or self.finished:
            return None
        plan = np.array(self.drawn.plans[self.round], dtype=np.int64).reshape(-1, 2)
        last = self.levels[-1]
        return {
            "ladder": np.array(self.ladder),
            "tolerance": np.array(last.tolerance),
            "box": np.stack([last.low, last.high]),
            "levels": plan[:, 0],
            "sizes": plan[:, 1],
            "later_sizes": np.array(self._sizes, dtype=np.int64),
        }

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        last = self.levels[-1]
        self.ladder = tuple(np.asarray(state["ladder"], dtype=np.float64).tolist())
        last.tolerance = float(state["tolerance"])
        last.low, last.high = np.asarray(state["box"], dtype=np.float64)
        self.drawn.plans[self.round] = list(zip(state["levels"].tolist(), state["sizes"].tolist(), strict=True))
        self._sizes = state["later_sizes"].tolist()

    def _extend(self, tolerance: float | None) -> None:
        if tolerance is not None:
            raise InputError(
                "the levels of this run end at its tolerance; start another run for a smaller one, with tolerance="
            )
        self._check_targets()
        was_over, self._ended = self.finished, ""
        if was_over:
            self._next_sweep()

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        return self._posterior_of(self._used(), None)

    def posterior_at(self, tolerance: float) -> Posterior:
        """The posterior at the tolerance of one of the levels; with mixture weights, at any up to the last one."""
        at = non_negative_number(tolerance, "tolerance")
        used = self._used()
        if self.method.weights == "telescope":
            levels = [level for level in used if level.tolerance >= at]
            if not levels or levels[-1].tolerance != at:
                known = ", ".join(f"{level.tolerance:g}" for level in used)
                raise InputError(f"a multilevel sum has the tolerances of its levels, {known}; got {at:g}")
            return self._posterior_of(levels, at)
        if at > used[-1].tolerance:
            raise InputError(f"not all simulations within {at:g} were kept, only those within {used[-1].tolerance:g}")
        return self._posterior_of(used, at)

    def _posterior_of(self, levels: list[Level], tolerance: float | None) -> Posterior:
        at = levels[-1].tolerance if tolerance is None else tolerance
        if self.simulations and not levels[0].accepted:
            raise all_rejected(self.simulations, self.seen)
        if at == math.inf:
            raise NoPosterior("the first round is not complete yet; give the run the outcomes of its blocks")
        if self.method.weights == "mixture":
            found: Posterior = WeightedAverage()(self.drawn.mixture(at, self.seen))
        else:
            draws = [level.draws() for level in levels]
            found = TelescopingPosterior(self.problem, draws, self.simulations, self.method.error_bars)
            found.remark = "" if len(draws) == 1 else SIGNED
        first = levels[0]
        share = first.accepted / max(first.simulations, 1) if len(levels) == 1 else 0.0
        if self._short:
            found.doubts = (self._short,)
        return self._described(found, at, share)

    def stages(self) -> list[Stage]:
        return self.drawn.stages()

    def simulated_points(self, most: int) -> Points | None:
        return self.drawn.representatives(most)

    def _drawn_from(self) -> DrawnLevels:
        return self.drawn

    def _posterior_tolerance(self) -> float:
        return self.tolerance

    def _curve_tolerances(self) -> list[float]:
        return [level.tolerance for level in self._used()]

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.drawn.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.drawn.everything.summaries.flat(rows, size)
