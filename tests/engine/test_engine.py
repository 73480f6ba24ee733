"""Engines: the same result everywhere, whatever simulations and workers do; external programs."""

import multiprocessing
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import Dask, Futures, InProcess, Workers, pool
from fbar.problems.models.filippi import filippi
from fbar.question.outcomes import Failure

MEAN = fbar.mean("theta")
pytestmark = pytest.mark.processes


def drive(problem, method, engine, targets=MEAN, budget=None, **options):
    run = method.start(problem, targets, seed=11, budget=budget, **options)
    fbar.drive(run, engine=engine)
    return run


def numbers(run):
    estimates = [run.posterior().expect(target) for target in run.targets]
    return [(e.value, e.standard_error) for e in estimates]


# ---------------------------------------------------------------- the same bits everywhere


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


def killer(theta, rng):
    """Kills its worker in the one block that has a θ below 0."""
    if theta["theta"][0] < 0:
        os._exit(1)
    return theta["theta"]


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


# ---------------------------------------------------------------- failures


def fail(how):
    if how == "raise":
        raise ValueError("no solution")
    if how == "hang":
        time.sleep(3600)
    if how == "kill":
        os._exit(3)
    return {"nan": np.nan, "inf": np.inf, "shape": [1.0, 0.0, 1.0]}[how]


def failing(*how):
    """θ ~ U(0, 1) and P(x = 1) = θ, but a tenth of all simulations, those with θ > 0.9, fail in these ways.

    With failures rejected the posterior is ∝ θ below 0.9, of mean 0.6; without them its mean is 2/3.
    """

    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] > 0.9:
            return fail(how[int((theta["theta"] - 0.9) * 10 * len(how))])
        try:
            return float(rng.random() < theta["theta"])
        except Exception:
            return None

    return fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)


def drawn(method, budget, **options):
    """The θ that the run of `drive` with these settings draws, block by block."""
    seen = []

    def simulate(theta, rng):
        seen.append(theta["theta"])
        return np.ones(theta.rows)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    drive(problem, method, InProcess(), budget=budget, **options)
    return seen


def failures(method, budget, **options):
    return sum((theta > 0.9).sum() for theta in drawn(method, budget, **options))


KINDS = {
    "raise": Failure.EXCEPTION,
    "nan": Failure.NOT_FINITE,
    "inf": Failure.NOT_FINITE,
    "shape": Failure.WRONG_SHAPE,
    "hang": Failure.TIMED_OUT,
    "kill": Failure.KILLED,
}


def z_score(run, truth):
    estimate = run.posterior().expect(MEAN)
    return (estimate.value - truth) / estimate.standard_error


@pytest.mark.parametrize("how", ["raise", "nan", "inf", "shape", "hang"])
def test_a_tenth_of_simulations_fails(how):
    """Nine tests of |z| < 5 in this file: less than one false alarm in 10⁵ runs."""
    budget = 80 if how == "hang" else 4000
    limit = 0.5 if how == "hang" else 10.0  # long beside a stall of a busy machine
    run = drive(failing(how), fbar.Rejection(), Workers(4, timeout=limit), budget=budget, block_size=8)
    failed = failures(fbar.Rejection(), budget, block_size=8)
    assert run.simulations == budget
    assert run.seen.counts == {KINDS[how]: failed}
    assert abs(z_score(run, 0.6)) < 5
    if how not in ("nan", "inf"):
        assert run.seen.examples[KINDS[how]]


def test_a_tenth_of_simulations_kills_its_worker():
    run = drive(failing("kill"), fbar.Rejection(), Workers(2), budget=320, block_size=8)
    assert run.seen.counts == {Failure.KILLED: failures(fbar.Rejection(), 320, block_size=8)}
    assert re.search(r"process died 2 times in block \d+ of round 0, row \d", run.seen.examples[Failure.KILLED])
    assert run.simulations == 320
    assert abs(z_score(run, 0.6)) < 5


def test_all_failures_together():
    problem = failing("raise", "nan", "inf", "shape", "hang", "kill")
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.5, bundle_seconds=0.1), budget=400, block_size=8)
    assert run.simulations == 400
    assert set(run.seen.counts) == set(KINDS.values())
    assert abs(z_score(run, 0.6)) < 5
    again = drive(problem, fbar.Rejection(), Workers(2, timeout=0.5), budget=400, block_size=8)
    assert numbers(again) == numbers(run)
    assert again.seen.counts == run.seen.counts


def test_of_a_vectorised_simulator_that_hangs_the_hanging_rows_are_found():
    def simulate(theta, rng):
        if (theta["theta"] > 0.9).any():
            time.sleep(3600)
        return (rng.random(theta.rows) < theta["theta"]).astype(float)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.2), budget=48, block_size=4)
    assert run.seen.counts == {Failure.TIMED_OUT: failures(fbar.Rejection(), 48, block_size=4)}
    assert "longer than 0.2 s" in run.seen.examples[Failure.TIMED_OUT]


def test_code_that_ignores_signals_is_ended_by_force(monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.5)

    def simulate(theta, rng):
        if (theta["theta"] > 0.9).any():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        return (rng.random(theta.rows) < theta["theta"]).astype(float)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = drive(problem, fbar.Rejection(), Workers(4, timeout=0.1), budget=16, block_size=4)
    assert run.seen.counts == {Failure.TIMED_OUT: failures(fbar.Rejection(), 16, block_size=4)}
    assert run.simulations == 16


def test_a_block_that_always_kills_is_quarantined_and_the_run_goes_on():
    problem = fbar.Problem(fbar.Finite(theta=[-1.0, 1.0]), killer, observed=1.0)
    run = drive(problem, fbar.Allocation([0.1, 0.9]), Workers(2), budget=80, block_size=5)
    assert run.simulations == 80
    assert 8 <= run.seen.counts[Failure.KILLED] < 80


def test_only_rows_that_kill_are_rejected():
    """Of three values θ the first always kills; P(x = 1) is 0.2 and 0.6 at the others, whose mean is 2.75."""

    @fbar.each
    def simulate(theta, rng):
        if theta["theta"] == 1:
            os._exit(1)
        return int(rng.random() < 0.2 * (2 * theta["theta"] - 3))

    problem = fbar.Problem(fbar.Finite(theta=[1, 2, 3]), simulate, observed=1)
    method = fbar.Allocation([0.01, 0.495, 0.495])
    run = drive(problem, method, Workers(2), budget=800, block_size=25)
    count = run.counts[0]
    assert run.simulations == 800
    assert run.seen.counts == {Failure.KILLED: count}
    assert "row" in run.seen.examples[Failure.KILLED]
    assert abs(z_score(run, 2.75)) < 5


def test_workers_killed_from_outside_while_idle_and_at_work_are_replaced():
    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: np.ones(t.rows), observed=1.0)
    batches = fbar.Rejection().start(problem, MEAN, seed=1, budget=640, block_size=10).ask()
    with Workers(2).session(problem) as session:
        session.submit(batches[:2])
        back = session.collect()
        while len(back) < 2:
            back += session.collect()
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)
        session.submit(batches[2:4])
        while len(back) < 4:
            back += session.collect()
        assert session.collect() == []
    assert sorted(batch.key for batch, _ in back) == [batch.key for batch in batches[:4]]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("error", [LookupError, BrokenProcessPool])
def test_a_death_that_pebble_misses_or_breaks_by_loses_no_block(error, monkeypatch, tmp_path):
    from pebble.pool.process import PoolManager

    find, missed = PoolManager.find_expired_task, []

    def miss(manager, worker):
        if not missed:
            missed.append(worker)
            raise error("not found")
        return find(manager, worker)

    monkeypatch.setattr(PoolManager, "find_expired_task", miss)

    def simulate(theta, rng):
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return rng.random(theta.rows) < theta["theta"]

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=True)
    run = drive(problem, fbar.Rejection(), Workers(1), budget=64, block_size=4)
    assert missed
    assert run.seen.failures == 0
    assert numbers(run) == numbers(drive(problem, fbar.Rejection(), InProcess(), budget=64, block_size=4))


def test_errors_of_ours_arrive_as_they_are():
    wrong = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: 1.0, observed=1.0)
    with pytest.raises(fbar.InputError) as here:
        drive(wrong, fbar.Rejection(), InProcess(), budget=100)
    with pytest.raises(fbar.InputError) as there:
        drive(wrong, fbar.Rejection(), Workers(2), budget=100)
    assert str(here.value) == str(there.value)
    assert not multiprocessing.active_children()


def test_an_executor_that_breaks_says_what_to_use():
    problem = fbar.Problem(fbar.Finite(theta=[-1.0, 1.0]), killer, observed=1.0)
    with ProcessPoolExecutor(2) as executor, pytest.raises(fbar.EngineFailed, match="Workers survives"):
        drive(problem, fbar.Allocation([0.5, 0.5]), Futures(executor), budget=100, block_size=10)


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


# ---------------------------------------------------------------- no orphans

DRIVER = """
    import time
    import fbar
    from scipy import stats

    def simulate(theta, rng):
        time.sleep(600)

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), simulate, observed=1.0)
    run = fbar.Rejection().start(problem, fbar.mean("theta"), seed=1, budget=100, block_size=10)
    print("ready", flush=True)
    fbar.drive(run, engine=fbar.Workers(2))
"""


def children(process):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def gone(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_survives_its_driver(number):
    command = [sys.executable, "-c", textwrap.dedent(DRIVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "ready\n"
        assert until(lambda: len(children(driver.pid)) == 2)
        workers = children(driver.pid)
        time.sleep(0.3)
        driver.send_signal(number)
        _, err = driver.communicate(timeout=20)
    assert until(lambda: all(gone(worker) for worker in workers), 5)
    assert number == signal.SIGKILL or "KeyboardInterrupt" in err


# ---------------------------------------------------------------- external programs


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
