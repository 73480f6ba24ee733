"""The phases of a targeted run, and what is recorded of a round.

``Descent``, while the tolerance is above the requested one: proposals follow ABC's posterior at falling tolerances,
since targeting f at this stage would leave too few draws near the data to descend. ``Learning``, at the requested
tolerance: proposals for the targets are fitted again after every round. ``Sampling``: they are known well enough, and
fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.question.space import Proposal

State = Mapping[str, npt.NDArray[Any]]
"""What a round's draws depend on beyond the seed, as it is recorded."""


@dataclass(frozen=True)
class Descent:
    """``low_enough`` tolerances in a row were so, where the tolerance is chosen from the budget."""

    low_enough: int = 0


@dataclass(frozen=True)
class Learning:
    pass


@dataclass(frozen=True, eq=False)
class Sampling:
    """From ``proposals``, one for each group; ``evenly`` if their points are spread evenly where there are enough."""

    proposals: Sequence[Proposal]
    evenly: bool


Phase = Descent | Learning | Sampling


@dataclass(frozen=True)
class RecordedRound:
    """A round as it is recorded, but for its proposals.

    ``phase`` is its name, ``sampling_evenly`` what `Sampling` says; ``wanted`` and ``reached`` are tolerances.
    """

    simulations: int
    evenly: bool
    phase: str
    sampling_evenly: bool
    wanted: float
    reached: float

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "simulations": np.array(self.simulations, dtype=np.int64),
            "evenly": np.array(self.evenly),
            "phase": np.array(self.phase),
            "sampling_evenly": np.array(self.sampling_evenly),
            "wanted": np.array(self.wanted),
            "reached": np.array(self.reached),
        }

    @staticmethod
    def of(state: State) -> RecordedRound:
        return RecordedRound(
            int(state["simulations"]),
            bool(state["evenly"]),
            str(state["phase"]),
            bool(state["sampling_evenly"]),
            float(state["wanted"]),
            float(state["reached"]),
        )


DESCENT, LEARNING, SAMPLING = "descent", "learning", "sampling"


def name_of(phase: Phase) -> str:
    if isinstance(phase, Descent):
        return DESCENT
    return LEARNING if isinstance(phase, Learning) else SAMPLING


def state_as_now(state: State) -> State:
    """A round as it was recorded before its numbers had names, as it is now."""
    if "plan" not in state:
        return state
    _, size, evenly, sampling_evenly, kept, at_wanted = state["plan"].tolist()
    wanted, reached = state["tolerances"].tolist()
    phase = SAMPLING if kept else LEARNING if at_wanted else DESCENT
    found = RecordedRound(int(size), bool(evenly), phase, bool(sampling_evenly), wanted, reached)
    return {**found.arrays(), **{n: array for n, array in state.items() if n not in ("plan", "tolerances")}}
