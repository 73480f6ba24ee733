"""Runs whose files are damaged: flipped bits, cuts, lost and swapped pages, rows that are gone or changed.

Who only reads must not change a byte, and must be right or say what is damaged; never a raw error. Then ``resume`` must
give the result of the sound run.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.bases import Base, bases
from attack.children import Ended, last_line
from attack.kinds import Kind
from attack.runs import change, changed, differences, digests, parsed, rows_on_disk
from attack.table import Tried

PAGE = 4096
PROGRESS = "progress.json"
SAYS = ("damage", "cannot be read", "missing", "cannot be opened", "not a run", "holds no run", "corrupt", "malformed")
"""Words of which one must be there where a reader does not give what it gave of the sound run."""

Damage = Callable[[Path, random.Random], str]


# ---------------------------------------------------------------- bytes


def _write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, rng: random.Random, bits: int) -> str:
    size = path.stat().st_size
    data = bytearray(path.read_bytes())
    for _ in range(bits if size else 0):
        data[rng.randrange(size)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{bits} bits of {path.name} flipped"


def cut(path: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    to = rng.choice([0, 1, rng.randrange(size + 1), PAGE * rng.randrange(size // PAGE + 1), size - 1])
    with path.open("r+b") as file:
        file.truncate(max(0, min(to, size)))
    return f"{path.name} cut to {to} of {size} bytes"


def fill_page(path: Path, rng: random.Random) -> str:
    page = rng.randrange(max(1, path.stat().st_size // PAGE))
    what = rng.choice(["zeros", "ones", "noise"])
    _write(path, page * PAGE, {"zeros": bytes(PAGE), "ones": b"\xff" * PAGE, "noise": rng.randbytes(PAGE)}[what])
    return f"page {page} of {path.name} overwritten with {what}"


def swap_pages(path: Path, rng: random.Random) -> str:
    data, pages = path.read_bytes(), path.stat().st_size // PAGE
    first, second = rng.sample(range(max(2, pages)), 2)
    pieces = [data[PAGE * page : PAGE * (page + 1)] for page in (first, second)]
    _write(path, PAGE * first, pieces[1])
    _write(path, PAGE * second, pieces[0])
    return f"pages {first} and {second} of {path.name} swapped"


def append(path: Path, rng: random.Random) -> str:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice([1, 100, PAGE, 3 * PAGE])))
    return f"noise after the end of {path.name}"


def header(path: Path, rng: random.Random) -> str:
    at = rng.randrange(100)
    _write(path, at, bytes([rng.randrange(256)]))
    return f"byte {at} of the header of {path.name} overwritten"


def in_ledger(how: Damage) -> Damage:
    return lambda run, rng: how(_one_of(run, rng, ""), rng)


def in_log(how: Damage) -> Damage:
    return lambda run, rng: how(_one_of(run, rng, "-wal"), rng)


def _one_of(run: Path, rng: random.Random, suffix: str) -> Path:
    """The run's ledger, or now and then its pilot's."""
    there = [
        path for path in (run / f"ledger.sqlite{suffix}", run / "pilot" / f"ledger.sqlite{suffix}") if path.exists()
    ]
    return rng.choice(there)


# ---------------------------------------------------------------- run.json


def run_json(run: Path, rng: random.Random) -> str:
    path = run / "run.json"
    how = rng.choice(["cut", "flip", "empty", "gone", "other", "leg gone", "settings changed"])
    if how == "cut":
        return cut(path, rng)
    if how == "flip":
        return flip(path, rng, rng.choice([1, 8]))
    if how == "gone":
        path.unlink()
    elif how in ("empty", "other"):
        path.write_text("" if how == "empty" else rng.choice(["[]", "{}", "null", '{"legs": 3}', '{"legs": [[]]}']))
    else:
        tree = json.loads(path.read_text())
        if how == "leg gone":
            tree["legs"].pop()
        else:
            tree["legs"][0]["settings"]["budget"] = 7
        path.write_text(json.dumps(tree))
    return f"run.json: {how}"


# ---------------------------------------------------------------- progress.json

ODD: tuple[Any, ...] = (None, -1, 1e400, math.nan, 10**40, "x", "\x1b[2J", [], {}, [[[]]], True, {"x": {"value": []}})
"""Values that may stand in the place of any other."""


def progress_json(run: Path, rng: random.Random) -> str:
    path = run / PROGRESS
    how = rng.choice(["cut", "flip", "empty", "gone", "other", "deep", *["value"] * 6])
    if how == "cut":
        return cut(path, rng)
    if how == "flip":
        return flip(path, rng, rng.choice([1, 8, 64]))
    if how == "gone":
        path.unlink()
    elif how in ("empty", "other", "deep"):
        odd = {"empty": "", "deep": "[" * 10**5, "other": rng.choice(["[]", "{}", "null", '{"now": 3}', "\udcff"])}[how]
        path.write_bytes(odd.encode(errors="surrogateescape"))
    else:
        tree = json.loads(path.read_text())
        where, key = rng.choice([(part, key) for part in _objects(tree) for key in part])
        where[key] = rng.choice(ODD)
        path.write_text(json.dumps(tree))
        return f"{PROGRESS}: {key} is {where[key]!r}"
    return f"{PROGRESS}: {how}"


def _objects(tree: Any) -> list[dict[str, Any]]:
    """All objects in a tree of JSON."""
    if isinstance(tree, list):
        return [part for item in tree for part in _objects(item)]
    return [tree, *(part for item in tree.values() for part in _objects(item))] if isinstance(tree, dict) else []


# ---------------------------------------------------------------- rows


def rows_gone(run: Path, rng: random.Random) -> str:
    table = rng.choice(["blocks", "blocks", "blocks", "legs", "rounds", "failures", "formats"])
    where = "" if table != "blocks" else f" WHERE id % {rng.choice([2, 7, 1000])} = {rng.randrange(2)}"
    return f"{change(run, f'DELETE FROM {table}{where}')} rows of {table} deleted"


def rows_changed(run: Path, rng: random.Random) -> str:
    """Rows changed without their checksum."""
    sql = rng.choice(
        [
            "UPDATE blocks SET crc = crc + 1 WHERE id % ? = 1",
            "UPDATE blocks SET payload = x'00' WHERE id % ? = 1",
            "UPDATE blocks SET payload = zeroblob(length(payload)) WHERE id % ? = 1",
            "UPDATE blocks SET payload = NULLIF(substr(payload, 1, length(payload) - 8), x'') WHERE id % ? = 1",
            "UPDATE blocks SET payload = 'text' WHERE id % ? = 1",
            "UPDATE blocks SET round = round + 100 WHERE id % ? = 1",
            "UPDATE blocks SET block = block + 1 WHERE id % ? = 1",
            "UPDATE blocks SET round = 'x' WHERE id % ? = 1",
            "UPDATE blocks SET seconds = 'x' WHERE id % ? = 1",
            "UPDATE legs SET settings = substr(settings, 5) WHERE leg % ? >= 0",
            "UPDATE legs SET settings = replace(settings, '500', '600') WHERE leg % ? >= 0",
            "UPDATE legs SET crc = crc + 1 WHERE leg % ? >= 0",
            "UPDATE legs SET leg = leg + 1 WHERE leg % ? >= 0",
            "UPDATE rounds SET payload = zeroblob(200) WHERE round % ? >= 0",
            "UPDATE rounds SET crc = 'x' WHERE round % ? >= 0",
            "UPDATE formats SET format = 99 WHERE format % ? >= 0",
        ]
    )
    part = rng.choice([2, 11, 30])
    return f"{change(run, sql, part)} rows: {sql.replace('?', str(part))}"


def checked(round: int, block: int, seconds: float, payload: bytes) -> int:
    """The checksum of a block, computed once more by hand."""
    total = 0
    for part in (round, block, seconds, payload):
        data = part if isinstance(part, bytes) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(str(len(data)).encode(), total))
    return total


MALFORMED: dict[str, Callable[[dict[str, Any], bytes], tuple[Any, bytes]]] = {
    "no arrays": lambda head, data: ({**head, "arrays": []}, data),
    "shape too large": lambda head, data: (_with_shape(head, [10**6]), data),
    "shape negative": lambda head, data: (_with_shape(head, [-1]), data),
    "shape of text": lambda head, data: (_with_shape(head, "x"), data),
    "data cut": lambda head, data: (head, data[:-3]),
    "data gone": lambda head, data: (head, b""),
    "other kind": lambda head, data: ({**head, "kind": "x"}, data),
    "no kind": lambda head, data: ({key: head[key] for key in head if key != "kind"}, data),
    "no seed": lambda head, data: ({key: head[key] for key in head if key != "seed"}, data),
    "objects": lambda head, data: (_with_type(head, "|O"), data),
    "times": lambda head, data: (_with_type(head, "<M8[D]"), data),
    "no JSON": lambda head, data: ("x", data),
    "a list": lambda head, data: ([], data),
    "a number": lambda head, data: (3, data),
    "failures of no kind": lambda head, data: ({**head, "examples": {"99": "x"}}, data),
}


def _with_shape(head: dict[str, Any], shape: Any) -> dict[str, Any]:
    (name, code, _), *others = head["arrays"]
    return {**head, "arrays": [[name, code, shape], *others]}


def _with_type(head: dict[str, Any], code: str) -> dict[str, Any]:
    (name, _, shape), *others = head["arrays"]
    return {**head, "arrays": [[name, code, shape], *others]}


def rows_forged(run: Path, rng: random.Random) -> str:
    """Blocks that say nothing, under a right checksum."""
    what = rng.choice(list(MALFORMED))
    some = rows_on_disk(run, "SELECT id, round, block, seconds, payload FROM blocks ORDER BY id")
    for row, round, block, seconds, payload in rng.sample(some, min(len(some), rng.choice([1, 5]))):
        start, _, data = payload.partition(b"\n")
        head, data = MALFORMED[what](json.loads(start), data)
        new = json.dumps(head).encode() + b"\n" + data
        crc = checked(round, block, seconds, new)
        change(run, "UPDATE blocks SET payload = ?, crc = ? WHERE id = ?", new, crc, row)
    return f"blocks under a right checksum: {what}"


IN_LOG: tuple[Damage, ...] = (cut, fill_page, append, lambda path, rng: flip(path, rng, 8))

WAYS: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "bits flipped": (
        in_ledger(lambda path, rng: flip(path, rng, rng.choice([1, 1, 8, 64]))),
        ("targeted", "smc", "finite", "learned-summaries", "model-choice", "extended"),
    ),
    "files cut": (in_ledger(cut), ("targeted", "smc", "learned-summaries", "extended")),
    "pages overwritten": (in_ledger(fill_page), ("targeted", "finite", "learned-summaries", "extended")),
    "pages swapped": (in_ledger(swap_pages), ("targeted", "smc", "model-choice")),
    "header or end": (
        in_ledger(lambda path, rng: rng.choice([append, header, header])(path, rng)),
        ("targeted", "finite"),
    ),
    "write-ahead log": (
        in_log(lambda path, rng: rng.choice(IN_LOG)(path, rng)),
        ("log-kept",),
    ),
    "run.json": (run_json, ("targeted", "extended", "learned-summaries")),
    "rows gone": (rows_gone, ("targeted", "smc", "finite", "extended")),
    "rows changed": (rows_changed, ("targeted", "smc", "finite", "learned-summaries", "extended")),
    "rows under a right checksum": (rows_forged, ("targeted", "finite", "model-choice", "extended")),
    PROGRESS: (progress_json, ("targeted", "smc", "finite", "extended")),
}


# ---------------------------------------------------------------- cases


class Damages(Kind):
    name = "damage"
    figure = 300

    def __init__(self, seed: int, room: Path) -> None:
        super().__init__(seed, room)
        self.bases = bases(room)

    def called(self, number: int) -> str:
        way = list(WAYS)[number % len(WAYS)]
        return f"{number} ({way}, {self._chosen(number)})"

    def _chosen(self, number: int) -> str:
        names = list(WAYS.values())[number % len(WAYS)][1]
        return names[number // len(WAYS) % len(names)]

    def attack(self, number: int) -> list[Tried]:
        way = list(WAYS)[number % len(WAYS)]
        base = self.bases[self._chosen(number)]()
        base.restore()
        try:
            done = WAYS[way][0](base.run, self.random(number))
        except IndexError:  # a version that leaves no write-ahead log behind
            return [Tried(f"damage: {way}", 0, skipped="no such file is left behind")]
        faults = [*(watched(base) if way == PROGRESS else ()), *examined(base)]
        failures = [f"{done}; {text}" for text in faults]
        return [Tried(f"damage: {way}", 1, tuple(failures))]


def examined(base: Base) -> list[str]:
    """What is wrong with how a damaged run is read and resumed."""
    failures = []
    before = digests(base.run)
    for reader in base.readers:
        ended = base.read(reader)
        fault = ended.fault() or misread(base, reader, ended)
        if fault:
            failures.append(f"{reader}: {fault}")
        after = digests(base.run)
        if after != before:
            failures.append(f"{reader}: it changes the run: {changed(before, after)}")
            before = after
    ended = base.resume()
    result = parsed(ended.out)
    if ended.fault() or not result:
        failures.append(f"resume: {ended.fault() or last_line(ended.err)}")
        return failures
    failures += [f"resume: {text}" for text in differences(base.result, result)]
    again = base.read("show --json")
    if parsed(again.out).get("damaged", True):
        failures.append("after resume show still tells of damage")
    return failures


def watched(base: Base) -> list[str]:
    """What is wrong with how a run is watched; the same for one that is not finished, of which little else is known."""
    failures, path = [], base.run / "run.json"
    finished = path.read_bytes()
    tree = json.loads(finished)
    tree["legs"][-1]["result"] = None
    for state, content in (("finished", finished), ("not finished", json.dumps(tree).encode())):
        path.write_bytes(content)
        before = digests(base.run)
        for reader in ("watch --once", "watch --once --json"):
            ended = base.read(reader)
            fault = ended.fault() or ("" if ended.fine else f"refused: {last_line(ended.err)}")
            if not fault and state == "finished" and base.target not in ended.out:
                fault = "does not show the result"
            failures += [f"{reader} ({state}): {fault}"] if fault else []
        after = digests(base.run)
        failures += [f"watch ({state}): it changes the run: {changed(before, after)}"] if after != before else []
    path.write_bytes(finished)
    return failures


def misread(base: Base, reader: str, ended: Ended) -> str:
    """Whether a reader gives something else than of the sound run without saying why; in words."""
    if ended.fine and base.given(reader, ended) == base.said[reader]:
        return ""
    if any(word in ended.said for word in SAYS):
        return ""
    if ended.fine:
        return "gives something else than of the sound run and says no word of damage"
    return f"does not say what is damaged: {last_line(ended.err)}"
