"""A posterior from its log density alone: modes, a fitted proposal, quasi-random importance sampling.

The density is given on ℝ^d, best in coordinates in which the prior is about standard normal (`on_unit_cube` brings one
there). Then

1. modes are sought by Newton steps from the best of a few thousand scattered points, all starts in one batch;
2. a mixture of products of Student t₄ distributions, one or more for each mode, is fitted to tempered importance
   weights by expectation-maximisation until the effective sample is large; another, fitted to the fourth root of the
   density, reaches into its tails, and a broad one is a guard;
3. scrambled Sobol points (Owen 1995), several independent scrambles, go through the mixture, every component with a
   share that is a power of two; their number doubles until every mean and second moment has the wanted error.

The error is the jackknife's over the scrambles, and holds for what the proposal reaches: a mode so narrow and so far
away that neither the scattered points nor the broad component meet it cannot be seen by any such method.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import qmc

from fbar.arrays import FloatArray
from fbar.errors import InputError
from fbar.problems.truths.modes import Mode, climb, scattered
from fbar.question.points import Points
from fbar.question.truth import Known, Nodes, Truth
from fbar.weights import effective_size, relative

Density = Callable[[FloatArray], FloatArray]
"""Log density of rows (n, d), not necessarily normalised; −∞ where there is none."""

WANTED = 2e-4
"""The error of a mean that is aimed at, in posterior standard deviations."""

REPLICATES = 16
FEWEST, MOST_POINTS = 4096, 2**21
"""Points of a replicate at first, and of all together at last."""

_LOG_T4 = math.log(0.375)


def on_unit_cube(log_density: Density) -> Density:
    """A density on the unit cube as one of z = Φ⁻¹(u)."""

    def of_z(z: FloatArray) -> FloatArray:
        return np.asarray(log_density(ndtr(z)) - (z**2 + math.log(2 * math.pi)).sum(axis=1) / 2)

    return of_z


def t4_quantile(u: FloatArray) -> FloatArray:
    """The inverse distribution function of Student's t with four degrees of freedom, in closed form (Shaw 2006)."""
    u = np.clip(u, 1e-15, 1 - 1e-15)
    root = np.sqrt(4 * u * (1 - u))
    q = np.cos(np.arccos(np.minimum(root, 1.0)) / 3) / root
    return np.asarray(np.sign(u - 0.5) * 2 * np.sqrt(np.maximum(q - 1, 0.0)))


@dataclass(frozen=True)
class Proposal:
    """Σ_k w_k Π_j t₄ of (L_k⁻¹(z − m_k))_j; the weights are powers of two over their sum."""

    centres: FloatArray
    factors: FloatArray
    shares: tuple[int, ...]

    @classmethod
    def of(cls, centres: Sequence[FloatArray], covariances: Sequence[FloatArray], weights: FloatArray) -> Proposal:
        """With a covariance for each centre and weights that are rounded to powers of two, of 1/64 at least."""
        factors = [np.linalg.cholesky(c) * 0.85 for c in covariances]  # t4 has twice its scale's variance
        powers = np.rint(np.log2(np.maximum(weights / weights.max(), 1 / 64))).astype(int)
        return cls(np.array(centres), np.array(factors), tuple(int(2 ** (p - powers.min())) for p in powers))

    @property
    def dimension(self) -> int:
        return int(self.centres.shape[1])

    def from_unit(self, unit: FloatArray, component: int) -> FloatArray:
        return np.asarray(self.centres[component] + t4_quantile(unit) @ self.factors[component].T)

    def log_density(self, z: FloatArray) -> FloatArray:
        total, parts = sum(self.shares), []
        for m, factor, share in zip(self.centres, self.factors, self.shares, strict=True):
            t = np.linalg.solve(factor, (z - m).T)
            log_t = z.shape[1] * _LOG_T4 - 2.5 * np.log1p(t**2 / 4).sum(axis=0)
            parts.append(log_t - np.log(np.diag(factor)).sum() + math.log(share / total))
        return np.asarray(np.logaddexp.reduce(parts, axis=0))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        counts = rng.multinomial(size, np.array(self.shares) / sum(self.shares))
        z = [self.from_unit(rng.random((n, self.dimension)), k) for k, n in enumerate(counts)]
        return rng.permutation(np.concatenate(z))


class _Sobol:
    """One replicate: a scrambled sequence for every component, lengthened by doubling."""

    def __init__(self, proposal: Proposal, rng: np.random.Generator) -> None:
        self.proposal, self._done = proposal, 0
        self._sequences = [qmc.Sobol(proposal.dimension, rng=rng) for _ in proposal.shares]

    def more(self, unit_size: int) -> FloatArray:
        """The next points, up to ``unit_size`` for every unit of share in all."""
        z = []
        for k, (sequence, share) in enumerate(zip(self._sequences, self.proposal.shares, strict=True)):
            z.append(self.proposal.from_unit(sequence.random(share * (unit_size - self._done)), k))
        self._done = unit_size
        return np.concatenate(z)


def effective_share(log_weights: FloatArray) -> float:
    return effective_size(relative(log_weights)) / log_weights.size


# ------------------------------------------------------------ fitting the proposal

MOST_COMPONENTS = 16
ENOUGH = 0.55
"""An effective share that is not improved upon: the guards alone cost a fifth."""

Mixed = tuple[list[FloatArray], list[FloatArray], FloatArray]
"""Centres, covariances and weights of a mixture."""


def _tempered(log_weights: FloatArray, wanted: float) -> FloatArray:
    """Normalised weights w^τ with the largest τ ≤ 1 that leaves an effective sample of the wanted size."""
    low, high = 0.0, 1.0
    finite = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    wanted = min(wanted, 0.9 * np.isfinite(finite).sum())
    if effective_share(finite) * finite.size < wanted:
        for _ in range(40):
            middle = (low + high) / 2
            scaled = np.where(np.isfinite(finite), finite * middle, -np.inf)
            low, high = (middle, high) if effective_share(scaled) * finite.size >= wanted else (low, middle)
        finite = np.where(np.isfinite(finite), finite * low, -np.inf)
    w = np.exp(finite - finite.max())
    return np.asarray(w / w.sum())


def _log_normal(z: FloatArray, centre: FloatArray, covariance: FloatArray) -> FloatArray:
    factor = np.linalg.cholesky(covariance)
    t = np.linalg.solve(factor, (z - centre).T)
    return np.asarray(-(t**2).sum(axis=0) / 2 - np.log(np.diag(factor)).sum())


def _fit(
    z: FloatArray, w: FloatArray, centres: list[FloatArray], covariances: list[FloatArray], rounds: int = 12
) -> Mixed:
    """Weighted expectation-maximisation of a mixture of normals from a start; a component without points is dropped."""
    keep = w > w.max() * 1e-12
    z, w = z[keep], w[keep] / w[keep].sum()
    pooled = np.cov(z.T, aweights=w, ddof=0).reshape(z.shape[1], -1)
    ridge = 1e-3 * np.diag(np.maximum(np.diag(pooled), 1e-14)) if len(centres) > 1 else 1e-9 * np.diag(np.diag(pooled))
    share = np.full(len(centres), 1 / len(centres))
    for _ in range(rounds):
        log_p = np.array([_log_normal(z, m, c) for m, c in zip(centres, covariances, strict=True)])
        log_p += np.log(share)[:, None]
        duty = np.exp(log_p - logsumexp(log_p, axis=0)) * w
        share = duty.sum(axis=1)
        size = share**2 / np.maximum((duty**2).sum(axis=1), 1e-300)
        kept = [k for k in range(len(share)) if share[k] > 1e-4 and size[k] > 4 * z.shape[1]]
        if not kept:
            return [(w[:, None] * z).sum(axis=0)], [pooled + ridge], np.ones(1)
        new_centres, new_covariances = [], []
        for k in kept:
            part = duty[k] / share[k]
            m = part @ z
            new_centres.append(m)
            new_covariances.append((part[:, None] * (z - m)).T @ (z - m) + ridge)
        centres, covariances, share = new_centres, new_covariances, share[kept] / share[kept].sum()
    return centres, covariances, share


def _seeds(z: FloatArray, w: FloatArray, number: int, rng: np.random.Generator) -> list[FloatArray]:
    """Centres far from one another, as k-means++ chooses them (Arthur & Vassilvitskii 2007)."""
    scale = np.sqrt(np.maximum(w @ (z - w @ z) ** 2, 1e-300))
    chosen = [z[rng.choice(len(z), p=w)]]
    while len(chosen) < number:
        away = np.min([(((z - c) / scale) ** 2).sum(axis=1) for c in chosen], axis=0) * w
        chosen.append(z[rng.choice(len(z), p=away / away.sum())])
    return chosen


def fit_proposal(
    log_density: Density, modes: Sequence[Mode], rng: np.random.Generator, *, size: int = 4096, rounds: int = 10
) -> Proposal:
    """The mixture of the modes' normal approximations, improved on tempered weights; the best of all rounds."""
    d = modes[0].place.size

    def guarded(main: Mixed, wide: Mixed) -> Proposal:
        """The fit, a quarter of a fit to the density's fourth root for its tails, and a little of N(0, 2)."""
        middle = [np.zeros(d)], [np.eye(d) * 2], np.ones(1)
        parts = ((main, 1.0), (wide, 1 / 4), (middle, 1 / 32))
        return Proposal.of(
            [m for part, _ in parts for m in part[0]],
            [c for part, _ in parts for c in part[1]],
            np.concatenate([part[2] / part[2].sum() * share for part, share in parts]),
        )

    top = max(mode.log_mass for mode in modes)
    masses = np.maximum([math.exp(mode.log_mass - top) for mode in modes], 0.02)
    main: Mixed = [m.place for m in modes], [2 * m.covariance for m in modes], masses / masses.sum()
    wide: Mixed = main[0], [9 * m.covariance for m in modes], main[2]
    tried = [guarded(main, wide)]
    z, log_f, counts = np.empty((0, d)), np.empty(0), []
    number, last = len(modes), 0.0
    for turn in range(rounds):
        per_share = size * (1 + number // 4) / sum(tried[-1].shares)
        new = _Sobol(tried[-1], rng).more(2 ** max(0, math.ceil(math.log2(per_share))))
        z, log_f = np.concatenate([z, new]), np.concatenate([log_f, log_density(new)])
        counts.append(len(new))
        # All points so far count, as draws of the mixture of all proposals so far (Cornuet et al. 2012): a proposal
        # that misses a tail looks good to its own points only.
        log_each = np.array([q.log_density(z) for q in tried])
        log_q = logsumexp(log_each + np.log(np.array(counts) / len(z))[:, None], axis=0)
        if turn > 1:
            share = _expected_share(log_f, log_q, log_each[-1])
            if share > ENOUGH:
                break
            if share < last * 1.1 and number < MOST_COMPONENTS:
                number = 2 * number  # what this many components can do is done
            last = share
        fits = []
        for power, before, wanted in ((1.0, main, number), (0.25, wide, max(number, 6))):
            w = _tempered(power * log_f - log_q, 40.0 * d + 20 * wanted)
            centres, covariances = before[0], before[1]
            if len(centres) < wanted:
                centres = _seeds(z, w, wanted, rng)
                covariances = [np.cov(z.T, aweights=w, ddof=0).reshape(d, d) / wanted + 1e-12 * np.eye(d)] * wanted
            fits.append(_fit(z, w, centres, covariances))
        main, wide = fits
        tried.append(guarded(main, wide))
    return max(tried, key=lambda q: _expected_share(log_f, log_q, q.log_density(z)))


def _expected_share(log_f: FloatArray, log_q: FloatArray, log_candidate: FloatArray) -> float:
    """(∫f)² / ∫ f²/g: the effective share of draws of g, from draws of q."""
    first, second = logsumexp(log_f - log_q), logsumexp(2 * log_f - log_q - log_candidate)
    return math.exp(2 * first - second) / len(log_f)


# ------------------------------------------------------------ the posterior


class ImportancePosterior(Nodes):
    """The posterior with density ∝ exp(log_density(z)) on ℝ^d, of parameters θ(z).

    Parameters
    ----------
    log_density
        Of rows z (n, d). Its integral is the evidence.
    theta
        The parameters (n, p) of rows z.
    to_z
        Of points θ: z and log |dz/dθ|, for ``log_density`` of points; without it there is none.
    names
        The parameters' names.
    error
        The wanted error of every mean and second moment, in its posterior standard deviations.
    seconds
        When to give up; the error that is then reported is larger than the wanted one.
    starts
        Further places to look for modes at.

    ``log_evidence`` and ``log_evidence_error`` are log ∫ exp(log_density(z)) dz and its standard error.
    """

    def __init__(
        self,
        log_density: Density,
        theta: Callable[[FloatArray], FloatArray],
        to_z: Callable[[Points], tuple[FloatArray, FloatArray]] | None,
        names: Sequence[str],
        *,
        dimension: int | None = None,
        error: float = WANTED,
        seconds: float = 45.0,
        starts: FloatArray | None = None,
        seed: int = 1,
    ) -> None:
        begin = time.perf_counter()
        rng = np.random.default_rng(seed)
        d = len(names) if dimension is None else dimension
        self._log_f, self._theta, self._to_z, self._names = log_density, theta, to_z, tuple(names)
        first = scattered(log_density, d, rng, starts)
        self.modes = climb(log_density, first)
        if not self.modes:
            raise InputError("the data are so far from what the simulator produces that no parameters explain them")
        self.proposal = fit_proposal(log_density, self.modes, rng)
        self._replicates = [_Sobol(self.proposal, rng) for _ in range(REPLICATES)]
        total = sum(self.proposal.shares)
        unit = 2 ** max(0, math.ceil(math.log2(FEWEST / total)))
        self._z: list[FloatArray] = [np.empty((0, d))] * REPLICATES
        self._log_w: list[FloatArray] = [np.empty(0)] * REPLICATES
        before: FloatArray | None = None
        while True:
            lap = time.perf_counter()
            for i, sequence in enumerate(self._replicates):
                z = sequence.more(unit)
                log_w = log_density(z) - self.proposal.log_density(z)
                # A point without weight may be so far out that θ overflows, and 0 · ∞ is no number: it stays a count.
                z = np.where(np.isfinite(log_w)[:, None], z, self.modes[0].place)
                self._z[i] = np.concatenate([self._z[i], z])
                self._log_w[i] = np.concatenate([self._log_w[i], log_w])
            worst = self._summarise(before)
            before = self._centre
            now = time.perf_counter()
            if (
                worst <= error
                or now - begin + 2.2 * (now - lap) > seconds
                or 2 * unit * total * REPLICATES > MOST_POINTS
            ):
                break
            unit *= 2
        log_w = np.concatenate(self._log_w)
        self.effective_share = effective_share(log_w)
        self.met = worst <= error
        words = (
            f"importance sampling with {REPLICATES} scrambled Sobol sets of {unit * total} points, "
            f"{len(self.proposal.shares)} Student components, effective share {self.effective_share:.2f}"
        )
        parts = [
            (Points(dict(zip(self._names, theta(z).T, strict=True))), np.exp(w - log_w.max()))
            for z, w in zip(self._z, self._log_w, strict=True)
        ]
        super().__init__(parts, words)

    def _summarise(self, before: FloatArray | None) -> float:
        """Moments and evidence with their errors; the largest error of a moment in posterior standard deviations.

        An error is not below half of what the last doubling changed: a tail that was met late is seen by that first.
        """
        top = max(float(w.max()) for w in self._log_w)
        sums = []
        for z, log_w in zip(self._z, self._log_w, strict=True):
            w, t = np.exp(log_w - top), self._theta(z)
            with np.errstate(under="ignore"):
                functions = np.concatenate([t, t**2], axis=1)
                sums.append([np.concatenate([[w.sum()], w @ functions]), np.concatenate([[0.0], w @ functions**2])])
        each = np.array(sums)
        whole = each.sum(axis=0)
        self._centre = whole[0, 1:] / whole[0, 0]
        self._spread = np.sqrt(np.maximum(whole[1, 1:] / whole[0, 0] - self._centre**2, 0.0))
        without = whole[0] - each[:, 0]
        scatter = without[:, 1:] / without[:, :1]
        r = len(self._z)
        self._error = np.sqrt((r - 1) / r * ((scatter - scatter.mean(axis=0)) ** 2).sum(axis=0))
        if before is not None:
            self._error = np.maximum(self._error, np.abs(self._centre - before) / 2)
        masses = each[:, 0, 0]
        self.log_evidence = float(np.log(whole[0, 0] / sum(w.size for w in self._log_w)) + top)
        self.log_evidence_error = float(masses.std(ddof=1) / masses.mean() / math.sqrt(r))
        return float((self._error / np.maximum(self._spread, 1e-300)).max())

    def truth(self) -> Truth:
        known, p = [], len(self._names)
        for j, name in enumerate(self._names):
            for label, column in ((f"mean:{name}", j), (f"second_moment:{name}", p + j)):
                value, error, spread = self._centre[column], self._error[column], self._spread[column]
                known.append(Known(label, float(value), float(error), float(spread)))
        return Truth(known, self.how)

    def log_density(self, points: Points) -> FloatArray:
        if self._to_z is None:
            return super().log_density(points)
        with np.errstate(invalid="ignore", divide="ignore"):
            z, log_jacobian = self._to_z(points)
        inside = np.isfinite(z).all(axis=1) & np.isfinite(log_jacobian)
        result = np.full(len(z), -np.inf)
        result[inside] = self._log_f(z[inside]) + log_jacobian[inside] - self.log_evidence
        return result

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """Independent draws by rejection from the proposal, below 1.2 times the largest weight that was seen.

        Where that would accept fewer than one in fifty, by resampling the weighted points.
        """
        log_w = np.concatenate(self._log_w)
        bound = float(log_w.max()) + math.log(1.2)
        rate = math.exp(logsumexp(log_w) - math.log(log_w.size) - bound)
        if rate < 0.02:
            return super().sample(size, rng)
        kept, have = [np.empty((0, self._z[0].shape[1]))], 0
        while have < size:
            z = self.proposal.sample(int((size - have) / rate * 1.1) + 32, rng)
            accepted = np.log(rng.random(len(z))) < self._log_f(z) - self.proposal.log_density(z) - bound
            kept.append(z[accepted])
            have += int(accepted.sum())
        return Points(dict(zip(self._names, self._theta(np.concatenate(kept)[:size]).T, strict=True)))
