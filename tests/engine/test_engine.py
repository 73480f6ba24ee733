"""Engines give the same result everywhere."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import fbar
from engine_runs import MEAN, drive, killer, numbers
from fbar.engine import Dask, Futures, InProcess, Workers
from fbar.problems.models.filippi import filippi
from fbar.question.outcomes import Failure

pytestmark = pytest.mark.processes


def poisson(theta, rng):
    return rng.poisson(theta["rate"] * theta["twice"])


FILIPPI = filippi()
FINITE = fbar.Problem(
    fbar.Finite(rate=[0.5, 1.0, 2.0]), poisson, observed=3, derived={"twice": lambda t: 2 * t["rate"] / t["rate"]}
)
CASES = {
    "rejection": lambda engine: drive(
        FILIPPI, fbar.Rejection(tolerance=1), engine, fbar.mean("theta1"), 100_000, block_size=1000
    ),
    "smc": lambda engine: drive(
        FILIPPI, fbar.SMC([2000, 200, 20], accepted=100), engine, fbar.mean("theta1"), block_size=200
    ),
    "allocation": lambda engine: drive(
        FINITE, fbar.AdaptiveAllocation(), engine, fbar.mean("rate"), 20_000, block_size=100
    ),
}


@pytest.fixture(scope="module")
def expected():
    return {name: numbers(case(InProcess())) for name, case in CASES.items()}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_workers_change_no_bit(name, count, expected):
    engine = Workers(count, bundle_seconds=0.02)
    assert numbers(CASES[name](engine)) == expected[name]


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_change_no_bit(kind, expected):
    with kind(2) as executor:
        for name, case in CASES.items():
            assert numbers(case(Futures(executor, bundle_seconds=0.02))) == expected[name]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_dask_changes_no_bit_and_quarantines_what_kills(expected):
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # any port that is free
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        for name, case in CASES.items():
            assert numbers(case(Dask(client))) == expected[name]
        assert numbers(CASES["smc"](Dask(cluster.scheduler_address))) == expected["smc"]
        problem = fbar.Problem(fbar.Finite(theta=[-1.0, 1.0]), killer, observed=1.0)
        batches = fbar.Allocation([0.5, 0.5]).start(problem, MEAN, seed=1, budget=64, block_size=2).ask()
        assert [batch.theta["theta"].tolist() for batch in batches] == [[-1.0, -1.0], [1.0, 1.0]]
        with Dask(client).session(problem) as session:
            session.submit(batches)
            back = {batch.block: outcomes.failure.tolist() for _ in range(2) for batch, outcomes in session.collect()}
        assert back == {0: [Failure.KILLED] * 2, 1: [Failure.NONE] * 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Workers(0), "workers must be a positive integer"),
        (lambda: Workers(timeout=0), "timeout must be greater than 0"),
        (lambda: Futures(ThreadPoolExecutor), "executor must be an open"),
        (lambda: Dask(3), "client must be a distributed.Client"),
    ],
)
def test_engines_refuse_what_they_cannot_use(call, message):
    with pytest.raises(fbar.InputError, match=message):
        call()


def test_workers_are_counted_by_their_present_name():
    with pytest.raises(TypeError, match=r"Workers\(count=\.\.\.\) is now Workers\(workers=\.\.\.\)"):
        Workers(count=2)


FOREST = """
import numpy as np
import fbar
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

grid = np.linspace(0, 1, 5000)[:, None]
emulator = HistGradientBoostingRegressor(max_iter=5).fit(grid, grid[:, 0])  # with OpenMP's threads, in this process


def simulate(theta, rng):
    return emulator.predict(theta["mu"][:, None]) + rng.normal(0, 0.1, theta.rows)


problem = fbar.Problem(fbar.Prior(mu=stats.uniform(0, 1)), simulate, observed=0.5)
print(fbar.infer(problem, fbar.mean("mu"), tolerance=0.1, budget=2000, seed=1, method=fbar.Rejection(), workers=2))
"""


def test_a_simulator_with_openmp_works_in_workers(tmp_path):
    """A forked process that asks OpenMP for threads its parent had waits for ever."""
    script = tmp_path / "forest.py"
    script.write_text(FOREST)
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mean:mu" in done.stdout
