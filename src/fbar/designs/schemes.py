"""How draws fill the unit cube of a design: independently, in strata (section S5.2), or quasi-randomly.

A scheme plans a round of n draws and cuts it into blocks. Besides the coordinates it determines how the variance is to
be estimated: draws form *clusters* (single draws, or a whole scrambled sequence)
and clusters form *strata*, within which the variance between clusters is taken:
V̂ = Σ_s c_s/(c_s−1) Σ_{c∈s} (ζ_c − ζ̄_s)², ζ_c the sum of z over the cluster
(e:stratified_sampling_variance, e:stratified_sampling_simplified_variance for one draw to a stratum).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import overload

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import positive_integer
from fbar.errors import InputError


@dataclass(frozen=True, eq=False)
class Groups:
    """How the draws of a block belong together, where they are not independent of one another.

    ``factor`` is N/(K n_k) for a stratum with n_k of the N draws, None where all have their due. ``cluster`` and
    ``stratum`` number the groups within the round; None stands for single draws in one stratum.
    """

    factor: FloatArray | None = None
    cluster: IntArray | None = None
    stratum: IntArray | None = None


class Scheme(ABC):
    """How n draws are placed in the unit cube."""

    name: str

    @property
    def least(self) -> int:
        """The fewest draws that can have an error bar."""
        return 1

    @abstractmethod
    def sizes(self, n: int, block_size: int) -> Sequence[int]:
        """The sizes of a round's blocks."""

    @abstractmethod
    def unit(self, block: int, sizes: Sequence[int], dimension: int, rng: np.random.Generator) -> FloatArray:
        """The coordinates of one block's draws, shape (n, dimension)."""

    def groups(self, block: int, sizes: Sequence[int]) -> Groups:
        """The groups of one block's draws."""
        return Groups()

    def stratum_sizes(self, n: int) -> IntArray:
        """c_s, the number of clusters in each stratum of a round of n draws."""
        return np.array([n])

    def check(self, n: int) -> None:
        """Refuse a number of draws that could not have an error bar."""
        if n < self.least:
            raise InputError(self.too_few(n))

    def too_few(self, n: int) -> str:
        return f"{self.name} draws need a budget of at least {self.least}; got {n}"


class _Blocks(Sequence[int]):
    """The sizes of blocks of one size, the last of what is left; not written out, since there may be any number."""

    def __init__(self, n: int, size: int) -> None:
        self._n, self._size = n, size

    def __len__(self) -> int:
        return -(-self._n // self._size)

    @overload
    def __getitem__(self, block: int) -> int: ...
    @overload
    def __getitem__(self, block: slice) -> list[int]: ...
    def __getitem__(self, block: int | slice) -> int | list[int]:
        if isinstance(block, slice):
            return [self[i] for i in range(*block.indices(len(self)))]
        start = range(0, self._n, self._size)[block]
        return min(self._size, self._n - start)


@dataclass(frozen=True)
class Independent(Scheme):
    """Independent draws."""

    name = "independent"

    def sizes(self, n: int, block_size: int) -> Sequence[int]:
        return _Blocks(n, block_size)

    def unit(self, block: int, sizes: Sequence[int], dimension: int, rng: np.random.Generator) -> FloatArray:
        return rng.random((dimension, sizes[block])).T  # each coordinate contiguous


@lru_cache(maxsize=8)
def strata(number: int, dimension: int) -> tuple[FloatArray, FloatArray]:
    """``number`` boxes of equal volume that fill the unit cube: lower corners and widths, (number, dimension).

    Coordinates are split one after the other, each slab of the one before into as many parts as its share of
    the boxes asks for, so that any number will do. Through a design's ``from_unit`` these are strata of equal
    probability, made by sequential conditional splitting.

    >>> low, width = strata(5, 2)
    >>> width.prod(axis=1).round(12).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    low, width = np.zeros((number, dimension)), np.ones((number, dimension))
    groups = [(0, number)]
    for axis in range(dimension):
        left = dimension - axis
        following = []
        for start, stop in groups:
            size = stop - start
            parts = size if left == 1 else max(1, round(size ** (1 / left)))
            borders = start + (np.arange(parts + 1) * size) // parts
            counts = np.diff(borders)
            low[start:stop, axis] = np.repeat((borders[:-1] - start) / size, counts)
            width[start:stop, axis] = np.repeat(counts / size, counts)
            if left > 1:
                following += [(int(a), int(b)) for a, b in pairwise(borders)]
        groups = following
    return low, width


@dataclass(frozen=True)
class Stratified(Scheme):
    """``per_stratum`` draws in each of n/per_stratum strata of equal probability (section S5.2 of the paper).

    With one draw per stratum, neighbours are paired for the error bar, which is then slightly too large.
    """

    per_stratum: int = 1
    name = "stratified"

    @property
    def least(self) -> int:
        return 2

    def __post_init__(self) -> None:
        positive_integer(self.per_stratum, "per_stratum")

    def too_few(self, n: int) -> str:
        return "a single stratum with one draw has no error bar; raise the budget to at least 2"

    def sizes(self, n: int, block_size: int) -> Sequence[int]:
        return _Blocks(n, block_size)

    def _strata(self, n: int) -> tuple[int, IntArray]:
        """K strata, and the stratum of every draw; draws left over go to the first strata."""
        number = max(1, n // self.per_stratum)
        counts = np.full(number, n // number)
        counts[: n % number] += 1
        return number, np.repeat(np.arange(number), counts)

    def unit(self, block: int, sizes: Sequence[int], dimension: int, rng: np.random.Generator) -> FloatArray:
        number, stratum = self._strata(sum(sizes))
        mine = stratum[sum(sizes[:block]) :][: sizes[block]]
        low, width = strata(number, dimension)
        return low[mine] + width[mine] * rng.random((sizes[block], dimension))

    def groups(self, block: int, sizes: Sequence[int]) -> Groups:
        n = sum(sizes)
        number, stratum = self._strata(n)
        mine = stratum[sum(sizes[:block]) :][: sizes[block]]
        factor = n / (number * np.bincount(stratum, minlength=number)[mine]) if n % number else None
        return Groups(factor, None, self._variance_strata(stratum, number)[mine])

    @staticmethod
    def _variance_strata(stratum: IntArray, number: int) -> IntArray:
        """Strata as they are; neighbours in pairs (the last three together) where some have a single draw."""
        index = np.arange(number)
        if number > 1 and np.bincount(stratum, minlength=number).min() < 2:
            return np.minimum(index // 2, number // 2 - 1)
        return index

    def stratum_sizes(self, n: int) -> IntArray:
        number, stratum = self._strata(n)
        return np.bincount(self._variance_strata(stratum, number)[stratum])


@dataclass(frozen=True)
class Sobol(Scheme):
    """Scrambled Sobol points: ``replicates`` independent scrambles, whose spread is the error bar.

    Best when the budget divided by the replicates is a power of two.
    """

    replicates: int = 16
    name = "sobol"

    def __post_init__(self) -> None:
        if positive_integer(self.replicates, "replicates") < 2:
            raise InputError("Sobol draws need at least 2 replicates for an error bar; got 1")

    @property
    def least(self) -> int:
        return self.replicates

    def too_few(self, n: int) -> str:
        return f"{self.replicates} scrambles need a budget of at least {self.replicates}; got {n}"

    def sizes(self, n: int, block_size: int) -> Sequence[int]:
        return [n // self.replicates + (index < n % self.replicates) for index in range(self.replicates)]

    def unit(self, block: int, sizes: Sequence[int], dimension: int, rng: np.random.Generator) -> FloatArray:
        return scrambled(sizes[block], dimension, rng)

    def groups(self, block: int, sizes: Sequence[int]) -> Groups:
        size = sizes[block]
        factor = np.full(size, sum(sizes) / (len(sizes) * size)) if len(set(sizes)) > 1 else None
        return Groups(factor, np.full(size, block), np.zeros(size, dtype=np.int64))

    def stratum_sizes(self, n: int) -> IntArray:
        return np.array([self.replicates])


def scrambled(size: int, dimension: int, rng: np.random.Generator) -> FloatArray:
    """One scrambled Sobol set."""
    from scipy.stats import qmc

    # Drawing a power of two and dropping the end keeps scipy from warning of lost balance.
    power = max(0, (size - 1).bit_length())
    return np.asarray(qmc.Sobol(dimension, rng=rng).random_base2(power)[:size])


SCHEMES: dict[str, Scheme] = {"independent": Independent(), "stratified": Stratified(), "sobol": Sobol()}
