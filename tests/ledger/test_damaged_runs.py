"""Who only reads a damaged run says so every time and changes nothing; its own command, or resume, repairs it."""

import hashlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from scipy import stats

import fbar
from fbar.cli import app

MODEL = """
import fbar
from scipy import stats

problem = fbar.Problem(
    fbar.Prior(mu=stats.uniform(-2, 4)), lambda t, rng: t["mu"] + rng.normal(0, 1, t.rows), observed=0.5
)
targets = [fbar.mean("mu")]
"""


def simulate(theta, rng):
    return theta["mu"] + rng.normal(0, 1, theta.rows)


def problem_of(simulator=simulate):
    return fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulator, observed=0.5)


ASKED = {"method": fbar.Rejection(tolerance=0.5), "budget": 3000, "block_size": 50, "seed": 3}


def change(run, sql):
    connection = sqlite3.connect(run / "ledger.sqlite")
    done = connection.execute(sql).rowcount
    connection.commit()
    connection.close()
    return done


def rows(run):
    """A digest of all blocks in the file."""
    connection = sqlite3.connect(run / "ledger.sqlite")
    found = connection.execute("SELECT id, round, block, seconds, payload, crc FROM blocks ORDER BY id").fetchall()
    connection.close()
    return hashlib.sha256(repr(found).encode()).hexdigest()


@pytest.fixture
def damaged(tmp_path):
    """A run with one damaged block near its beginning, and what it had given."""
    run = tmp_path / "run"
    whole = fbar.infer(problem_of(), fbar.mean("mu"), **ASKED, run=run)
    assert change(run, "UPDATE blocks SET crc = crc + 1 WHERE id = 2") == 1
    return run, whole


def test_a_reader_says_every_time_what_is_damaged_and_changes_nothing(damaged):
    run, whole = damaged
    before = rows(run)
    for _ in range(2):
        part = fbar.load(run, problem_of())
        assert part.simulations == 50 < whole.simulations == 3000
        assert part.stopped_by == "its record is damaged"
        (told,) = (text for text in part.warnings if text == part.damage)
        assert "1 of 64 recorded blocks is damaged (block 1 of round 0)" in told
        assert "only the 50 of its 3,000 simulations before the damage" in told
        assert f"fbar resume {run}" in told
        assert rows(run) == before


def test_no_answer_from_a_part_of_a_damaged_run_is_trusted(damaged):
    run, _ = damaged
    change(run, "UPDATE blocks SET crc = crc - 1 WHERE id = 2")
    change(run, "UPDATE blocks SET crc = crc + 1 WHERE id = 60")
    part = fbar.load(run, problem_of(), [fbar.mean("mu"), fbar.variance("mu")])
    assert part.accepted > 100
    for estimate in (*part.estimates, part.expect(fbar.quantile("mu", 0.5)), *part.at(0.4).estimates):
        assert not estimate.trusted
        assert any("part of the record is damaged" in text for text in estimate.warnings)
    assert "(unreliable)" in str(part.explain("mean:mu"))
    assert "part of the record is damaged" in str(part.explain("mean:mu"))


@pytest.mark.parametrize("method", ["rejection", "smc", "targeted"])
def test_the_same_command_repairs_the_run_bit_for_bit(tmp_path, method):
    asked = {**ASKED, "method": fbar.SMC([2.0, 1.0, 0.5], accepted=100) if method == "smc" else method}
    asked |= {} if method == "smc" else {"tolerance": 0.5}
    whole = fbar.infer(problem_of(), fbar.mean("mu"), **asked, run=tmp_path)
    assert change(tmp_path, "UPDATE blocks SET crc = crc + 1 WHERE id % 20 = 2") > 2
    part = fbar.load(tmp_path, problem_of())
    assert not part["mean:mu"].trusted
    repaired = fbar.infer(problem_of(), fbar.mean("mu"), **asked, run=tmp_path)
    assert any("recomputed from their seeds" in text for text in repaired.warnings)
    assert not any("differs from what was recorded" in text for text in repaired.warnings)
    loaded = fbar.load(tmp_path, problem_of())
    assert loaded.warnings == whole.warnings
    for result in (repaired, loaded):
        assert result.as_dict()["estimates"] == whole.as_dict()["estimates"]
        assert result.posterior.weights.tolist() == whole.posterior.weights.tolist()
        assert result.posterior.points["mu"].tolist() == whole.posterior.points["mu"].tolist()


def test_a_repaired_run_that_comes_out_otherwise_says_so(damaged):
    run, _ = damaged

    def simulate(theta, rng):
        return theta["mu"] + rng.normal(0, 0.01, theta.rows)

    simulate.__qualname__ = "simulate"
    repaired = fbar.infer(problem_of(simulate), fbar.mean("mu"), **ASKED, run=run)
    assert any("mean:mu differs from what was recorded" in text for text in repaired.warnings)


def test_blocks_that_are_gone_are_missed(damaged):
    run, _ = damaged
    change(run, "DELETE FROM blocks WHERE id = 2")
    part = fbar.load(run, problem_of())
    assert "some recorded blocks are missing" in part.damage
    assert not part["mean:mu"].trusted


def test_where_nothing_is_left_the_damage_is_told(damaged):
    run, _ = damaged
    change(run, "UPDATE blocks SET payload = x'00' WHERE id = 1")
    change(run, "UPDATE blocks SET round = 'x' WHERE id = 9")
    with pytest.raises(fbar.NoPosterior, match=r"3 of 64 recorded blocks are damaged \(block 0 of round 0, block 1 of"):
        fbar.load(run, problem_of())


def test_an_unfinished_run_is_read_to_its_damage(tmp_path):
    class Enough(Exception):
        pass

    def stop(run):
        if run.simulations >= 2000:
            raise Enough

    with pytest.raises(Enough):
        fbar.infer(problem_of(), fbar.mean("mu"), **ASKED, run=tmp_path, progress=stop)
    whole = fbar.load(tmp_path, problem_of())
    assert (whole.stopped_by, whole.damage) == ("not finished", "")
    change(tmp_path, "UPDATE blocks SET crc = crc + 1 WHERE id = 20")
    part = fbar.load(tmp_path, problem_of())
    assert part.simulations < whole.simulations
    assert "blocks is damaged" in part.damage


def test_a_damaged_pilot_is_told_and_not_changed(tmp_path):
    asked = {"method": fbar.Rejection(tolerance=0.5), "budget": 2000, "summaries": "linear", "seed": 1}
    whole = fbar.infer(problem_of(), fbar.mean("mu"), **asked, run=tmp_path)
    assert change(tmp_path / "pilot", "UPDATE blocks SET crc = crc + 1 WHERE id = 1") == 1
    before = rows(tmp_path / "pilot")
    for _ in range(2):
        with pytest.raises(fbar.NoPosterior, match=r"the summaries of .* are learned is damaged"):
            fbar.load(tmp_path, problem_of())
        assert rows(tmp_path / "pilot") == before
    repaired = fbar.infer(problem_of(), fbar.mean("mu"), **asked, run=tmp_path)
    assert repaired.as_dict()["estimates"] == whole.as_dict()["estimates"]


# ---------------------------------------------------------------- from the command line


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        """What a command printed; its exit status is that of the program."""
        capsys.readouterr()
        status = 0
        try:
            app(list(map(str, arguments)), exit_on_error=False, print_error=False, result_action="return_value")
        except SystemExit as ended:
            status = ended.code
        except fbar.FbarError as error:
            print(error, file=sys.stderr)
            status = 2
        assert status == code
        return capsys.readouterr()

    return run


def test_a_file_that_cannot_be_read_is_mended_by_resume(tmp_path, command):
    (tmp_path / "model.py").write_text(MODEL)
    whole = command("infer", "model.py", "--run", "run", "--budget", 1000, "--tolerance", 0.5, "--json")
    file = tmp_path / "run" / "ledger.sqlite"
    file.write_bytes(bytes(4096) + file.read_bytes()[4096:])
    before = file.read_bytes()
    for reading in (("show",), ("explain",), ("report", "--predictive", 0), ("export",), ("export", "--all")):
        assert "cannot be read" in command(*reading, "run", code=2).err
        assert file.read_bytes() == before
    repaired = command("resume", "run", "--json")
    assert json.loads(repaired.out)["estimates"] == json.loads(whole.out)["estimates"]


def test_commands_that_read_a_damaged_run(tmp_path, command):
    (tmp_path / "model.py").write_text(MODEL)
    asked = ("infer", "model.py", "--run", "run", "--budget", 3000, "--tolerance", 0.5, "--seed", 3, "--method")
    command(*asked, "rejection")
    whole = json.loads(command("show", "run", "--json").out)
    assert whole["damaged"] == []
    blocks, run = whole["blocks"], tmp_path / "run"
    assert change(run, "UPDATE blocks SET crc = crc + 1 WHERE id = 2") == 1
    before = rows(run)
    damage = f"1 of {blocks} recorded blocks is damaged (block 0 of round 1)"
    for _ in range(2):
        assert damage in command("show", "run").out
        assert json.loads(command("show", "run", "--json").out)["damaged"] == ["block 0 of round 1"]
        explained = command("explain", "run")
        assert damage in explained.err
        assert "(unreliable)" in explained.out
        assert damage in command("report", "run", "--out", "report.html", "--predictive", 0).err
        assert "unreliable" in (tmp_path / "report.html").read_text()
        refused = command("export", "run", "--out", "posterior.csv", code=2)
        assert damage in refused.err
        assert not (tmp_path / "posterior.csv").exists()
        part = command("export", "run", "--all", "--out", "all.csv", "--force", code=1)
        written = len((tmp_path / "all.csv").read_text().splitlines()) - 1
        assert damage in part.err
        assert f"{3000 - written:,} of the run's 3,000 simulations are missing" in part.err
        assert rows(run) == before
    repaired = command("resume", "run", "--json")
    assert json.loads(repaired.out)["estimates"] == whole["legs"][-1]["result"]["estimates"]
    assert "(recomputed from their seeds): block 0 of round 1" in repaired.out
    assert "damaged" not in command("show", "run").out
    assert "wrote 3,000 rows" in command("export", "run", "--all", "--out", "all.csv", "--force").out


@pytest.mark.processes
@pytest.mark.parametrize("where", ["middle", "header"])
def test_commits_that_a_damaged_log_hides_are_missed(where, tmp_path):
    """SQLite takes the first wrong frame of a log for its end, without a word."""
    run = tmp_path / "run"
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "import fbar, test_damaged_runs as t\n"
        "def stop(run):\n"
        "    if run.simulations >= 1500: os._exit(0)\n"
        "fbar.infer(t.problem_of(), fbar.mean('mu'), **t.ASKED, run=sys.argv[2], progress=stop)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent), str(run)], check=True, timeout=60)
    sound = fbar.load(run, problem_of())
    assert (sound.damage, sound.simulations) == ("", 1500)
    log = run / "ledger.sqlite-wal"
    data = bytearray(log.read_bytes())
    place = 20 if where == "header" else 32 + 4120 * (len(data) // 4120 // 2) + 2000
    data[place : place + 4] = b"\xff\x00\xff\x00"
    log.write_bytes(bytes(data))
    for _ in range(2):
        if where == "header":
            with pytest.raises(fbar.FbarError):  # nothing but the log had been written
                fbar.load(run, problem_of())
            continue
        part = fbar.load(run, problem_of())
        assert part.simulations < 1500
        assert "the end of its record is lost" in part.damage
        assert not part["mean:mu"].trusted
    repaired = fbar.infer(problem_of(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    whole = fbar.infer(problem_of(), fbar.mean("mu"), **ASKED, progress=False)
    assert repaired.as_dict()["estimates"] == whole.as_dict()["estimates"]
    assert fbar.load(run, problem_of()).damage == ""


def test_blocks_under_wrong_numbers_are_swept_out(damaged, capsys):
    """Nobody asks for them, so that they are not met by the way."""
    run, whole = damaged
    assert change(run, "UPDATE blocks SET round = round + 100 WHERE id % 2 = 1") > 10
    repaired = fbar.infer(problem_of(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == whole.as_dict()["estimates"]
    app(["show", str(run)], result_action="return_value")
    assert "damaged" not in capsys.readouterr().out


def test_a_run_that_could_not_be_opened_again_is_not_begun(tmp_path):
    asked = {**ASKED, "budget": 100, "block_size": 2 * 10**9}
    with pytest.raises(fbar.InputError, match="a recorded run cannot have these settings: block_size must be"):
        fbar.infer(problem_of(), fbar.mean("mu"), **asked, run=tmp_path, progress=False)
    with pytest.raises(fbar.InputError, match="holds no run; start one with fbar infer"):
        fbar.load(tmp_path, problem_of())


def test_what_earlier_versions_recorded_is_within_the_limits():
    """A thousand targets and more, and blocks of any size, were never refused."""
    from fbar.system.schema import MOST_IN_BLOCK, MOST_IN_TARGETS, MOST_TARGETS

    assert MOST_TARGETS >= 20_000
    assert MOST_IN_TARGETS >= 100 * MOST_TARGETS
    assert MOST_IN_BLOCK >= 10**9
