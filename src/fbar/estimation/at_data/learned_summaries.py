"""Summaries of low dimension, learned from a run's own simulations and cross-fitted by group.

Where the data are many numbers, a regression that is local in all of them has no neighbours. Here E[v|x] and the
variance of v given x are predicted by functions linear in φ(x) (``fbar.estimation.at_data.basis``), v being the
unconstrained parameters. Their differences from the values at the data x*, in units of the residual deviation τ,

    s(x) = (m̂₋ₖ(x) − m̂₋ₖ(x*)) / τ,

are the coordinates to localise by; m̂₋ₖ has not seen the group k of its simulation.

1. m̂ is fitted to the simulations of all rounds. A second regression, of the logarithms of the squared residuals, gives
   coordinates where the posterior's spread depends on the data, or where symmetric modes leave the mean without
   information. Logarithms, since a spread matters relative to itself: a regression of the squares is dominated by large
   values, and says little where those of the data are small.
2. The simulations nearest under these s₁, a share of all, are the region. All others are left out: φ is scaled near the
   data, and far simulations may take any value of s. In the region both regressions are fitted again, with coefficients
   that vary with s₁: columns φ and φ·arsinh(s₁). At the data s₁ = 0, so this is a local fit of the coefficients.

Simulations count equally, without importance weights: a function of x is a valid summary under any weights, and equal
weights lose the fewest simulations. Functions count if they explain more than ``LEAST_EXPLAINED`` of the variance, out
of group.

*Loss.* E[f|s(x*)] differs from E[f|x*] by the information that s lacks. Relative to Var(f|s), the mean square of the
difference is estimated as

    λ = (held-out loss − in-sample loss)/2 / held-out loss      the coefficients' own error, p/n for p free ones,
      + what varying coefficients gained over constant ones     for what functions richer still would gain.

The second term is a heuristic: a loss that no function of φ reveals cannot be seen in the simulations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data.basis import Basis, Numbers, distances, far_outside
from fbar.estimation.at_data.crossfit import CrossFit, Regressions
from fbar.estimation.at_data.features import bank_names

NUMBERS_A_PARAMETER = 1.5
"""Summaries are worth learning from data with more numbers than this for each parameter."""

FEWEST = 100
"""With fewer simulations nothing is learned."""

MOST_ROWS = 20_000
"""Simulations that are learned from, at most."""

REGION = 0.8
"""The share of the simulations in the region."""

LEAST_EXPLAINED = 0.02
"""Out-of-group R² above which a function counts."""

MOST_COLUMNS = 600
"""Columns of a regression with varying coefficients, at most; and at most a third of the simulations learned from."""

MOST_DEVIATIONS = 4.0
"""Where targets are cut, in deviations."""

SMALLEST_SQUARE = 0.01
"""What is added to a squared residual before its logarithm is taken, in units of their mean."""

CHUNK = 8192
"""Simulations whose columns are in memory at once."""


def worth_learning(numbers: int, parameters: int) -> bool:
    """Whether the data are many for the number of parameters."""
    return numbers > NUMBERS_A_PARAMETER * parameters


@dataclass(frozen=True)
class Function:
    """What is known of one learned function.

    ``of`` is the number of its parameter, ``kind`` "mean" or "spread", ``columns`` what it is linear in, ``explained``
    its R² out of group, ``loss`` its λ, and ``kept`` whether it is a coordinate.
    """

    of: int
    kind: str
    columns: str
    explained: float
    loss: float
    kept: bool


@dataclass(frozen=True, eq=False)
class Placed:
    """Simulations under learned summaries: coordinates (n, k), 0 at the data, and which rows lie in the region."""

    coordinates: FloatArray
    inside: BoolArray


@dataclass(frozen=True, eq=False)
class _Stage:
    """Coordinates from φ, or from φ and φ·arsinh(s₁/scale) for the columns ``varying``."""

    basis: Basis
    slopes: FloatArray
    scale: FloatArray
    varying: IntArray

    def columns(self, numbers: Numbers, first: FloatArray) -> FloatArray:
        return _varied(self.basis(numbers), first, self.scale, self.varying)

    def coordinates(self, columns: FloatArray, position: IntArray) -> FloatArray:
        result = np.empty((len(columns), self.slopes.shape[2]))
        for k in range(len(self.slopes)):
            rows = position == k
            result[rows] = columns[rows] @ self.slopes[k]
        return result


@dataclass(frozen=True, eq=False)
class LearnedCoordinates:
    """Learned summaries; ``functions`` describes the second pass, which gives the coordinates.

    ``outside`` are the features of the data that are far beyond those of all simulations.
    """

    groups: IntArray
    wide: _Stage
    near: _Stage
    radius: float
    functions: tuple[Function, ...]
    rows: int
    outside: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        return int(self.near.slopes.shape[2])

    @property
    def loss(self) -> float:
        """λ, averaged over the coordinates."""
        return float(np.mean([function.loss for function in self.functions if function.kept]))

    def coordinates(self, x: FloatArray | Numbers, group: IntArray) -> FloatArray:
        """s(x) of each row of x (n, d), by the functions that have not seen its group."""
        return self.place(x, group).coordinates

    def place(self, x: FloatArray | Numbers, group: IntArray) -> Placed:
        """The coordinates of each row, and whether it lies in the region."""
        position = self._position(group)
        parts = [slice(start, start + CHUNK) for start in range(0, len(x), CHUNK)]
        placed = [self._place(Numbers.of(x[part]), position[part]) for part in parts]
        if not placed:
            return Placed(np.zeros((0, self.dimension)), np.zeros(0, dtype=bool))
        return Placed(np.concatenate([p.coordinates for p in placed]), np.concatenate([p.inside for p in placed]))

    def describe(self) -> dict[str, object]:
        """For the record of a run: numbers and text only."""
        return {
            "rows": self.rows,
            "dimension": self.dimension,
            "radius": self.radius,
            "loss": self.loss,
            "functions": [
                {
                    "parameter": function.of,
                    "kind": function.kind,
                    "columns": function.columns,
                    "explained": function.explained,
                    "loss": function.loss,
                    "kept": function.kept,
                }
                for function in self.functions
            ],
        }

    def _position(self, group: IntArray) -> IntArray:
        position = np.minimum(np.searchsorted(self.groups, group), self.groups.size - 1)
        if (self.groups[position] != group).any():
            raise ValueError("summaries were learned without some of these groups")
        return position

    def _place(self, numbers: Numbers, position: IntArray) -> Placed:
        nothing = np.zeros((len(numbers), 0))
        first = self.wide.coordinates(self.wide.columns(numbers, nothing), position)
        inside = np.sqrt((first**2).sum(axis=1)) <= self.radius
        result = np.zeros((len(numbers), self.dimension))
        columns = self.near.columns(numbers[inside], first[inside])
        result[inside] = self.near.coordinates(columns, position[inside])
        return Placed(result, inside)


_Sets = list[tuple[str, IntArray]]


@dataclass(frozen=True, eq=False)
class _About:
    """Of the simulations that are learned from: standardised targets, kernel weights, and the number of the group."""

    targets: FloatArray
    kernel: FloatArray
    position: IntArray


def learn(x: FloatArray | Numbers, observed: FloatArray, v: FloatArray, group: IntArray) -> LearnedCoordinates | None:
    """Summaries from simulated data x (n, d) or their `Numbers`, unconstrained parameters v (n, D) and groups.

    None if nothing is found.

    The data are finite: simulations that failed are left out before. Indicators of models may be among the columns of
    v. A value of v that is not finite, such as a parameter that a model lacks, counts as the mean of the others.
    """
    groups = np.unique(group)
    if len(x) < FEWEST or groups.size < 2:
        return None
    position = np.searchsorted(groups, group)
    star = Numbers.of(np.reshape(observed, (1, -1)))
    everywhere = _evenly(position, MOST_ROWS)
    all_numbers = Numbers.of(x)
    numbers = all_numbers[everywhere]
    distance = distances(numbers.raw, star.raw[0])
    half = distance <= np.median(distance)
    about = _About(
        standardised(v[everywhere], np.ones(len(everywhere))), np.ones(len(everywhere)), position[everywhere]
    )
    basis = Basis.near(numbers[half], star, about.targets[half], dependence=True)
    columns = basis(numbers)
    regressions = Regressions(columns, about.kernel, about.position)
    wide = _fit(regressions, None, columns, basis.sets(), [], about)
    if not wide.kept.any():
        return None
    stage = _Stage(basis, wide.slopes, np.zeros(0), np.zeros(0, dtype=np.int64))

    first = _first(stage, all_numbers, position)
    distance = np.sqrt((first**2).sum(axis=1))
    radius = float(np.quantile(distance, REGION))
    rows = np.flatnonzero(distance <= radius)
    if len(rows) > MOST_ROWS:
        rows = np.sort(rows[np.argsort(distance[rows], kind="stable")[:MOST_ROWS]])
    if np.unique(position[rows]).size < groups.size:
        return None
    edge = max(float(distance[rows].max()), 1e-300)
    kernel = 1 - 0.9999 * (distance[rows] / edge) ** 2
    about = _About(standardised(v[rows], kernel), kernel, position[rows])
    means = max(int(wide.kept[: v.shape[1]].sum()), 1)  # coefficients vary with the mean functions of the first pass
    near, functions = _near(all_numbers[rows], star, first[rows][:, :means], about)
    if near is None:
        return None
    outside = far_outside(numbers, star, bank_names(np.size(observed)))
    return LearnedCoordinates(groups, stage, near, radius, functions, len(rows), outside)


def _near(
    numbers: Numbers, star: Numbers, first: FloatArray, about: _About
) -> tuple[_Stage | None, tuple[Function, ...]]:
    """The second pass, on simulations near the data; None if no function counts."""
    basis = Basis.near(numbers, star, about.targets, dependence=True)
    columns, sets = basis(numbers), basis.sets()
    constant = Regressions(columns, about.kernel, about.position)
    most = min(MOST_COLUMNS, len(columns) // 3) // (1 + first.shape[1])
    varying = _varying(constant.fit(about.targets, sets), sets, most)
    if varying.size:
        scale = np.sqrt(np.maximum((first**2).mean(axis=0), 1e-300))
        all_columns = _varied(columns, first, scale, varying)
        also = np.concatenate([varying, np.arange(columns.shape[1], all_columns.shape[1])])
        richer = Regressions(all_columns, about.kernel, about.position)
        fitted = _fit(constant, richer, all_columns, sets, [("varying coefficients", also)], about)
    else:
        scale = np.zeros(0)
        fitted = _fit(constant, None, columns, sets, [], about)
    functions = fitted.functions(about.targets.shape[1])
    if not fitted.kept.any():
        return None, functions
    return _Stage(basis, fitted.slopes, scale, varying), functions


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The slopes of the functions that are kept, in units of the residual deviation, and what is known of all."""

    slopes: FloatArray
    kept: BoolArray
    explained: FloatArray
    loss: FloatArray
    chosen: tuple[str, ...]

    def functions(self, parameters: int) -> tuple[Function, ...]:
        return tuple(
            Function(
                number % parameters,
                "mean" if number < parameters else "spread",
                self.chosen[number],
                float(self.explained[number]),
                float(self.loss[number]),
                bool(self.kept[number]),
            )
            for number in range(len(self.chosen))
        )


def _fit(
    constant: Regressions, richer: Regressions | None, columns: FloatArray, sets: _Sets, more: _Sets, about: _About
) -> _Fitted:
    """Functions for the targets, then for the logarithms of their squared residuals.

    Those on the ``sets`` of columns come first, then ``more`` sets, with varying coefficients; what these gain counts
    as loss.
    """
    targets, kernel, position = about.targets, about.kernel, about.position

    def best(y: FloatArray) -> tuple[CrossFit, FloatArray]:
        first = constant.fit(y, sets)
        if richer is None:
            return first, np.zeros(y.shape[1])
        width = columns.shape[1] - first.slopes.shape[1]
        padded = np.pad(first.slopes, ((0, 0), (0, width), (0, 0)))
        both = richer.fit(y, more, CrossFit(padded, first.at_zero, first.loss, first.in_sample, first.chosen))
        return both, np.maximum(first.loss / np.maximum(both.loss, 1e-9) - 1, 0.0)

    mean, gain = best(targets)
    square = (targets - mean.predict(columns, position)) ** 2
    usual = kernel @ square / kernel.sum()
    logs = np.log(square / np.where(usual > 0, usual, 1.0) + SMALLEST_SQUARE)
    spread, gain_of_spread = best(_standard(logs, kernel))
    loss = np.concatenate([mean.loss, spread.loss])
    in_sample = np.concatenate([mean.in_sample, spread.in_sample])
    left = np.maximum(loss, 1e-9)
    explained = 1 - loss
    varies = np.tile(kernel @ targets**2 > 0, 2)
    kept = (explained > LEAST_EXPLAINED) & varies
    lost = np.maximum(loss - in_sample, 0.0) / (2 * left) + np.concatenate([gain, gain_of_spread])
    slopes = np.concatenate([mean.slopes, spread.slopes], axis=2)[:, :, kept] / np.sqrt(left[kept])
    return _Fitted(slopes, kept, explained, lost, mean.chosen + spread.chosen)


def _varying(fit: CrossFit, sets: _Sets, most: int) -> IntArray:
    """The columns whose coefficients vary: those that most targets chose, or a part of them, at most ``most``."""
    by_name = dict(sets)
    chosen = [name for name in fit.chosen if name]
    if not chosen:
        return np.zeros(0, dtype=np.int64)
    favourite = max(sorted(set(chosen)), key=chosen.count)
    of_features = "bank" in favourite or "order" in favourite
    fallbacks = ["raw + bank", "bank", "order", "raw"] if of_features else ["raw + squares", "raw"]
    for name in (favourite, *fallbacks):
        if name in by_name and by_name[name].size <= most:
            return by_name[name]
    return np.zeros(0, dtype=np.int64)


def _varied(columns: FloatArray, first: FloatArray, scale: FloatArray, varying: IntArray) -> FloatArray:
    if varying.size == 0:
        return columns
    modulators = np.arcsinh(first[:, : scale.size] / scale)
    products = columns[:, varying, None] * modulators[:, None, :]
    return np.hstack([columns, products.reshape(len(columns), -1)])


def _evenly(position: IntArray, most: int) -> IntArray:
    """At most ``most`` rows in order, evenly spaced among those of each group."""
    members = [np.flatnonzero(position == k) for k in range(int(position.max()) + 1)]
    share = most // len(members)
    kept = [rows[np.linspace(0, len(rows) - 1, min(len(rows), share)).astype(np.int64)] for rows in members]
    return np.sort(np.concatenate(kept))


def _first(stage: _Stage, numbers: Numbers, position: IntArray) -> FloatArray:
    """s₁ of all simulations."""
    result = np.empty((len(numbers), stage.slopes.shape[2]))
    for start in range(0, len(numbers), CHUNK):
        part = slice(start, start + CHUNK)
        columns = stage.basis(numbers[part])
        result[part] = stage.coordinates(columns, position[part])
    return result


def standardised(v: FloatArray, kernel: FloatArray) -> FloatArray:
    """v with mean 0 and variance 1 under the kernel, cut at `MOST_DEVIATIONS`; what is not finite is the mean."""
    finite = np.isfinite(v)
    weight = kernel[:, None] * finite
    total = np.maximum(weight.sum(axis=0), 1e-300)
    filled = np.where(finite, v, 0.0)
    mean = (weight * filled).sum(axis=0) / total
    filled = np.where(finite, filled - mean, 0.0)
    deviation = np.sqrt((weight * filled**2).sum(axis=0) / total)
    cut = np.clip(filled / np.where(deviation > 0, deviation, 1.0), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    return _standard(cut, kernel)


def _standard(y: FloatArray, kernel: FloatArray) -> FloatArray:
    """y with mean 0 and variance 1 under the kernel; zeros where it does not vary."""
    total = kernel.sum()
    centred = y - kernel @ y / total
    deviation = np.sqrt(kernel @ centred**2 / total)
    return np.where(deviation > 1e-9, centred / np.where(deviation > 1e-9, deviation, 1.0), 0.0)
