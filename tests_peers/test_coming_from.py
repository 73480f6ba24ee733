"""The code of other packages on ``docs/how-to/coming-from.md`` runs as it stands and gives the same answer as fbar's.

`make test-peers` chooses the package that an environment has by ``-k``.
"""

from __future__ import annotations

import runpy

import numpy as np
import pytest
import village

TOLERANCE = {"pyABC": 2, "ELFI": 2, "sbi": 0, "BayesFlow": 0}
LIMIT = {"pyABC": 0.3, "ELFI": 0.3, "sbi": 0.4, "BayesFlow": 0.4}
"""In posterior standard deviations. The last 500 particles of ABC-SMC are worth over 350 independent ones, so 0.3 is
more than five standard errors: one false alarm in a million. The error of a network follows no law; its limit is a
choice."""
SPREAD = 2
"""The factor by which the standard deviation of R0 may be off, particles counted without their weights; the prior's is
four times the posterior's."""
each = pytest.mark.parametrize("package", TOLERANCE)


@each
def test_the_code_of_the_page_gives_the_answer(package, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "village_of_the_page.py"
    file.write_text(village.code(package), encoding="utf-8")
    space = runpy.run_path(str(file))  # ELFI reads the names of variables from the file
    found, answer = village.printed(capsys.readouterr().out), village.exact(TOLERANCE[package])
    assert max(map(abs, answer.errors(found))) < LIMIT[package], found
    assert 1 / SPREAD < np.std(np.asarray(space["r0"])) / answer.deviation < SPREAD


@each
def test_the_page_shows_such_an_answer(package):
    shown = village.printed(village.shown(package))
    assert max(map(abs, village.exact(TOLERANCE[package]).errors(shown))) < LIMIT[package], shown


@each
def test_fbars_answers_beside_it_hold(package):
    """Within five standard errors: one false alarm in a million."""
    answer = village.exact(TOLERANCE[package])
    found = village.estimates(package)
    assert found
    for name, value, error in found:
        truth = answer.mean if name == "mean:R0" else answer.probability
        assert abs(value - truth) < 5 * error, (name, value, error, truth)
