"""Hostile directories whose files are sound and whose content is not: payloads, settings, names, results."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from attack.bases import Base
from attack.damage import checked
from attack.forgery import Victim, forge
from attack.runs import change, rows_on_disk


def _crc(*parts: Any) -> int:
    total = 0
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(str(len(data)).encode(), total))
    return total


def write_legs(run: Path, legs: list[tuple[str, str | None]]) -> None:
    """Legs under right checksums, in the ledger and in run.json; settings and results are JSON."""
    change(run, "DELETE FROM legs")
    for number, (settings, result) in enumerate(legs):
        crc = _crc(number, settings, result)
        change(run, "INSERT INTO legs VALUES (?, ?, ?, ?)", number, settings, result, crc)
    entries = ", ".join(
        f'{{"settings": {settings}, "result": {result or "null"}, "crc": {_crc(number, settings, result)}}}'
        for number, (settings, result) in enumerate(legs)
    )
    with suppress(OSError):
        (run / "run.json").write_text(f'{{"fbar": 1, "legs": [{entries}]}}')


def legs_of(run: Path) -> list[tuple[str, str | None]]:
    return [(s, r) for s, r in rows_on_disk(run, "SELECT settings, result FROM legs ORDER BY leg")]


def with_settings(run: Path, changed: Callable[[dict[str, Any]], Any]) -> None:
    """The run with other settings, under right checksums."""
    write_legs(run, [(json.dumps(changed(json.loads(settings))), result) for settings, result in legs_of(run)])


def with_result(run: Path, changed: Callable[[dict[str, Any]], Any]) -> None:
    write_legs(run, [(settings, json.dumps(changed(json.loads(result or "{}")))) for settings, result in legs_of(run)])


def with_text(run: Path, changed: Callable[[str], str]) -> None:
    """The same on the text of the settings, where JSON would not write it."""
    write_legs(run, [(changed(settings), result) for settings, result in legs_of(run)])


# ---------------------------------------------------------------- payloads


def payload(changed: Callable[[dict[str, Any], bytes], bytes], every: int = 1) -> Callable[[Base, Victim], None]:
    """Blocks under right checksums: the header and the data that ``changed`` makes of theirs."""

    def make(base: Base, victim: Victim) -> None:
        rows = rows_on_disk(base.run, "SELECT id, round, block, seconds, payload FROM blocks")
        for row, round, block, seconds, old in rows[::every]:
            head, _, data = old.partition(b"\n")
            new = changed(json.loads(head), data)
            crc = checked(round, block, seconds, new)
            change(base.run, "UPDATE blocks SET payload = ?, crc = ? WHERE id = ?", new, crc, row)

    return make


def _packed(head: Any, data: bytes) -> bytes:
    return json.dumps(head).encode() + b"\n" + data


def _first_array(code: Any, shape: Any) -> Callable[[dict[str, Any], bytes], bytes]:
    def changed(head: dict[str, Any], data: bytes) -> bytes:
        name, own, size = head["arrays"][0]
        first = [name, own if code is None else code, size if shape is None else shape]
        return _packed({**head, "arrays": [first, *head["arrays"][1:]]}, data)

    return changed


def _renamed(new: str) -> Callable[[dict[str, Any], bytes], bytes]:
    def changed(head: dict[str, Any], data: bytes) -> bytes:
        arrays = [[new if name.startswith("theta:") else name, code, shape] for name, code, shape in head["arrays"]]
        return _packed({**head, "arrays": arrays}, data)

    return changed


def _recorded(name: str) -> Callable[[dict[str, Any], bytes], bytes]:
    """One more column of text, whose name and cells are the forger's."""

    def changed(head: dict[str, Any], data: bytes) -> bytes:
        rows = head["arrays"][0][2][0]
        text = name[:40].ljust(40, "\0").encode("utf-32-le")
        return _packed({**head, "arrays": [*head["arrays"], [f"recorded:{name}", "<U40", [rows]]]}, data + text * rows)

    return changed


for name, changed in {
    "a shape of 8 gigabytes in few bytes": lambda head, data: _packed(
        {**head, "arrays": [["theta:mu", "|u1", [8_000_000_000]]]}, b"\1"
    ),
    "a shape of floats of 2⁴⁰": _first_array(None, [1 << 40]),
    "a shape that overflows": _first_array(None, [1 << 32, 1 << 32]),
    "a shape beyond 64 bits": _first_array(None, [1 << 70]),
    "a negative shape": _first_array(None, [-50]),
    "an empty and endless shape": _first_array(None, [0, 1 << 60]),
    "a shape of a hundred axes": _first_array(None, [1] * 100),
    "a shape that is no list": _first_array(None, {"a": 1}),
    "a shape of fractions": _first_array(None, [1.5]),
    "objects": _first_array("|O", None),
    "objects in a structure": _first_array([["a", "|O"]], None),
    "a structure": _first_array("f8,f8", None),
    "a nested type": _first_array("(100,100)f8", None),
    "a type of gigabytes": _first_array("|V2000000000", None),
    "text of gigabytes": _first_array("<U500000000", [2]),
    "a type that is no type": _first_array("import os", None),
    "a type that is a number": _first_array(7, None),
    "a million arrays": lambda head, data: _packed({**head, "arrays": [["a", "|u1", [1]]] * 1_000_000}, data),
    "deep JSON": lambda head, data: b'{"arrays": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n" + data,
    "no end of the header": lambda head, data: b"x" * 1000,
    "numbers of a million digits": lambda head, data: b'{"arrays": [], "seed": ' + b"9" * 1_000_000 + b"}\n" + data,
    "infinite numbers": lambda head, data: b'{"arrays": [["a", "f8", [Infinity, NaN, 1e999]]]}\n' + data,
    "examples that command the terminal": lambda head, data: _packed(
        {**head, "examples": {"1": "\x1b[2J\x1b]52;c;aGFjaw==\x07"}, "details": {"1": "\x9b31m"}}, data
    ),
}.items():
    forge("payloads", name, payload(changed, every=1000 if name == "a million arrays" else 1))
for title, name in {
    "a name that is a formula": "=cmd|' /C calc'!A0",
    "a name that begins with @": "@SUM(1)",
    "a name of tags": "<script>alert(1)</script>",
    "a name that commands the terminal": "\x1b]52;c;aGFjaw==\x07",
    "a name of a million letters": "x" * 1_000_000,
}.items():
    forge("names and targets", f"a parameter: {title}", payload(_renamed(f"theta:{name}")))
    forge("names and targets", f"a column: {title}", payload(_recorded(name)))


# ---------------------------------------------------------------- settings


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda settings: {**settings, key: value}


def _lost(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda settings: {name: value for name, value in settings.items() if name != key}


def _instead(value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda _: value


def settings(changed: Callable[[dict[str, Any]], Any]) -> Callable[[Base, Victim], None]:
    return lambda base, victim: with_settings(base.run, changed)


def result(changed: Callable[[dict[str, Any]], Any]) -> Callable[[Base, Victim], None]:
    return lambda base, victim: with_result(base.run, changed)


KEYS = ("problem", "targets", "method", "budget", "limit", "stop", "block_size", "seed", "streams", "model", "machine")
WRONG: dict[str, Any] = {
    "nothing": None,
    "a list": [[], "x", 3],
    "a tree": {"type": "x", "a": {"b": []}},
    "text": "\x1b[2Jx",
    "a number": -7.5,
    "not a number": float("nan"),
    "huge": 10**40,
}
for key in KEYS:
    forge("settings", f"{key} is left out", settings(_lost(key)))
    for name, value in WRONG.items():
        forge("settings", f"{key} is {name}", settings(_set(key, value)))
for name, value in WRONG.items():
    forge("settings", f"all settings are {name}", settings(_instead(value)))

METHODS: dict[str, Any] = {
    "is no method": {"type": "Popen", "args": ["touch", "x"]},
    "is a part of one": {"type": "NormalKernel"},
    "has a tolerance of text": {"type": "Targeted", "tolerance": "\x1b[2J"},
    "has a tolerance of no number": {"type": "Targeted", "tolerance": float("nan")},
    "has unknown settings": {"type": "Targeted", "__class__": 3, "x": 1},
    "has groups without end": {"type": "Targeted", "tolerance": 0.5, "groups": 10**12},
    "is nested": {"type": "SMC", "schedule": {"type": "SMC", "schedule": {"type": "SMC"}}},
    "has a schedule of wrong numbers": {"type": "SMC", "schedule": {"type": "Tolerances", "values": ["x"]}},
}
for name, value in METHODS.items():
    forge("settings", f"the method {name}", settings(_set("method", value)))

for name, value in {
    "a billion workers": {"workers": 10**9, "timeout": None},
    "workers of text": {"workers": "\x1b[2J", "timeout": None},
    "a time-out of no number": {"workers": None, "timeout": float("nan")},
    "a time-out of text": {"workers": 2, "timeout": "x"},
}.items():
    forge("settings", f"the machine has {name}", settings(_set("machine", value)))

for name, other in {
    "a seed of a million digits": _set("seed", "9" * 1_000_000),
    "a seed of text": _set("seed", "__import__('os')"),
    "blocks of 10¹² simulations": _set("block_size", 10**12),
    "blocks of none": _set("block_size", 0),
    "targets without end": _set("targets", ["mean:mu"] * 100_000),
    "a rule of its own": _set("stop", {"type": "StandardError", "bounds": {"mean:mu": "x"}}),
    "a rule of no type": _set("stop", {"type": "eval", "code": "1"}),
    "summaries that are none": _set("summaries", {"type": "x", "targets": ["mean:mu"], "y": 1}),
    "summaries of text": _set("summaries", "\x1b[2J"),
}.items():
    forge("settings", name, settings(other))

forge("settings", "deep JSON", lambda base, victim: with_text(base.run, lambda _: "[" * 100_000 + "]" * 100_000))
forge("settings", "no JSON", lambda base, victim: with_text(base.run, lambda _: "\x1b[2J{"))
forge(
    "settings",
    "numbers of a million digits",
    lambda base, victim: with_text(base.run, lambda s: s.replace("1500", "9" * 1_000_000)),
)
forge("settings", "five thousand legs", lambda base, victim: _many_legs(base, 5_000))


def _many_legs(base: Base, number: int) -> None:
    ((text, ended),) = legs_of(base.run)
    with closing(sqlite3.connect(base.run / "ledger.sqlite")) as connection:
        connection.execute("DELETE FROM legs")
        connection.executemany(
            "INSERT INTO legs VALUES (?, ?, ?, ?)",
            ((leg, text, ended, _crc(leg, text, ended)) for leg in range(number)),
        )
        connection.commit()
    (base.run / "run.json").unlink()


# ---------------------------------------------------------------- targets and results

TARGETS = {
    "formats of two gigabytes": "probability:'%2000000000d' % 1 == 'x'",
    "a text repeated": "probability:'x' * 4000000000 == mu",
    "a tower of powers": "expectation:" + "**".join(["9"] * 30),
    "powers of truths": "expectation:" + "**".join(["(True+True+True+True)"] * 12),
    "deep brackets": "probability:" + "(" * 5_000 + "mu" + ")" * 5_000 + " > 0",
    "a long sum": "expectation:" + "+".join(["mu"] * 200_000),
    "code": "probability:__import__('os').system('touch x')",
    "attributes": "expectation:mu.__class__.__mro__",
    "escapes": "mean:mu\x1b]52;c;aGFjaw==\x07\x1b[2J",
    "tags": "mean:<script>alert(1)</script>",
    "a formula": "mean:=cmd|' /C calc'!A0",
    "no kind": "x",
    "nothing": "",
    "a level of no number": "quantile:mu,nan",
    "surrogates": "mean:\ud800",
}
for name, target in TARGETS.items():

    def _with_target(base: Base, victim: Victim, target: str = target) -> None:
        with_settings(base.run, _set("targets", [target]))
        with_result(base.run, lambda r: {**r, "estimates": {target: next(iter(r["estimates"].values()))}})

    forge("names and targets", f"a target: {name}", _with_target)

RESULT = ("estimates", "simulations", "accepted", "failures", "warnings", "stopped_by", "missing", "rounds", "seed")
for key in RESULT:
    forge("results", f"{key} is left out", result(_lost(key)))
    for name in ("nothing", "a list", "text", "not a number"):
        forge("results", f"{key} is {name}", result(_set(key, WRONG[name])))
for name, value in WRONG.items():
    forge("results", f"all of it is {name}", result(_instead(value)))
for name, other in {
    "rounds without end": _set("rounds", 10**18),
    "warnings that command the terminal": _set("warnings", ["\x1b]52;c;aGFjaw==\x07", "result.adjusted() \x9b2J"]),
    "a reason that commands the terminal": _set("stopped_by", "\x1b[2J\x1b]0;x\x07"),
    "a tolerance that commands the terminal": _set("about_tolerance", "\x1b[2J"),
    "remarks that command the terminal": _set("remarks", ["\x1b[2J<script>alert(1)</script>"]),
    "a forecast of wrong parts": _set("missing", {"\x1b[2J": {"x": 1}}),
    "estimates of wrong parts": _set("estimates", {"mean:mu": {"value": "\x1b[2J"}}),
    "estimates of lists": _set(
        "estimates", {"mean:mu": {"value": [1, 2], "standard_error": [1], "trusted": [], "warnings": []}}
    ),
}.items():
    forge("results", name, result(other))
