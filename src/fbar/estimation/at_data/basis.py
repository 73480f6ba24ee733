"""The functions φ of the data that learned summaries are linear in: all are 0 at the observed data.

A number y, of the data or of the bank of features, enters as u = arsinh((y − y*)/spread), y* being its observed value
and spread its root mean square distance from y* among the simulations near the data. So u is linear near the data and
logarithmic far from them, whatever the unit. Parts of φ:

    raw       u of the data's numbers (of the means of consecutive blocks if there are more than 150)
    squares   u² of the same
    products  u_i u_j of all pairs, i < j, of at most 12 numbers: all, or those most correlated with the parameters
    order     u of the features that do not depend on the order of the numbers, for data of at least 5
    bank      u of all features, also those of a series

The numbers that products are of are the *few*. Of them there are also

    few            u and u²
    concordances   c − c* of the few (`fbar.estimation.at_data.dependence`)
    correlations   artanh r − artanh r* of groups of the few (the same)
    gaps           log |y_i − y_j| − log |y*_i − y*_j| of all pairs of the few

The functions of all parts but the first three are cut at the outermost quantiles of the simulations. Data may have
a feature as no simulation has it: numbers that hardly vary, say. A slope fitted to what the simulations vary by would
be extrapolated that far, and carry the summaries away; cut, the feature counts as the outermost that there was.

A gap's logarithm shows scales as a concordance shows dependence: for numbers of any mean and the scale σ it is log σ
plus noise of a fixed size, so that log σ is linear in gaps, whatever it is. Squares and products show scales with an
error in proportion to them, which is set by the large ones: hardly at all where those of the data are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fbar.arrays import BoolArray, FloatArray, IntArray
from fbar.estimation.at_data.dependence import Dependence, standardised
from fbar.estimation.at_data.features import bank, order_names

MOST_RAW = 150
"""More numbers than this are replaced by means of consecutive blocks."""

MOST_PAIRED = 12
"""Numbers whose products enter, at most."""

SMALLEST_GAP = 0.01
"""What is added to a gap before its logarithm is taken, in units of the spread."""

FEWEST_BANK = 5
"""Data of fewer numbers have no bank of features."""

OUTERMOST = 0.005
"""The functions of the data are cut at these quantiles of the simulations' on both sides."""

UNCUT = np.array([[-np.inf], [np.inf]])

FAR, ROUNDING = 0.5, 1e-9
"""Beyond all simulations by so much of the range between these, and by more than rounding, a feature is far outside."""

SETS = (
    ("raw",),
    ("order",),
    ("bank",),
    ("raw", "squares"),
    ("raw", "bank"),
    ("raw", "bank", "squares"),
    ("raw", "squares", "products"),
    ("raw", "bank", "squares", "products"),
    ("few", "products"),
    ("few", "products", "concordances"),
    ("few", "products", "correlations"),
    ("few", "products", "gaps"),
)
"""The sets of parts that a regression chooses from, in order of preference."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers that are computed once for each simulation: the raw ones and the bank's, (n, ·) each.

    The first ``of_order`` of the bank's do not depend on the order of the raw ones.
    """

    raw: FloatArray
    bank: FloatArray
    of_order: int = 0

    @classmethod
    def of(cls, x: FloatArray | Numbers) -> Numbers:
        """Of rows x (n, d); what was computed before is taken as it is."""
        if isinstance(x, Numbers):
            return x
        x = np.asarray(x, dtype=float)
        n, d = x.shape
        if d < FEWEST_BANK:
            return cls(blocks(x), np.zeros((n, 0)), 0)
        return cls(blocks(x), bank(x), len(order_names(d)))

    def __getitem__(self, rows: IntArray | BoolArray | slice) -> Numbers:
        return Numbers(self.raw[rows], self.bank[rows], self.of_order)

    def __len__(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, eq=False)
class Basis:
    """φ, with the observed values, the spreads, and the edges of the functions; ``paired`` are the few."""

    observed: Numbers
    raw_spread: FloatArray
    bank_spread: FloatArray
    paired: IntArray
    dependence: Dependence
    edges: FloatArray

    @classmethod
    def near(cls, numbers: Numbers, observed: Numbers, targets: FloatArray, *, dependence: bool = False) -> Basis:
        """φ for simulations near the data, with their numbers and what is to be predicted of each."""
        raw = _spread(numbers.raw, observed.raw[0])
        paired = np.arange(numbers.raw.shape[1])
        if len(paired) > MOST_PAIRED:
            paired = _most_correlated(_scaled(numbers.raw, observed.raw[0], raw), targets, MOST_PAIRED)
        found = Dependence.among(numbers.raw, paired, targets) if dependence else Dependence.none()
        basis = cls(observed, raw, np.ones(numbers.bank.shape[1]), paired, found, UNCUT)
        functions = basis._functions(numbers)
        basis = replace(basis, edges=np.quantile(functions, (OUTERMOST, 1 - OUTERMOST), axis=0))
        bank = slice(0, numbers.bank.shape[1])
        spread = _spread(basis._cut(functions)[:, bank], basis._cut(basis._functions(observed))[0, bank])
        return replace(basis, bank_spread=spread)

    def __call__(self, numbers: Numbers) -> FloatArray:
        """φ of each simulation, (n, p)."""
        raw = _scaled(numbers.raw, self.observed.raw[0], self.raw_spread)
        first, second = np.triu_indices(self.paired.size, 1)
        products = raw[:, self.paired[first]] * raw[:, self.paired[second]]
        away = self._cut(self._functions(numbers)) - self._cut(self._functions(self.observed))
        bank = self.bank_spread.size
        return np.hstack([raw, raw**2, products, np.arcsinh(away[:, :bank] / self.bank_spread), away[:, bank:]])

    def _functions(self, numbers: Numbers) -> FloatArray:
        """The bank, concordances, correlations and gaps, as they are."""
        of_raw = (self.dependence.concordances, self.dependence.correlations, self._gaps)
        return np.hstack([numbers.bank, *(of(numbers.raw) for of in of_raw)])

    def _cut(self, functions: FloatArray) -> FloatArray:
        return np.clip(functions, *self.edges)

    def _gaps(self, raw: FloatArray) -> FloatArray:
        """log |y_i − y_j| of the few; 0 for two that never vary."""
        first, second = np.triu_indices(self.paired.size, 1)
        i, j = self.paired[first], self.paired[second]
        spread = np.minimum(self.raw_spread[i], self.raw_spread[j])
        gap = np.abs(raw[:, i] - raw[:, j]) / np.where(spread < np.inf, spread, 1.0)
        return np.asarray(np.where(spread < np.inf, np.log(gap + SMALLEST_GAP), 0.0))

    def columns(self) -> dict[str, IntArray]:
        """The columns of each part that is there."""
        d, pairs = self.raw_spread.size, self.paired.size * (self.paired.size - 1) // 2
        sizes = {"raw": d, "squares": d, "products": pairs, "bank": self.bank_spread.size}
        sizes |= {"concordances": len(self.dependence.concordant), "correlations": len(self.dependence.matched)}
        sizes["gaps"] = pairs
        ends = np.cumsum(list(sizes.values()))
        columns = {part: np.arange(end - sizes[part], end) for part, end in zip(sizes, ends, strict=True)}
        columns["order"] = columns["bank"][: self.observed.of_order]
        columns["few"] = np.concatenate([columns["raw"][self.paired], columns["squares"][self.paired]])
        return {part: members for part, members in columns.items() if members.size}

    def sets(self) -> list[tuple[str, IntArray]]:
        """The sets of `SETS` whose parts are all there, by name, with their columns; no columns twice."""
        columns = self.columns()
        found: dict[bytes, tuple[str, IntArray]] = {}
        for parts in SETS:
            if all(part in columns for part in parts):
                members = np.concatenate([columns[part] for part in parts])
                found.setdefault(np.sort(members).tobytes(), (" + ".join(parts), members))
        return list(found.values())


def far_outside(numbers: Numbers, observed: Numbers, names: Sequence[str]) -> tuple[str, ...]:
    """The names of the features whose values at the data are far beyond all simulations, the farthest first."""
    if not numbers.bank.shape[1]:
        return ()
    low, high, data = numbers.bank.min(axis=0), numbers.bank.max(axis=0), observed.bank[0]
    beyond = np.maximum(low - data, data - high)
    far = beyond > FAR * (high - low) + ROUNDING * np.abs(data)
    ranges = beyond[far] / np.maximum(high - low, 1e-300)[far]
    return tuple(names[k] for k in np.flatnonzero(far)[np.argsort(-ranges, kind="stable")].tolist())


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
    y = standardised(y)
    strength = np.zeros(u.shape[1])
    for columns in (u, u**2):
        strength += ((standardised(columns).T @ y / len(y)) ** 2).sum(axis=1)
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def blocks(x: FloatArray) -> FloatArray:
    """Means of consecutive blocks of the numbers of each row, if there are more than `MOST_RAW`."""
    d = x.shape[1]
    if d <= MOST_RAW:
        return x
    edges = np.linspace(0, d, MOST_RAW + 1).astype(np.int64)
    return np.asarray(np.add.reduceat(x, edges[:-1], axis=1) / np.diff(edges))
