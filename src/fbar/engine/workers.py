"""Simulations in processes of this machine, which may hang, die or be killed without harm to the run."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from fbar import former
from fbar.checks import positive_integer, positive_number, time_limit
from fbar.engine.base import Engine, Session
from fbar.engine.dispatch import Pool, Splittable, Workload
from fbar.engine.pool import PoolSession
from fbar.engine.processes import Processes, processors
from fbar.engine.work import begin_work, packed, work
from fbar.errors import InputError
from fbar.question.problem import Problem

J = TypeVar("J", bound=Splittable)
R = TypeVar("R")


class Workers(Engine):
    """Runs blocks in processes of this machine.

    A worker that dies is replaced, and its work is run again with the same random numbers. A simulation that kills its
    worker again, or runs out of time again, has failed; the others of its block are not affected. All processes that a
    simulator starts end with its worker at the latest, however it ends (on Linux; see `fbar.program` for what programs
    start).

    Parameters
    ----------
    workers
        The number of processes; by default the number of processors.
    timeout
        Seconds that one simulation may take; a slower one has failed. A simulator wrapped with `each` is timed call by
        call; for a vectorised one the limit applies to all its rows together.
    bundle_seconds
        About how long a worker is busy before it reports. Changes no result.
    """

    @former.arguments(count="workers")
    def __init__(
        self, workers: int | None = None, *, timeout: float | None = None, bundle_seconds: float = 0.5
    ) -> None:
        self.workers = processors() if workers is None else positive_integer(workers, "workers")
        self.timeout = None if timeout is None else time_limit(timeout, "timeout")
        self.bundle_seconds = positive_number(bundle_seconds, "bundle_seconds")

    def session(self, problem: Problem) -> Session:
        run = partial(work, timeout=self.timeout)
        pool = Processes(self.workers, Workload(packed(problem), run, begin_work))
        return PoolSession(pool, problem, timeout=self.timeout, bundle_seconds=self.bundle_seconds)

    def pool(self, workload: Workload[J, R]) -> Pool[J, R]:
        if self.timeout is not None:
            raise InputError("timeout limits single simulations, not trials; give fbar.Workers without a timeout")
        return Processes(self.workers, workload)
