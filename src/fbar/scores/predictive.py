"""Posterior predictive check: simulate from the approximation and compare with the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, numeric_array
from fbar.checks import positive_integer
from fbar.errors import InputError
from fbar.question.outcomes import Failure
from fbar.scores.approximation import Approximation
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.weights import systematic

Measure = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.ArrayLike]


def predictive_p_value(replicates: npt.NDArray[Any], observed: npt.NDArray[Any], measure: Measure) -> float:
    """How ordinary the data are among replicates: the share of the pooled sets at least as far from the others.

    T(x) is the mean distance of x from all other sets, replicates and data together, so that for data from the
    predictive distribution itself all ranks are equally likely: P(p ≤ α) ≤ α exactly.
    """
    if len(replicates) < 2:
        raise InputError(f"a predictive p-value needs at least 2 replicates; got {len(replicates)}")
    pool = np.concatenate([replicates, np.asarray(observed)[None]])
    far = np.array([numeric_array(measure(pool, one), "distances").sum() for one in pool])
    return float((far >= far[-1] * (1 - 1e-12)).mean())


@register
@dataclass(frozen=True)
class PredictiveCheck(Score):
    """Mean distance of data simulated from p̂ to x*, and the predictive p-value.

    Runs ``size`` simulations of its own, which are *not* counted in the algorithm's budget; they are the same random
    numbers for every algorithm and trial. Failed ones are left out.
    """

    name: ClassVar[str] = "predictive"
    title: ClassVar[str] = "posterior predictive check: mean distance to the data, and p-value"
    formula: ClassVar[str] = "E Δ(x_rep, x*); P(T(x_rep) ≥ T(x*)), T the mean distance from the others"
    range: ClassVar[str] = "[0, ∞); p-value in [0, 1]"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Needs] = "nothing"
    blind_spot: ClassVar[str] = (
        "overconfidence: a posterior that leaves out plausible parameters passes as well or better; costs simulations "
        "that the budget does not include"
    )

    size: int = 200

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        problem = scene.problem
        if not problem.has_summaries or problem.observed is None:
            raise InputError("this problem's data are an event or a rule; there is no distance to simulated data")
        points, weights = approximation.sample()
        rng = scene.rng(17)
        size = positive_integer(self.size, "size")
        theta = points.take(rng.permutation(systematic(weights, size, rng))).only(problem.prior.names)
        replicates, distance = self._simulate(scene, theta.with_derived(problem.derived), rng)
        return {
            "": float(distance.mean()),
            "p-value": predictive_p_value(replicates, problem.observed, problem.measure),
        }

    def _simulate(self, scene: Scene, theta: Any, rng: np.random.Generator) -> tuple[npt.NDArray[Any], FloatArray]:
        problem = scene.problem
        outcomes = problem.outcomes(problem.simulator.output(theta, rng), theta.rows)
        assert outcomes.failure is not None
        good = outcomes.failure == Failure.NONE
        if good.sum() < 2:
            raise InputError(f"{theta.rows} simulations from the approximation gave fewer than 2 usable data sets")
        replicates = np.asarray(outcomes.summaries)[good]
        return replicates, problem.distance(replicates)
