"""How strongly numbers of the data depend on one another: functions that do not change with the numbers' scales.

A *concordance* of two pairs of numbers is c = sgn(y_i − y_j) sgn(y_k − y_l). It is the same for all scales of the
numbers and for all increasing functions of them. How strongly numbers depend on one another is seen in it, even where
their scales vary so much that no product shows it: with four pairs (a, b) of numbers of any scale, the mean concordance
of the six pairs of pairs is Kendall's τ. Which numbers belong together need not be known: all pairs of pairs are tried,
and those are used whose concordance is most correlated with a parameter or with its square.

They also tell which differences belong together. Of the concordances that are about equally correlated with a
parameter, the numbers i, j of a difference are in one group, and k, l in another: all a, all b. The *correlation* of
two groups,

    r = Σ Δ Δ' / √(Σ Δ² Σ Δ'²),    Δ = y_i − y_j, Δ' = y_k − y_l (turned round where the concordance is negative),

is the sample correlation of the pairs where all pairs of pairs are among them, Σ_{p<q} (a_p − a_q)(b_p − b_q) being n
times the sum of products about the means. It uses the sizes of the differences, which their signs leave out, and still
does not change with the scale of either group. artanh r is Fisher's z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fbar.arrays import BoolArray, FloatArray, IntArray

FEWEST = 4
"""The numbers of a concordance."""

MOST_CONCORDANCES, BEYOND_CHANCE = 40, 5.0
"""Concordances that enter, at most, and the standard errors by which their correlation with a parameter must exceed 0:
of 2,145 times ten that are tried, one in a hundred runs does by chance."""

ALIKE = 0.5
"""Concordances count as about equally correlated with a parameter from this fraction of the strongest correlation."""

FEWEST_DIFFERENCES, MOST_CORRELATIONS = 3, 10
"""Pairs of differences that a correlation is of, at least, and correlations that enter, at most."""

MOST_CORRELATED = 0.999
"""Where correlations are cut."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """``concordant`` (k, 4) are the numbers i, j, k, l of each concordance; ``matched`` those of each correlation."""

    concordant: IntArray
    matched: tuple[IntArray, ...] = ()

    @classmethod
    def none(cls) -> Dependence:
        return cls(np.zeros((0, 4), dtype=np.int64))

    @classmethod
    def among(cls, y: FloatArray, members: IntArray, targets: FloatArray) -> Dependence:
        """What of the ``members`` among the numbers y (n, d) shows the targets or their squares."""
        if members.size < FEWEST:
            return cls.none()
        first, second = np.triu_indices(members.size, 1)
        differences = members[np.stack([first, second], axis=1)]
        signs = np.sign(y[:, differences[:, 0]] - y[:, differences[:, 1]])
        one, other = np.triu_indices(first.size, 1)
        both = np.concatenate([differences[one], differences[other]], axis=1)
        chance = BEYOND_CHANCE * np.sqrt(len(y))
        strength = np.zeros(len(both))
        matched: dict[bytes, IntArray] = {}
        for column in standardised(np.hstack([targets, targets**2])).T:
            sums = ((signs.T * column) @ signs)[one, other]  # Σ c y of all of them is one product of matrices
            np.maximum(strength, np.abs(sums), out=strength)
            alike = np.abs(sums) > max(chance, ALIKE * float(np.abs(sums).max()))
            matched |= {each.tobytes(): each for each in _between_groups(both[alike], sums[alike] > 0)}
        best = np.argsort(-strength, kind="stable")[:MOST_CONCORDANCES]
        return cls(both[np.sort(best[strength[best] > chance])], tuple(matched.values())[:MOST_CORRELATIONS])

    def concordances(self, y: FloatArray) -> FloatArray:
        """c of each row, (n, k)."""
        i, j, k, m = self.concordant.T
        return np.asarray(np.sign(y[:, i] - y[:, j]) * np.sign(y[:, k] - y[:, m]))

    def correlations(self, y: FloatArray) -> FloatArray:
        """artanh r of each row, (n, k); 0 where a group's numbers are all the same."""
        found = np.empty((len(y), len(self.matched)))
        for place, (i, j, k, m) in enumerate(each.T for each in self.matched):
            one, other = _unit(y[:, i] - y[:, j]), _unit(y[:, k] - y[:, m])
            r = np.clip((one * other).sum(axis=1), -MOST_CORRELATED, MOST_CORRELATED)
            found[:, place] = np.arctanh(r)
        return found


def _between_groups(both: IntArray, positive: BoolArray) -> list[IntArray]:
    """Pairs of differences, (·, 4), for every two groups of numbers that have several: each the same way round.

    Numbers that are in one group with each other have no correlation of two.
    """
    if not len(both):
        return []
    one, other = both[:, :2], both[:, 2:]
    size = 1 + int(both.max())
    edges = np.concatenate([one, other])
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(size, size))
    group = connected_components(graph, directed=False)[1]
    turned = (group[one[:, 0]] > group[other[:, 0]])[:, None]
    one, other = np.where(turned, other, one), np.where(turned, one, other)
    other = np.where(positive[:, None], other, other[:, ::-1])
    groups = group[one[:, 0]] * size + group[other[:, 0]]
    every, apart = np.concatenate([one, other], axis=1), group[one[:, 0]] != group[other[:, 0]]
    found = [every[groups == which] for which in np.unique(groups[apart])]
    return [each for each in found if len(each) >= FEWEST_DIFFERENCES]


def _unit(x: FloatArray) -> FloatArray:
    """Rows of length 1, or of zeros."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    x = x / np.where(largest > 0, largest, 1.0)
    length = np.sqrt((x**2).sum(axis=1, keepdims=True))
    return np.asarray(x / np.where(length > 0, length, 1.0))


def standardised(y: FloatArray) -> FloatArray:
    """Columns of mean 0 and variance 1; zeros where one does not vary."""
    deviation = y.std(axis=0)
    return np.asarray((y - y.mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf))
