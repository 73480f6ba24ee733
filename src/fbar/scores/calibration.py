"""Calibration: whether what a method says about its uncertainty is borne out.

Simulation-based calibration (Talts et al. 2018) asks it of the posterior: over data made with parameters from the
prior, the true parameter's rank among posterior points is uniform. Coverage asks it of a method's error bars: over
trials, the interval for E[f|x*] holds the true value as often as it says.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import positive_integer, shown
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.scores.approximation import Approximation
from fbar.scores.arrays import cells, is_finite, merged, probabilities, weighted
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.scores.density import log_density
from fbar.scores.expectation import TrialError, trial_errors
from fbar.weights import effective_size


def true_parameters(scene: Scene) -> dict[str, Any]:
    """The parameters that the data were made with."""
    found = getattr(scene.problem, "true_parameters", None)
    if not found:
        raise InputError("this score needs the parameters that the data were made with, which are not known")
    return dict(found)


def rank(
    x: npt.ArrayLike, true: float, u: float, weights: npt.ArrayLike | None = None, *, exact: bool = False
) -> float:
    """The normalised rank of the true value among weighted points of one parameter; uniform if they are right.

    For n equal weights (#below + u (#equal + 1))/(n + 1), the true value being one point more; else n is (Σw)²/Σw²
    over distinct points. ``u``, uniform on [0, 1], breaks ties. ``exact`` takes the weights for probabilities
    (a finite posterior): P(θ < true) + u P(θ = true).

    >>> rank([1.0, 2.0, 3.0], 2.5, 0.5)
    0.625
    """
    a, w = weighted(x, weights)
    if a.shape[1] != 1:
        raise InputError(f"a rank is defined for one parameter; got samples of {a.shape[1]}")
    below, equal = float(w[a[:, 0] < true].sum()), float(w[a[:, 0] == true].sum())
    if exact:
        return below + u * equal
    n = effective_size(merged(a, w)[1])
    return (n * below + u * (n * equal + 1)) / (n + 1)


@dataclass(frozen=True)
class Uniformity:
    """Whether ranks are uniform: χ² of their histogram, its degrees of freedom and p-value."""

    trials: int
    chi2: float
    df: int
    p_value: float
    counts: tuple[int, ...]


def _ranks(ranks: npt.ArrayLike) -> FloatArray:
    r = numeric_array(ranks, "ranks")
    if r.ndim != 1 or r.size < 2:
        raise InputError(f"calibration needs the ranks of at least 2 trials; got shape {r.shape}")
    if not ((r >= 0) & (r <= 1)).all():
        raise InputError(f"ranks must lie in [0, 1]; got {r[~((r >= 0) & (r <= 1))][0]:g}")
    return r


def uniformity(ranks: npt.ArrayLike, bins: int | None = None) -> Uniformity:
    """χ² test of the ranks of independent trials, each with its own parameters drawn from the prior.

    Trials that share one data set share its true parameters, and their ranks are not uniform.
    """
    from scipy.special import gammaincc

    r = _ranks(ranks)
    bins = max(2, min(20, r.size // 5)) if bins is None else positive_integer(bins, "bins")
    if bins < 2 or bins > r.size:
        raise InputError(f"bins must be at least 2 and at most the number of trials, {r.size}; got {bins}")
    counts = np.histogram(r, bins, (0.0, 1.0))[0]
    expected = r.size / bins
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    return Uniformity(r.size, chi2, bins - 1, float(gammaincc((bins - 1) / 2, chi2 / 2)), tuple(counts.tolist()))


LEAST_LEVEL = 1e-12
"""A level nearer to 0 or 1 cannot be told apart from them by any number of trials."""


@dataclass(frozen=True)
class Coverage:
    """The share of trials whose central credible interval holds the true parameter, and its standard error.

    ``z`` is its distance from the level in standard errors of a calibrated method.
    """

    level: float
    share: float
    error: float
    z: float


def expected_coverage(ranks: npt.ArrayLike, levels: npt.ArrayLike = (0.5, 0.8, 0.9, 0.95)) -> list[Coverage]:
    """How often central credible intervals of several levels contain the true parameter."""
    r, result = _ranks(ranks), []
    for level in numeric_array(levels, "levels").ravel().tolist():
        if not LEAST_LEVEL <= level <= 1 - LEAST_LEVEL:
            raise InputError(f"a level must lie between 0 and 1; got {level:g}")
        share = float((np.abs(r - 0.5) <= level / 2).mean())
        error = math.sqrt(share * (1 - share) / r.size)
        result.append(Coverage(level, share, error, (share - level) / math.sqrt(level * (1 - level) / r.size)))
    return result


def holds(item: TrialError, level: float = 0.95) -> float:
    """1 if the t-interval of an estimate holds the truth, 0 if not, NaN without an error bar."""
    from scipy.special import stdtrit

    if math.isnan(item.standard_error) or math.isnan(item.df):
        return math.nan
    half = float(stdtrit(item.df, 0.5 + level / 2)) * item.standard_error
    return float(abs(item.error) <= half)


# ---------------------------------------------------------------- scores


@register
@dataclass(frozen=True)
class TrueParameters(Score):
    """log p̂ at the parameters that the data were made with: a density, or a probability on a finite space."""

    name: ClassVar[str] = "true-parameters"
    title: ClassVar[str] = "log posterior density (or probability) of the true parameters"
    formula: ClassVar[str] = "log p̂(θ_true|x*)"
    range: ClassVar[str] = "[−∞, ∞)"
    better: ClassVar[Better] = "higher"
    needs: ClassVar[Needs] = "parameters"
    blind_spot: ClassVar[str] = (
        "rewards overconfidence, and penalises the true posterior where the data are not typical of their "
        "parameters; by itself it shows only gross failures"
    )

    bandwidth: str = "scott"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        true = true_parameters(scene)
        at = Points({name: np.array([true[name]]) for name in scene.problem.prior.names if name in true})
        if is_finite(scene):
            p = probabilities(approximation, scene)[cells(at, scene.problem.finite)[0]]
            return {"": math.log(p) if p > 0 else -math.inf}
        return {"": float(log_density(approximation, scene, at.with_derived(scene.problem.derived), self.bandwidth)[0])}


@register
@dataclass(frozen=True)
class SimulationBasedCalibration(Score):
    """The rank of each true parameter; over trials with data of their own see `uniformity` and `expected_coverage`."""

    name: ClassVar[str] = "sbc"
    title: ClassVar[str] = "simulation-based calibration: rank of each true parameter"
    formula: ClassVar[str] = "P̂(θ_j < θ_j,true) + u P̂(θ_j = θ_j,true)"
    range: ClassVar[str] = "[0, 1], uniform over data sets"
    better: ClassVar[Better] = "nominal"
    needs: ClassVar[Needs] = "parameters"
    nominal: ClassVar[float | None] = 0.5
    blind_spot: ClassVar[str] = (
        "an average over data sets, not about these data; the prior itself passes, whatever the data say"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        true = true_parameters(scene)
        points, weights = approximation.sample()
        result = {}
        for name in scene.problem.prior.names:
            if name not in true or points[name].dtype.kind not in "biuf":
                continue
            present = points.present(name)
            if not (weights[present] > 0).any():
                raise InputError(f"no sample has the parameter {shown(name)}: its model has no weight")
            x, w = merged(*weighted(points[name][present], weights[present]))
            # Ties are broken at random, and the same way when the trial is scored again: the trial is the seed.
            trial = zlib.crc32(x.tobytes() + w.round(9).astype(np.float32).tobytes())
            u = float(scene.rng(13, trial).random())
            result[name] = rank(x, float(true[name]), u, w, exact=is_finite(scene))
        return result


@register
@dataclass(frozen=True)
class ErrorBarCoverage(Score):
    """Whether the method's own interval holds the true expectation; its mean over trials should be ``level``."""

    name: ClassVar[str] = "coverage"
    title: ClassVar[str] = "whether the method's 95% interval contains the true expectation, by target"
    formula: ClassVar[str] = "1(|f̂ − f̄| ≤ t_0.975 SE)"
    range: ClassVar[str] = "0 or 1; NaN without an error bar"
    better: ClassVar[Better] = "nominal"
    needs: ClassVar[Needs] = "expectations"
    nominal: ClassVar[float | None] = 0.95
    blind_spot: ClassVar[str] = "honest error bars can be useless: wide enough ones cover anything"

    level: float = 0.95

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if not 0 < self.level < 1:
            raise InputError(f"level must lie between 0 and 1; got {shown(self.level)}")
        return {name: holds(item, self.level) for name, item in trial_errors(approximation, scene).items()}


@register
@dataclass(frozen=True)
class ZScore(Score):
    """The error in units of its claimed standard error: over trials, mean 0 and variance df/(df − 2) ≈ 1 are right."""

    name: ClassVar[str] = "z-score"
    title: ClassVar[str] = "error of each expectation over its claimed standard error"
    formula: ClassVar[str] = "(f̂ − f̄) / SE"
    range: ClassVar[str] = "(−∞, ∞); NaN without an error bar"
    better: ClassVar[Better] = "nominal"
    needs: ClassVar[Needs] = "expectations"
    nominal: ClassVar[float | None] = 0.0
    blind_spot: ClassVar[str] = "as coverage: says nothing about the size of the error"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        return {name: item.z for name, item in trial_errors(approximation, scene).items()}
