"""Figures of studies: their records have the study's own numbers, and are drawn and written."""

from __future__ import annotations

import json

import pytest
from matplotlib.figure import Figure

from fbar import plot
from fbar.study import Study


@pytest.fixture(scope="module")
def result():
    contenders = {"rejection": "rejection", "posterior": "posterior", "_my $way$": "rejection"}
    return Study("ramp", contenders, [100, 400], scores=["mse", "ess"], trials=4).run(workers=1, progress=False)


def test_records_have_the_studys_numbers(result):
    ranking = plot.Ranking.of(result)
    own = {(s.budget, s.method): (s.mean, s.place) for s in result.ranking().standings}
    assert {(s.budget, s.method): (s.mean, s.place) for s in ranking.standings} == own
    for line in plot.Curves.of(result).lines:
        curve = result.curve(line.problem, line.method)
        assert (line.budgets.tolist(), line.values.tolist()) == (curve.budgets.tolist(), curve.values.tolist())
        assert line.rate == curve.rate
    (panel,) = plot.Versus.of(result).panels
    assert len(panel.points) == 6
    assert {point.x for point in panel.points} == {s.mean for s in result.ranking("ess").standings}


@pytest.mark.slow
def test_they_are_drawn_and_written(result, tmp_path):
    for record in (plot.Ranking.of(result), plot.Curves.of(result), plot.Versus.of(result)):
        json.dumps(record.as_dict(), allow_nan=False)
        axes = Figure().subplots(1, record.number, squeeze=False)[0]
        assert record.draw(axes) is axes
        assert all(ax.has_data() for ax in axes)
    for made in (plot.ranking(result), plot.curves(result, "ess"), plot.versus(result, "ess")):
        made.savefig(tmp_path / "figure.svg")
        shown = [text.get_text() for legend in made.legends for text in legend.get_texts()]
        assert not made.legends or len(shown) == 3, "a name with an underscore in front is shown too"
    found = plot.write_figures(result, tmp_path)
    assert {path.name for path in found} == {
        f"{n}.{e}" for n in ("ranking", "curves", "versus") for e in ("png", "svg")
    }
