"""The functions φ of the data that learned summaries are linear in: all are 0 at the observed data.

A number y, of the data or of the bank of features, enters as u = arsinh((y − y*)/spread), y* being its observed value
and spread its root mean square distance from y* among the simulations near the data. So u is linear near the data and
logarithmic far from them, whatever the unit. Parts of φ:

    raw       u of the data's numbers (of the means of consecutive blocks if there are more than 150)
    squares   u² of the same
    products  u_i u_j of all pairs, i < j, of at most 12 numbers: all, or those most correlated with the parameters
    bank      u of the bank of features, for data of at least 5 numbers

Where the numbers are more than those that products are of, these are the *few*, and there are also

    few            u and u² of the few
    concordances   c − c*, c = sgn(y_i − y_j) sgn(y_k − y_l), for the pairs of pairs of the few that are most correlated
                   with the parameters: Kendall's statistic of two pairs of numbers

A concordance is the same for all scales of the numbers and for all increasing functions of them. How strongly numbers
depend on one another is seen in it, even where their scales vary so much that no product shows it: with four pairs of
numbers of any scale, the mean concordance of the six pairs of pairs is Kendall's τ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data.features import bank

MOST_RAW = 150
"""More numbers than this are replaced by means of consecutive blocks."""

MOST_PAIRED = 12
"""Numbers whose products enter, at most."""

MOST_CONCORDANCES, BEYOND_CHANCE = 40, 5.0
"""Concordances that enter, at most, and the standard errors by which their correlation with a parameter must exceed 0:
of 2,145 times ten that are tried, one in a hundred runs does by chance."""

FEWEST_BANK = 5
"""Data of fewer numbers have no bank of features."""

SETS = (
    ("raw",),
    ("bank",),
    ("raw", "squares"),
    ("raw", "bank"),
    ("raw", "bank", "squares"),
    ("raw", "squares", "products"),
    ("raw", "bank", "squares", "products"),
    ("few", "products"),
    ("few", "products", "concordances"),
)
"""The sets of parts that a regression chooses from, in order of preference."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers that are computed once for each simulation: the raw ones and the bank's, (n, ·) each."""

    raw: FloatArray
    bank: FloatArray

    @classmethod
    def of(cls, x: FloatArray | Numbers) -> Numbers:
        """Of rows x (n, d); what was computed before is taken as it is."""
        if isinstance(x, Numbers):
            return x
        x = np.asarray(x, dtype=float)
        n, d = x.shape
        values = bank(x) if d >= FEWEST_BANK else np.zeros((n, 0))
        return cls(_blocks(x), values)

    def __getitem__(self, rows: IntArray | BoolArray | slice) -> Numbers:
        return Numbers(self.raw[rows], self.bank[rows])

    def __len__(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, eq=False)
class Basis:
    """φ, with the observed values and the spreads; ``paired`` are the raw numbers whose products enter.

    ``concordant`` (k, 4) are the numbers i, j, k, l of each concordance.
    """

    observed: Numbers
    raw_spread: FloatArray
    bank_spread: FloatArray
    paired: IntArray
    concordant: IntArray

    @classmethod
    def near(cls, numbers: Numbers, observed: Numbers, targets: FloatArray, *, concordances: bool = False) -> Basis:
        """φ for simulations near the data, with their numbers and what is to be predicted of each."""
        raw = _spread(numbers.raw, observed.raw[0])
        paired = np.arange(numbers.raw.shape[1])
        concordant = np.zeros((0, 4), dtype=np.int64)
        if len(paired) > MOST_PAIRED:
            paired = _most_correlated(_scaled(numbers.raw, observed.raw[0], raw), targets, MOST_PAIRED)
            if concordances:
                concordant = paired[_most_concordant(numbers.raw[:, paired], targets)]
        return cls(observed, raw, _spread(numbers.bank, observed.bank[0]), paired, concordant)

    def __call__(self, numbers: Numbers) -> FloatArray:
        """φ of each simulation, (n, p)."""
        raw = _scaled(numbers.raw, self.observed.raw[0], self.raw_spread)
        first, second = np.triu_indices(self.paired.size, 1)
        products = raw[:, self.paired[first]] * raw[:, self.paired[second]]
        features = _scaled(numbers.bank, self.observed.bank[0], self.bank_spread)
        agreeing = _concordances(numbers.raw, self.concordant) - _concordances(self.observed.raw, self.concordant)
        return np.hstack([raw, raw**2, products, features, agreeing])

    def columns(self) -> dict[str, IntArray]:
        """The columns of each part that is there."""
        d, pairs = self.raw_spread.size, self.paired.size * (self.paired.size - 1) // 2
        sizes = {"raw": d, "squares": d, "products": pairs, "bank": self.bank_spread.size}
        sizes["concordances"] = len(self.concordant)
        ends = np.cumsum(list(sizes.values()))
        columns = {part: np.arange(end - sizes[part], end) for part, end in zip(sizes, ends, strict=True)}
        if self.paired.size < d:
            columns["few"] = np.concatenate([columns["raw"][self.paired], columns["squares"][self.paired]])
        return {part: members for part, members in columns.items() if members.size}

    def sets(self) -> list[tuple[str, IntArray]]:
        """The sets of `SETS` whose parts are all there, by name, with their columns."""
        columns = self.columns()
        there = [parts for parts in SETS if all(part in columns for part in parts)]
        return [(" + ".join(parts), np.concatenate([columns[part] for part in parts])) for parts in there]


def distances(raw: FloatArray, observed: FloatArray) -> FloatArray:
    """A first distance to the data: Σ arsinh²((x − x*)/scale), scale being the median distance or the deviation."""
    away = np.abs(raw - observed)
    scale = np.median(away, axis=0)
    scale = np.where(scale > 0, scale, raw.std(axis=0))
    return np.asarray((np.arcsinh(away / np.where(scale > 0, scale, np.inf)) ** 2).sum(axis=1))


def _scaled(y: FloatArray, observed: FloatArray, spread: FloatArray) -> FloatArray:
    return np.asarray(np.arcsinh((y - observed) / spread))


def _spread(y: FloatArray, observed: FloatArray) -> FloatArray:
    """The root mean square distance, at most twice the 70% quantile; infinite for a number that never varied."""
    if y.shape[1] == 0:
        return np.zeros(0)
    away = np.abs(y - observed)
    largest = away.max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    size = np.sqrt(((away / unit) ** 2).mean(axis=0)) * unit
    usual = np.quantile(away, 0.7, axis=0)
    size = np.where(usual > 0, np.minimum(size, 2 * usual), size)
    varies = largest > 1e-12 * np.abs(observed)
    return np.where(varies & (size > 0), size, np.inf)


def _most_correlated(u: FloatArray, targets: FloatArray, most: int) -> IntArray:
    """The columns of u which, with their squares, correlate most with the targets or their squares."""
    y = np.hstack([targets, targets**2])
    y = _standardised(y)
    strength = np.zeros(u.shape[1])
    for columns in (u, u**2):
        strength += ((_standardised(columns).T @ y / len(y)) ** 2).sum(axis=1)
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def _concordances(raw: FloatArray, concordant: IntArray) -> FloatArray:
    """sgn(y_i − y_j) sgn(y_k − y_l) of each row, (n, k)."""
    i, j, k, m = concordant.T
    return np.asarray(np.sign(raw[:, i] - raw[:, j]) * np.sign(raw[:, k] - raw[:, m]))


def _most_concordant(few: FloatArray, targets: FloatArray) -> IntArray:
    """The numbers i, j, k, l whose concordances correlate most with the targets or their squares, shape (·, 4)."""
    y = _standardised(np.hstack([targets, targets**2]))
    first, second = np.triu_indices(few.shape[1], 1)
    signs = np.sign(few[:, first] - few[:, second])
    one, other = np.triu_indices(first.size, 1)
    strength = np.zeros(one.size)
    for column in y.T:  # Σ c y of all of them is one product of matrices
        np.maximum(strength, np.abs(((signs.T * column) @ signs)[one, other]), out=strength)
    best = np.argsort(-strength, kind="stable")[:MOST_CONCORDANCES]
    best = np.sort(best[strength[best] > BEYOND_CHANCE * np.sqrt(len(few))])
    pairs = np.stack([first, second], axis=1)
    return np.concatenate([pairs[one[best]], pairs[other[best]]], axis=1)


def _standardised(y: FloatArray) -> FloatArray:
    deviation = y.std(axis=0)
    return np.asarray((y - y.mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf))


def _blocks(x: FloatArray) -> FloatArray:
    """Means of consecutive blocks of the numbers of each row, if there are more than `MOST_RAW`."""
    d = x.shape[1]
    if d <= MOST_RAW:
        return x
    edges = np.linspace(0, d, MOST_RAW + 1).astype(np.int64)
    return np.asarray(np.add.reduceat(x, edges[:-1], axis=1) / np.diff(edges))
