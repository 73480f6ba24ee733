"""A posterior of two or three parameters by adaptive cubature: boxes are split until their halves agree with the whole.

Every box carries a product of Gauss-Legendre rules. Where the sum over a box's halves (quarters, eighths) differs from
the box's own rule by more than a share of the total, in the mass or in a first or second moment of a parameter, the
halves are boxes in their turn. The finest rules are the answer and the difference between them and their parents its
error: an upper bound in practice, since it is the error of the coarser rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.errors import InputError
from fbar.problems.truths.modes import climb, scattered
from fbar.question.points import Points
from fbar.question.truth import Known, Nodes, Truth

Integrand = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""Of rows of a box's coordinates (n, d) and the number of its panel (n,): log density there and θ (n, p)."""

TOLERANCE = 1e-8
"""The difference that a box is left with, as a share of the total."""

MOST = 1_500_000
BATCH = 100_000


@lru_cache(maxsize=16)
def _rule(order: int, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Nodes (q^d, d) in [0, 1]^d and log weights."""
    x, w = np.polynomial.legendre.leggauss(order)
    nodes = np.array(list(product((x + 1) / 2, repeat=dimension)))
    return nodes, np.log(np.array(list(product(w / 2, repeat=dimension)))).sum(axis=1)


@dataclass
class _Boxes:
    """Boxes with what was evaluated in them: ``log_mass`` (B, Q) are log weight + log density at the nodes."""

    low: FloatArray
    high: FloatArray
    panel: IntArray
    theta: FloatArray
    log_mass: FloatArray
    log_value: FloatArray

    def take(self, which: FloatArray | IntArray) -> _Boxes:
        return _Boxes(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @staticmethod
    def join(parts: Sequence[_Boxes]) -> _Boxes:
        return _Boxes(*(np.concatenate([getattr(p, name) for p in parts]) for name in _Boxes.__dataclass_fields__))


class Cubature(Nodes):
    """The posterior with log density ``integrand`` on boxes ``low`` to ``high`` (B, d), each with its panel's number.

    ``floor`` is the error that the density itself brings into a moment, in posterior standard deviations.
    ``log_evidence`` is the log of its integral; ``log_evidence_error`` that of the coarser rule.
    """

    def __init__(
        self,
        integrand: Integrand,
        low: FloatArray,
        high: FloatArray,
        names: Sequence[str],
        *,
        panel: IntArray | None = None,
        order: int = 7,
        tolerance: float = TOLERANCE,
        most: int = MOST,
        floor: float = 0.0,
        log_density: Callable[[Points], FloatArray] | None = None,
    ) -> None:
        self._integrand, self._names = integrand, tuple(names)
        self._order, self._dimension = order, low.shape[1]
        number = np.zeros(len(low), dtype=np.int64) if panel is None else panel
        self._relative, self._floor = log_density, floor
        active = self._evaluate(low, high, number)
        fine: list[_Boxes] = []
        coarse: list[_Boxes] = []
        spent = active.log_mass.size
        while len(active.low):
            halves = self._split(active)
            spent += halves.log_mass.size
            differs = self._difference(active, halves, fine)
            done = (differs <= tolerance) | (spent > most)
            cut = 2**self._dimension
            settled = np.repeat(done, cut)
            fine.append(halves.take(np.flatnonzero(settled)))
            coarse.append(active.take(np.flatnonzero(done)))
            active = halves.take(np.flatnonzero(~settled))
        self._fine, self._coarse = _Boxes.join(fine), _Boxes.join(coarse)
        self._top = float(self._fine.log_mass.max())
        masses = [np.exp(b.log_mass - self._top).sum() for b in (self._fine, self._coarse)]
        self.log_evidence = self._top + math.log(masses[0])
        self.log_evidence_error = float(abs(masses[0] - masses[1]) / masses[0])
        parts = []
        for boxes in (self._fine, self._coarse):
            weights = np.exp(boxes.log_mass - self._top).ravel()
            kept = weights > 1e-18 * weights.max()
            theta = boxes.theta.reshape(-1, len(self._names))[kept]
            parts.append((Points(dict(zip(self._names, theta.T, strict=True))), weights[kept]))
        rule = f"Gauss-Legendre rules of {order} points in {self._dimension} dimensions on {len(self._fine.low)} boxes"
        super().__init__(
            parts, f"adaptive cubature, {rule}; error: difference from the rules before", error="refinement"
        )

    def _evaluate(self, low: FloatArray, high: FloatArray, panel: IntArray) -> _Boxes:
        nodes, log_w = _rule(self._order, self._dimension)
        at = (low[:, None] + (high - low)[:, None] * nodes).reshape(-1, self._dimension)
        where = np.repeat(panel, len(nodes))
        values, thetas = [], []
        for begin in range(0, len(at), BATCH):
            value, theta = self._integrand(at[begin : begin + BATCH], where[begin : begin + BATCH])
            values.append(np.where(np.isnan(value), -np.inf, value))
            thetas.append(theta)
        log_value = np.concatenate(values).reshape(len(low), -1)
        volume = np.log(high - low).sum(axis=1, keepdims=True)
        return _Boxes(
            low,
            high,
            panel,
            np.concatenate(thetas).reshape(len(low), len(nodes), -1),
            log_value + log_w + volume,
            log_value,
        )

    def _split(self, boxes: _Boxes) -> _Boxes:
        corner = np.array(list(product((0.0, 0.5), repeat=self._dimension)))
        width = boxes.high - boxes.low
        low = (boxes.low[:, None] + corner * width[:, None]).reshape(-1, self._dimension)
        high = low + np.repeat(width / 2, len(corner), axis=0)
        return self._evaluate(low, high, np.repeat(boxes.panel, len(corner)))

    def _difference(self, parents: _Boxes, halves: _Boxes, fine: list[_Boxes]) -> FloatArray:
        """How far each parent's mass and moments are from its halves', as a share of the total."""
        known = [halves, *fine]
        top = max(float(max(b.log_mass.max() for b in known if b.log_mass.size)), float(parents.log_mass.max()))
        if not np.isfinite(top):
            raise InputError("the data are so far from what the simulator produces that no parameters explain them")
        total = first = second = 0.0
        for b in known:
            w = np.exp(b.log_mass - top)[..., None]
            total, first, second = (
                total + w.sum(),
                first + (w * b.theta).sum(axis=(0, 1)),
                second + (w * b.theta**2).sum(axis=(0, 1)),
            )
        mean = first / total
        sd = np.sqrt(np.maximum(second / total - mean**2, 1e-24 * mean**2 + 1e-300))

        def features(b: _Boxes) -> FloatArray:
            w = np.exp(b.log_mass - top)[..., None]
            t = (b.theta - mean) / sd
            return np.concatenate([w.sum(axis=1), (w * t).sum(axis=1), (w * t**2).sum(axis=1)], axis=1)

        own = features(parents)
        theirs = features(halves).reshape(len(own), -1, own.shape[1]).sum(axis=1)
        return np.asarray(np.abs(own - theirs).max(axis=1) / total)

    def truth(self) -> Truth:
        """As of `Nodes`; no error is told that is below rounding or below the density's own."""
        known = []
        for k in super().truth().values():
            error = max(k.standard_error, self._floor * k.deviation, 1e-15 * abs(k.value))
            known.append(Known(k.name, k.value, error, k.deviation))
        return Truth(known, self.how)

    def log_density(self, points: Points) -> FloatArray:
        if self._relative is None:
            return super().log_density(points)
        return np.asarray(self._relative(points) - self.log_evidence)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """Independent draws: a box by its mass, then rejection inside it, below 1.5 times the largest value seen."""
        b = self._fine
        mass = np.exp(b.log_mass - self._top).sum(axis=1)
        box = rng.choice(len(mass), size, p=mass / mass.sum())
        bound = b.log_value.max(axis=1) + math.log(1.5)
        result = np.empty((size, len(self._names)))
        waiting = np.arange(size)
        while waiting.size:
            which = box[waiting]
            at = b.low[which] + (b.high - b.low)[which] * rng.random((waiting.size, self._dimension))
            value, theta = self._integrand(at, b.panel[which])
            accepted = np.log(rng.random(waiting.size)) < value - bound[which]
            result[waiting[accepted]] = theta[accepted]
            waiting = waiting[~accepted]
        return Points(dict(zip(self._names, result.T, strict=True)))


class PlanePosterior(Cubature):
    """A posterior whose log density is given on the plane, in coordinates z in which the prior is about N(0, 1).

    The plane is whitened by the normal approximation at the highest mode and mapped to a square by z = a t/(1 − t²);
    boxes around every mode that is found are split until they are as narrow as the mode.
    """

    def __init__(
        self,
        log_density: Callable[[FloatArray], FloatArray],
        theta: Callable[[FloatArray], FloatArray],
        to_z: Callable[[Points], tuple[FloatArray, FloatArray]],
        names: Sequence[str],
        *,
        reach: float,
        floor: float = 0.0,
        seed: int = 1,
    ) -> None:
        def bounded(z: FloatArray) -> FloatArray:
            inside = np.abs(z).max(axis=1) < reach
            result = np.full(len(z), -np.inf)
            result[inside] = log_density(z[inside])
            return result

        self.modes = climb(bounded, scattered(bounded, 2, np.random.default_rng(seed)))
        if not self.modes:
            raise InputError("the data are so far from what the simulator produces that no parameters explain them")
        centre = self.modes[0].place
        factor = np.linalg.cholesky(self.modes[0].covariance)
        scale = 4.0
        log_volume = float(np.log(np.diag(factor)).sum())

        def integrand(t: FloatArray, panel: IntArray) -> tuple[FloatArray, FloatArray]:
            u = scale * t / (1 - t**2)
            z = centre + u @ factor.T
            jacobian = np.log(scale * (1 + t**2) / (1 - t**2) ** 2).sum(axis=1) + log_volume
            return bounded(z) + jacobian, theta(np.clip(z, -reach, reach))

        def relative(points: Points) -> FloatArray:
            with np.errstate(invalid="ignore", divide="ignore"):
                z, log_jacobian = to_z(points)
            inside = np.isfinite(z).all(axis=1) & np.isfinite(log_jacobian)
            result = np.full(len(z), -np.inf)
            result[inside] = bounded(z[inside]) + log_jacobian[inside]
            return result

        boxes = [(np.array([i, j]) / 4, np.array([i + 1, j + 1]) / 4) for i in range(-4, 4) for j in range(-4, 4)]
        for mode in self.modes:
            u = np.linalg.solve(factor, mode.place - centre)
            narrow = float(np.linalg.norm(np.linalg.solve(factor, np.linalg.cholesky(mode.covariance)), -2))
            t = 2 * u / (scale + np.sqrt(scale**2 + 4 * u**2))
            boxes = _around(boxes, t, 3 * narrow / scale * (1 - np.abs(t).max()) ** 2)
        low, high = (np.array(side) for side in zip(*boxes, strict=True))
        super().__init__(integrand, low, high, names, order=8, floor=floor, log_density=relative)


def _around(
    boxes: list[tuple[FloatArray, FloatArray]], place: FloatArray, width: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Boxes that hold the place, or touch it, split until they are no wider."""
    result = []
    for low, high in boxes:
        if (place < low).any() or (place > high).any() or (high - low).max() <= max(width, 1e-6):
            result.append((low, high))
            continue
        middle = (low + high) / 2
        quarters = [
            (np.where(upper, middle, low), np.where(upper, high, middle)) for upper in product((False, True), repeat=2)
        ]
        result += _around(quarters, place, width)
    return result
