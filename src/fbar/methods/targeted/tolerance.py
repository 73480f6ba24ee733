"""A tolerance from the budget: low enough that its bias is small next to the error bar, bias² ≤ (d/4) variance.

With bias bε² and variance v/(N ε^d) the sum of bias² and variance is least where bias²/variance = d/4 (d the exponent
with which acceptance falls). The bias is estimated by (f̂_2ε − f̂_ε)/3, less what chance adds to its square; d from the
acceptance at both; the variance by what the rest of the budget will make of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fbar.arrays import FloatArray
from fbar.estimation.estimate import Estimate
from fbar.estimation.posterior import Posterior
from fbar.question.targets import Target

LEAST_ACCEPTED = 100
"""Acceptances below which there would be no error bar to speak of."""


def low_enough(near: Posterior, far: Posterior, targets: Sequence[Target], more: float) -> bool:
    """Whether ε is, from the posteriors at ε and 2ε; the rest of the budget gives about ``more`` acceptances at ε."""
    if near.accepted + more < LEAST_ACCEPTED:
        return True
    mass = [np.exp(p.draws.log_w).sum() for p in (near, far) if p.draws is not None]
    d = max(math.log2(mass[1] / mass[0]), 0.5)
    bias = variance = 0.0
    for target in targets:
        at, wide = near.expect(target), far.expect(target)
        unit = (near.weights[:, None] * target.influence(near.points, near.weights) ** 2).sum(axis=0)
        known = unit > 0
        difference = (np.atleast_1d(wide.value) - np.atleast_1d(at.value))[known] / 3
        # Simulations within ε are among those within 2ε: var(f̂_2ε − f̂_ε) ≈ V_ε − V_2ε.
        chance = np.abs(_variance(near, at, target) - _variance(far, wide, target))[known] / 9
        bias += float((np.maximum(difference**2 - chance, 0.0) / unit[known]).sum())
        variance += float((_variance(near, at, target)[known] / unit[known]).sum())
    return bool(bias <= d / 4 * variance * near.accepted / (near.accepted + more))


def _variance(posterior: Posterior, estimate: Estimate, target: Target) -> FloatArray:
    """That of the estimate; where a quantile has no interval yet, that of its first-order error."""
    found = np.atleast_1d(estimate.variance)
    z = None if np.isfinite(found).all() else posterior.contributions(target)
    return found if z is None else np.asarray((z**2).sum(axis=0))
