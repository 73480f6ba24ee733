"""Replicated runs of the figures on parameters that are not finite: independent trials by seed key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import EngineFailed, NoPosterior
from fbar.methods import Method
from fbar.paper.record import Options
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.running import drive
from fbar.running.replication import Replication, replicate
from fbar.seeds import Seeds

Trial = Callable[[Seeds], list[float]]


@dataclass(frozen=True)
class Cell:
    """One setting at one budget; ``key`` is its place among the figure's cells, and gives its seeds."""

    setting: str
    budget: int
    key: int


@dataclass(frozen=True)
class FigureTrials(Replication[Cell, "list[float] | None"]):
    """The trials of a figure, whose ``module`` knows how to run one: its ``trial_runner``."""

    module: str
    entropy: int
    options: tuple[tuple[str, Any], ...] = ()

    def root(self, cell: Cell) -> Seeds:
        return Seeds(self.entropy).trial(cell.key)

    def trial(self, cell: Cell, seeds: Seeds) -> list[float] | None:
        """The numbers of a trial; None without any acceptance."""
        try:
            return _runner(self.module, cell.setting, cell.budget, self.options)(seeds)
        except NoPosterior:
            return None

    def ended_process(self, cell: Cell, trial: int) -> list[float] | None:
        raise EngineFailed(f"trial {trial} of {cell.setting} at {cell.budget:,} simulations ended its process twice")


@lru_cache(maxsize=64)
def _runner(module: str, setting: str, budget: int, options: tuple[tuple[str, Any], ...]) -> Trial:
    made: Trial = import_module(module).trial_runner(setting, budget, **dict(options))
    return made


def run_trials(
    module: str, cells: Iterable[tuple[str, int]], trials: int, options: Options, **settings: Any
) -> dict[tuple[str, int], FloatArray]:
    """All trials of all (setting, budget), by key: arrays with one row a trial, NaN for one without acceptance.

    ``settings`` are handed to the ``trial_runner`` of the module.
    """
    keyed = [Cell(setting, budget, key) for key, (setting, budget) in enumerate(cells)]
    work = FigureTrials(module, Seeds.of(options.seed).entropy, tuple(settings.items()))
    found = replicate(
        work,
        keyed,
        trials,
        workers=options.workers,
        progress=lambda share, done, whole: options.progress(share),
    )
    return {(c.setting, c.budget): _rows([found[c, trial] for trial in range(trials)]) for c in keyed}


def _rows(numbers: list[list[float] | None]) -> FloatArray:
    """One row a trial, as wide as the longest, with NaN for what a trial lacks."""
    width = max((len(row) for row in numbers if row is not None), default=1)
    return np.array([[*(row or []), *[np.nan] * (width - len(row or []))] for row in numbers])


def estimate_and_ess(problem: Problem, method: Method, target: Target, budget: int) -> Trial:
    """A trial that gives the estimate and the effective sample size."""

    def trial(seeds: Seeds) -> list[float]:
        run = method.start(problem, target, seeds, budget, block_size=2**15)
        drive(run, history=False)
        posterior = run.posterior()
        return [float(posterior.value(target)[0]), posterior.ess]

    return trial
