"""The adapter of pyABC."""

from __future__ import annotations

import hashlib
import pickle

import expected
import numpy as np
import pytest
from pyabc_adapter import pyabc_rejection, pyabc_smc

import fbar

SMC = {"normal": pyabc_smc(), "local": pyabc_smc("local"), "stops": pyabc_smc(spend="population")}
ALL = {**SMC, "rejection": pyabc_rejection()}
each = pytest.mark.parametrize("algorithm", ALL.values(), ids=ALL)


@each
def test_its_means_are_those_of_abc(algorithm):
    expected.agrees_with_the_truth(algorithm)


@pytest.mark.parametrize("algorithm", [pyabc_smc(population=200), pyabc_rejection()], ids=["smc", "rejection"])
def test_gaussian_linear(algorithm):
    expected.solves_gaussian_linear(algorithm)


@each
def test_no_budget_is_exceeded(algorithm):
    expected.keeps_to_any_budget(algorithm)


@each
def test_a_trial_is_reproducible(algorithm):
    expected.is_reproducible(algorithm, lambda: hashlib.sha256(pickle.dumps(np.random.get_state())).hexdigest())  # noqa: NPY002


@pytest.mark.parametrize("name", expected.continuous_problems())
def test_problems_of_the_catalogue(name):
    for key, algorithm in ALL.items():
        expected.works_on(name, algorithm, sequential=key != "rejection")


def test_a_study_ranks_it():
    expected.ranks({"pyabc-normal": SMC["normal"], "pyabc-local": SMC["local"], "pyabc-rejection": pyabc_rejection()})


def test_all_of_the_budget_is_spent_and_counts():
    whole, found = expected.solve(SMC["normal"], expected.two_dimensional(), 800, 1, expected.TOLERANCE)
    part, stopped = expected.solve(SMC["stops"], expected.two_dimensional(), 800, 1, expected.TOLERANCE)
    assert whole.spent == 800
    assert part.spent < 800
    assert stopped.sample()[0].rows == 40
    assert found.sample()[0].rows > 80


def test_a_tolerance_that_is_out_of_reach_gives_the_last_complete_population():
    posed, found = expected.solve(SMC["normal"], expected.two_dimensional(), 600, 1, 1e-6)
    assert posed.spent == 600
    assert found.sample()[0].rows == 30


def test_weights_matter():
    expected.notices_lost_weights(SMC["normal"])


def test_settings_are_checked():
    with pytest.raises(fbar.InputError, match="transition"):
        pyabc_smc("unknown")
