"""Scores of how simulations were spent: acceptance rate, effective sample size, and what they stand in for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import numeric_array
from fbar.errors import InputError
from fbar.scores.approximation import Approximation, checked_weights
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.scores.expectation import posterior_deviation
from fbar.weights import effective_size


def kish(weights: npt.ArrayLike) -> float:
    """(Σw)²/Σw² over simulations (section 1.2.2, e:ESS); weights need not be normalised.

    >>> round(kish([1, 1, 1, 0]), 9), round(kish([2, 1]), 9)
    (3.0, 1.8)
    """
    w = numeric_array(weights, "weights")
    return effective_size(checked_weights(w, w.size))


def relative_efficiency(deviation: npt.ArrayLike, error: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """var(f|x*)/error²: how many independent posterior draws the estimate is worth.

    With ``error`` an estimator's own standard error, by its own word; with the root of its MSE, in truth.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.square(numeric_array(deviation, "deviation") / numeric_array(error, "error")))


def _spent(approximation: Approximation) -> int:
    if approximation.simulations < 1:
        raise InputError("the algorithm ran no simulations; a score per simulation is not defined")
    return approximation.simulations


@register
@dataclass(frozen=True)
class AcceptanceRate(Score):
    """N_acc/N."""

    name: ClassVar[str] = "acceptance-rate"
    title: ClassVar[str] = "fraction of simulations that were accepted"
    formula: ClassVar[str] = "N_acc / N"
    range: ClassVar[str] = "[0, 1]"
    better: ClassVar[Better] = "higher"
    needs: ClassVar[Needs] = "nothing"
    blind_spot: ClassVar[str] = (
        "measures the error of f only in rejection sampling; it is highest when every simulation is run at the "
        "most likely θ, which says nothing about the rest of the posterior"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if approximation.accepted is None:
            raise InputError("this algorithm does not accept simulations, so it has no acceptance rate")
        return {"": float(approximation.accepted) / _spent(approximation)}


@register
@dataclass(frozen=True)
class EffectiveSampleSize(Score):
    """Kish's (Σw)²/Σw² over single accepted simulations, absolute (component ``""``) and per simulation."""

    name: ClassVar[str] = "ess"
    title: ClassVar[str] = "effective sample size, absolute and per simulation"
    formula: ClassVar[str] = "(Σw)² / Σw²; the same / N"
    range: ClassVar[str] = "[1, N]"
    better: ClassVar[Better] = "higher"
    needs: ClassVar[Needs] = "nothing"
    blind_spot: ClassVar[str] = (
        "does not depend on f: exact for rejection sampling, and for f that are equally far from their mean "
        "everywhere; a small ESS can go with a small error, and weights that are wrong but equal look perfect"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if approximation.is_prior:  # nothing was accepted
            return {"": 0.0, "per-simulation": 0.0}
        posterior = approximation.posterior
        own = None if posterior is None else posterior.ess
        value = kish(approximation.sample()[1]) if own is None else float(np.asarray(own))
        return {"": value, "per-simulation": value / _spent(approximation)}


@register
@dataclass(frozen=True)
class RelativeEfficiency(Score):
    """What the effective sample size stands in for, by the method's own error bar: var(f|x*)/SE², by target.

    The same from the true error is ``draws`` of `fbar.scores.expectation.summarise`, over trials. NaN where the method
    gave no error bar.
    """

    name: ClassVar[str] = "relative-efficiency"
    title: ClassVar[str] = "independent posterior draws an estimate claims to be worth, by target"
    formula: ClassVar[str] = "var(f|x*) / SE(f̂)²"
    range: ClassVar[str] = "[0, ∞)"
    better: ClassVar[Better] = "higher"
    needs: ClassVar[Needs] = "expectations"
    blind_spot: ClassVar[str] = "the method's own claim: ignores its bias, and error bars that are too small"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        result = {}
        for target in scene.targets:
            error = approximation.estimate(target).standard_error
            deviation = posterior_deviation(target, scene)
            result[target.name] = math.nan if math.isnan(error) else float(relative_efficiency(deviation, error))
        return result
