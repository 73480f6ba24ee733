"""Figures of runs: the numbers in their records against closed forms and brute force, and that all can be drawn."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import fbar
from fbar import plot
from fbar.errors import InputError
from fbar.methods.history import Moment
from fbar.plot.density import Axis, axis, bandwidth, density, effective, levels, smoothed
from fbar.plot.look import GRID, INK, PALETTE, PAPER, RC, method_look, plain


class Noted:
    """A result with moments at quarters of its run, its errors √4, √2, … times those at its end."""

    def __init__(self, result):
        self._result = result
        self.history = tuple(
            Moment(
                int(result.simulations * share),
                i,
                None,
                10.0,
                None if result.posterior.ess is None else share * float(result.posterior.ess),
                [replace(e, standard_error=np.asarray(e.standard_error) / share**0.5) for e in result.estimates],
            )
            for i, share in enumerate((0.25, 0.5, 1.0))
        )

    def __getattr__(self, name):
        return getattr(self._result, name)


def noisy(theta, rng):
    return theta["a$b$c"] + theta["_n"] + 0.5 * rng.standard_normal(theta.rows)


@pytest.fixture(scope="module")
def runs():
    odd = fbar.Problem(
        fbar.Prior(
            {"a$b$c": stats.uniform(-5, 10), "_n": stats.randint(0, 4), "kind": fbar.Categorical(["<i>", "$x$"])}
        ),
        noisy,
        observed=1.0,
        derived={"double": lambda t: 2 * t["a$b$c"]},
    )
    targets = [
        fbar.mean("double"),
        fbar.expectation(lambda t: t["a$b$c"] > 0.5, name="probability:a$b$c > 0.5"),
        fbar.expectation(lambda t: np.stack([t["a$b$c"], t["_n"]], axis=1), name="both", vector=True),
    ]
    finite = fbar.Problem.tabulated(fbar.Finite(theta=[1.0, 2.0, 3.5]), [0.3, 0.05, 0.1])
    models = fbar.Problem.models(
        {
            "one": fbar.Model(
                lambda t, rng: t["a"] + rng.normal(size=t.rows), fbar.Prior(a=stats.norm(), b=stats.uniform())
            ),
            "two": fbar.Model(lambda t, rng: t["c"] + rng.normal(size=t.rows), fbar.Prior(c=stats.expon())),
        },
        observed=0.5,
    )

    def infer(*given, **options):
        return fbar.infer(*given, seed=1, progress=False, **options)

    return {
        "rejection": infer(odd, targets, method=fbar.Rejection(tolerance=0.5), budget=20_000),
        "targeted": infer(odd, targets[:2], budget=4000),
        "smc": infer(odd, targets[:1], method=fbar.SMC(schedule=fbar.QuantileSchedule(tolerance=0.5))),
        "finite": infer(finite, fbar.mean("theta"), budget=2000),
        "finite-draws": infer(finite, fbar.mean("theta"), method=fbar.Rejection(), budget=2000),
        "models": infer(models, fbar.model_probability("one"), method=fbar.Rejection(tolerance=0.5), budget=5000),
        "regression": infer(
            fbar.problems.load("ramp"),
            fbar.mean("theta"),
            method=fbar.Importance("prior", estimator=fbar.DoublyRobust()),
            budget=2000,
        ),
    }


NAMES = ["rejection", "targeted", "smc", "finite", "finite-draws", "models", "regression"]
FIGURES = {
    "marginals": plot.Marginals.of,
    "places": plot.Places.of,
    "error": lambda result: plot.Error.of(Noted(result)),
    "tolerance": plot.Tolerance.of,
    "influence": plot.Influence.of,
    "rounds": lambda result: plot.Rounds.of(Noted(result)),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", NAMES)
@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_of_every_kind_of_run(runs, tmp_path, run, figure):
    """Odd labels are no formulas: saving would fail on them; the record is JSON; axes that are given are used."""
    record = FIGURES[figure](runs[run])
    json.dumps(record.as_dict(), allow_nan=False)
    made = record.draw()
    assert isinstance(made, Figure)
    made.savefig(tmp_path / "figure.svg")
    own = Figure()
    axes = own.subplots(1, 1 if record.empty else record.number, squeeze=False)[0]
    given = axes[0] if len(axes) == 1 else axes
    assert record.draw(given) is given
    assert all(ax.has_data() or record.empty for ax in axes)
    assert len(own.axes) == len(axes)
    if not record.empty:
        with pytest.raises(InputError, match="panels"):
            record.draw(own.subplots(2, 5))


@pytest.mark.slow
@pytest.mark.parametrize("run", ["rejection", "targeted", "models"])
def test_pairs_and_places_of_pairs(runs, tmp_path, run):
    for record in (plot.Pairs.of(runs[run]), plot.PlacesPair.of(runs[run])):
        json.dumps(record.as_dict(), allow_nan=False)
        record.draw().savefig(tmp_path / "figure.svg")
    found = plot.Pairs.of(runs[run])
    for pair in found.pairs:
        assert pair.mass.sum() == pytest.approx(1 if pair.share else 0)
    missing = {(pair.x_name, pair.y_name) for pair in found.pairs if not pair.share}
    assert missing == ({("a", "c"), ("b", "c")} if run == "models" else set())
    assert ("kind" in found.message) == (run != "models")


def test_pairs_of_a_normal_have_its_correlation():
    """20,000 draws of correlation 0.8: the cells' is that of the draws, which the smoothing lowers a little."""
    problem = fbar.Problem(
        fbar.Prior(x=stats.norm(), y=lambda t: stats.norm(0.8 * t["x"], 0.6)),
        lambda t, rng: np.zeros(t.rows),
        observed=0.0,
    )
    result = fbar.infer(problem, fbar.mean("x"), method=fbar.Rejection(), budget=20_000, seed=1, progress=False)
    (pair,) = plot.Pairs.of(result).pairs
    x, y = np.meshgrid(pair.x, pair.y)
    moments = [float((pair.mass * part).sum()) for part in (x, y, x * x, y * y, x * y)]
    covariance = moments[4] - moments[0] * moments[1]
    correlation = covariance / np.sqrt((moments[2] - moments[0] ** 2) * (moments[3] - moments[1] ** 2))
    drawn = np.corrcoef(result.posterior.points["x"], result.posterior.points["y"])[0, 1]
    assert drawn - 0.05 < correlation < drawn
    held = [pair.mass[pair.mass >= height].sum() for height in pair.regions]
    assert np.allclose(held, [0.95, 0.8, 0.5, 0.2], atol=0.01)


def test_marginals_are_densities_with_weighted_quantiles(runs):
    result = runs["targeted"]
    found = {one.name: one for one in plot.Marginals.of(result).parameters}
    assert list(found) == ["a$b$c", "_n", "kind", "double"]
    points, weights = result.posterior.points, result.posterior.weights
    one = found["a$b$c"]
    assert (one.posterior.sum() * (one.x[1] - one.x[0])) == pytest.approx(1, abs=1e-6)
    assert np.allclose(one.prior, 0.1)
    assert one.mean == pytest.approx(float(weights @ points["a$b$c"] / weights.sum()))
    low, high = one.interval
    below, up_to = (weights[part].sum() / weights.sum() for part in (points["a$b$c"] < low, points["a$b$c"] <= low))
    assert below < 0.025 <= up_to + 1e-12
    below, up_to = (weights[part].sum() / weights.sum() for part in (points["a$b$c"] < high, points["a$b$c"] <= high))
    assert below < 0.975 <= up_to + 1e-12
    for name in ("_n", "kind"):
        bars = found[name]
        assert bars.posterior.sum() == pytest.approx(1)
        first = np.array([weights[points[name] == type(points[name][0])(label)].sum() for label in bars.labels])
        assert np.allclose(bars.posterior, first / weights.sum())
        assert np.allclose(bars.prior, 1 / len(bars.labels))
    assert found["kind"].mean is None
    assert found["kind"].caption.startswith(("<i>", "$x$"))
    assert [one.name for one in plot.Marginals.of(result, "double").parameters] == ["double"]
    with pytest.raises(InputError, match="double"):
        plot.Marginals.of(result, ["doubel"])


def test_a_density_keeps_to_its_bounds():
    """2θ on (0, 1), 40,000 draws: within 6% of the largest value everywhere, also where it is cut off."""
    theta = np.random.default_rng(1).beta(2, 1, 40_000)
    where = axis(theta, np.ones(theta.size), (0.0, 1.0))
    assert (where.edges[0], where.edges[-1]) == (0.0, 1.0)
    found = density(where, theta, np.ones(theta.size))
    assert found.mean() == pytest.approx(1)
    assert np.abs(found - 2 * where.x).max() < 0.12


def test_a_density_keeps_narrow_modes_apart():
    """Two normals of deviation 0.02 at ±1: the height of each, which Silverman's bandwidth would lower tenfold."""
    rng = np.random.default_rng(2)
    theta = np.where(rng.random(5000) < 0.5, -1, 1) + 0.02 * rng.standard_normal(5000)
    where = axis(theta, np.ones(theta.size), (-2.0, 2.0))
    found = density(where, theta, np.ones(theta.size))
    assert 0.25 < found.max() / (0.5 * stats.norm.pdf(0, scale=0.02)) < 1.1


def test_weights_count_like_repeats():
    values = np.random.default_rng(3).normal(size=300)
    weights = np.random.default_rng(4).integers(1, 4, 300).astype(float)
    where = Axis(np.linspace(-5, 5, 257))
    mass = [np.histogram(np.repeat(values, weights.astype(int)), where.edges)[0] / weights.sum()]
    assert np.allclose(
        density(where, values, weights), smoothed(mass[0], bandwidth(mass[0], effective(weights))) / (10 / 256)
    )
    assert levels(np.array([0.5, 0.3, 0.2]), [0.5, 0.8]) == [0.3, 0.5]


def test_the_prior_of_a_model_and_the_places_of_a_finite_space(runs):
    models = {one.name: one for one in plot.Marginals.of(runs["models"]).parameters}
    assert np.allclose(models["model"].prior, 0.5)
    assert np.allclose(models["a"].prior, stats.norm.pdf(models["a"].x))
    assert models["a"].share == pytest.approx(float(runs["models"].estimates[0].value))
    (place,) = plot.Places.of(runs["finite"]).parameters
    assert place.labels == ("1.0", "2.0", "3.5")
    assert np.allclose(place.prior, 1 / 3)
    cells = runs["finite"].posterior.errors.cells
    assert np.allclose(place.simulations, cells.counts / cells.counts.sum())
    assert place.posterior @ place.x == pytest.approx(runs["finite"].estimates[0].value)


def test_influence_is_the_sorted_sum_of_squares(runs):
    result = runs["rejection"]
    record = plot.Influence.of(result, "double")
    share = (result.posterior.contributions(result.run.targets[0]) ** 2).ravel()
    share = np.sort(share / share.sum())[::-1]
    assert np.allclose(record.variance, [share[:k].sum() for k in record.k])
    assert np.allclose(record.weight, record.k / share.size)  # rejection: all weights are alike
    assert share[: record.half].sum() >= 0.5 > share[: record.half - 1].sum()
    assert (record.k[-1], record.variance[-1]) == (share.size, pytest.approx(1))
    assert record.parameter in ("double", "a$b$c")
    cells = plot.Influence.of(runs["finite"])
    assert (cells.what, cells.number_of_parts) == ("values of θ", 3)
    assert plot.Influence.of(runs["regression"]).message.startswith("which simulations carry")


def test_errors_in_terms_of_the_posterior(runs):
    """Rejection's error of a mean is σ/√n, so that in terms of σ it is 1/√n."""
    result = runs["rejection"]
    record = plot.Error.of(Noted(result))
    line = record.lines[0]
    n = float(result.accepted)
    assert line.errors[-1] == pytest.approx(n**-0.5, rel=0.01)
    assert line.errors[0] == pytest.approx(2 * line.errors[-1])
    assert line.simulations[-1] == result.simulations
    assert line.halved == pytest.approx(4 * result.simulations, rel=0.01)
    assert line.halved_low < line.halved < line.halved_high
    own = plot.Error.of(Noted(result), "estimate").lines[0]
    assert own.errors[-1] == pytest.approx(result.estimates[0].standard_error / abs(result.estimates[0].value))
    nothing = plot.Error.of(SimpleResult(result))
    assert nothing.empty
    assert "no errors" in nothing.message
    with pytest.raises(InputError, match="relative"):
        plot.Error.of(result, "posteriour")


class SimpleResult:
    """A result that has noted nothing."""

    history = ()

    def __init__(self, result):
        self._result = result

    def __getattr__(self, name):
        return getattr(self._result, name)


def test_tolerance_has_the_curve_and_its_limit(runs):
    result = runs["rejection"]
    record = plot.Tolerance.of(result)
    assert record.own == 0.5
    assert [band.name for band in record.bands] == ["mean:double", "probability:a$b$c > 0.5", "both 1", "both 2"]
    for tolerance, estimates in result.curve():
        (place,) = np.flatnonzero(record.bands[0].tolerances == tolerance)
        assert record.bands[0].values[place] == estimates[0].value
        assert (record.bands[0].low[place], record.bands[0].high[place]) == estimates[0].interval()
    assert record.bands[0].extrapolated == result.extrapolated().estimates[0].value
    assert plot.Tolerance.of(runs["finite"]).message == "this run has no tolerance above 0"


def test_tolerances_without_a_trusted_error_have_no_band():
    """A rare event that a few acceptances do not see has the error 0, which a band would show as certainty."""
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + 0.2 * rng.standard_normal(t.rows), 1.5
    )
    target = fbar.probability("mu > 1.9")
    result = fbar.infer(problem, target, method=fbar.Rejection(tolerance=0.2), budget=3000, seed=1)
    (band,) = plot.Tolerance.of(result).bands
    found = {tolerance: bool(estimates[0].trusted) for tolerance, estimates in result.curve()}
    assert band.trusted.tolist() == [found[tolerance] for tolerance in band.tolerances.tolist()]
    assert not band.trusted.all()
    figure = plot.tolerance(result)
    assert "unreliable" in [text.get_text() for text in figure.legends[0].get_texts()]
    lengths = [np.ptp(segment[:, 1]) for part in figure.axes[0].collections for segment in _segments(part)]
    assert len(lengths) == band.trusted.sum()


def _segments(collection):
    return collection.get_segments() if hasattr(collection, "get_segments") else []


def test_rounds_add_up(runs):
    record = plot.Rounds.of(runs["smc"])
    assert record.end[-1] == runs["smc"].run.simulations
    assert np.allclose(record.begin[1:], record.end[:-1])
    known = np.isfinite(record.tolerance)  # the first round of SMC accepts all
    assert known[1:].all()
    assert (np.diff(record.tolerance[known]) < 0).all()
    assert record.ess[-1] == float(runs["smc"].posterior.ess)


def test_predictive_tails_and_bands():
    """Whole numbers, ties counted by half; by brute force."""
    rng = np.random.default_rng(5)
    simulated, observed = rng.poisson([1, 4, 9], (500, 3)), np.array([1, 9, 2])
    record = plot.Predictive.of(observed, simulated, ["a_b", "$c$", "d"])
    for j, number in zip(count(), observed, strict=False):
        below = sum(float(x < number) + 0.5 * (x == number) for x in simulated[:, j]) / 500
        assert record.tails[j] == pytest.approx(min(1.0, 2 * min(below, 1 - below)))
    assert np.allclose(record.quantiles[2], np.median(simulated, axis=0))
    assert plot.Predictive.of(2, [2, 2, 2]).tails[0] == 1
    json.dumps(record.as_dict())
    for data, rows in (
        (observed, simulated),
        (1, simulated[:, 0]),
        (0.5, rng.normal(size=200)),
        (np.ones((4, 5)), rng.normal(size=(9, 4, 5))),
    ):
        plot.predictive(data, rows).savefig(io.BytesIO())
    with pytest.raises(InputError, match="observed shape"):
        plot.Predictive.of([1, 2], simulated)
    with pytest.raises(InputError, match="finite"):
        plot.Predictive.of([1.0], [[np.nan]])


def test_trials_have_no_figure():
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.05])
    run = fbar.Rejection().start(problem, fbar.mean("theta"), seed=1, budget=1000, trials=3)
    fbar.drive(run)
    result = fbar.Result(run, run.posterior(), run.posterior().expect([fbar.mean("theta")]), "done")
    with pytest.raises(InputError, match="trials"):
        plot.marginals(result)


@pytest.mark.slow
def test_the_functions_draw_their_records(runs):
    ax = Figure().subplots()
    assert plot.marginals(runs["finite"], "theta", ax=ax) is ax
    for made in (
        plot.pairs(runs["targeted"], ["a$b$c", "double"]),
        plot.places(runs["targeted"], ["a$b$c", "double"], pairs=True),
        plot.places(runs["targeted"], "double"),
        plot.error(Noted(runs["smc"])),
        plot.tolerance(runs["smc"]),
        plot.influence(runs["targeted"], "double"),
        plot.rounds(runs["targeted"]),
    ):
        assert made._repr_png_().startswith(b"\x89PNG")


def test_text_is_shown_as_it_stands():
    figure = Figure()
    names = ["a$b$c", "cost $", "_x", r"\$1", "R0 > 3 <b>", "θ²"]
    for name in names:
        text = figure.text(0, 0, plain(name))
        shown, is_math = text._preprocess_math(text.get_text())
        assert not is_math
        assert shown.strip() == name


def test_methods_keep_their_colours():
    known = ["targeted", "rejection", "smc", "smc-last", "smc-ess", "posterior", "max-ess", "stratified", "adaptive"]
    known += ["default", "pmc", "adaptive-weights", "smc-replicas", "mcmc", "synthetic-likelihood", "density", "bolfi"]
    known += ["synthetic-likelihood-mcmc", "pseudo-marginal", "until-match", "multilevel", "multifidelity", "bolfi-eiv"]
    looks = [tuple(method_look(name).values()) for name in known]
    assert len(set(looks)) == len(looks)
    for others in (["mine"], ["mine", "targeted", "yours"]):
        assert method_look("targeted", others) == method_look("targeted")
    mine, yours = (method_look(name, ["mine", "targeted", "yours"]) for name in ("mine", "yours"))
    assert len({mine["color"], yours["color"], method_look("targeted")["color"]}) == 3
    assert method_look("anything") == method_look("anything")
    many = [f"m{i}" for i in range(20)]
    assert len({tuple(method_look(name, many).values()) for name in many}) == 20


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_seen_on_white_and_on_black():
    """Contrast at least 2 to white and 3 to a dark page, for marks (WCAG's formula)."""
    dark = luminance("#0d1117")
    for colour in PALETTE:
        assert 1.05 / (luminance(colour) + 0.05) > 2
        assert (luminance(colour) + 0.05) / (dark + 0.05) > 3
    assert {RC["text.color"], RC["axes.edgecolor"], RC["xtick.color"]} == {INK}
    assert (RC["grid.color"], RC["figure.facecolor"]) == (GRID, PAPER)
    assert not set(PALETTE) & {INK, GRID}
