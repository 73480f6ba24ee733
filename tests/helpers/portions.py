"""Simulations of a run, made by hand."""

from __future__ import annotations

import numpy as np

import fbar
from fbar.estimation.simulations import Portion, Structure


def nothing(theta, rng):
    raise AssertionError("no simulation is run")


def portion(prior, points, summaries, observed, *, log_w=None, group=None, failure=None, cluster=None):
    """Independent draws of the prior, or those of weights and clusters that are given."""
    summaries = np.asarray(summaries, dtype=np.float64)
    n = len(summaries)
    clusters = n if cluster is None else np.unique(cluster).size
    zeros = np.zeros(n, dtype=np.int64)
    return Portion(
        fbar.Problem(prior, nothing, observed=np.asarray(observed, dtype=np.float64)),
        np.arange(n),
        points,
        np.zeros(n) if log_w is None else log_w,
        np.zeros(n),
        summaries,
        np.zeros(n, dtype=np.int8) if failure is None else failure,
        None,
        zeros,
        zeros if group is None else group,
        Structure("independent", zeros, cluster, np.array([clusters]), np.ones(n, dtype=bool)),
    )
