"""Files for people and other programs: whole or not at all, never through a link, and without formulas."""

from __future__ import annotations

import csv
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import stats

import fbar
from fbar.cli import app, tables
from fbar.cli.presets import write_claims
from fbar.errors import FbarError, LedgerError
from fbar.paper.record import FigureRecord
from fbar.plot.look import render
from fbar.running.model_file import ModelFile
from fbar.study.journal import Journal
from fbar.study.presets import Claim
from fbar.study.tables import write_csv
from fbar.system.csv_cells import cell, write_rows
from fbar.system.terminal import clean

FORMULAS = ("=cmd|'/C calc'!A1", "@SUM(1)", "+1+1", "-1-1", "＝1")
PRIOR = fbar.Prior(**{name: stats.uniform(-1, 2) for name in ("a", *FORMULAS)})
PROBLEM = fbar.Problem(PRIOR, lambda theta, rng: theta["a"] + rng.standard_normal(theta.rows), 0.5)


def call(*arguments: str) -> None:
    app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "r"
    fbar.infer(PROBLEM, fbar.mean("a"), tolerance=1, method="rejection", budget=200, seed=1, run=directory)
    return directory


@pytest.fixture(scope="module")
def result() -> fbar.Result:
    problem = fbar.Problem(fbar.Prior(a=stats.uniform(-1, 2)), PROBLEM.simulate, 0.5)
    return fbar.infer(problem, fbar.mean("a"), tolerance=1, method="rejection", budget=200, seed=1)


@contextmanager
def full_disk(room: int = 40) -> Iterator[None]:
    """Every file is at its end after so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def a_record() -> FigureRecord:
    record = FigureRecord("fig")
    for n in range(10):
        record.add("mse", n / 3)
    return record


def draw(_: Any) -> Any:
    from matplotlib.figure import Figure

    return Figure()


WRITERS: dict[str, Callable[[fbar.Result, Path], Any]] = {
    "report": lambda result, path: result.report(path / "kept.html", predictive=0),
    "study": lambda result, path: write_csv(path / "kept.csv", [{"problem": "x" * 100, "value": 1}]),
    "claims": lambda result, path: write_claims([Claim("text" * 20, "problem", "found", True)], path / "kept.csv"),
    "paper": lambda result, path: a_record().write_csv(path / "kept.csv"),
    "picture": lambda result, path: render(draw, None, path / "kept"),
    "init": lambda result, path: call("init", str(path / "model.py")),
    "model": lambda result, path: ModelFile(PROBLEM, (), path, "problem", b"#" * 100).copy_to(path),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_old_file(what: str, result: fbar.Result, tmp_path: Path) -> None:
    names = ("kept.html", "kept.csv", "kept.png", "kept.svg", "fbar-model.py")
    for name in names:
        (tmp_path / name).write_text("before")
    with full_disk(), pytest.raises((FbarError, OSError)):
        WRITERS[what](result, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert {(tmp_path / name).read_text() for name in names} == {"before"}
    WRITERS[what](result, tmp_path)
    assert any((tmp_path / name).read_bytes() != b"before" for name in names) or what == "init"


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_an_export_to_a_full_disk_leaves_the_old_file(
    run: Path, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"out.{format}"
    out.write_text("before")
    writer = tables.CsvWriter if format == "csv" else tables.ParquetWriter
    write, close = writer.write, writer.close

    def to_a_full_disk(self: Any, frame: Any) -> None:
        with full_disk():
            write(self, frame)
            close(self)

    monkeypatch.setattr(writer, "write", to_a_full_disk)
    with pytest.raises(FbarError, match=rf"cannot write .*out\.{format}: .*File too large"):
        call("export", str(run), "--all", "--format", format, "--force", "--out", str(out))
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_links_are_replaced_and_not_followed(run: Path, result: fbar.Result, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("kept.html", "kept.csv", "kept.png", "kept.svg", "fbar-model.py", "out.csv"):
        (tmp_path / name).symlink_to(victim)
    for what in WRITERS:
        WRITERS[what](result, tmp_path)
    call("export", str(run), "--all", "--force", "--out", str(tmp_path / "out.csv"))
    assert victim.read_text() == "precious"
    assert not any(path.is_symlink() for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["trials.jsonl", "study.json"])
def test_a_study_is_not_kept_through_a_link(name: str, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(LedgerError, match="is a link"):
        Journal(tmp_path / "study", {})
    assert (tmp_path / "victim").read_text() == "precious"


# ---------------------------------------------------------------- formulas


def test_text_that_would_be_a_formula_is_quoted_and_numbers_are_not() -> None:
    for text in FORMULAS:
        assert cell(text) == "'" + clean(text)
    assert cell("a\r\n=1") == r"a\r\n=1"
    for value in (-1.5, -3, np.float64(-2), None, True, "a", "a=1", "", "-1.5", "+3", "-1e-5", "-inf", float("nan")):
        assert cell(value) == value or value != value
        assert type(cell(value)) is type(value)


def heads(path: Path) -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def test_names_and_texts_of_exports_are_no_formulas(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    call("export", str(run), "--all", "--out", str(out))
    assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r")) for name in heads(out))
    assert {"'" + clean(name) for name in FORMULAS} <= set(heads(out))
    frame = pandas.read_csv(out)
    assert (frame["a"] < 0).any()
    assert frame["'=cmd|'/C calc'!A1"].dtype == np.float64


def test_labels_of_exports_are_no_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prior = fbar.Finite(kind=["=1+1", "-2", "plain"])
    problem = fbar.Problem(prior, lambda theta, rng: rng.integers(0, 2, theta.rows), 1)
    run, out = tmp_path / "r", tmp_path / "out.csv"
    fbar.infer(problem, fbar.probability("kind == 'plain'"), budget=100, seed=1, run=run)
    monkeypatch.setattr("fbar.cli.export.load", lambda *_, **__: fbar.load(run, problem))
    call("export", str(run), "--out", str(out))
    assert set(pandas.read_csv(out, dtype=str)["kind"]) == {"'=1+1", "-2", "plain"}


def test_texts_of_tables_are_no_formulas(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    write_csv(out, [{"problem": "=1", "@b": -1.5}, {"problem": "x", "message": "-y"}])
    with open(out, newline="") as file:
        assert list(csv.reader(file)) == [["problem", "'@b", "message"], ["'=1", "-1.5", ""], ["x", "", "'-y"]]
    write_rows(out, ["a"], [["\ud800"]])
    assert out.read_bytes() == b"a\r\n\\ud800\r\n"
