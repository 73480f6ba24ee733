from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fbar.errors import InputError
from fbar.scores.approximation import Approximation
from fbar.scores.base import Scene, Score


class Mse(Score):
    name, better = "mse", "lower"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        out = {}
        for t in scene.targets:
            e = approximation.estimate(t).value - float(scene.problem.truth(t)[0])
            out[t.name] = e**2 - float(scene.problem.truth_error(t)[0]) ** 2
        return out


class Coverage(Score):
    name, better = "coverage", "nominal"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        from scipy.special import stdtrit

        out = {}
        for t in scene.targets:
            g = approximation.estimate(t)
            e = abs(g.value - float(scene.problem.truth(t)[0]))
            out[t.name] = float(e <= stdtrit(g.df, 0.975) * g.standard_error)
        return out


class Rate(Score):
    name, better = "acceptance-rate", "higher"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if approximation.accepted is None:
            raise InputError("no acceptances")
        return {"": approximation.accepted / approximation.simulations}


class Ess(Score):
    name, better = "ess", "higher"

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        _, w = approximation.sample()
        if approximation.posterior is not None and approximation.posterior.ess is not None:
            return {"": float(approximation.posterior.ess)}
        return {"": float(1 / np.sum(w**2))}


KNOWN = {s.name: s for s in (Mse, Coverage, Rate, Ess)}


def as_score(given: object) -> Score:
    return given if isinstance(given, Score) else KNOWN[str(given)]()
