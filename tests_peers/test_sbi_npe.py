"""Neural posteriors on the questions of the preset "truth"."""

from __future__ import annotations

import sys

import sbi_npe

from fbar.study.presets.truth.kept import Kept
from fbar.study.presets.truth.measures import measured


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["sbi_npe.py", *map(str, arguments)])
    sbi_npe.main()


def test_one_network_answers_at_all_observations_and_is_kept(tmp_path, monkeypatch):
    given = (tmp_path, "gaussian-mixture", "--budget", 500, "--trainings", 1, "--networks", tmp_path / "networks")
    run(monkeypatch, *given)
    rows = Kept(tmp_path).rows(["npe"])
    assert {row.observation for row in rows} == {f"gaussian-mixture/{i}" for i in range(1, 11)}
    assert all(row.simulations == 500 for row in rows)
    assert measured(rows).b2 < 0.5  # the prior's is 1
    before = (tmp_path / "npe.csv.gz").read_bytes()
    (tmp_path / "npe.csv.gz").unlink()
    monkeypatch.setattr(sbi_npe, "NPE", None)  # no network is trained again
    run(monkeypatch, *given)
    assert (tmp_path / "npe.csv.gz").read_bytes() == before
