"""Simulations on workers that somebody else has started: any executor, and Dask."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any, TypeVar

from fbar.checks import positive_integer, positive_number, shown
from fbar.engine.base import Engine, Session
from fbar.engine.dispatch import Fault, Pool, Splittable, Workload
from fbar.engine.pool import PoolSession
from fbar.engine.work import begin_work, packed, work_watched
from fbar.errors import EngineFailed, InputError, MissingExtra
from fbar.question.problem import Problem

J = TypeVar("J", bound=Splittable)
R = TypeVar("R")


class Futures(Engine):
    """Runs blocks on a `concurrent.futures.Executor`: threads, processes, MPI (mpi4py), SLURM (executorlib).

    The executor stays open. It has no time-outs, and cannot be used any more once a worker dies: use `Workers` for
    simulators that hang or crash.

    Parameters
    ----------
    executor
        Anything with the ``submit`` of a `concurrent.futures.Executor`.
    workers
        How many jobs it runs at once; by default the executor's own number of workers, or the number of processors.
    bundle_seconds
        About how long a worker is busy before it reports. Changes no result.
    """

    def __init__(self, executor: Any, workers: int | None = None, *, bundle_seconds: float = 0.5) -> None:
        if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
            raise InputError(f"executor must be an open concurrent.futures.Executor; got {shown(executor)}")
        known = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        self.executor = executor
        self.workers = positive_integer(known if workers is None else workers, "workers")
        self.bundle_seconds = positive_number(bundle_seconds, "bundle_seconds")

    def session(self, problem: Problem) -> Session:
        pool = self.pool(Workload(packed(problem), work_watched, begin_work))
        return PoolSession(pool, problem, bundle_seconds=self.bundle_seconds)

    def pool(self, workload: Workload[J, R]) -> Pool[J, R]:
        return _Submitted(self.executor, self.workers, workload, lambda: workload.payload)


class Dask(Engine):
    """Runs blocks on a Dask cluster.

    Dask itself gives the block of a lost worker to another worker. If it gives up on a block, the block is sent again
    while nothing else runs, and fails if that fails too.

    Parameters
    ----------
    client
        A ``distributed.Client``, which stays open, or a scheduler's address.
    bundle_seconds
        About how long a worker is busy before it reports. Changes no result.
    """

    def __init__(self, client: Any, *, bundle_seconds: float = 0.5) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtra("distributed", "dask") from None
        if not isinstance(client, Client | str):
            raise InputError(f"client must be a distributed.Client or a scheduler's address; got {shown(client)}")
        self.client: Any = client
        self.bundle_seconds = positive_number(bundle_seconds, "bundle_seconds")

    def session(self, problem: Problem) -> Session:
        pool = self.pool(Workload(packed(problem), work_watched, begin_work))
        return PoolSession(pool, problem, bundle_seconds=self.bundle_seconds)

    def pool(self, workload: Workload[J, R]) -> Pool[J, R]:
        from distributed import Client, KilledWorker

        connect: Callable[..., Any] = Client
        try:
            client = connect(self.client, timeout="10s") if isinstance(self.client, str) else self.client
        except (OSError, ValueError) as error:
            raise EngineFailed(f"there is no Dask scheduler at {self.client}: {error}") from None
        executor = client.get_executor(pure=False)
        workers = max(1, sum(client.nthreads().values()))

        def send_payload() -> Any:
            return client.submit(bytes, workload.payload, pure=False)  # unlike scattered data this survives its workers

        def close() -> None:
            executor.shutdown(wait=False)
            if client is not self.client:
                client.close()

        return _Submitted(executor, workers, workload, send_payload, died=KilledWorker, close=close)


class _Submitted(Pool[J, R]):
    """Jobs submitted to an executor.

    ``payload`` gives what is sent along with each job, and is called again after a worker's death; ``died`` is the
    error with which the executor reports that a job, or another job of the same worker, has killed its worker.
    """

    blames_neighbours = True

    def __init__(
        self,
        executor: Any,
        size: int,
        workload: Workload[J, R],
        payload: Callable[[], Any],
        *,
        died: type[Exception] | tuple[()] = (),
        close: Callable[[], None] | None = None,
    ) -> None:
        self.size = size
        self._executor, self._make, self._died, self._close = executor, payload, died, close
        self._run = workload.run
        self._payload = payload()
        self._sent: set[Future[R]] = set()

    def send(self, job: J, seconds: float | None) -> Future[R]:
        try:
            future: Future[R] = self._executor.submit(self._run, self._payload, job)
        except RuntimeError as error:  # broken, or closed
            raise _broken(error) from error
        self._sent.add(future)
        return future

    def done(self, future: Future[R]) -> None:
        self._sent.discard(future)

    def fault(self, future: Future[R], error: BaseException | None) -> Fault | None:
        self._sent.discard(future)
        if isinstance(error, self._died):
            self._payload = self._make()
            return Fault.DIED
        if isinstance(error, BrokenExecutor | CancelledError):
            raise _broken(error) from error
        return None

    def close(self) -> None:
        for future in self._sent:
            future.cancel()
        if self._close is not None:
            self._close()


def _broken(error: BaseException) -> EngineFailed:
    return EngineFailed(
        f"the executor was closed, or a worker died and broke it ({error!r}); fbar.Workers survives that"
    )
