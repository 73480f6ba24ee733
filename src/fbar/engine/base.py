"""What the loop asks of an engine: take blocks, give back their outcomes, in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeVar

from fbar.engine.dispatch import Pool, Splittable, Workload
from fbar.errors import InputError
from fbar.question.outcomes import Batch, Outcomes
from fbar.question.problem import Problem

J = TypeVar("J", bound=Splittable)
R = TypeVar("R")


class Session(AbstractContextManager["Session"], ABC):
    """An engine at work on one problem. Closing it ends every process it started."""

    arrived: Callable[[Sequence[tuple[Batch, Outcomes]]], None] | None = None
    """Called with blocks the moment they arrive, in another thread, while nobody collects them: the run may be busy."""

    @property
    def ahead(self) -> int:
        """Blocks to ask for beyond those needed for sure, to keep workers busy at the end of a round."""
        return 0

    @property
    def warning(self) -> str:
        """What its user should know of its results; nothing as a rule."""
        return ""

    @abstractmethod
    def submit(self, batches: Sequence[Batch]) -> None:
        """Take blocks to be simulated."""

    @abstractmethod
    def collect(self) -> list[tuple[Batch, Outcomes]]:
        """Wait for at least one block and give all that are done; empty if none is under way."""

    def collect_within(self, seconds: float) -> list[tuple[Batch, Outcomes]]:
        """The same, but give nothing if nothing is done within ``seconds``, where the engine can stop waiting."""
        return self.collect()

    def close(self) -> None:
        """End what was started."""
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Engine(ABC):
    """Where simulations run."""

    @abstractmethod
    def session(self, problem: Problem) -> Session:
        """Begin work on a problem."""

    def pool(self, workload: Workload[J, R]) -> Pool[J, R]:
        """Workers for other work than simulations, such as the trials of a study."""
        raise InputError(f"{type(self).__name__} runs simulations only; use workers=, an executor or a Dask client")
