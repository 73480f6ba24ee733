"""The steps of a session, what is printed of a result and of its record, and blocks simulated outside the loop."""

import json

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.engine import InProcess
from fbar.engine.blocks import SimulatedBlocks
from fbar.ledger import Ledger, LedgerReader
from fbar.results.account import Account
from fbar.running.session import InferenceSession
from fbar.running.task import make_task
from fbar.seeds import Seeds
from fbar.system.json_values import as_json, json_seed

TARGETS = [fbar.mean("mu"), fbar.probability("mu > 0.5")]


def problem(**options):
    return fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), 0.5, **options
    )


def session(ledger=None, seed=3, **options):
    task = make_task(problem(), TARGETS, **{"method": fbar.SMC([2, 1], accepted=80), "block_size": 50, **options})
    return InferenceSession(task, Seeds.of(seed), InProcess(), False, ledger)


def numbers(result):
    return result.as_dict()["estimates"], result.simulations


def test_a_session_that_begins_and_finishes_gives_what_infer_gives(tmp_path):
    plain = fbar.infer(problem(), TARGETS, method=fbar.SMC([2, 1], accepted=80), block_size=50, seed=3, progress=False)
    alone = session()
    alone.begin()
    assert numbers(alone.finish()) == numbers(plain)
    with Ledger(tmp_path / "r", create=True) as ledger:
        recorded = session(ledger)
        recorded.begin()
        assert [leg.result for leg in ledger.legs] == [None]
        assert numbers(recorded.finish()) == numbers(plain)
        assert ledger.legs[0].result["simulations"] == plain.simulations


def test_a_session_with_a_reader_replays_and_writes_nothing(tmp_path):
    with Ledger(tmp_path / "r", create=True) as ledger:
        begun = session(ledger)
        begun.begin()
        whole = begun.finish()
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    with LedgerReader(tmp_path / "r") as ledger:
        replayed = session(ledger)
        replayed.resume()
        assert numbers(replayed.finish()) == numbers(whole)
        assert replayed.run.replayed == whole.simulations
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before


def test_an_unfinished_run_has_no_steps_without_a_beginning():
    with pytest.raises(AssertionError, match="comes first"):
        session().finish()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "rejection", "tolerance": 1.0, "budget": 2000},
        {"tolerance": 0.5, "precision": {"mean:mu": 1e-4}, "budget": 1500},
        {"method": "rejection", "tolerance": 0.01, "budget": 300},  # few accepted: warnings
        {"tolerance": 0.5, "budget": 3000, "summaries": "linear"},
    ],
)
def test_a_recorded_result_is_printed_as_it_was(options):
    result = fbar.infer(problem(), TARGETS, **options, seed=1, progress=False)
    recorded = json.loads(json.dumps(result.as_dict()))
    assert Account.recorded(recorded).lines() == str(result).splitlines()


def test_a_result_of_vectors_is_printed_from_its_record_as_it_was():
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    result = fbar.infer(finite, fbar.probabilities(finite.prior.points), budget=3000, seed=1, progress=False)
    assert Account.recorded(json.loads(json.dumps(result.as_dict()))).lines() == str(result).splitlines()


def test_a_record_without_degrees_of_freedom_is_printed():
    """Earlier versions did not record them."""
    result = fbar.infer(problem(), TARGETS, method="rejection", tolerance=1.0, budget=500, seed=1, progress=False)
    recorded = result.as_dict()
    for estimate in recorded["estimates"].values():
        del estimate["df"]
    assert Account.recorded(recorded).lines() == str(result).splitlines()


def test_one_simulation_is_counted_as_one():
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [1.0, 0.0])
    result = fbar.infer(finite, fbar.mean("theta"), method="rejection", budget=1, seed=1, progress=False)
    assert "1 simulation, " in str(result)


class Slow(type(InProcess().session(problem()))):
    """Two blocks under way at most, and a clock that each block moves on."""

    def __init__(self, clock):
        super().__init__(problem())
        self.clock, self.submitted = clock, []

    @property
    def ahead(self):
        return 2

    def submit(self, batches):
        self.submitted += batches
        super().submit(batches)

    def collect(self):
        self.clock["now"] += 10.0
        return super().collect()


@pytest.fixture
def clock(monkeypatch):
    now = {"now": 0.0}
    monkeypatch.setattr("fbar.engine.blocks.time.monotonic", lambda: now["now"])
    return now


def batches(number):
    run = fbar.Rejection(tolerance=1.0).start(problem(), fbar.mean("mu"), 1, 20 * number, block_size=20)
    asked = []
    while more := run.ask():
        asked += more
    return asked[:number]


@pytest.mark.parametrize(("within", "begun"), [(np.inf, 6), (25.0, 4), (0.0, 2)])
def test_blocks_are_begun_only_while_there_is_time(clock, within, begun):
    asked = batches(6)
    slow = Slow(clock)
    blocks = SimulatedBlocks(slow, asked, begin_within=within)
    found = [batch.key for answers in blocks for batch, _ in answers]
    assert found == [batch.key for batch in asked[:begun]]
    assert blocks.begun == slow.submitted == asked[:begun]


def test_values_in_json_terms():
    value = {"a": np.array([1.0, np.inf]), "b": (np.int64(3), np.array(np.nan)), "c": "text"}
    assert as_json(value) == {"a": [1.0, None], "b": [3, None], "c": "text"}
    assert (json_seed(2**53 - 1), json_seed(2**53)) == (2**53 - 1, str(2**53))
