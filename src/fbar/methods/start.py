"""What a run begins with."""

from __future__ import annotations

from dataclasses import dataclass

from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.seeds import Seeds


@dataclass(frozen=True)
class Start:
    """What a run begins with, as `Method.start` has checked it."""

    problem: Problem
    targets: tuple[Target, ...]
    seeds: Seeds
    budget: int | None
    limit: int | None
    trials: int | None
    block_size: int | None
    at_data: bool = False
    """Whether the answer is about the posterior, by regression at the data, and not ABC's at a tolerance."""
    learns: bool = True
    """Whether such an answer may learn summaries from data that are many numbers."""
