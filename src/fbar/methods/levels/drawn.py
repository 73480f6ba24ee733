"""Every simulation of a multilevel run: drawn from the prior within the box of its level.

All of them together are draws from the mixture of the boxes, q̄ = Σ_b n_b p 1(box b)/p(box b)/N, so that those within a
tolerance, weighted by p/q̄, are an estimate of ABC's posterior without the bias of coupled levels (balance heuristic,
section S7 of the paper).
"""

from __future__ import annotations

import math

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.coordinates import DrawnPoints
from fbar.estimation.doubts import none_within
from fbar.estimation.draws import Draws
from fbar.estimation.simulations import Structure
from fbar.estimation.store import Store
from fbar.methods.levels.plans import Level, parts_of
from fbar.methods.run import Stage
from fbar.question.outcomes import Seen
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.seeds import Purpose, Seeds


class DrawnLevels:
    """The levels of a run in the order in which they were begun, and their simulations."""

    def __init__(self, problem: Problem, seeds: Seeds, most: float) -> None:
        self.problem, self.seeds = problem, seeds
        self.everything: Store[Points] = Store(DrawnPoints(self.theta_of), most=most, needs_all=False)
        self.levels: list[Level] = []
        self.plans: list[list[tuple[int, int]]] = []
        """Of each round: the place of the level, and the simulations, of every block."""

    @property
    def begun(self) -> list[Level]:
        return [level for level in self.levels if level.simulations]

    # ------------------------------------------------------------ draws

    def unit(self, round: int, block: int) -> FloatArray:
        """The draws of a block in unit coordinates."""
        place, size = self.plans[round][block]
        level = self.levels[place]
        return level.at(self.seeds.generator(Purpose.DESIGN, round, block).random((size, level.low.size)))

    def points_at(self, unit: FloatArray) -> Points:
        """θ with the derived parameters."""
        return self.problem.prior.from_unit(unit).with_derived(self.problem.derived)

    def _unit_of(self, rows: IntArray) -> FloatArray:
        blocks = self.everything.in_blocks(rows)
        return np.concatenate([self.unit(round, block)[places] for round, block, _, _, places in blocks])

    def theta_of(self, rows: IntArray) -> Points:
        """θ of simulations, drawn again."""
        return self.points_at(self._unit_of(rows))

    def log_weights_of(self, rows: IntArray) -> FloatArray:
        """log p/q̄ of simulations."""
        return self._log_weights(self._unit_of(rows))

    def structure_of(self, rows: IntArray) -> Structure:
        """The simulations of a level are a stratum."""
        sizes = np.array([level.simulations for level in self.levels], dtype=np.int64)
        return Structure("independent", self.everything.group_of(rows), None, sizes, np.ones(rows.size, dtype=bool))

    def _log_weights(self, unit: FloatArray) -> FloatArray:
        each = [level.simulations * level.density(unit) for level in self.begun]
        return np.asarray(math.log(self.everything.simulations) - np.log(np.sum(each, axis=0)))

    # ------------------------------------------------------------ what comes out

    def mixture(self, tolerance: float, seen: Seen) -> Draws:
        """All simulations within a tolerance, up to that of the last level, weighted by p/q̄."""
        begun = self.begun
        near = [level.within(tolerance) for level in begun]
        unit, rows = (np.concatenate(parts) for parts in zip(*near, strict=True))
        if not rows.size:
            raise none_within(self.everything.simulations, tolerance, seen)
        order = np.argsort(rows)
        unit, rows = unit[order], rows[order]
        return Draws(
            self.problem,
            self.points_at(unit).with_columns(self.everything.recorded(rows)),
            np.ones(rows.size),
            self._log_weights(unit),
            self.everything.simulations,
            "independent",
            np.array([level.simulations for level in begun], dtype=np.int64),
            np.repeat(np.arange(len(begun)), [own.size for _, own in near])[order],
            None,
            seen,
            rows,
        )

    def stages(self) -> list[Stage]:
        """What each level simulated."""
        found = []
        for level in self.begun:
            what = "pilot of level" if level.pilot else "level"
            where = "the prior" if level.number == 0 else "the prior in the box of the level above"
            words = f"{what} {level.number}, from {where}"
            found.append(Stage(words, level.simulations, float(level.accepted), level.tolerance))
        return found

    def representatives(self, most: int) -> Points:
        """Draws like those that were simulated."""
        begun = self.begun or self.levels
        shares = np.array([max(level.simulations, 1.0) for level in begun])
        sizes = parts_of(min(most, max(self.everything.simulations, 1)), shares).tolist()
        rng, dimension = np.random.default_rng(0), self.problem.prior.dimension
        return self.points_at(
            np.concatenate([level.at(rng.random((n, dimension))) for level, n in zip(begun, sizes, strict=True)])
        )
