"""The attack of ``make attack``: a few cases of every kind, and that its detectors find what is planted."""

import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import scipy.stats  # noqa: F401 - children are forked with what is imported here

pytest.importorskip("cyclopts")
if sys.platform != "linux":
    pytest.skip("processes are found in /proc", allow_module_level=True)

from attack import attacked as attacked_module
from attack import campaign, children, hostile
from attack.attacked import MARK, Attacked, Log, left_behind, lost, unwritten
from attack.bases import bases
from attack.calls import Calls, tried
from attack.children import REFUSED, call, command, forked
from attack.damage import WAYS, examined, misread
from attack.disk import Disks
from attack.forgery import FORGERIES, Victim
from attack.kills import Kills
from attack.kinds import Kind
from attack.recipes import RECIPES
from attack.runs import blocks_on_disk, change, changed, differences, digests, theta_on_disk
from attack.table import Table, Tried
from attack.wrong_calls import Outcome

ROOT = Path(__file__).parents[2]

# ---------------------------------------------------------------- the table


def test_the_table_counts_what_was_tried_and_names_the_command_of_every_failure(tmp_path):
    table = Table()
    table.add([Tried("kills", 3), Tried("damage", 1, ("lost | \x1b[2J it", "and more"))], "python -m attack --case 7")
    table.add(
        [Tried("kills", 2, ("a block is gone",)), Tried("disk", 0, skipped="not root")], "python -m attack --case 8"
    )
    assert (table.tried, table.failed) == (6, 2)
    plain = table.plain()
    assert "kills: a block is gone\n    again: python -m attack --case 8" in plain
    assert "skipped: not root" in plain
    assert "\x1b" not in plain
    assert r"| damage | 1 | 1 | lost \| \x1b[2J it; and more |" in table.markdown()
    table.write_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[2] == "disk,0,0,skipped: not root"
    twice = Table()
    for _ in range(2):
        twice.add_csv(tmp_path / "table.csv")
    assert (twice.tried, twice.failed) == (12, 4)
    assert {row[0]: row[3] for row in twice.cells()} == {row[0]: row[3] for row in table.cells()}
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin: attack -->\nold\n<!-- end: attack -->\nafter\n")
    table.write_page(page, "Seed 1.")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| all | 6 | 2 |" in text


class Planted(Kind):
    """Fails at every third case."""

    name = "planted"
    figure = 5

    def attack(self, number):
        if number == 4:
            raise RuntimeError("the attack is broken")
        return [Tried("planted", 1, ("it broke",) if number % 3 == 2 else ())]


@pytest.mark.parametrize(("number", "status"), [(2, 0), (3, 1), (5, 1)])
def test_a_campaign_ends_with_1_if_anything_failed(monkeypatch, capsys, number, status):
    monkeypatch.setattr(campaign, "KINDS", {"planted": Planted})
    monkeypatch.setattr(campaign, "preload", lambda: None)
    assert campaign.main(["--planted", str(number), "--seed", "6", "--quiet"]) == status
    printed = capsys.readouterr().out
    assert ("python -m attack --only planted --seed 6 --case 2" in printed) == (number > 2)
    assert ("RuntimeError: the attack is broken" in printed) == (number == 5)
    assert campaign.main(["--only", "planted", "--case", "2", "--quiet"]) == 1
    assert campaign.main(["--only", "planted", "--case", "3", "--quiet"]) == 0


def test_a_campaign_ends_when_its_time_is_over(monkeypatch, capsys):
    monkeypatch.setattr(campaign, "KINDS", {"planted": Planted})
    monkeypatch.setattr(campaign, "preload", lambda: None)
    assert campaign.main(["--minutes", "0", "--quiet"]) == 0
    assert "planted" not in capsys.readouterr().out


def test_the_page_has_the_marks_and_the_kinds_are_all_there():
    text = (ROOT / "docs" / "explanation" / "attack.md").read_text(encoding="utf-8")
    assert text.count("<!-- begin: attack -->") == text.count("<!-- end: attack -->") == 1
    assert all(f"**{name}" in text for name in campaign.KINDS)
    assert len({(forgery.kind, forgery.name) for forgery in FORGERIES}) == len(FORGERIES) >= 50


# ---------------------------------------------------------------- children


@pytest.mark.processes
@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (lambda: 0, ""),
        (lambda: print("fbar: no", file=sys.stderr) or 2, ""),
        (lambda: 2, "raw: 0 lines of error"),
        (lambda: print("one\ntwo", file=sys.stderr) or 2, "raw: 2 lines of error"),
        (lambda: {}["x"], "raw: KeyError: 'x'"),
        (
            lambda: print("fbar: internal error in fbar or in your model: x", file=sys.stderr) or 2,
            "raw: fbar: internal error",
        ),
        (lambda: os.kill(os.getpid(), 9), "raw: ended by signal 9"),
        (lambda: print("\x1b[2J"), "escaped: '\\x1b'"),
        (lambda: print("a\x9b31m"), "escaped: '\\x9b'"),
        (lambda: print("x" * 6_000_000), "bomb: printed"),
        (lambda: bytearray(1 << 40) and 0, "raw: MemoryError"),
        # It holds what it took until it is looked at, however late that is.
        (lambda: (b"x" * (1 << 28), time.sleep(60)), "bomb: took more than 64 MB"),
        (lambda: sum(0 for _ in iter(int, 1)), "bomb: more than 1 s of processor time"),
        (lambda: time.sleep(60), "bomb: endless: waits"),
    ],
)
def test_what_is_wrong_with_how_a_child_ended_is_found(tmp_path, monkeypatch, work, fault):
    monkeypatch.setattr(children, "STILL", 0.6)
    found = forked(work, tmp_path, cpu=1, memory=1 << 26).fault()
    assert found.startswith(fault) if fault else found == ""


@pytest.mark.processes
def test_a_call_that_is_refused_is_no_raw_one(tmp_path):
    import fbar

    ended = forked(call(lambda: fbar.load(tmp_path / "none")), tmp_path / "room")
    assert (ended.status, ended.fault()) == (REFUSED, "")
    assert "holds no run" in ended.err
    assert forked(command("show", str(tmp_path / "none")), tmp_path / "room").status == 2


# ---------------------------------------------------------------- kills

SMALL = replace(
    next(recipe for recipe in RECIPES if recipe.name == "one-by-one"),
    asked=("--method", "rejection", "--budget", "30", "--tolerance", "1", "--block-size", "1"),
    more=(),
    workers=(2,),
    pause=0.02,
)


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_that_is_killed_at_a_write_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Kills, "recipes", (SMALL,))
    kills = Kills(3, tmp_path)
    recipe, workers, how = kills.chosen(1)
    assert (recipe, workers, how) == (SMALL, 2, "write")
    (found,) = kills.attack(1)
    assert found.failures == ()
    assert found.tried >= 1
    assert kills.counted([found]) == found.tried
    peace = kills.peace(SMALL, 2)
    assert sorted(peace.writes["infer"]) == sorted(set(peace.writes["infer"]))
    assert len(peace.writes["infer"]) > 20


@pytest.mark.processes
def test_planted_losses_are_found(tmp_path):
    attacked = Attacked(SMALL, 0, tmp_path)
    ended = forked(command(*attacked.command("infer")), tmp_path / "said")
    assert ended.fine, ended.err
    attacked.seen = blocks_on_disk(attacked.run)
    assert len(attacked.seen) >= 30
    attacked.compare(blocks_on_disk(attacked.run), "random")
    assert attacked.failures == []
    values = theta_on_disk(attacked.run)
    assert len(values) == len(attacked.seen)

    change(attacked.run, "DELETE FROM blocks WHERE id = 3")
    change(attacked.run, "UPDATE blocks SET payload = x'00' WHERE id = 5")
    attacked.compare(blocks_on_disk(attacked.run), "random")
    assert [text.split(", ")[0] for text in attacked.failures] == [
        "random: 1 blocks that were on disk are gone",
        "random: 1 blocks have changed",
    ]


def test_what_had_arrived_and_is_not_on_disk_is_lost(tmp_path):
    log = Log(arrived=[(10.0, ("", 0, 1)), (10.6, ("", 0, 2)), (10.9, ("", 0, 3))])
    assert lost(log, {("", 0, 1): "x"}, 11.0, 0.5, "random") == []
    assert "lost 1 blocks that had arrived; ('', 0, 1) 1.00 s" in lost(log, {("", 0, 2): "x"}, 11.0, 0.5, "random")[0]
    assert "lost 3 blocks" in lost(log, {}, 11.0, 0.05, "terminated")[0]
    simulated = tmp_path / "simulated"
    simulated.write_text("1.0 0.25\n9.9 0.75\n")
    assert unwritten(simulated, {0.25}, 10.0, "random") == []
    assert "lost 1 finished simulations; θ = 0.25" in unwritten(simulated, {0.75}, 10.0, "random")[0]


@pytest.mark.processes
def test_processes_that_are_left_are_found_and_ended(monkeypatch):
    monkeypatch.setattr(attacked_module, "PATIENCE", 0.2)
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "planted"}, start_new_session=True)
    assert left_behind("another") == []
    assert left_behind("planted") == ["sleep 60"]
    assert left.wait(5) == -9


def test_results_are_compared():
    whole = {"estimates": {"mean:a": {"value": 1.0, "standard_error": None}}, "simulations": 9}
    assert differences(whole, whole) == []
    for other in (
        {**whole, "simulations": 10},
        {**whole, "estimates": {}},
        {**whole, "estimates": {"mean:a": {"value": 1.0 + 1e-8, "standard_error": None}}},
        {**whole, "estimates": {"mean:a": {"value": 1.0, "standard_error": 0.1}}},
    ):
        assert len(differences(whole, other)) == 1


# ---------------------------------------------------------------- damage and hostile directories


@pytest.mark.slow
@pytest.mark.processes
def test_damaged_runs_are_resumed_right_and_what_readers_do_wrong_is_found(tmp_path):
    base = bases(tmp_path, readers=("show", "load"))["finite"]()
    assert not any(misread(base, reader, base.read(reader)) for reader in ("show", "load"))
    for way in ("pages overwritten", "rows gone"):
        base.restore()
        WAYS[way][0](base.run, random.Random(2))
        assert [text for text in examined(base) if "resume" in text] == []

    base.restore()  # a reader that is silent, and one that is not right and changes the run
    before = digests(base.run)
    change(base.run, "DELETE FROM blocks WHERE id = 2")
    assert changed(before, digests(base.run)).startswith("ledger.sqlite has changed")
    base.said["load"] = base.said["show"] = "something else"
    ended = base.read("load")
    assert misread(base, "load", replace(ended, status=0, out="", err="")).startswith("gives something else")
    assert misread(base, "load", ended) == ""
    assert misread(base, "load", replace(ended, status=2, out="", err="fbar: no")).startswith("does not say")


@pytest.mark.slow
@pytest.mark.processes
def test_hostile_directories_do_no_harm_and_planted_harm_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(hostile, "READ", ("show", "load"))
    monkeypatch.setattr(hostile, "WRITE", ("resume",))
    opened = hostile.Hostile(1, tmp_path)
    for name in ("a table is gone", "no end of the header"):
        number = next(i for i, forgery in enumerate(FORGERIES) if forgery.name == name)
        assert opened.attack(number)[0].failures == ()

    base, victim = opened.bases["targeted"](), Victim(tmp_path / "victim")
    harms = {
        "executed": lambda: victim.canary.touch(),
        "overwritten": lambda: victim.precious.write_text("x"),
        "leaked": lambda: print(victim.precious.read_text()),
        "raw": lambda: [][1],
        "formula": lambda: (base.outside / "out.csv").write_text("a,b\n1,=cmd\n") and None,
        "injected": lambda: (base.run / "report.html").write_text("<script>alert(1)") and None,
        "": lambda: (base.outside / "out.csv").write_text("a,b\n-1,-inf\n") and (base.run / "report.html").unlink(),
    }
    for harm, work in harms.items():
        monkeypatch.setattr(hostile, "command", lambda *_, work=work: work)
        assert hostile.faults_of(base, victim, FORGERIES[0], "show").partition(":")[0] == harm


@pytest.mark.slow
@pytest.mark.processes
def test_files_that_cannot_grow_end_a_run_in_a_line_and_it_goes_on(tmp_path):
    disks = Disks(1, tmp_path)
    assert disks.attack(0) == [Tried("disk: files that cannot grow", 1)]


# ---------------------------------------------------------------- calls


def test_raw_and_endless_calls_are_failures(tmp_path):
    verdicts = ["fine", "refused", "raw", "endless"]
    found = tried("calls", [Outcome("fbar.Prior(3)", verdict, "TypeError", "here") for verdict in verdicts])
    assert (found.tried, len(found.failures)) == (4, 2)
    assert found.failures[0] == "raw: fbar.Prior(3): TypeError (here)"
    few = type("Few", (Calls,), {"portion": 5})(1, tmp_path)
    assert few.attack(0) == [Tried("wrong calls of Python", 5)]
