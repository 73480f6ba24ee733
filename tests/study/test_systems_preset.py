"""The preset "systems": what its studies ask, and what its page shows of the stored rows."""

import csv

import numpy as np
import page_tables
import pytest
import systems_picture
import systems_table

import fbar
from fbar import problems
from fbar.study.presets import Chosen, preset
from fbar.study.presets.systems.cells import table
from fbar.study.presets.systems.studies import DECAYED, noisy_decay


def test_every_budget_has_a_study():
    made = preset("systems").make(Chosen())
    assert {name: study.budgets for name, study in made.items()} == {
        "few": (200, 1000),
        "many": (10_000,),
        "most": (100_000,),
        "counts": (10_000,),
        "likelihoods": (1000, 10_000),
        "fidelities": (1000, 10_000),
    }
    assert {study.trials for study in made.values()} == {20}


@pytest.mark.parametrize(("name", "share"), [("few", 1e-2), ("many", 1e-3), ("most", 1e-3)])
def test_tolerances_are_those_of_the_catalogue(name, share):
    [study] = preset("systems").make(Chosen(studies=[name])).values()
    for problem, arena in study.arenas.items():
        assert arena.tolerance == problems.load(problem).tolerances[share]


def test_many_and_most_have_the_same_methods():
    """So that their errors can be joined by lines."""
    made = preset("systems").make(Chosen(studies=["many", "most"]))
    many, most = ([contender.name for contender in made[name].contenders] for name in ("many", "most"))
    assert many == most
    assert {"default", "rejection", "pmc", "mcmc", "multilevel", "synthetic-likelihood-mcmc"} < set(many)


def test_the_page_has_the_table_of_the_stored_rows():
    page = (page_tables.DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    begin, end = page_tables.marks("systems")
    assert page.partition(begin)[2].partition(end)[0].strip() == systems_table.found(page_tables.table).strip()


def test_the_picture_is_that_of_the_stored_rows():
    drawn = systems_picture.curves()
    assert f"rows {systems_picture.digest(drawn)}" in systems_picture.PICTURE.read_text(encoding="utf-8")


def test_the_picture_has_every_method_of_its_studies(tmp_path):
    rows = [
        ("many", "sir", "smc", 10_000, "0.04", "0.01"),
        ("few", "sir", "smc", 200, "0.5", ""),
        ("few", "sir", "bolfi", 200, "", ""),  # no answer
        ("counts", "eight-choices", "smc", 10_000, "0.1", "0.1"),
    ]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("study", "problem", "method", "budget", "b2", "b2_error"), *rows])
    drawn = systems_picture.curves(tmp_path / "rows.csv")
    assert drawn == {"sir": {"smc": [(200, 0.5, None), (10_000, 0.04, 0.01)]}}
    figure = systems_picture.draw(drawn)
    [line] = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2 and line.get_marker() == "P"]
    assert list(line.get_ydata()) == [0.5, 0.04]
    assert systems_picture.digest(drawn) != systems_picture.digest(systems_picture.curves())


def test_the_truth_of_the_noisy_decay():
    """Its density at θ = 0.9 and 1.1 against the shares of 40,000 simulations each that come near, within 10%."""
    problem = noisy_decay()
    rng = np.random.default_rng(1)
    near = []
    for theta in (0.9, 1.1):
        x = problem.simulator.output(fbar.Points({"theta": np.full(40_000, theta)}), rng)["x"]
        half = np.exp(-theta / 2)
        assert x.mean(axis=0) == pytest.approx([10 * half, 10 * half**2], abs=0.02)
        near.append((np.abs(x - DECAYED) < 0.25).all(axis=1).mean())
    grid = np.linspace(0.0, 3.0, 3001)[1:]
    a = np.exp(-grid / 256)
    variance = (1 - a**256) / (256 * (1 - a**2))
    mean = np.stack([10 * a**128, DECAYED[0] * a**128])
    p = np.exp(-(((DECAYED[:, None] - mean) ** 2) / (2 * variance)).sum(axis=0)) / variance
    assert near[1] / near[0] == pytest.approx(np.interp(1.1, grid, p) / np.interp(0.9, grid, p), rel=0.1)
    assert problem.truth(fbar.mean("theta"))[0] == pytest.approx(p @ grid / p.sum(), rel=1e-4)


def test_costs_are_in_real_simulations():
    name = "noisy-decay"
    methods = ["rejection", "multifidelity"]
    result = fbar.Study({name: noisy_decay()}, methods, 600, 1, ("mse",), 1, tolerance={name: 0.5}).run()
    rows = {row["method"]: row for row in table({"fidelities": result})}
    assert float(rows["rejection"]["cost"]) == 600
    assert 600 / 32 < float(rows["multifidelity"]["cost"]) < 400


def test_a_method_that_did_not_reach_the_tolerance_is_scored_by_what_it_answers():
    problem = problems.load("gaussian-linear")
    share = {"gaussian-linear": problem.tolerances[1e-3]}
    study = fbar.Study({"gaussian-linear": problem}, ["multilevel"], 3000, 1, ("mse",), 1, tolerance=share)
    [(_, record)] = study.run().records("gaussian-linear", "multilevel", 3000)
    assert record.status == "ok"
