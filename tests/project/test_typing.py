"""What type checkers see of fbar: a script that uses it is checked by mypy, strictly."""

import subprocess
import sys
from pathlib import Path

import pytest

import fbar

SCRIPT = """
from typing import assert_type

from scipy import stats

import fbar

prior = fbar.Prior(theta=stats.norm())
problem = fbar.Problem(prior, lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows), 0.5)
mean = fbar.mean("theta")
assert_type(mean, fbar.Target)
result = fbar.infer(problem, [mean, fbar.probability_between("theta", 0, 1)], budget=1000, tolerance=0.5, seed=1)
assert_type(result, fbar.Result)
assert_type(result.expect(mean), fbar.Estimate)
assert_type(result.expect([mean]), fbar.Estimates)
assert_type(result.expect("mean:theta"), fbar.Estimate)
assert_type(result.posterior.expect(mean), fbar.Estimate)
assert_type(result.posterior.expect((mean,)), fbar.Estimates)
assert_type(result["theta"], fbar.Estimate)
assert_type(result.estimates["theta"], fbar.Estimate)
assert_type(result.estimates[0], fbar.Estimate)
assert_type(result.estimates.difference("mean:theta", "probability_between:0<theta<1"), fbar.Estimate)
assert_type(fbar.load("run"), fbar.Result)
"""

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def checked(directory: Path, text: str) -> str:
    """What mypy prints about a script of a user's, who has installed fbar."""
    (directory / "script.py").write_text(text)
    (directory / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-scipy.*]\nignore_missing_imports = true\n[mypy-fbar.*]\nfollow_imports = silent\n"
    )
    places = {"MYPYPATH": str(Path(fbar.__file__).parent.parent), "PATH": "", "HOME": str(directory)}
    command = [sys.executable, "-m", "mypy", "script.py", "--no-incremental"]
    return subprocess.run(command, cwd=directory, env=places, capture_output=True, text=True).stdout


def test_estimates_are_typed_and_mistakes_are_found(tmp_path):
    wrong = SCRIPT + 'fbar.mean(3)\nresult.expect(3)\nfbar.interval("theta", 0, 1)\nresult["theta"].nothing\n'
    found = [line for line in checked(tmp_path, wrong).splitlines() if "error:" in line]
    last = len(SCRIPT.splitlines())
    assert [int(line.split(":")[1]) - last for line in found] == [1, 2, 3, 4], found


def test_fbar_says_that_it_is_typed():
    assert (Path(fbar.__file__).parent / "py.typed").is_file()
