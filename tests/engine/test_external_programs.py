"""External programs as simulators."""

import multiprocessing
import re
import stat
import sys
import textwrap

import numpy as np
import pytest
from scipy import stats

import fbar
from engine_runs import drive, failures, gone, until, z_score
from fbar.engine import Workers
from fbar.question.outcomes import Failure

pytestmark = pytest.mark.processes


@pytest.fixture
def script(tmp_path):
    def make(body):
        path = tmp_path / "model"
        path.write_text(f"#!{sys.executable} -S\nimport sys, time, os\nargs = sys.argv[1:]\n{textwrap.dedent(body)}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_a_program_gets_every_digit_and_a_seed(script):
    simulate = fbar.program([script("print(*args)"), "{theta}", "{double}", "{seed}", "{ }"], parse=str.split)
    values = np.random.default_rng(1).random(3)
    points = fbar.Points({"theta": values}, {"double": lambda t: 2 * t["theta"]})
    rows = simulate(points, np.random.default_rng(2))
    assert [float(row[0]) for row in rows] == values.tolist()
    assert [float(row[1]) for row in rows] == (2 * values).tolist()
    seeds = [int(row[2]) for row in rows]
    assert len(set(seeds)) == 3
    assert max(seeds) > 2**53
    assert [row[3:] for row in rows] == [["{", "}"]] * 3


def test_a_program_is_a_simulator(script):
    model = script(
        """
        import random
        theta, seed = float(args[0]), int(args[1])
        if theta > 0.9:
            print("first line", file=sys.stderr)
            sys.exit("the solver did not converge")
        print(int(random.Random(seed).random() < theta))
        """
    )
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0, 1)), fbar.program([model, "{theta}", "{seed}"]), observed=1.0
    )
    run = drive(problem, fbar.Rejection(), Workers(2), budget=64, block_size=4)
    assert run.seen.counts == {Failure.EXCEPTION: failures(fbar.Rejection(), 64, block_size=4)}
    assert run.seen.examples[Failure.EXCEPTION] == "ProgramFailed: exit status 1: the solver did not converge"
    assert run.seen.details[Failure.EXCEPTION] == "first line\nthe solver did not converge\n"
    assert abs(z_score(run, 0.6)) < 5


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("print('early', file=sys.stderr, flush=True); time.sleep(600)", Failure.TIMED_OUT, "longer than 0.5 s.*early"),
        ("os.kill(os.getpid(), 9)", Failure.EXCEPTION, "killed by SIGKILL"),
        ("print('a b')", Failure.EXCEPTION, "could not be read: ValueError"),
        ("", Failure.EXCEPTION, "it printed nothing"),
        ("if not os.fork(): time.sleep(600)", Failure.EXCEPTION, "it printed nothing"),  # ended with its program
    ],
)
def test_a_program_that_fails_says_how(script, body, kind, message):
    (row,) = fbar.program([script(body)], timeout=0.5)(fbar.Points({"theta": [1.0]}), np.random.default_rng(1))
    assert row.kind == kind
    assert re.search(message, row.message)


def test_a_program_prints_one_number_or_several(script):
    points, rng = fbar.Points({"theta": [1.0]}), np.random.default_rng(1)
    assert fbar.program([script("print(0.1)")])(points, rng) == [0.1]
    (row,) = fbar.program([script("print(0.1, 2)")])(points, rng)
    assert row.tolist() == [0.1, 2.0]


def test_a_program_ends_with_the_worker_that_called_it(script, tmp_path):
    model = script("open(args[0], 'w').write(str(os.getpid())); time.sleep(600)")
    simulate = fbar.program([model, str(tmp_path / "pid")])
    points, rng = fbar.Points({"theta": [1.0]}), np.random.default_rng(1)
    process = multiprocessing.get_context("fork").Process(target=simulate, args=(points, rng))
    process.start()
    assert until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    process.kill()
    process.join()
    assert until(lambda: gone(int((tmp_path / "pid").read_text())), 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fbar.program([]), "command must be a list"),
        (lambda: fbar.program("echo {theta}"), "command must be a list"),
        (lambda: fbar.program(["./no-such-model"]), "no executable program at"),
        (lambda: fbar.program(["no-such-model-anywhere"]), "on the search path"),
        (lambda: fbar.program(["{theta}"]), "cannot depend on a parameter"),
        (lambda: fbar.program(["echo"], cwd="/no/such"), "cwd must be a directory"),
        (lambda: fbar.program(["echo"], timeout=-1), "timeout must be"),
        (
            lambda: fbar.Problem(fbar.Finite(theta=[1, 2]), fbar.program(["echo", "{beta}"]), observed=1.0),
            "needs the parameter 'beta'",
        ),
        (
            lambda: fbar.program(["echo", "{beta}"])(fbar.Points({"theta": [1.0]}), np.random.default_rng(1)),
            "needs the parameter 'beta'",
        ),
    ],
)
def test_a_program_that_cannot_work_is_refused(call, message):
    with pytest.raises(fbar.InputError, match=message):
        call()
