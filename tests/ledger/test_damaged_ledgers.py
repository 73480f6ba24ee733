"""Recorded runs on damaged files: damage is noticed, named, and repaired bit for bit.

Places of damage are drawn with fixed seeds.
"""

import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import fbar
import fbar.ledger
from fbar.errors import LedgerError
from fbar.ledger import LedgerReader, pack
from recorded_cases import FINITE, damaged_copy, everything_of, flip, normal_problem, simulated, small


@pytest.fixture(scope="module")
def sound(memory):
    """A finished run, closed cleanly, and everything of it."""
    directory = memory / "sound"
    return directory, everything_of(small(directory))


def payloads(directory):
    """Where the blocks' bytes are in the file: (round, block) → (first, last + 1)."""
    data = (directory / "ledger.sqlite").read_bytes()
    connection = sqlite3.connect(directory / "ledger.sqlite")
    rows = connection.execute("SELECT round, block, payload FROM blocks").fetchall()
    connection.close()
    places = {
        (round, block): (data.index(payload), data.index(payload) + len(payload)) for round, block, payload in rows
    }
    assert len(places) > 10
    return places


@pytest.mark.slow
def test_a_flipped_byte_is_named_and_only_its_block_simulated_again(sound):
    directory, result = sound
    rng = np.random.default_rng(1)
    for (round, block), (start, end) in payloads(directory).items():
        copy = damaged_copy(directory, "ledger.sqlite", flip(int(rng.integers(start, end)), 1 << int(rng.integers(8))))
        repaired, blocks = simulated(small, copy)
        assert (everything_of(repaired), blocks) == (result, 1)
        assert any(
            f"damaged in {copy} (recomputed" in w and f"block {block} of round {round}" in w for w in repaired.warnings
        )
        again, blocks = simulated(small, copy)
        assert (everything_of(again), again.warnings, blocks) == (result, (), 0)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_bytes_flipped_anywhere_never_change_the_result(bits, sound):
    directory, result = sound
    size = (directory / "ledger.sqlite").stat().st_size
    rng = np.random.default_rng(bits)
    places = [*range(0, 100, 3), *rng.integers(100, size, 30).tolist()]
    for place in places:
        copy = damaged_copy(directory, "ledger.sqlite", flip(place, bits))
        assert everything_of(small(copy)) == result, place


@pytest.mark.slow
def test_many_flips_at_once(sound):
    directory, result = sound
    size = (directory / "ledger.sqlite").stat().st_size
    rng = np.random.default_rng(2)

    def scatter(data):
        changed = np.frombuffer(data, np.uint8).copy()
        changed[rng.integers(0, size, 30)] ^= rng.integers(1, 256, 30).astype(np.uint8)
        return changed.tobytes()

    for _ in range(40):
        assert everything_of(small(damaged_copy(directory, "ledger.sqlite", scatter))) == result


def test_a_broken_first_page_costs_no_block(sound):
    directory, result = sound
    copy = damaged_copy(directory, "ledger.sqlite", lambda data: bytes(4096) + data[4096:])
    repaired, blocks = simulated(small, copy)
    assert (everything_of(repaired), blocks) == (result, 0)
    assert any("the file ledger.sqlite (its" in text for text in repaired.warnings)


@pytest.mark.slow
def test_a_file_cut_anywhere(sound):
    directory, result = sound
    data = (directory / "ledger.sqlite").read_bytes()
    size = len(data)
    for length in [
        0,
        1,
        15,
        16,
        99,
        100,
        512,
        4095,
        4096,
        4097,
        *range(8192, size, 8192),
        *range(5000, size, 9001),
        size - 1,
    ]:
        copy = damaged_copy(directory, "ledger.sqlite", lambda data, length=length: data[:length])
        repaired = small(copy)
        assert everything_of(repaired) == result, length
        assert any("damaged in" in text for text in repaired.warnings) or not any(data[length:]), length
        again, blocks = simulated(small, copy)
        assert (everything_of(again), again.warnings, blocks) == (result, (), 0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", '{"legs": 3}', '{"legs": [1, null, {}]}', '{"legs": "abc"}', "\xff\xfe", "[" * 9999],
)
def test_a_damaged_run_json(text, sound):
    directory, result = sound
    copy = damaged_copy(directory, "run.json", lambda data: text.encode("latin-1"))
    repaired, blocks = simulated(small, copy)
    assert (everything_of(repaired), blocks, repaired.warnings) == (result, 0, ())
    (copy / "ledger.sqlite").write_bytes(b"")  # and the file too: all is simulated again
    assert everything_of(small(copy)) == result


def test_settings_come_from_run_json_where_the_file_lost_them(tmp_path):
    first = small(tmp_path)
    problem = normal_problem()
    longer = fbar.extend(tmp_path, problem, budget=first.simulations + 100)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("UPDATE legs SET settings = replace(settings, '4', '5') WHERE leg = 0")
    connection.commit()
    connection.close()
    for _ in range(2):  # whoever reads repairs nothing
        loaded, blocks = simulated(fbar.load, tmp_path, problem)
        assert (everything_of(loaded), blocks) == (everything_of(longer), 0)
        assert any("the settings" in text for text in loaded.warnings)
    assert any("the settings" in text for text in small(tmp_path, budget=first.simulations + 100).warnings)
    assert fbar.load(tmp_path, problem).warnings == ()


def test_load_leaves_damaged_blocks_out_and_says_so_every_time(tmp_path):
    first = small(tmp_path)
    problem = normal_problem()
    longer = fbar.extend(tmp_path, problem, budget=first.simulations + 100)
    start, _ = payloads(tmp_path)[1, 1]
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(flip(start + 5)(file.read_bytes()))
    for _ in range(2):
        part, blocks = simulated(fbar.load, tmp_path, problem)
        assert (part.simulations < first.simulations, part.stopped_by, blocks) == (True, "its record is damaged", 0)
    again, blocks = simulated(small, tmp_path, budget=first.simulations + 100)
    assert (everything_of(again), blocks) == (everything_of(longer), 1)


def test_bytes_that_say_nothing_under_a_valid_checksum(sound):
    directory, result = sound
    rng = np.random.default_rng(3)
    garbage = [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b'{"arrays": 5}\n',
        b'{"arrays": [["theta:mu", "<f8", [10]]]}\n',
        b'{"arrays": [["theta:mu", "O", [10]]], "kind": "simulated"}\n' + bytes(80),
        b'{"arrays": [["theta:mu", "<f8", [-10]]], "kind": "simulated"}\n' + bytes(80),
        b'{"arrays": [["theta:mu", "<f8", [99999999999999]]], "kind": "tally"}\n',
        pack({"theta:mu": np.zeros(10)}, kind="simulated"),
        rng.bytes(300),
        b"[" * 100_000 + b"\n",
    ]
    for number, payload in enumerate(garbage):
        copy = damaged_copy(directory, "ledger.sqlite", bytes)
        connection = sqlite3.connect(copy / "ledger.sqlite")
        key, round = (0, number % 3), 1
        crc = fbar.ledger.codec.checksum(*key, 0.0, payload)
        changed = connection.execute(
            "UPDATE blocks SET payload = ?, crc = ? WHERE round = ? AND block = ?", (payload, crc, *key)
        )
        assert changed.rowcount == 1
        crc = fbar.ledger.codec.checksum(round, payload)
        assert (
            connection.execute("UPDATE rounds SET payload = ?, crc = ? WHERE round = ?", (payload, crc, round)).rowcount
            == 1
        )
        connection.commit()
        connection.close()
        repaired, blocks = simulated(small, copy)
        assert (everything_of(repaired), blocks) == (result, 1)
        assert any(f"block {key[1]} of round 0, the proposal of round 1" in text for text in repaired.warnings)


def test_blocks_of_another_seed_are_not_taken_for_ones_own(tmp_path):
    """Settings lost in both places: the tabulated rounds of all seeds ask for the same θ."""
    problem = fbar.Problem.tabulated(FINITE, [0.2, 0.3, 0.05, 0.01])
    fbar.infer(problem, fbar.mean("rate"), budget=1000, seed=1, run=tmp_path)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("DELETE FROM legs")
    connection.commit()
    connection.close()
    (tmp_path / "run.json").unlink()
    with pytest.raises(LedgerError, match="recorded for other parameter values or another seed"):
        fbar.infer(problem, fbar.mean("rate"), budget=1000, seed=2, run=tmp_path)


def test_a_run_that_is_just_starting_can_be_looked_at(tmp_path):
    fbar.ledger.database.connect(tmp_path / "ledger.sqlite").close()
    with LedgerReader(tmp_path) as ledger:
        assert (ledger.legs, len(ledger), ledger.simulations(), ledger.failures()) == ([], 0, 0, [])


def test_a_later_format_is_refused(tmp_path):
    small(tmp_path)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("INSERT INTO formats VALUES (?, ?)", (9, fbar.ledger.codec.checksum(9)))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="made by a newer version of fbar"):
        small(tmp_path)


NEVER_UNPICKLE = ("system/files", "methods/registry", "question/outcomes", "question/points", "methods/stopping")


def test_nothing_is_unpickled():

    folder = Path(fbar.__file__).parent
    modules = [*(folder / "ledger").glob("*.py"), *(folder / f"{name}.py" for name in NEVER_UNPICKLE)]
    assert len(modules) >= 10
    for module in modules:
        text = module.read_text(encoding="utf-8")
        assert not re.search(r"\b(cloudpickle|c?[pP]ickle|dill|marshal|shelve|joblib|eval|exec)\b[.(]", text), module
        assert "allow_pickle" not in text


def test_a_directory_that_cannot_be_used_is_explained(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(LedgerError, match="cannot make the directory"):
        small(file)
    with pytest.raises(LedgerError, match="cannot make the directory"):
        small(file / "below")
    with pytest.raises(fbar.InputError, match="holds no run"):
        fbar.load(tmp_path, normal_problem())
