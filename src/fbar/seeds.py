"""Random numbers by key, so that neither workers nor their order can change a result.

A run has 128 bits of entropy. The generator for a purpose, a round, a block and a row comes from
``SeedSequence(entropy, spawn_key=(purpose, round, block, row))``. Keys have a fixed length and
components below 2³²; longer or larger ones could collide.

Which streams simulations draw from has a version, which a recorded run keeps:

1. one stream for each block;
2. one stream for each row of simulators that run their rows one by one, and one for each block of the others.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import shown, whole_number
from fbar.errors import InputError

STREAMS = 2
"""The version of the streams that new runs draw from."""


class Purpose(enum.IntEnum):
    """What a stream of random numbers is for; streams of different purposes never meet."""

    DESIGN = 0
    SIMULATE = 1
    RERUN = 2
    TRIAL = 3
    GLOBAL = 4
    PILOT = 5
    PREDICT = 6
    ROW = 7


@dataclass(frozen=True)
class Seeds:
    """All generators of one run."""

    entropy: int
    streams: int = STREAMS

    @classmethod
    def of(cls, seed: Any) -> Seeds:
        """From an integer, another ``Seeds``, or ``None`` for fresh entropy from the system."""
        if isinstance(seed, Seeds):
            return seed
        if seed is None:
            entropy = np.random.SeedSequence().entropy
            assert isinstance(entropy, int)
            return cls(entropy)
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**128:
            raise InputError(f"seed must be a whole number from 0 to 2**128 - 1, or None; got {shown(seed)}")
        return cls(int(seed))

    @classmethod
    def recorded(cls, settings: Mapping[str, Any]) -> Seeds:
        """Those of a recorded run, with the streams that it was started with."""
        return cls(int(settings["seed"]), int(settings.get("streams", 1)))

    def settings(self) -> dict[str, Any]:
        """What `recorded` reads."""
        return {"seed": str(self.entropy), **({} if self.streams == 1 else {"streams": self.streams})}

    def sequence(self, purpose: Purpose, round: int, block: int, row: int = 0) -> np.random.SeedSequence:
        try:
            return np.random.SeedSequence(self.entropy, spawn_key=(int(purpose), round, block, row))
        except Exception:  # of an object of the user's
            key = (purpose, round, block, row)
            raise InputError(f"a stream's key is whole numbers from 0 to 2**32 - 1; got {shown(key)}") from None

    def generator(self, purpose: Purpose, round: int, block: int, row: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.sequence(purpose, round, block, row)))

    def trial(self, index: int) -> Seeds:
        """The seeds of an independent run, such as one trial of a study."""
        index = whole_number(index, "index")
        return self._child(Purpose.TRIAL, index >> 32, index & 0xFFFFFFFF)

    def pilot(self) -> Seeds:
        """The seeds of the pilot simulations that a run learns from."""
        return self._child(Purpose.PILOT, 0, 0)

    def predictive(self) -> Seeds:
        """The seeds of new simulations from a run's posterior."""
        return self._child(Purpose.PREDICT, 0, 0)

    def _child(self, purpose: Purpose, first: int, second: int) -> Seeds:
        words = self.sequence(purpose, first, second).generate_state(2, np.uint64)
        return Seeds(int(words[0]) << 64 | int(words[1]), self.streams)
