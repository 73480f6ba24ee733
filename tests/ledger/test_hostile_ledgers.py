"""A ledger that somebody made up: no link is followed, no view evaluated, no memory taken for what is not there."""

import json
import os
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.ledger import LedgerReader, decode, unpack
from fbar.ledger.codec import GARBAGE, checksum

ASKED = {"method": fbar.Rejection(tolerance=0.5), "budget": 500, "block_size": 50, "seed": 3}


def problem():
    return fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), lambda t, rng: t["mu"], observed=0.5)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "sound"
    return run, fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)


@pytest.fixture
def run(sound, tmp_path):
    shutil.copytree(sound[0], tmp_path / "run")
    return tmp_path / "run"


def change(run, *statements):
    connection = sqlite3.connect(run / "ledger.sqlite")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


FILES = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "driver.lock", "run.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory"])
def test_what_is_no_ordinary_file_is_refused_and_left_as_it_is(name, kind, run, tmp_path):
    victim = tmp_path / "victim"
    shutil.copy(run / "ledger.sqlite", victim)
    before = victim.read_bytes()
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "directory":
        (run / name).mkdir()
    else:
        (run / name).symlink_to(victim if kind == "link" else tmp_path / "nothing")
    message = "is a link, which is not followed" if "link" in kind else "is not an ordinary file"
    with pytest.raises(fbar.LedgerError, match=message):
        fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    with pytest.raises(fbar.LedgerError, match=message):
        fbar.load(run, problem())
    assert victim.read_bytes() == before
    assert not (tmp_path / "nothing").exists()


def test_links_are_not_written_through_when_a_file_is_repaired(run, sound, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    names = ("ledger.damaged-1", "ledger.work", "ledger.new", "run.json.new", "repair-1", "repair-2")
    for name in names:
        (run / name).symlink_to(tmp_path if name == "repair-2" else victim)
    (run / "ledger.sqlite").write_bytes(b"\0" * 4096 + (run / "ledger.sqlite").read_bytes()[4096:])
    repaired = fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == sound[1].as_dict()["estimates"]
    assert victim.read_text() == "precious"
    assert all((run / name).is_symlink() for name in names)
    assert (run / "ledger.damaged-2").is_file()
    assert not [path for path in run.glob("repair-*") if not path.is_symlink()]


def test_a_rollback_journal_deletes_nothing(run, sound, tmp_path):
    """SQLite deletes the file that a journal's end names as its super-journal, once no other journal needs it."""
    connection = sqlite3.connect(run / "ledger.sqlite")
    assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    connection.close()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    name = str(victim).encode()
    size = (run / "ledger.sqlite").stat().st_size // 4096
    header = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + struct.pack(">5I", 0, 1, size, 512, 4096)
    trailer = struct.pack(">I", 4096 * 3) + name + struct.pack(">2I", len(name), sum(name))
    journal = header.ljust(512, b"\0") + trailer + header[:8]
    (run / "ledger.sqlite-journal").write_bytes(journal)
    plain = tmp_path / "plain"
    shutil.copytree(run, plain)
    for read in (lambda: fbar.load(run, problem()), lambda: fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run)):
        assert read().as_dict()["estimates"] == sound[1].as_dict()["estimates"]
        assert victim.read_bytes() == b"precious"
    sqlite3.connect(plain / "ledger.sqlite").execute("SELECT COUNT(*) FROM blocks").fetchone()
    assert not victim.exists(), "this journal would do no harm to anyone"


def test_the_directory_of_the_pilot_may_not_be_a_link(tmp_path):
    noisy = fbar.Problem(problem().prior, lambda t, rng: t["mu"] + rng.normal(0, 1, t.rows), observed=0.5)
    asked = {"method": "rejection", "tolerance": 0.5, "budget": 4000, "seed": 3, "summaries": "linear"}
    run = tmp_path / "run"
    fbar.infer(noisy, fbar.mean("mu"), **asked, run=run, progress=False)
    (run / "pilot").rename(tmp_path / "elsewhere")
    (run / "pilot").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(fbar.LedgerError, match="pilot is a link"):
        fbar.load(run, noisy)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
SCHEMAS = {
    "endless view for formats": [
        "DROP TABLE formats",
        f"CREATE VIEW formats AS {ENDLESS} 1 AS format, 2 AS crc FROM n",
    ],
    "endless view for blocks": [
        "ALTER TABLE blocks RENAME TO others",
        f"CREATE VIEW blocks AS {ENDLESS} i AS id, 0 AS round, i AS block, 0.0 AS seconds, x'' AS payload, 0 AS crc "
        "FROM n",
    ],
    "trigger": [
        "CREATE TRIGGER grow AFTER INSERT ON blocks BEGIN INSERT INTO rounds VALUES (NEW.id, zeroblob(1000), 0); END"
    ],
    "index with an expression": ["CREATE INDEX slow ON blocks (abs(crc))"],
    "another table": ["CREATE TABLE more (x)"],
    "generated column": ["ALTER TABLE blocks ADD COLUMN more AS (zeroblob(100000000))"],
    "virtual table": ["CREATE VIRTUAL TABLE search USING fts5(x)"],
}


@pytest.mark.parametrize("statements", SCHEMAS.values(), ids=SCHEMAS)
def test_only_a_runs_own_tables_are_used(statements, run, sound):
    try:
        change(run, *statements)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite cannot make it: {error}")
    for read in (lambda: fbar.load(run, problem()), lambda: LedgerReader(run)):
        with pytest.raises(fbar.LedgerError, match="it holds something other than a run's tables"):
            read()
    repaired = fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == sound[1].as_dict()["estimates"]
    connection = sqlite3.connect(run / "ledger.sqlite")
    kinds = connection.execute("SELECT DISTINCT type FROM sqlite_master").fetchall()
    connection.close()
    assert kinds == [("table",)]


def block(arrays, data=b"", **about):
    header = {"arrays": arrays, "kind": "simulated", "seed": "3", "examples": {}, "details": {}, **about}
    return json.dumps(header).encode() + b"\n" + data


EIGHT = np.arange(8.0).tobytes()
THETA = ["theta:mu", "<f8", [8]]
PAYLOADS = {
    "broadcast": block([THETA, ["summaries", "<f8", [10**9]]], EIGHT + b"\0"),
    "overflow": block([["theta:mu", "<f8", [2**32, 2**32]]], EIGHT),
    "negative": block([["theta:mu", "<f8", [-8]]], EIGHT),
    "long text": block([["theta:mu", "<U999999999", [8]]], EIGHT),
    "empty text": block([["theta:mu", "<U0", [10**12]]], EIGHT),
    "many rows of nothing": block([THETA, ["summaries", "<f8", [10**12, 0]]], EIGHT),
    "object": block([["theta:mu", "|O", [8]]], EIGHT),
    "structure": block([["theta:mu", "<f8,<f8", [4]]], EIGHT),
    "nested type": block([["theta:mu", [["a", "<f8"]], [8]]], EIGHT),
    "float shape": block([["theta:mu", "<f8", [8.0]]], EIGHT),
    "true shape": block([["theta:mu", "<f8", [True]]], EIGHT[:8]),
    "deep": b"[" * 200_000 + b"]" * 200_000 + b"\n",
    "many arrays": block([["theta:mu", "<f8", [0]]] * 200_000),
    "no arrays": block([]),
    "number for a header": b"7\n",
    "too much": block([THETA, ["summaries", "<f8", [8]]], EIGHT * 3),
    "rows differ": block([THETA, ["summaries", "<f8", [4]]], EIGHT + EIGHT[:32]),
    "endless repeats": block(
        [THETA, ["repeats", "<i8", [8]], ["summaries", "<f8", [8]]], EIGHT + np.full(8, 2**62).tobytes() + EIGHT
    ),
    "negative repeats": block(
        [THETA, ["repeats", "<i8", [8]], ["summaries", "<f8", [8]]], EIGHT + np.array([9, -1] * 4).tobytes() + EIGHT
    ),
    "unknown failure": block([THETA, ["summaries", "<f8", [8]], ["failure", "|i1", [8]]], EIGHT + EIGHT + b"\x63" * 8),
    "text for failures": block([THETA, ["summaries", "<f8", [8]], ["failure", "|S1", [8]]], EIGHT + EIGHT + b"a" * 8),
    "text for weights": block([THETA, ["weight", "|S1", [8]], ["square", "|S1", [8]]], EIGHT + b"a" * 16, kind="tally"),
    "times for parameters": block([["theta:mu", "<M8[D]", [8]], ["summaries", "<f8", [8]]], EIGHT * 2),
    "times for summaries": block([THETA, ["summaries", "<M8[D]", [8]]], EIGHT * 2),
    "unknown kind": block([THETA, ["summaries", "<f8", [8]]], EIGHT * 2, kind="other"),
    "list for a seed": block([THETA, ["summaries", "<f8", [8]]], EIGHT * 2, seed=[3]),
    "text for examples": block([THETA, ["summaries", "<f8", [8]]], EIGHT * 2, examples="x"),
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_block_that_lies_is_a_damaged_one(payload, run, sound):
    with pytest.raises(GARBAGE):
        decode(payload)
    connection = sqlite3.connect(run / "ledger.sqlite")
    round, number = connection.execute("SELECT round, block FROM blocks WHERE id = 4").fetchone()
    connection.execute(
        "UPDATE blocks SET payload = ?, crc = ?, seconds = 0.0 WHERE id = 4",
        (payload, checksum(round, number, 0.0, payload)),
    )
    connection.commit()
    connection.close()
    with LedgerReader(run) as ledger:
        assert "1 of" in ledger.damage()
        assert f"block {number} of round {round}" in ledger.damage()
    repaired = fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == sound[1].as_dict()["estimates"]


@pytest.mark.processes
def test_no_memory_is_taken_for_what_is_only_announced(tmp_path):
    """In a process that may have a few hundred megabytes."""
    for number, name in enumerate(("broadcast", "long text", "many rows of nothing", "endless repeats", "deep")):
        (tmp_path / f"{number}.bin").write_bytes(PAYLOADS[name])
    code = (
        "import pathlib, resource, sys\n"
        "from fbar.ledger import decode\n"
        "from fbar.ledger.codec import GARBAGE\n"
        "used = int(pathlib.Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).glob('*.bin')):\n"
        "    try:\n"
        "        decode(path.read_bytes())\n"
        "    except MemoryError:\n"
        "        sys.exit(f'{path} takes memory')\n"
        "    except GARBAGE:\n"
        "        print('refused')\n"
    )
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the size of a process is not known here")
    assert resource.RLIMIT_AS
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.stderr) == (["refused"] * 5, "")


def test_pages_that_are_listed_more_than_once_come_to_an_end(run, sound, monkeypatch):
    """A tree whose inner page names the same leaf many times has as many rows as its author likes."""
    import fbar.ledger.database as database

    monkeypatch.setattr(database, "STATEMENT_SECONDS", 5.0)
    data = bytearray((run / "ledger.sqlite").read_bytes())
    page = _inner_page(data)
    cells = int.from_bytes(data[page + 3 : page + 5], "big")
    first = int.from_bytes(data[page + 12 : page + 14], "big")
    for cell in range(1, cells):
        place = int.from_bytes(data[page + 12 + 2 * cell : page + 14 + 2 * cell], "big")
        data[page + place : page + place + 4] = data[page + first : page + first + 4]
    (run / "ledger.sqlite").write_bytes(bytes(data))
    with pytest.raises(fbar.LedgerError, match="cannot be read"):
        LedgerReader(run)
    repaired = fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == sound[1].as_dict()["estimates"]


def _inner_page(data):
    """Where the inner page of the table of blocks begins."""
    for start in range(4096, len(data), 4096):
        if data[start] == 5 and int.from_bytes(data[start + 3 : start + 5], "big") > 1:
            return start
    raise AssertionError("the file is too small to have one")


def test_an_endless_statement_is_ended(tmp_path, monkeypatch):
    import fbar.ledger.database as database

    monkeypatch.setattr(database, "STATEMENT_SECONDS", 0.2)
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"), database.timed(connection, tmp_path / "none"):
        connection.execute(f"{ENDLESS} COUNT(*) FROM n").fetchone()


def test_what_is_long_beyond_reason_is_not_read(run, sound):
    with (run / "run.json").open("r+b") as file:
        file.truncate(2**40)  # a hole, which takes no room
    loaded = fbar.load(run, problem())
    assert loaded.as_dict()["estimates"] == sound[1].as_dict()["estimates"]


def test_a_hollow_file_is_repaired_without_filling_the_disk(run, sound):
    with (run / "ledger.sqlite").open("r+b") as file:
        file.seek(0)
        file.write(bytes(100))
        file.truncate(200_000_000)
    repaired = fbar.infer(problem(), fbar.mean("mu"), **ASKED, run=run, progress=False)
    assert repaired.as_dict()["estimates"] == sound[1].as_dict()["estimates"]
    assert (run / "ledger.damaged-1").stat().st_size == 200_000_000
    assert sum(path.stat().st_blocks * 512 for path in run.rglob("*")) < 20_000_000


def test_arrays_of_all_sound_types_come_back():
    from fbar.ledger import pack

    arrays = {
        "floats": np.arange(6.0).reshape(2, 3),
        "none": np.zeros((0, 4)),
        "text": np.array(["ä", "bc"]),
        "bytes": np.array([b"a", b"bc"]),
        "truth": np.array([True, False]),
        "times": np.array(["2020-01-01"], dtype="M8[ns]"),
        "complex": np.array([1j]),
        "scalar": np.array(3.0),
        "big endian": np.arange(3, dtype=">i4"),
    }
    found, about = unpack(pack(arrays, note="ü"))
    assert about == {"note": "ü"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].flags.writeable
