"""Simulators: a user's functions, and known acceptance probabilities that stand in for them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fbar.checks import BoolArray, FloatArray, IntArray, floats, in_words, instance, numeric_array, probabilities, shown
from fbar.checks import function as check_function
from fbar.errors import FbarError, InputError
from fbar.question.outcomes import Failure, Tally
from fbar.question.points import Points
from fbar.question.priors import Distribution, Finite

MOST_MESSAGE = 300
MOST_DETAIL = 4000
"""Characters kept of a traceback or of standard error, from its end."""

Simulator = Callable[[Points, np.random.Generator], Any]

Single = Callable[[int, np.random.Generator], Any]
"""One simulation: of a row of some batch, with random numbers of its own."""

COST = "cost"
"""The name under which a simulator may return what its simulations cost."""

repeating: ContextVar[bool] = ContextVar("repeating", default=False)
"""Whether simulations are run again that were counted before, to find out which of them failed."""

clock = time.perf_counter
"""Measures what a simulation costs, in seconds."""

LEAST_SECONDS = 1e-9
"""A clock may stand still during a short simulation; a cost is positive all the same."""


class TimedOut(BaseException):
    """A time limit passed. No Exception, so that a simulator's own `except Exception` lets it through."""


class EndsRun(FbarError):
    """Raised by a simulator of ours to end what calls it; all that a user's simulator raises is a failure."""


class Unusable(InputError):
    """An output that cannot be used: an error where the whole call is at fault, a failure where some rows are."""

    def __init__(self, message: str, kind: Failure = Failure.UNUSABLE) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[Unusable], tuple[str, Failure]]:
        return type(self), (str(self), self.kind)


class Nonsense(Unusable):
    """What no function of a user's may give, such as a distance below 0: a mistake if the first block has it."""


PASSES = (KeyboardInterrupt, TimedOut, EndsRun)
"""What is not a failure when a simulator raises it. All else is, SystemExit too: a model that calls exit() fails."""


class Rows(list[Any]):
    """Outputs of single simulations, with the seconds that each took; NaN where they are not known."""

    def __init__(self, outputs: Sequence[Any], cost: npt.ArrayLike) -> None:
        super().__init__(outputs)
        self.cost: FloatArray = np.asarray(cost, dtype=np.float64)


class RowByRow:
    """A simulator that runs its rows one by one, and can run each alone with random numbers of its own.

    ``batch_call`` is the call that `single` stands for: a subclass that replaces ``__call__`` is called as it is.
    """

    batch_call: Callable[..., Any]

    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch."""
        raise NotImplementedError


class each(RowByRow):
    """Turn a simulator of one parameter set into one of a batch: it is called once for every row.

    A row that raises an exception, or gives None, is a failed simulation and does not disturb the others. The time of
    every call is measured: it is the simulation's cost unless the simulator returns one.

    >>> @each
    ... def simulate(theta, rng):
    ...     return rng.poisson(theta["rate"])
    """

    names: frozenset[str] = frozenset()
    """Parameters that it is known to need."""

    def __init__(self, function: Callable[[dict[str, Any], np.random.Generator], Any]) -> None:
        check_function(function, "a simulator")
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "simulate")

    def single(self, theta: Points) -> Single:
        """The simulation of one row of a batch."""
        columns = {name: theta[name] for name in (*theta, *theta.derived)}
        if unknown := self.names - columns.keys():
            raise InputError(f"the simulator needs the parameter {min(unknown)!r}; known: {', '.join(columns)}")

        def one(row: int, rng: np.random.Generator) -> Any:
            return self.function(_Theta({name: column[row] for name, column in columns.items()}), rng)

        return one

    def __call__(self, theta: Points, rng: np.random.Generator) -> list[Any]:
        """A row's output each, and its time; a ``RowFailed`` for one that failed."""
        return run_rows(self.single(theta), theta.rows, lambda row: rng)

    batch_call = __call__


def run_rows(one: Single, rows: Sequence[int] | int, stream: Callable[[int], np.random.Generator]) -> Rows:
    """The outputs of single rows, each with the generator that ``stream`` gives for it, and their times."""
    outputs: list[Any] = []
    seconds: list[float] = []
    for row in range(rows) if isinstance(rows, int) else rows:
        rng = stream(row)
        begun = clock()
        try:
            output = _kept(one(row, rng))
        except PASSES:
            raise
        except BaseException as error:
            output = RowFailed.of(error)
        seconds.append(clock() - begun)
        outputs.append(RowFailed("it returned None") if output is None else output)
    return Rows(outputs, np.maximum(seconds, LEAST_SECONDS))


class _Theta(dict[str, Any]):
    """One parameter set; a name that it has not is answered with those that it has."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"there is no parameter {shown(name)}; known: {', '.join(self)}")

    def __getattr__(self, name: str) -> Any:
        if name in self:
            raise AttributeError(f"parameters are taken by name: write theta[{shown(name)}], not theta.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {shown(name)}")


def _kept(output: Any) -> Any:
    """An output that the simulator cannot change any more: it may fill the same array again."""
    if isinstance(output, np.ndarray):
        return output.copy()
    if isinstance(output, Mapping):
        return {name: _kept(value) for name, value in output.items()}
    return output


@dataclass(frozen=True)
class RowFailed:
    """Stands in the output of a simulator for a row that failed."""

    message: str
    detail: str = ""
    kind: Failure = Failure.EXCEPTION

    @classmethod
    def of(cls, error: BaseException) -> RowFailed:
        """An exception in one line, with its traceback; an error may bring a ``detail`` and a ``kind`` of its own."""
        if isinstance(error, Unusable):
            return cls(_line(str(error)), kind=error.kind)
        try:
            text = str(error)
        except BaseException:
            text = "(it cannot be said in words)"
        try:
            detail, kind = getattr(error, "detail", None), getattr(error, "kind", None)
            detail = str(detail or "".join(traceback.format_exception(error)))
        except BaseException:
            detail, kind = "", None
        if not isinstance(kind, Failure) or kind is Failure.NONE:
            kind = Failure.REFUSED if isinstance(error, FbarError) else Failure.EXCEPTION
        return cls(f"{type(error).__name__}: {_line(text)}", _writable(detail[-MOST_DETAIL:]), kind)


def _line(text: str) -> str:
    """A message in one line of some length."""
    text = " ".join(text[: 10 * MOST_MESSAGE].split())
    return _writable(text if len(text) <= MOST_MESSAGE else text[: MOST_MESSAGE - 1] + "…")


def _writable(text: str) -> str:
    """Text that can be written as UTF-8: single surrogates, as of file names that are no text, are spelt out."""
    return text.encode(errors="backslashreplace").decode()


def one_by_one(simulator: Any) -> bool:
    """Whether a simulator runs one parameter set at a time, in Python or outside: slow beside a vectorised one."""
    return isinstance(simulator, each) or bool(getattr(simulator, "one_by_one", False))


def single(simulator: Any) -> Callable[[Points], Single] | None:
    """How to run the rows of a batch alone, each with random numbers of its own; None where rows share them."""
    if isinstance(simulator, RowByRow) and type(simulator).__call__ is type(simulator).batch_call:
        return simulator.single
    return None


def measured(simulator: Any) -> bool:
    """Whether the time of every single simulation is measured: of one wrapped by `each`, and of a choice of such."""
    return isinstance(simulator, each) or bool(getattr(simulator, "measured", False))


@dataclass(frozen=True, eq=False)
class Costs:
    """What is known of the costs of a block's simulations: what was returned, for which rows, and what was measured."""

    values: FloatArray
    returned: BoolArray
    seconds: FloatArray


def without_costs(output: Any) -> tuple[Any, Costs | None]:
    """A simulator's output without what it says of costs, and that; None if it says nothing.

    A row whose cost is not a positive number has failed, unless it has failed anyway and says NaN.
    """
    if isinstance(output, Mapping):
        if COST not in output:
            return output, None
        values = _numbers(output[COST])
        rest = {name: value for name, value in output.items() if name != COST}
        return rest, Costs(values, np.ones(values.shape, dtype=bool), np.full(values.shape, np.nan))
    if isinstance(output, np.ndarray) and output.dtype == object and output.ndim == 1:
        output = list(output)
    if not isinstance(output, list):
        return output, None
    seconds = output.cost if isinstance(output, Rows) else np.full(len(output), np.nan)
    rows, values, returned = [], np.full(len(output), np.nan), np.zeros(len(output), dtype=bool)
    for i, row in enumerate(output):
        if isinstance(row, Mapping) and COST in row:
            returned[i] = True
            try:
                values[i] = _cost(row[COST])
                row = _without_cost(row)
            except Unusable as error:
                row = RowFailed.of(error)
        rows.append(row)
    if not returned.any():
        return output, Costs(values, returned, seconds) if isinstance(output, Rows) else None
    return rows, Costs(values, returned, seconds)


def _numbers(value: Any) -> FloatArray:
    try:
        return numeric_array(value, f"the simulator's {COST!r}")
    except (InputError, OverflowError):
        raise Unusable(f"the simulator's {COST!r} must be numbers; got {shown(value)}") from None


def _cost(value: Any) -> float:
    number = _numbers(value)
    if number.ndim:
        raise Unusable(f"the simulator's {COST!r} must be one number for each simulation; got shape {number.shape}")
    return float(number)


def _without_cost(row: Any) -> Any:
    """A row's other outputs; its data alone if there are no others."""
    rest = {name: value for name, value in row.items() if name != COST}
    return rest["x"] if list(rest) == ["x"] else rest


class Tabulated:
    """A "simulator" of known acceptance probabilities: x = x* with probability p*(θ_i).

    Repeats are drawn as one binomial number, whatever their size and for all trials at once, so that
    10⁸ simulations cost as much as one.
    """

    def __init__(self, prior: Finite, p_star: npt.ArrayLike) -> None:
        instance(prior, Finite, "prior", "an fbar.Finite")
        self.p_star = probabilities(p_star, "acceptance probabilities")
        self.p_star.flags.writeable = False
        if self.p_star.shape != (prior.size,):
            raise InputError(
                f"acceptance probabilities must be {prior.size} numbers, one for each parameter value; "
                f"got shape {self.p_star.shape}"
            )

    def tally(self, cells: IntArray, repeats: IntArray, rng: np.random.Generator) -> Tally:
        # Cells first, trials last: numpy sets a binomial up once for a run of equal (n, p).
        n = np.moveaxis(repeats, -1, 0)
        p = self.p_star[cells].reshape(-1, *([1] * (n.ndim - 1)))
        hits = np.moveaxis(rng.binomial(n, p), 0, -1).astype(np.float64)
        return Tally(hits, hits)


class Bernoulli:
    """A "simulator" of a known acceptance probability on any parameter space: x = x* with probability p*(θ)."""

    def __init__(self, p_star: Callable[[Points], FloatArray]) -> None:
        check_function(p_star, "p_star")
        self.p_star = p_star

    def tally(self, theta: Points, rng: np.random.Generator) -> Tally:
        matched = (rng.random(theta.rows) < self.known(theta)).astype(np.float64)
        return Tally(matched, matched)

    def known(self, theta: Points) -> FloatArray:
        """p*(θ) of a batch, checked."""
        try:
            given = self.p_star(theta)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the acceptance probability p_star failed: {in_words(error)}") from error
        p = floats(given, "acceptance probabilities p_star(theta)")
        if p.shape not in ((), (theta.rows,)):
            raise InputError(f"p_star must give one number for each of {theta.rows} rows; it gives shape {p.shape}")
        return np.broadcast_to(p, (theta.rows,))


class Separable:
    """p*(θ) = Π h(θ_j), a product of functions of single parameters; one that a model lacks counts as 1.

    Designs built on it are products too, drawn and weighted without approximation in any dimension.
    """

    def __init__(self, **parts: Callable[[FloatArray], FloatArray]) -> None:
        for name, part in parts.items():
            check_function(part, f"the factor of {shown(name)}")
        self.parts = parts

    def __call__(self, points: Points) -> FloatArray:
        result: FloatArray | float = 1.0
        for name, part in self.parts.items():
            if name not in points:
                continue
            values = part(points[name])
            result = result * (values if points.complete else np.where(points.present(name), values, 1.0))
        return np.broadcast_to(np.asarray(result), (points.rows,))


class Model(NamedTuple):
    """One model among several: its simulator, and the prior of its own parameters if it has any."""

    simulate: Simulator
    prior: Distribution | None = None


def choose(models: Mapping[Any, Model], name: str) -> Simulator:
    """The simulator of a model choice: each row by its model, which sees its own parameters alone."""
    by_row = all(single(model.simulate) is not None for model in models.values())
    return RowByRowChoice(models, name) if by_row else Choice(models, name)


class Choice:
    """A model choice, some of whose models are vectorised."""

    def __init__(self, models: Mapping[Any, Model], name: str) -> None:
        self.models, self.name = dict(models), name
        self.__qualname__ = "choose.<locals>.simulate"  # under which recorded runs know it
        self.one_by_one = any(one_by_one(model.simulate) for model in models.values())
        self.measured = all(measured(model.simulate) for model in models.values())

    def parts(self, theta: Points) -> Iterator[tuple[Any, Simulator, npt.NDArray[np.int64], Points]]:
        """Each model that occurs: its label, its simulator, its rows, and these with its own parameters alone."""
        for label, (simulator, own) in self.models.items():
            rows = np.flatnonzero(theta[self.name] == label)
            if rows.size:
                yield label, simulator, rows, theta.take(rows).only([self.name, *(own.names if own else ())])

    def __call__(self, theta: Points, rng: np.random.Generator) -> Any:
        result: npt.NDArray[Any] | None = None
        outputs: list[Any] = []
        seconds: list[FloatArray] = []
        order: list[npt.NDArray[np.int64]] = []
        for label, simulator, rows, part in self.parts(theta):
            output = simulator(part, rng)
            if isinstance(output, Mapping | list):
                rows_out = _rows(output, rows.size, label)
                outputs += rows_out
                seconds.append(output.cost if isinstance(output, Rows) else np.full(rows.size, np.nan))
                order.append(rows)
                continue
            x = np.asarray(output)
            if x.shape[:1] != rows.shape:
                raise Unusable(
                    f"model {shown(label)} was asked for {rows.size} simulations and gave an output of shape {x.shape}",
                    Failure.WRONG_SHAPE,
                )
            if result is None:
                result = np.empty((theta.rows, *x.shape[1:]), dtype=x.dtype)
            elif x.shape[1:] != result.shape[1:]:
                raise Unusable(
                    f"the models' outputs differ in shape: {shown(label)} gives {x.shape[1:]}, others "
                    f"{result.shape[1:]}",
                    Failure.WRONG_SHAPE,
                )
            result = result.astype(np.result_type(result, x), copy=False)
            result[rows] = x
        if outputs:
            if result is not None:
                mixed = np.setdiff1d(np.arange(theta.rows), np.concatenate(order))
                outputs, order = outputs + list(result[mixed]), [*order, mixed]
                seconds.append(np.full(mixed.size, np.nan))
            back = np.argsort(np.concatenate(order), kind="stable")
            return Rows([outputs[i] for i in back], np.concatenate(seconds)[back])
        assert result is not None
        return result


class RowByRowChoice(Choice, RowByRow):
    """A model choice all of whose models run their rows one by one."""

    batch_call = Choice.__call__

    def single(self, theta: Points) -> Single:
        place: dict[int, tuple[Single, int]] = {}
        for _, simulator, rows, part in self.parts(theta):
            make = single(simulator)
            assert make is not None
            one = make(part)
            place |= {int(row): (one, i) for i, row in enumerate(rows)}

        def run(row: int, rng: np.random.Generator) -> Any:
            one, i = place[row]
            return one(i, rng)

        return run


def _rows(output: Any, size: int, label: Any) -> list[Any]:
    """A model's mapping or list of outputs, row by row."""
    columns = output if isinstance(output, Mapping) else {"": output}
    for values in columns.values():
        gave = len(values) if hasattr(values, "__len__") else "no list"
        if gave != size:
            raise Unusable(
                f"model {shown(label)} was asked for {size} simulations and gave {gave}", Failure.WRONG_SHAPE
            )
    if not isinstance(output, Mapping):
        return list(output)
    return [dict(zip(output, values, strict=True)) for values in zip(*output.values(), strict=True)]
