"""The adapter of sbi."""

from __future__ import annotations

import expected
import numpy as np
import pytest
import torch
from sbi_adapter import sbi_mcabc, sbi_smcabc

SMC = {"smc": sbi_smcabc(), "last": sbi_smcabc(pooled=False)}
ALL = {**SMC, "rejection": sbi_mcabc()}
each = pytest.mark.parametrize("algorithm", ALL.values(), ids=ALL)


@each
def test_its_means_are_those_of_abc(algorithm):
    expected.agrees_with_the_truth(algorithm)


@pytest.mark.parametrize("algorithm", [sbi_smcabc(population=200), sbi_mcabc()], ids=["smc", "rejection"])
def test_gaussian_linear(algorithm):
    expected.solves_gaussian_linear(algorithm)


@each
def test_no_budget_is_exceeded(algorithm):
    expected.keeps_to_any_budget(algorithm)


@pytest.mark.parametrize("algorithm", [*ALL.values(), sbi_mcabc(adjusted=True)], ids=[*ALL, "adjusted"])
def test_a_trial_is_reproducible(algorithm):
    expected.is_reproducible(algorithm, lambda: torch.random.get_rng_state().numpy().tobytes())


@pytest.mark.parametrize("name", expected.continuous_problems())
def test_problems_of_the_catalogue(name):
    for key, algorithm in {**ALL, "adjusted": sbi_mcabc(adjusted=True)}.items():
        expected.works_on(name, algorithm, sequential=key != "rejection")


def test_a_study_ranks_it():
    expected.ranks({"sbi-smcabc": SMC["smc"], "sbi-mcabc": sbi_mcabc()})


def test_regression_adjustment_brings_the_tolerance_nearer():
    """At a wide tolerance the adjusted mean of a, whose posterior is normal, is that of the posterior."""
    exact = expected.DATA[0] / (1 + expected.NOISE**2)
    adjusted = expected.estimates(sbi_mcabc(adjusted=True), 12, 1500)[:, 0]
    plain = expected.estimates(sbi_mcabc(), 12, 1500)[:, 0]
    assert abs(adjusted.mean() - exact) < expected.limit(12) * adjusted.std(ddof=1) / np.sqrt(12)
    assert abs(plain.mean() - exact) > expected.limit(12) * plain.std(ddof=1) / np.sqrt(12)


def test_all_populations_at_the_tolerance_count():
    whole, found = expected.solve(SMC["smc"], expected.two_dimensional(), 800, 1, expected.TOLERANCE)
    _, last = expected.solve(SMC["last"], expected.two_dimensional(), 800, 1, expected.TOLERANCE)
    assert whole.spent == 800
    assert last.sample()[0].rows == 40
    assert found.sample()[0].rows >= 80


def test_a_tolerance_that_is_out_of_reach_gives_the_last_complete_population():
    posed, found = expected.solve(SMC["smc"], expected.two_dimensional(), 600, 1, 1e-6)
    assert posed.spent == 600
    assert found.sample()[0].rows == 30


def test_weights_matter():
    expected.notices_lost_weights(SMC["smc"])
