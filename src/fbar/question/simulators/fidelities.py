"""Two fidelities of one simulator: the real one, and a cheap approximation of it (Prescott & Baker 2020).

The problem is about the real simulator, and every method runs it. A method that makes use of the cheap one names the
fidelity of a batch in a column of θ, ``FIDELITY``.

*Shared random numbers.* The closer a cheap simulation is to the real one of the same draw, the fewer real ones are
needed. Where the pair shares its random numbers, a draw has a seed (column ``SEED``), which both get. A simulator of
one parameter set gets a generator made from it. A vectorised one has a third argument, ``noise`` (`RowNoise`), whose
numbers depend on the row's seed and on how many were asked for before, whatever other rows the batch has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, as_array, numeric_array
from fbar.checks import arguments, flag, positive_integer, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.simulators.base import Simulator, SimulatorFunction, Single, as_simulator
from fbar.question.simulators.calls import called
from fbar.question.simulators.costs import COST
from fbar.question.simulators.rows import LEAST_SECONDS, Rows, clock, run_rows

FIDELITY, SEED = "simulator", "seed of the simulation"
"""Columns of a batch: which simulator runs it, and where its random numbers come from."""

CHEAP, REAL = "cheap", "real"

SEEDS = 2**63
"""Seeds are whole numbers below this."""

Cost = float | Callable[[Points], npt.ArrayLike] | None

_STEP, _FIRST, _SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class RowNoise:
    """Random numbers of a batch, those of each row from its own seed.

    >>> first, second = RowNoise([1, 2, 3]), RowNoise([3])
    >>> bool((first.normal(4)[2] == second.normal(4)[0]).all())
    True
    """

    def __init__(self, seeds: npt.ArrayLike) -> None:
        found = as_array(seeds, "seeds")
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise InputError(f"seeds must be a list of whole numbers, one for each row; got {shown(seeds)}")
        self._seeds = found.astype(np.uint64)
        self._used = 0

    def uniform(self, size: int) -> FloatArray:
        """``size`` further numbers between 0 and 1 for each row: shape (rows, size). The ends do not occur."""
        k = positive_integer(size, "size")
        counter = np.arange(self._used + 1, self._used + k + 1, dtype=np.uint64)
        self._used += k
        with np.errstate(over="ignore"):  # SplitMix64 (Steele, Lea & Flood 2014), modulo 2⁶⁴
            z = self._seeds[:, None] + counter * _STEP
            z = (z ^ (z >> np.uint64(30))) * _FIRST
            z = (z ^ (z >> np.uint64(27))) * _SECOND
            z = z ^ (z >> np.uint64(31))
        return np.asarray(((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)

    def normal(self, size: int) -> FloatArray:
        """``size`` further standard normal numbers for each row: shape (rows, size)."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(size)))


NoiseFunction = Callable[[Points, np.random.Generator, RowNoise], Any]
"""A vectorised simulator as users write it whose random numbers are shared."""


class WithNoise(Simulator):
    """A user's function of a whole batch and of its rows' own random numbers."""

    def __init__(self, function: NoiseFunction) -> None:
        self.function = function

    @property
    def made_of(self) -> Any:
        return self.function

    def check(self, parameters: Collection[str]) -> None:
        arguments(self.function, ("theta", "rng", "noise"), "simulate")

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        seeds = theta[SEED] if SEED in theta else rng.integers(SEEDS, size=theta.rows)
        return self.function(theta.without((SEED,)), rng, RowNoise(seeds))


class Fidelities(Simulator):
    """A real simulator with a cheap one that approximates it.

    Parameters
    ----------
    real, cheap
        Simulators as they are given to a `Problem`: functions ``simulate(theta, rng)`` of a batch, or of one parameter
        set, wrapped by `each`. Both give data of the same form.
    shares_noise
        Whether the real simulation of a draw is to use the same random numbers as its cheap one. Simulators of one
        parameter set get generators that start alike; vectorised ones are called as ``simulate(theta, rng, noise)``,
        where ``noise.normal(k)`` and ``noise.uniform(k)`` have shape (rows, k).
    cheap_cost
        What a cheap simulation costs, a number or a function ``cost(theta)``, in the unit of the problem's ``cost``,
        which is that of the real one. Without it costs are those that the simulators return, or measured seconds.

    Examples
    --------
    >>> def real(theta, rng):
    ...     return theta["rate"] + rng.normal(size=theta.rows)
    >>> def cheap(theta, rng):
    ...     return theta["rate"] + rng.normal(size=theta.rows).round(1)
    >>> pair = Fidelities(real, cheap)
    """

    def __init__(
        self,
        real: SimulatorFunction | NoiseFunction | Simulator,
        cheap: SimulatorFunction | NoiseFunction | Simulator,
        shares_noise: bool = False,
        cheap_cost: Cost = None,
    ) -> None:
        self.shares_noise = flag(shares_noise, "shares_noise")
        self.real, self.cheap = _as_one(real, REAL, self.shares_noise), _as_one(cheap, CHEAP, self.shares_noise)
        self.cheap_cost = cheap_cost
        self._by_name = {REAL: self.real, CHEAP: self.cheap}
        self.one_by_one = self.real.one_by_one or self.cheap.one_by_one
        self.timed = True
        self.needs = self.real.needs | self.cheap.needs
        if self.shares_noise and (self.real.rows is None) != (self.cheap.rows is None):
            raise InputError(
                "simulators that share random numbers must both be vectorised or both be of one parameter set "
                "(fbar.each)"
            )
        if cheap_cost is not None and not callable(cheap_cost):
            self._positive(cheap_cost, 1)

    @property
    def fidelities(self) -> Fidelities | None:
        return self

    @property
    def made_of(self) -> Any:
        return {
            REAL: self.real.made_of,
            CHEAP: self.cheap.made_of,
            "shares_noise": self.shares_noise,
            "cheap_cost": self.cheap_cost,
        }

    def check(self, parameters: Collection[str]) -> None:
        for name in (FIDELITY, SEED):
            if name in parameters:
                raise InputError(f"with fbar.Fidelities a parameter cannot be called {shown(name)}; rename it")
        for name, simulator in self._by_name.items():
            try:
                simulator.check(parameters)
            except InputError as error:
                raise InputError(f"the {name} simulator: {error}") from None

    # ------------------------------------------------------------ simulations

    @property
    def rows(self) -> Callable[[Points], Single] | None:
        both = self.real.rows is not None and self.cheap.rows is not None
        return self.single if both else None

    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch, by the simulator that the batch names."""
        make = self._by_name[self._named(theta)].rows
        assert make is not None
        one = make(theta.without((FIDELITY, SEED)))
        if not self.shares_noise or SEED not in theta:
            return one
        seeds = theta[SEED]
        return lambda row, rng: one(row, np.random.Generator(np.random.PCG64(int(seeds[row]))))

    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        return self.output(theta, rng)

    def output(self, theta: Points, rng: np.random.Generator) -> Any:
        if self.rows is not None:
            return run_rows(self.single(theta), theta.rows, lambda row: rng)
        begun = clock()
        output = self._by_name[self._named(theta)].output(theta.without((FIDELITY,)), rng)
        return _with_time(output, clock() - begun, theta.rows)

    def _named(self, theta: Points) -> str:
        return str(theta[FIDELITY][0]) if FIDELITY in theta and theta.rows else REAL

    def name_of(self, theta: Points) -> str:
        return f"the {self._named(theta)} simulator" if FIDELITY in theta else ""

    # ------------------------------------------------------------ costs

    def cost_of(self, theta: Points) -> FloatArray | None:
        """The given cost of cheap simulations; None for real ones."""
        if self.cheap_cost is None or self._named(theta) == REAL:
            return None
        plain = theta.without((FIDELITY, SEED))
        found = called("cheap_cost", self.cheap_cost, plain) if callable(self.cheap_cost) else self.cheap_cost
        return self._positive(found, theta.rows)

    def _positive(self, given: Any, rows: int) -> FloatArray:
        cost = numeric_array(given, "cheap_cost")
        if cost.shape not in ((), (rows,)) or not (np.isfinite(cost) & (cost > 0)).all():
            raise InputError(f"cheap_cost must be a positive number for each of {rows} rows; got {shown(given)}")
        return np.broadcast_to(cost, (rows,))


def _as_one(given: Any, name: str, shares_noise: bool) -> Simulator:
    """One of the two, with the contract of all."""
    if not isinstance(given, Simulator):
        if not callable(given):
            raise InputError(f"{name} must be a function simulate(theta, rng); got {shown(given)}")
        return WithNoise(given) if shares_noise else as_simulator(given)
    if given.known is not None or given.fidelities is not None:
        raise InputError(f"{name} must be a single simulator that gives data; got {shown(given)}")
    return given


def _with_time(output: Any, seconds: float, rows: int) -> Any:
    """A vectorised simulator's output with the time of the call, in equal parts, unless it has costs."""
    if isinstance(output, Rows) or (isinstance(output, Mapping) and COST in output):
        return output
    each = np.full(rows, max(seconds / max(rows, 1), LEAST_SECONDS))
    if isinstance(output, list):
        return Rows(output, np.resize(each, len(output)))
    return {**(output if isinstance(output, Mapping) else {"x": output}), COST: each}
