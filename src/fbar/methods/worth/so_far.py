"""All draws of a run, as a valuation sees them to learn how to go on."""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.estimation.crossfitted import Crossfitted
from fbar.methods.aiming.aim import Aim
from fbar.methods.worth.valuation import DrawsSoFar
from fbar.question.worth import Worth
from fbar.weights import relative


def draws_so_far(store: Crossfitted, worth: Worth, aim: Aim) -> DrawsSoFar:
    """Of a store that has some."""

    def variance_parts(rows: IntArray) -> FloatArray:
        a, w = store.everything.worth(worth, rows), relative(store.log_weights(rows))
        positive = np.maximum(a, 0.0) * w
        if not positive.sum() > 0:
            return np.asarray(w**2)
        g = aim.g(store.points(rows), positive / positive.sum(), w * np.abs(a))
        return np.asarray((w * g) ** 2)

    rows = np.arange(store.simulations)
    kept = {name: column.take(rows) for name, column in store.everything.further.items()}
    return DrawsSoFar(kept, store.of_round(store.rounds - 1)[0], variance_parts)
