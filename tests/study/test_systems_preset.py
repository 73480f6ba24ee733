"""The studies of the preset "systems" that pose problems of their own."""

import numpy as np
import pytest

import fbar
from fbar.study.presets.systems.cells import table
from fbar.study.presets.systems.studies import DECAYED, noisy_decay


def test_the_truth_of_the_noisy_decay():
    """Its density at θ = 0.9 and 1.1 against the shares of 40,000 simulations each that come near, within 10%."""
    problem = noisy_decay()
    rng = np.random.default_rng(1)
    near = []
    for theta in (0.9, 1.1):
        x = problem.simulator.output(fbar.Points({"theta": np.full(40_000, theta)}), rng)["x"]
        half = np.exp(-theta / 2)
        assert x.mean(axis=0) == pytest.approx([10 * half, 10 * half**2], abs=0.02)
        near.append((np.abs(x - DECAYED) < 0.25).all(axis=1).mean())
    grid = np.linspace(0.0, 3.0, 3001)[1:]
    a = np.exp(-grid / 256)
    variance = (1 - a**256) / (256 * (1 - a**2))
    mean = np.stack([10 * a**128, DECAYED[0] * a**128])
    p = np.exp(-(((DECAYED[:, None] - mean) ** 2) / (2 * variance)).sum(axis=0)) / variance
    assert near[1] / near[0] == pytest.approx(np.interp(1.1, grid, p) / np.interp(0.9, grid, p), rel=0.1)
    assert problem.truth(fbar.mean("theta"))[0] == pytest.approx(p @ grid / p.sum(), rel=1e-4)


def test_costs_are_in_real_simulations():
    name = "noisy-decay"
    methods = ["rejection", "multifidelity"]
    result = fbar.Study({name: noisy_decay()}, methods, 600, 1, ("mse",), 1, tolerance={name: 0.5}).run()
    rows = {row["method"]: row for row in table({"fidelities": result})}
    assert float(rows["rejection"]["cost"]) == 600
    assert 600 / 32 < float(rows["multifidelity"]["cost"]) < 400
