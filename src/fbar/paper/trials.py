"""Replicated runs on parameters that are not finite: independent trials by seed key, over two processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from fbar.checks import FloatArray
from fbar.errors import NoPosterior
from fbar.methods import Method
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.running import drive
from fbar.seeds import Seeds
from fbar.system.processes import die_with_parent, prepare

AT_ONCE = 2_000_000
"""Simulations in one task of a worker: large beside its overhead, small beside the whole."""


@dataclass(frozen=True)
class Task:
    """Some trials of one setting at one budget. ``module`` knows how to run them: its ``trial_runner``."""

    module: str
    setting: str
    budget: int
    first: int
    last: int
    entropy: int
    key: int
    options: tuple[tuple[str, Any], ...] = ()

    def seeds(self) -> Iterator[Seeds]:
        """One seed for each trial; the same whatever tasks the trials are cut into."""
        root = Seeds(self.entropy).trial(self.key)
        return (root.trial(trial) for trial in range(self.first, self.last))


def run_task(task: Task) -> FloatArray:
    """The numbers of each trial of a task, one row a trial; NaN for a trial without acceptance."""
    runner: Callable[..., Callable[[Seeds], list[float]]] = import_module(task.module).trial_runner
    trial = runner(task.setting, task.budget, **dict(task.options))
    rows: list[list[float] | None] = []
    for seeds in task.seeds():
        try:
            rows.append(trial(seeds))
        except NoPosterior:
            rows.append(None)
    width = max((len(row) for row in rows if row is not None), default=1)
    return np.array([[np.nan] * width if row is None else row for row in rows])


def run_trials(
    module: str,
    cells: Iterable[tuple[str, int]],
    trials: int,
    seed: int,
    progress: Callable[[float], None],
    *,
    at_once: int = AT_ONCE,
    **options: Any,
) -> dict[tuple[str, int], FloatArray]:
    """All trials of all (setting, budget), by key: arrays with one row a trial."""
    entropy = Seeds.of(seed).entropy
    tasks = []
    for key, (setting, budget) in enumerate(cells):
        step = max(1, min(trials, at_once // budget))
        for first in range(0, trials, step):
            last = min(trials, first + step)
            tasks.append(Task(module, setting, budget, first, last, entropy, key, tuple(options.items())))
    tasks.sort(key=lambda task: -task.budget)
    total = sum(task.budget * (task.last - task.first) for task in tasks)
    done, parts = 0, {}
    prepare()
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    size = min(2, os.cpu_count() or 1)
    with (
        ProcessPoolExecutor(size, context, initializer=die_with_parent, initargs=(os.getpid(),)) as pool,
        _ended_at_once(pool),
    ):
        futures = {pool.submit(run_task, task): task for task in tasks}
        for future in as_completed(futures):
            task = futures[future]
            parts[task.setting, task.budget, task.first] = future.result()
            done += task.budget * (task.last - task.first)
            progress(done / total)
    results: dict[tuple[str, int], FloatArray] = {}
    for task in sorted(tasks, key=lambda task: task.first):
        part, where = parts[task.setting, task.budget, task.first], (task.setting, task.budget)
        if where in results:
            width = max(part.shape[1], results[where].shape[1])
            pair = [
                np.pad(a, ((0, 0), (0, width - a.shape[1])), constant_values=np.nan) for a in (results[where], part)
            ]
            results[where] = np.concatenate(pair)
        else:
            results[where] = part
    return results


@contextmanager
def _ended_at_once(pool: ProcessPoolExecutor) -> Iterator[None]:
    """An executor that is left by an error would do all its tasks first."""
    try:
        yield
    except BaseException:
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        raise


def estimate_and_ess(problem: Problem, method: Method, target: Target, budget: int) -> Callable[[Seeds], list[float]]:
    """A trial that gives the estimate and the effective sample size."""

    def trial(seeds: Seeds) -> list[float]:
        run = method.start(problem, target, seeds, budget, block_size=2**15)
        drive(run, history=False)
        posterior = run.posterior()
        return [float(posterior.value(target)[0]), posterior.ess]

    return trial
