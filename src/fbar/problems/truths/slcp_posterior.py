"""The posterior of SLCP by nested quadrature, and draws from it (see `fbar.problems.models.slcp`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.truths import truncated
from fbar.problems.truths.slcp_grid import Grid
from fbar.problems.truths.transport import Transported, columns, listed
from fbar.question.points import Points
from fbar.question.truth import Truth

NAMES = tuple(f"theta{i}" for i in range(1, 6))
EDGE = 3.0
JITTER = 1e-6
UNIT = JITTER**0.25
"""Where θ3⁴ is the jitter: |θ3| = UNIT sinh τ is even in τ below and as a logarithm above."""

TOP = math.asinh(EDGE / UNIT)
DROP = 46.0
REACH = 8.0
RULES = ((32, 10), (44, 12), (60, 12), (76, 14))
"""Nodes in each of θ5, τ3 and τ4, and in a panel of θ1."""

ENOUGH = 5e-5


@dataclass(frozen=True)
class Covariance:
    """S in its parts: S11, S22, S12, and 1/|S| as a log determinant."""

    first: FloatArray
    second: FloatArray
    cross: FloatArray
    log_det: FloatArray

    @classmethod
    def of(cls, theta3: FloatArray, theta4: FloatArray, theta5: FloatArray) -> Covariance:
        """The determinant is written so that ρ near one costs no digits."""
        s1, s2 = theta3**2, theta4**2
        det = (s1 * s2 / np.cosh(theta5)) ** 2 + JITTER * (s1**2 + s2**2) + JITTER**2
        return cls(s1**2 + JITTER, s2**2 + JITTER, np.tanh(theta5) * s1 * s2, np.log(det))

    def quadratic(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """(a, b) S⁻¹ (a, b)ᵀ, as a sum of squares: a²/S11 + (b − a S12/S11)² S11/|S|."""
        rest = b - a * self.cross / self.first
        return a**2 / self.first + rest**2 * self.first * np.exp(-self.log_det)


def _scale(tau: FloatArray) -> FloatArray:
    return np.asarray(UNIT * np.sinh(tau))


def _log_slope(tau: FloatArray) -> FloatArray:
    """log of d|θ3|/dτ."""
    return np.asarray(np.log(UNIT * np.cosh(tau)))


class SlcpPosterior(Transported):
    """The posterior given the eight data.

    θ5, |θ3| and |θ4| (as τ3, τ4) by Gauss–Legendre quadrature, the last on an interval found anew for each pair of the
    first two; inside θ1 by quadrature over the significant part of its box, θ2 in closed form. The error is the change
    from a coarser rule. The same nodes make cells, from which quasi-random points are drawn for all that is no moment.
    """

    how = "nested quadrature; the signs of theta3 and theta4 by symmetry"
    names = NAMES
    dimension = 5

    def __init__(self, x: FloatArray) -> None:
        y = x.reshape(4, 2)
        self.mean = y.mean(axis=0)
        self.residuals = y - self.mean

    # ------------------------------------------------------------ densities of S

    def _log_scatter(self, s: Covariance) -> FloatArray:
        """log of |S|^(−3/2) exp(−tr(S⁻¹W)/2)."""
        trace: FloatArray = sum((s.quadratic(a, b) for a, b in self.residuals), start=np.zeros(()))
        return np.asarray(-1.5 * s.log_det - 0.5 * trace)

    def _nearest(self, s: Covariance) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The m of the box with the greatest density, and log of N(m; ȳ, S/4) there but for its constant.

        Outside of the box it lies on an edge: one coordinate at ±3, the other at its conditional mean, cut to the box.
        """
        y1, y2 = self.mean
        if max(abs(y1), abs(y2)) <= EDGE:
            zero = np.zeros_like(s.first)
            return zero + y1, zero + y2, zero
        candidates = []
        for end in (-EDGE, EDGE):
            candidates.append((np.full_like(s.first, end), np.clip(y2 + (end - y1) * s.cross / s.first, -EDGE, EDGE)))
            candidates.append((np.clip(y1 + (end - y2) * s.cross / s.second, -EDGE, EDGE), np.full_like(s.first, end)))
        values = np.stack([-2 * s.quadratic(m1 - y1, m2 - y2) for m1, m2 in candidates])
        best = values.argmax(axis=0)[None]
        m1, m2 = (np.take_along_axis(np.stack([c[i] for c in candidates]), best, axis=0)[0] for i in (0, 1))
        return m1, m2, values.max(axis=0)

    def _rough(self, tau3: FloatArray, tau4: FloatArray, theta5: FloatArray) -> FloatArray:
        """The log density of (τ3, τ4, θ5) to within a few units, to find where it matters."""
        s = Covariance.of(*np.broadcast_arrays(_scale(tau3), _scale(tau4), theta5))
        return np.asarray(self._log_scatter(s) + self._nearest(s)[2] + _log_slope(tau3) + _log_slope(tau4))

    def _range(self, s: Covariance, sd1: FloatArray, sd2: FloatArray) -> FloatArray:
        """Ends of three panels of m1, shape (4, n), that hold its density given that (m1, m2) lies in the box."""
        m1, m2, _ = self._nearest(s)
        y1, y2 = self.mean
        # The log density of m1 has a curvature of at least 1/sd1²; where its mode is on an edge it falls with a slope.
        pull = np.abs(4 * (s.second * (m1 - y1) - s.cross * (m2 - y2)) * np.exp(-s.log_det))
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(np.abs(m1) == EDGE, np.minimum(REACH * sd1, DROP / pull), REACH * sd1)
            low, high = np.maximum(m1 - reach, -EDGE), np.minimum(m1 + reach, EDGE)
            # Where m1 and m2 hang together, the box of m2 is a soft edge for m1, a few widths wide.
            slope = s.cross / s.first
            soft = sd2 / np.abs(slope)
            ends = y1 + (np.array([[-EDGE], [EDGE]]) - y2) / slope
            first, last = ends.min(axis=0), ends.max(axis=0)
            cut_low = (first - 7 * soft > low) & (first - soft < m1)
            cut_high = (last + 7 * soft < high) & (last + soft > m1)
        low, high = np.where(cut_low, first - 7 * soft, low), np.where(cut_high, last + 7 * soft, high)
        third = (high - low) / 3
        left = low + np.where(cut_low, np.minimum(14 * soft, third), third)
        right = high - np.where(cut_high, np.minimum(14 * soft, third), third)
        return np.stack([low, left, right, high])

    def _box(self, s: Covariance, size: int) -> tuple[FloatArray, FloatArray]:
        """log P(m in the box | S), and E m_i^k for i = 1, 2 and k = 1, 2, 4 given that: shape (3, 2, n).

        m2 given m1 is a cut normal, with closed moments; m1 is integrated over three panels.
        """
        y1, y2 = self.mean
        sd1 = np.sqrt(s.first) / 2
        sd2 = np.exp(0.5 * (s.log_det - np.log(s.first))) / 2  # of m2 given m1
        ends = self._range(s, sd1, sd2)
        parts, weights = [], []
        for k, n in enumerate((size, size * 3 // 2, size)):
            x, w = truncated.gauss_legendre(n)
            width = (ends[k + 1] - ends[k])[:, None]
            parts.append(ends[k][:, None] + width * x)
            weights.append(width * w)
        m1, w1 = np.concatenate(parts, axis=1), np.concatenate(weights, axis=1)
        t1 = (m1 - y1) / sd1[:, None]
        centre = y2 + (m1 - y1) * (s.cross / s.first)[:, None]
        a, b = (-EDGE - centre) / sd2[:, None], (EDGE - centre) / sd2[:, None]
        log_z = truncated.log_mass(a, b)
        log_p = log_z - t1**2 / 2
        top = log_p.max(axis=1)
        p = np.exp(log_p - top[:, None]) * w1
        total = p.sum(axis=1)
        p /= total[:, None]
        # moments of t2, the standard normal on [a, b]: M_k = (k−1) M_{k−2} − [t^(k−1) φ(t)]/Z
        fa = np.exp(-0.5 * a**2 - truncated.LOG_ROOT_2PI - log_z)
        fb = np.exp(-0.5 * b**2 - truncated.LOG_ROOT_2PI - log_z)
        t = [np.ones_like(a), fa - fb]
        for k in (2, 3, 4):
            fa, fb = fa * a, fb * b
            t.append((k - 1) * t[k - 2] + fa - fb)
        sd = sd2[:, None]
        second = {
            1: centre + sd * t[1],
            2: centre**2 + 2 * centre * sd * t[1] + sd**2 * t[2],
            4: centre**4
            + 4 * centre**3 * sd * t[1]
            + 6 * centre**2 * sd**2 * t[2]
            + 4 * centre * sd**3 * t[3]
            + sd**4 * t[4],
        }
        powers = [[(p * m1**k).sum(axis=1), (p * second[k]).sum(axis=1)] for k in (1, 2, 4)]
        return np.log(total / sd1) - truncated.LOG_ROOT_2PI + top, np.array(powers)

    # ------------------------------------------------------------ where it matters

    @cached_property
    def _limits(self) -> list[tuple[float, float]]:
        """The ranges of θ5, τ3, τ4 outside which the density is negligible: grids, each over what the last one kept."""
        ranges = [(-EDGE, EDGE), (0.0, TOP), (0.0, TOP)]
        sizes = (17, 97, 97)
        for _ in range(30):
            theta5, tau3, tau4 = (np.linspace(*ends, size) for ends, size in zip(ranges, sizes, strict=True))
            rough = self._rough(tau3[None, :, None], tau4[None, None, :], theta5[:, None, None])
            keep = rough > rough.max() - DROP
            shares = []
            for axis, (values, others) in enumerate(((theta5, (1, 2)), (tau3, (0, 2)), (tau4, (0, 1)))):
                kept = np.flatnonzero(keep.any(axis=others))
                first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, sizes[axis] - 1)
                ranges[axis] = (float(values[first]), float(values[last]))
                shares.append((last - first) / (sizes[axis] - 1))
            if min(shares) > 0.5:
                break
        return ranges

    def _nodes(self, size: int) -> Grid:
        range5, range3, (low4, high4) = self._limits
        x, w = truncated.gauss_legendre(size)
        theta5, tau3 = range5[0] + (range5[1] - range5[0]) * x, range3[0] + (range3[1] - range3[0]) * x
        probe = np.linspace(low4, high4, 97)
        rough = self._rough(tau3[None, :, None], probe[None, None, :], theta5[:, None, None])
        keep = rough > rough.max() - DROP
        keep[~keep.any(axis=2)] = True
        first = np.maximum(keep.argmax(axis=2) - 1, 0)
        last = np.minimum(97 - keep[..., ::-1].argmax(axis=2), 96)
        return Grid(theta5, tau3, probe[first], probe[last], x, w, range5, range3)

    # ------------------------------------------------------------ moments

    def integrate(self, size: int, inner: int) -> tuple[FloatArray, FloatArray, float, Grid, FloatArray]:
        grid = self._nodes(size)
        log_f = np.empty((size, size, size))
        powers = np.empty((3, 5, size, size, size))
        for i, theta5 in enumerate(grid.theta5):
            tau3, tau4 = np.broadcast_arrays(grid.tau3[:, None], grid.tau4(i))
            flat3, flat4 = tau3.ravel(), tau4.ravel()
            s = Covariance.of(_scale(flat3), _scale(flat4), np.full(flat3.size, theta5))
            log_box, m = self._box(s, inner)
            log_jacobian = _log_slope(flat3) + _log_slope(flat4)
            log_f[i] = (self._log_scatter(s) + log_box + log_jacobian).reshape(size, size)
            for row, k in enumerate((1, 2, 4)):
                powers[row, :2, i] = m[row].reshape(2, size, size)
                powers[row, 2, i] = 0.0 if k == 1 else _scale(tau3) ** k
                powers[row, 3, i] = 0.0 if k == 1 else _scale(tau4) ** k
                powers[row, 4, i] = theta5**k
        log_w = log_f + grid.log_weights()
        top = float(log_w.max())
        w = np.exp(log_w - top)
        total = float(w.sum())
        rows = np.einsum("kpabc,abc->kp", powers, w / total)
        # log ∫∫∫ over θ3, θ4 > 0 and θ5; the two signs of each of θ3 and θ4 make it four times that
        log_z = top + math.log(total) + math.log(4)
        deviation = np.sqrt(np.maximum([rows[1] - rows[0] ** 2, rows[2] - rows[1] ** 2], 0.0))
        return rows[:2], deviation, log_z, grid, log_w - top

    @cached_property
    def _solved(self) -> tuple[Truth, float, Grid, FloatArray]:
        """Finer and finer rules, until two of them agree."""
        coarse, *_ = self.integrate(*RULES[0])
        for rule in RULES[1:]:
            fine, deviation, log_z, grid, log_w = self.integrate(*rule)
            error = np.abs(fine - coarse)
            if (error <= ENOUGH * deviation).all():
                break
            coarse = fine
        if not (error <= 1e-3 * deviation).all():
            raise InputError("the true posterior of slcp for these data cannot be computed: its quadrature fails")
        return listed(NAMES, fine, deviation, error, self.how), log_z, grid, log_w

    def truth(self) -> Truth:
        return self._solved[0]

    def log_density(self, points: Points) -> FloatArray:
        t = columns(NAMES, points)
        inside = (np.abs(t) <= EDGE).all(axis=1)
        s = Covariance.of(t[:, 2], t[:, 3], t[:, 4])
        log_m = -2 * s.quadratic(t[:, 0] - self.mean[0], t[:, 1] - self.mean[1])
        log_m = log_m - math.log(2 * math.pi) - 0.5 * s.log_det + math.log(4)  # N(m; ȳ, S/4)
        return np.where(inside, self._log_scatter(s) + log_m - self._solved[1], -np.inf)

    # ------------------------------------------------------------ draws

    def transport(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """θ5, τ3, τ4 from the cells of the quadrature, θ1 and then θ2 from their cut normals given S."""
        _, _, grid, log_w = self._solved
        sign = np.where(unit[:, 1:3] < 0.5, -1.0, 1.0)
        v = unit[:, :3].copy()
        v[:, 1:] = (2 * v[:, 1:]) % 1
        theta5, tau3, tau4, log_q = grid.draw(v, np.exp(log_w))
        theta3, theta4 = _scale(tau3), _scale(tau4)
        s = Covariance.of(theta3, theta4, theta5)
        y1, y2 = self.mean
        sd1, sd2 = np.sqrt(s.first) / 2, np.exp(0.5 * (s.log_det - np.log(s.first))) / 2
        low, high = (-EDGE - y1) / sd1, (EDGE - y1) / sd1
        m1 = np.clip(y1 + sd1 * truncated.ppf(unit[:, 3], low, high), -EDGE, EDGE)
        centre = y2 + (m1 - y1) * s.cross / s.first
        below, above = (-EDGE - centre) / sd2, (EDGE - centre) / sd2
        m2 = np.clip(centre + sd2 * truncated.ppf(unit[:, 4], below, above), -EDGE, EDGE)
        log_box = truncated.log_mass(low, high) + truncated.log_mass(below, above)
        theta = np.column_stack([m1, m2, sign[:, 0] * theta3, sign[:, 1] * theta4, theta5])
        return theta, self._log_scatter(s) + log_box + _log_slope(tau3) + _log_slope(tau4) - log_q
