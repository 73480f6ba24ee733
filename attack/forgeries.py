"""The hostile directories: what somebody could put into a run before handing it on."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from attack.bases import Base
from attack.forged_settings import with_settings
from attack.forgery import Victim, forge, forged
from attack.runs import remove

# ---------------------------------------------------------------- model files


@forged("model files", "the copy is other code, the original is gone", trusted=False)
def _(base: Base, victim: Victim) -> None:
    (base.room / "model.py").unlink()
    (base.run / "fbar-model.py").write_text(victim.code((base.pristine / "fbar-model.py").read_text()))


@forged("model files", "the copy of a run of one's own was exchanged")
def _(base: Base, victim: Victim) -> None:
    (base.room / "model.py").unlink()
    (base.run / "fbar-model.py").write_text(victim.code((base.pristine / "fbar-model.py").read_text()))


@forged("model files", "somebody else's run, all of it sound but for its code", trusted=False)
def _(base: Base, victim: Victim) -> None:
    (base.room / "model.py").write_text(victim.code((base.pristine / "fbar-model.py").read_text()))


def _original_is(path: Callable[[Base, Victim], str]) -> Callable[[Base, Victim], None]:
    def make(base: Base, victim: Victim) -> None:
        (base.run / "evil.py").write_text(victim.code((base.pristine / "fbar-model.py").read_text()))
        with_settings(base.run, lambda s: {**s, "model": {**s["model"], "file": path(base, victim)}})

    return make


for name, path in {
    "the original's path leads into the directory": lambda base, victim: str(base.run / "evil.py"),
    "the original's path is relative": lambda base, victim: os.path.relpath(base.run / "evil.py", base.outside),
    "the original's path is a detour": lambda base, victim: f"{base.room}/pristine/../run/evil.py",
    "the original's path is that of a secret": lambda base, victim: str(victim.precious),
    "the original's path is a device": lambda base, victim: "/dev/zero",
    "the original's path is a directory": lambda base, victim: "/",
    "the original's path is empty": lambda base, victim: "",
    "the original's path holds a zero byte": lambda base, victim: "/tmp/a\0b.py",
    "the original's path is very long": lambda base, victim: "/" + "a" * 100_000,
}.items():
    forge("model files", name, _original_is(path), trusted=False)
    forge("model files", f"{name}, in a run of one's own", _original_is(path))


@forged("model files", "modules beside the copy are called as libraries are", fresh=True)
def _(base: Base, victim: Victim) -> None:
    (base.room / "model.py").unlink()
    for module in (
        "numpy",
        "scipy",
        "pandas",
        "matplotlib",
        "sklearn",
        "pebble",
        "cloudpickle",
        "arviz",
        "sitecustomize",
    ):
        (base.run / f"{module}.py").write_text(victim.code())


@forged("model files", "compiled modules beside the copy", trusted=False, fresh=True)
def _(base: Base, victim: Victim) -> None:
    import py_compile

    source = base.run / "numpy.py"
    source.write_text(victim.code())
    py_compile.compile(str(source), str(base.run / "numpy.pyc"))
    source.unlink()
    (base.run / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")


@forged("model files", "the problem's name is something else", trusted=False)
def _(base: Base, victim: Victim) -> None:
    with_settings(base.run, lambda s: {**s, "model": {**s["model"], "name": "__import__('os')"}})


# ---------------------------------------------------------------- links and files that are none


def _broken(base: Base) -> None:
    """Make its repair necessary."""
    with (base.run / "ledger.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


LINKED = (
    *("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger.sqlite-journal", "driver.lock", "run.json"),
    *("run.json.new", "fbar-model.py", "report.html"),
)
REPAIRED = (
    "ledger.new",
    "ledger.new-wal",
    "ledger.work",
    "ledger.work-wal",
    "ledger.damaged-1",
    "ledger.damaged-1-wal",
)


def _linked(name: str, to: Callable[[Victim], Path], broken: bool = False) -> Callable[[Base, Victim], None]:
    def make(base: Base, victim: Victim) -> None:
        if broken:
            _broken(base)
        remove(base.run / name)
        (base.run / name).symlink_to(to(victim))

    return make


for name in LINKED:
    forge("links", f"{name} → a file", _linked(name, lambda victim: victim.precious))
    forge("links", f"{name} → a new file", _linked(name, lambda victim: victim.room / "new"))
for name in REPAIRED:
    forge("links", f"{name} → a file, in a repair", _linked(name, lambda victim: victim.precious, broken=True))
forge("links", "ledger.damaged-2 → a file", _linked("ledger.damaged-2", lambda victim: victim.precious, broken=True))
forge("links", "pilot → a directory", _linked("pilot", lambda victim: victim.folder), base="learned-summaries")
forge(
    "links",
    "run.json → a loop",
    lambda base, victim: _linked("run.json", lambda _: base.run / "run.json")(base, victim),
)


@forged("links", "the ledger is a link to another run's")
def _(base: Base, victim: Victim) -> None:
    kept = victim.folder / "ledger.sqlite"
    shutil.copyfile(base.run / "ledger.sqlite", kept)
    (base.run / "ledger.sqlite").unlink()
    (base.run / "ledger.sqlite").symlink_to(kept)


def _instead(name: str, how: str) -> Callable[[Base, Victim], None]:
    def make(base: Base, victim: Victim) -> None:
        path = base.run / name
        remove(path)
        if how == "pipe":
            os.mkfifo(path)
        elif how == "directory":
            path.mkdir()
            (path / "file").write_text("x")
        elif how == "hollow":
            with path.open("wb") as file:
                file.truncate(1 << 30)
        elif how == "device":
            path.symlink_to("/dev/zero")
        elif how == "noise":
            path.write_bytes(bytes(range(256)) * 400)

    return make


for name in ("ledger.sqlite", "ledger.sqlite-wal", "driver.lock", "run.json", "fbar-model.py", "report.html"):
    for how in ("pipe", "directory", "hollow", "device"):
        forge("odd files", f"{name} is a {how}", _instead(name, how))
forge("odd files", "run.json is noise", _instead("run.json", "noise"))
forge("odd files", "the ledger is noise", _instead("ledger.sqlite", "noise"))
forge("odd files", "pilot is a pipe", _instead("pilot", "pipe"), base="learned-summaries")
forge("odd files", "pilot/ledger.sqlite is a pipe", _instead("pilot/ledger.sqlite", "pipe"), base="learned-summaries")


# ---------------------------------------------------------------- SQLite


def sql(*statements: str) -> Callable[[Base, Victim], None]:
    """Statements on the ledger; ``{victim}`` is a file that must not change."""

    def make(base: Base, victim: Victim) -> None:
        with closing(sqlite3.connect(base.run / "ledger.sqlite", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            for statement in statements:
                connection.execute(statement.replace("{victim}", str(victim.precious)))

    return make


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
VIEWS = {
    "formats": "i AS format, 0 AS crc",
    "blocks": "i AS id, 0 AS round, i AS block, 0.0 AS seconds, x'00' AS payload, 0 AS crc",
    "legs": "i AS leg, '{}' AS settings, NULL AS result, 0 AS crc",
    "rounds": "i AS round, x'00' AS payload, 0 AS crc",
    "failures": "0 AS round, i AS block, 1 AS kind, 1 AS count, '' AS message, '' AS detail",
}
for table, columns in VIEWS.items():
    forge(
        "SQLite",
        f"{table} is an endless view",
        sql(f"DROP TABLE {table}", f"CREATE VIEW {table} AS {ENDLESS} SELECT {columns} FROM n"),
    )
for name, statements in {
    "blocks is a view of two gigabytes": (
        "DROP TABLE blocks",
        "CREATE VIEW blocks AS SELECT 1 AS id, 0 AS round, 0 AS block, 0.0 AS seconds, "
        "zeroblob(2000000000) AS payload, 0 AS crc",
    ),
    "a trigger fills the disk": (
        f"CREATE TRIGGER t AFTER INSERT ON legs BEGIN INSERT INTO rounds SELECT * FROM ({ENDLESS} SELECT 1000 + i, "
        "zeroblob(100000), 0 FROM n LIMIT 20000); END",
        f"CREATE TRIGGER u AFTER DELETE ON blocks BEGIN INSERT INTO rounds SELECT * FROM ({ENDLESS} SELECT 1000 + i, "
        "zeroblob(100000), 0 FROM n LIMIT 20000); END",
        "UPDATE blocks SET crc = crc + 1 WHERE id = 3",
    ),
    "a trigger refuses": ("CREATE TRIGGER t BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, '\x1b[2Jno'); END",),
    "a trigger deletes": ("CREATE TRIGGER t AFTER INSERT ON legs BEGIN DELETE FROM blocks; END",),
    "a column is computed": (
        "DROP TABLE formats",
        "CREATE TABLE formats (format INTEGER PRIMARY KEY, crc AS (length(hex(zeroblob(200000000)))))",
        "INSERT INTO formats (format) VALUES (1)",
    ),
    "an index is computed": ("CREATE INDEX i ON blocks (length(hex(zeroblob(1000 + id))))",),
    "a check is costly": (
        "DROP TABLE failures",
        "CREATE TABLE failures (round, block, kind, count, message, detail, "
        "CHECK (length(hex(zeroblob(400000000))) > 0))",
    ),
    "a table has other columns": ("DROP TABLE blocks", "CREATE TABLE blocks (id INTEGER PRIMARY KEY, x)"),
    "a table is gone": ("DROP TABLE rounds",),
    "all tables are gone": tuple(f"DROP TABLE {table}" for table in VIEWS),
    "a table without rowid": (
        "DROP TABLE failures",
        "CREATE TABLE failures (round, block, kind, count, message, detail, PRIMARY KEY (round)) WITHOUT ROWID",
    ),
    "views call what loads": (
        "DROP TABLE legs",
        "CREATE VIEW legs AS SELECT load_extension('{victim}') AS leg, '' AS settings, '' AS result, 0 AS crc",
    ),
    "a value of 300 megabytes": ("UPDATE blocks SET payload = zeroblob(300000000) WHERE id = 2",),
    "settings of 200 megabytes": ("UPDATE legs SET settings = CAST(zeroblob(200000000) AS TEXT)",),
    "counts that overflow": (
        "INSERT INTO failures VALUES (0, 0, 1, 9223372036854775807, 'a', 'b'), "
        "(0, 1, 1, 9223372036854775807, 'a', 'b')",
    ),
    "failures of no kind": ("INSERT INTO failures VALUES (0, 0, 99, 1, 'a', 'b'), (0, 1, 'x', 'y', x'ff', x'ff')",),
    "failures that command the terminal": (
        "INSERT INTO failures VALUES (0, 0, 1, 3, '\x1b]52;c;aGFjaw==\x07 \x1b[2J', 'a\n\x1b]0;title\x07\nb \x9b31m')",
    ),
    "a later format": ("UPDATE formats SET format = 9223372036854775807",),
    "numbers of blocks are huge": ("UPDATE blocks SET round = 9223372036854775807, block = -9223372036854775808",),
    "numbers of blocks are text": ("UPDATE blocks SET round = 'x' || id, block = x'00ff'",),
    "checksums are text": ("UPDATE blocks SET crc = '\x1b[2J'", "UPDATE legs SET crc = NULL WHERE 0"),
    "ten thousand tables": tuple(f"CREATE TABLE t{i} (a)" for i in range(10_000)),
    "a virtual table": (
        "DROP TABLE failures",
        "CREATE VIRTUAL TABLE failures USING fts5(round, block, kind, count, message, detail)",
    ),
}.items():
    forge("SQLite", name, sql(*statements))


def _patched(at: int, data: bytes) -> Callable[[Base, Victim], None]:
    def make(base: Base, victim: Victim) -> None:
        with (base.run / "ledger.sqlite").open("r+b") as file:
            file.seek(at)
            file.write(data)

    return make


for name, at, data in (
    ("the number of pages lies", 28, b"\x7f\xff\xff\xff"),
    ("the list of free pages leads round", 32, b"\0\0\0\2\0\0\0\x03"),
    ("pages of 64 kilobytes", 16, b"\0\1"),
    ("the text is UTF-16", 56, b"\0\0\0\2"),
    ("a later SQLite", 18, b"\3\3"),
    ("the schema leads to itself", 100, b"\x05\0\0\0\2\x0f\xf0\0\0\0\0\1"),
):
    forge("SQLite", name, _patched(at, data))


@forged("SQLite", "a journal that has a file deleted")
def _(base: Base, victim: Victim) -> None:
    """A rollback journal names its super-journal, which SQLite deletes when it is done."""
    sql("PRAGMA journal_mode=DELETE")(base, victim)
    pages = (base.run / "ledger.sqlite").stat().st_size // 4096
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(victim.precious).encode()
    head = (magic + struct.pack(">5I", 0, 0, pages, 512, 4096)).ljust(512, b"\0")
    tail = struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    (base.run / "ledger.sqlite-journal").write_bytes(head + tail)
