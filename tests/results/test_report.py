"""Reports: they say what the run found, whatever the labels; new simulations are from the posterior predictive."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app
from fbar.diagnostics.faults import parts_of
from fbar.diagnostics.predictive import predict, resampled
from fbar.errors import FbarError, InputError
from fbar.results.again import again
from fbar.results.markup import element

SECTIONS = [
    "answer",
    "model",
    "posterior",
    "predictive",
    "precision",
    "places",
    "failures",
    "tolerance",
    "influence",
    "rounds",
    "settings",
]
VOID = {"wbr", "meta", "link", "br", "hr", "img"}


class Page(HTMLParser):
    """A page's tags, ids and text; every tag that is opened must be closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags, self.links, self.text = [], [], [], [], []
        self.attributes, self.said = set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.attributes |= set(given)
        self.said += [given["aria-label"]] if "aria-label" in given else []
        self.ids += [given["id"]] if "id" in given else []
        self.links += [value for key, value in attributes if key in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


def read(result, tmp_path, **options):
    path = result.report(tmp_path / "report.html", **options)
    text = path.read_text(encoding="utf-8")
    found = Page(text)
    assert not {"script", "iframe", "object", "img"} & set(found.tags)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert len(set(found.ids)) == len(found.ids)
    return found


def normal(theta, rng):
    return theta["mu"] + rng.standard_normal(theta.rows)


NORMAL = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), normal, 1.0, derived={"double": lambda t: 2 * t["mu"]})
"""The posterior of mu is N(1/2, 1/2), that of new data N(1/2, 3/2)."""

TARGETS = [fbar.mean("mu"), fbar.probability("double > 1")]


def flaky(theta, rng):
    """Fails above mu = 0, half of the time."""
    x = theta["mu"] + rng.standard_normal(theta.rows)
    return np.where((theta["mu"] > 0) & (rng.random(theta.rows) < 0.5), np.nan, x)


def poisson(theta, rng):
    return rng.poisson(theta["rate"])


CASES = {
    "targeted": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, budget=6000, seed=1),
    "rejection": lambda: fbar.infer(NORMAL, TARGETS, method="rejection", tolerance=0.3, budget=3000, seed=1),
    "smc": lambda: fbar.infer(NORMAL, TARGETS, method="smc", tolerance=0.3, seed=1),
    "precision": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, precision={"mu": 0.05}, seed=1),
    "missed": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, precision={"mu": 1e-4}, budget=3000, seed=1),
    "finite": lambda: fbar.infer(
        fbar.Problem(fbar.Finite(rate=[1, 2, 3]), poisson, 2),
        [fbar.mean("rate"), fbar.probabilities({"rate": [1, 2, 3]})],
        budget=900,
        seed=1,
    ),
    "tabulated": lambda: fbar.infer(
        fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2]), fbar.mean("theta"), budget=900, seed=1
    ),
    "models": lambda: fbar.infer(
        fbar.Problem.models(
            {
                "poisson": fbar.Model(poisson, fbar.Prior(rate=stats.expon())),
                "geometric": fbar.Model(
                    lambda t, rng: rng.geometric(t["p"]) - 1, fbar.Prior(p=stats.uniform(0.1, 0.8))
                ),
            },
            observed=2,
        ),
        [fbar.model_probability("poisson"), fbar.mean("rate")],
        budget=4000,
        tolerance=0,
        seed=1,
    ),
    "labels": lambda: fbar.infer(
        fbar.Problem(
            fbar.Prior(p=stats.uniform(0, 1)), lambda t, rng: np.where(rng.random(t.rows) < t["p"], "yes", "no"), "yes"
        ),
        fbar.mean("p"),
        method="rejection",
        budget=800,
        seed=1,
    ),
    "flaky": lambda: fbar.infer(
        fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), flaky, 1.0), fbar.mean("mu"), tolerance=0.3, budget=4000, seed=1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_run_has_a_whole_report(case, tmp_path):
    result = CASES[case]()
    found = read(result, tmp_path)
    assert [name for name in found.ids if name in SECTIONS] == SECTIONS
    for estimate in result.estimates:
        assert estimate.name in found.words
        if not np.ndim(estimate.value):
            assert str(estimate).removesuffix(" (unreliable)") in found.words
    assert f"{result.simulations:,} simulations" in found.words
    assert str(result.seed) in found.words
    for text in result.warnings:
        assert text[1:] in found.words


def test_vectors_have_a_row_for_each_component(tmp_path):
    result = CASES["finite"]()
    words = read(result, tmp_path).words
    for label, value, error in zip(
        ("1", "2", "3"), result["probabilities"].value, result["probabilities"].standard_error, strict=True
    ):
        assert fbar.estimation.estimate.shorthand(value, error) in words, label


@pytest.mark.slow
def test_a_run_that_missed_its_precision_says_what_it_takes(tmp_path):
    assert "mean:mu needs about" in read(CASES["missed"](), tmp_path).words


@pytest.mark.slow
def test_labels_are_text(tmp_path):
    """Names of parameters, targets, titles and failures come from users, and must not become markup."""
    evil = "<script>alert(1)</script>"

    def simulate(theta, rng):
        if rng.random() < 0.1:
            raise ValueError(f"{evil} & \x1b[31m co")
        return theta["a<b&$c$"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(**{"a<b&$c$": stats.norm(0, 1), "plain": stats.norm(0, 1)}), simulate, 0.5)
    target = fbar.expectation(lambda t: t["a<b&$c$"] ** 2, name=evil)
    result = fbar.infer(problem, [target, fbar.mean("a<b&$c$")], tolerance=0.5, budget=3000, block_size=20, seed=1)
    found = read(result, tmp_path, title=f"{evil}")
    assert found.words.count(evil) >= 3
    assert "a<b&$c$" in found.words
    assert "\x1b" not in found.words


def test_failures_are_shown_by_kind_and_place(tmp_path):
    result = CASES["flaky"]()
    found = read(result, tmp_path)
    assert f"{result.run.seen.failures:,} of {result.run.simulations:,} simulations failed" in found.words
    places = [place for place in result.failed if place.parameter == "mu"]
    assert sum(place.simulations for place in places) == result.run.simulations
    assert sum(place.failed for place in places) == result.run.seen.failures
    low, high = places[0], places[-1]
    assert low.failed == 0
    # Above 0 every second one fails: |z| < 5
    assert abs(high.failed - high.simulations / 2) < 5 * np.sqrt(high.simulations) / 2


def test_new_simulations_are_from_the_posterior_predictive():
    """y ~ N(1/2, 3/2) at a small tolerance: mean and variance within five standard errors (one alarm in 10⁶).

    The accepted simulations themselves would have the variance ε²/3, the prior predictive the variance 2.
    """
    result = fbar.infer(NORMAL, fbar.mean("mu"), tolerance=0.1, budget=40_000, seed=3)
    n = 20_000
    y = predict(result.run, result.posterior, n).numbers[:, 0]
    assert y.size == n
    own = result["mean:mu"].standard_error
    assert abs(y.mean() - 0.5) < 5 * (np.sqrt(1.5 / n) + own) + 0.005
    assert abs(y.var() - 1.5) < 5 * 1.5 * (np.sqrt(2 / n) + np.sqrt(2 / result.posterior.ess) / 3) + 0.01


def test_new_simulations_are_the_same_again_and_not_the_runs_own():
    result = CASES["rejection"]()
    first, second = (predict(result.run, result.posterior, 50).numbers for _ in range(2))
    np.testing.assert_array_equal(first, second)
    shorter = predict(result.run, result.posterior, 0)
    assert not len(shorter.summaries)
    assert "requested" in shorter.missing


def test_new_simulations_stop_when_time_is_up(monkeypatch):
    monkeypatch.setattr("fbar.diagnostics.predictive.PATIENCE", 0.0)
    result = CASES["rejection"]()
    found = predict(result.run, result.posterior)
    assert len(found.summaries) == 20
    assert "20 of 200" in found.missing
    assert len(predict(result.run, result.posterior, 60).summaries) == 60  # asked for: all are made


def test_a_slow_simulator_is_not_run_unasked(monkeypatch):
    @fbar.each
    def slow(theta, rng):
        return rng.poisson(theta["rate"])

    problem = fbar.Problem(fbar.Prior(rate=stats.expon()), slow, 1)
    result = fbar.infer(problem, fbar.mean("rate"), tolerance=0, method="rejection", budget=200, seed=1)
    monkeypatch.setattr("fbar.diagnostics.predictive.PATIENCE", 1e-9)
    found = predict(result.run, result.posterior)
    assert not len(found.summaries)
    assert "--predictive" in found.missing
    assert len(predict(result.run, result.posterior, 5).summaries) == 5


def test_failed_new_simulations_are_counted():
    result = CASES["flaky"]()
    found = predict(result.run, result.posterior, 400)
    assert found.failed > 0
    assert found.failed + len(found.summaries) == 400


def command(capsys, *words):
    """What a command prints."""
    app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_report_says_how_to_run_it_again(tmp_path, monkeypatch, capsys):
    """The command of the report gives the numbers of the report."""
    monkeypatch.chdir(tmp_path)

    def call(line):
        return command(capsys, *shlex.split(line)[1:])

    call("fbar init model.py")
    for options in ("--budget 1500", "--tolerance 1 --method smc", "--tolerance 0.8 --precision rate=2% spread:0.9=1"):
        options = options.replace("spread:0.9=1", "'probability:rate > 10=0.05'")
        first = call(f"fbar infer model.py {options} --seed 7 --run my-run")
        call("fbar report my-run --predictive 0")
        words = (tmp_path / "my-run" / "report.html").read_text(encoding="utf-8")
        (pre,) = re.findall(r'Run it again</h3>\s*<pre class="wrapped">(.*?)</pre>', words, flags=re.DOTALL)
        resume, again = Page(pre).text[0].splitlines()[:2]
        assert call(again.partition("#")[0]) == first
        assert call(resume.partition("#")[0]) == first
        for file in sorted((tmp_path / "my-run").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.slow
def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    call = partial(command, capsys)
    call("init", "model.py")
    call("infer", "model.py", "--budget", "3000", "--seed", "1", "--run", "my-run")
    assert call("report", "my-run").strip() == "wrote my-run/report.html"
    assert call("report", "my-run", "--out", "deep/there.html", "--title", "Rates").strip() == "wrote deep/there.html"
    text = (tmp_path / "deep" / "there.html").read_text(encoding="utf-8")
    assert "<title>Rates</title>" in text
    assert '<p class="subtitle">A model for fbar: fill in the simulator, the prior and the data.</p>' in text
    with pytest.raises(InputError, match="holds no run"):
        call("report", "nothing")
    with pytest.raises(InputError, match="predictive"):
        call("report", "my-run", "--predictive", "-3")
    (tmp_path / "file").write_text("")
    with pytest.raises(FbarError, match="cannot write the report"):
        call("report", "my-run", "--out", "file/report.html")


@pytest.mark.slow
def test_a_study_has_a_report(tmp_path):
    study = fbar.Study(["ramp", "two-moons"], ["rejection", "smc"], [300, 1000], 4, ["mse", "ess"], seed=1)
    result = study.run(workers=1, progress=False)
    text = result.report(tmp_path / "study.html", title="a < b").read_text(encoding="utf-8")
    found = Page(text)
    for name in ("ranking", "curves", "versus", "scores", "failures", "settings"):
        assert name in found.ids
    for standing in result.ranking().standings:
        assert fbar.estimation.estimate.shorthand(standing.mean, standing.error) in found.words
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "a < b" in found.words


def models(observed, **priors):
    def simulate(theta, rng):
        return np.nan_to_num(theta["mu"]) + rng.standard_normal(theta.rows)

    return fbar.Problem(fbar.ModelChoice(priors), simulate, observed)


def test_a_model_choice_with_a_single_number_has_no_pairs(tmp_path):
    problem = models(2.0, null=None, other=fbar.Prior(mu=stats.norm(0, 3)))
    result = fbar.infer(problem, fbar.model_probability("other"), tolerance=0.5, budget=2000, seed=1)
    read(result, tmp_path, predictive=0)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'aria-label="posterior of mu"' in text
    assert "pairs of parameters" not in text


def test_a_model_that_was_never_accepted_is_said_to_be(tmp_path):
    problem = models(0.0, null=None, other=fbar.Prior(mu=stats.norm(1000, 1)))
    target = fbar.model_probability("other")
    result = fbar.infer(problem, target, method="rejection", tolerance=0.1, budget=1000, seed=1)
    assert "None of the accepted simulations has mu." in read(result, tmp_path).words


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [np.inf, np.nan])
def test_a_derived_parameter_need_not_be_finite(nothing, tmp_path):
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), normal, 1.0, derived={"odd": lambda t: np.where(t["mu"] > 0, t["mu"], nothing)}
    )
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.3, budget=2000, seed=1)
    read(result, tmp_path)
    (odd,) = fbar.plot.Marginals.of(result, "odd").parameters
    mu, weights = result.posterior.points["mu"], result.posterior.weights
    assert odd.finite == pytest.approx(weights[mu > 0].sum() / weights.sum())
    assert odd.mean == pytest.approx(np.average(mu[mu > 0], weights=weights[mu > 0]))
    assert "given that it is finite" in odd.caption
    assert np.trapezoid(odd.posterior, odd.x) == pytest.approx(1, abs=0.02)


def test_labels_may_be_several(tmp_path):
    def simulate(theta, rng):
        return np.where(rng.random((theta.rows, 2)) < theta["p"][:, None], "yes", "no")

    problem = fbar.Problem(fbar.Prior(p=stats.uniform(0, 1)), simulate, np.array(["yes", "no"]))
    result = fbar.infer(problem, fbar.mean("p"), method="rejection", budget=800, seed=1)
    found = predict(result.run, result.posterior, 200)
    same = np.mean([list(row) == ["yes", "no"] for row in found.summaries])
    assert f"{100 * same:.3g}% of 200 new simulations equal the data" in read(result, tmp_path).words


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 40])
def test_a_simulator_that_cannot_go_on_leaves_the_rest_of_the_report(after, tmp_path):
    calls = []

    def simulate(theta, rng):
        if theta.rows == 20:
            calls.append(theta.rows)
            if sum(calls) > after:
                return np.zeros((7, 3))
        return theta["mu"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0)
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.3, budget=1000, seed=1)
    words = read(result, tmp_path).words
    assert f"New simulations ended after {after} of 200: the simulator was asked for 20 simulations" in words
    assert (f"{after} new simulations at parameters drawn from" in words) == (after > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n" * 300, "人口", "-->", '"quoted"', "😀$", "a\\nb", "<b>"])
def test_any_name_can_be_shown(name, tmp_path):
    """Also in the title, where there is no warning of it: warnings are errors here."""
    problem = fbar.Problem(
        fbar.Prior({name: stats.norm(0, 1), "b": stats.norm(0, 1)}),
        lambda t, rng: t[name] + rng.standard_normal(t.rows),
        0.5,
    )
    result = fbar.infer(problem, fbar.mean(name), method="rejection", tolerance=0.3, budget=1000, seed=1)
    read(result, tmp_path, title=name, predictive=0)


@pytest.mark.parametrize("name", ["x\ny", "\x1b[2J", "a\ud800b", "\u202eabc", "", "n" * 2000])
def test_a_name_that_cannot_be_printed_is_refused(name):
    with pytest.raises(fbar.InputError, match="must have 1 to 1000 printable characters"):
        fbar.Prior({name: stats.norm(0, 1)})


def test_small_numbers_keep_their_interval(tmp_path):
    problem = fbar.Problem(
        fbar.Prior(rate=stats.norm(0, 1e-15)), lambda t, rng: 1e15 * t["rate"] + rng.standard_normal(t.rows), 1.0
    )
    result = fbar.infer(problem, fbar.mean("rate"), method="rejection", tolerance=0.3, budget=2000, seed=1)
    low, high = result["rate"].interval()
    assert f"{low:.6g} to {high:.6g}" in read(result, tmp_path, predictive=0).words
    (found,) = fbar.plot.Marginals.of(result).parameters
    assert len(found.caption) < 60


@pytest.mark.slow
@pytest.mark.parametrize("how", [".at(0.1)", ".extrapolated(ratio=2)", ".adjusted()"])
def test_a_result_that_is_not_the_runs_own_says_so(how, tmp_path):
    own = CASES["rejection"]()
    result = eval(f"own{how}")
    words = read(result, tmp_path, predictive=0).words
    assert f"Not the run's own estimates: {result.what}, by {how[1:]}." in words
    assert f"# then {how}" in words
    assert "How the errors fell." not in words  # those of the run's history
    assert fbar.plot.Error.of(result).empty
    assert "run's own" not in read(own, tmp_path, predictive=0).words


def test_the_line_of_python_is_python(tmp_path):
    """Evaluated, it gives the numbers of the report; also with explicit tolerances and rules of several parts."""
    problem, targets = NORMAL, TARGETS  # the names in the line
    rule = fbar.StandardError("mean:mu", 0.1) | fbar.AcceptedCount(200)
    for given in (
        {"method": fbar.SMC([4, 2, 1], accepted=100), "budget": 2000},
        {"tolerance": 0.5, "budget": 4000, "stop": rule},
        {"tolerance": 0.5, "budget": 4000, "precision": {"mu": "20%", "probability:double > 1": 0.05}},
        {"tolerance": 0.5, "budget": 1500, "precision": {"mu": 1e-5}},
        {"method": "rejection", "tolerance": 0.5, "budget": 2000, "block_size": 100},
    ):
        result = fbar.infer(problem, targets, **given, seed=3)
        assert f"budget={given['budget']}" in again(result)
        found = eval(again(result), {"fbar": fbar, "problem": problem, "targets": targets})
        assert [e.value for e in found.estimates] == [e.value for e in result.estimates], given
        assert again(found) == again(result)


def test_new_simulations_are_drawn_by_the_weights():
    """Draws from N(2, 1) in place of the prior: without their weights new data would have the mean 3/2, not 1/2.

    Five standard errors: one alarm in 10⁶.
    """
    method = fbar.Importance(fbar.Prior(mu=stats.norm(2, 1)), tolerance=0.1)
    result = fbar.infer(NORMAL, fbar.mean("mu"), method=method, budget=60_000, seed=1)
    n = 20_000
    y = predict(result.run, result.posterior, n).numbers[:, 0]
    assert abs(y.mean() - 0.5) < 5 * (np.sqrt(1.5 / n) + result["mu"].standard_error) + 0.005


def test_rows_are_drawn_as_often_as_they_weigh():
    """In equal steps: every row n w times, up to one."""
    weights = np.array([0.0, 0.7, 0.2, 0.0, 0.1, 0.0])
    rows = resampled(3 * weights, 1001, np.random.default_rng(1))
    assert (np.abs(np.bincount(rows, minlength=6) - 1001 * weights) <= 1).all()
    assert not {0, 3, 5} & set(rows.tolist())
    assert (np.diff(rows) < 0).any()


def test_names_do_not_become_attributes(tmp_path):
    evil = '" onload="alert(1)'
    problem = fbar.Problem(
        fbar.Prior({evil: stats.norm(0, 1)}), lambda t, rng: t[evil] + rng.standard_normal(t.rows), 0.5
    )
    result = fbar.infer(problem, fbar.mean(evil), method="rejection", tolerance=0.3, budget=1000, seed=1)
    found = read(result, tmp_path, title=evil, predictive=0)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert f"posterior of {evil}" in found.said
    assert element("a", href=evil) == '<a href="&quot; onload=&quot;alert(1)"></a>'


def test_new_simulations_have_random_numbers_of_their_own():
    """No generator of theirs begins where one of the run's began."""
    begun = []

    def simulate(theta, rng):
        begun.append(rng.bit_generator.state["state"]["state"])
        return theta["mu"] + rng.standard_normal(theta.rows)

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0)
    method = fbar.Rejection(tolerance=0.3)
    result = fbar.infer(problem, fbar.mean("mu"), method=method, budget=2000, block_size=20, seed=1)
    own = set(map(str, begun))
    begun.clear()
    predict(result.run, result.posterior, 200)
    assert len(begun) == 10
    assert not own & set(map(str, begun))


def test_the_data_outside_are_counted(tmp_path):
    """Of three numbers the second is 20 standard deviations away from anything that the model gives, the first one."""

    def simulate(theta, rng):
        return np.array([1.0, 0.0, 1.0]) * theta["mu"][:, None] + rng.standard_normal((theta.rows, 3))

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, np.array([1.8, 20.0, 0.0]))
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=18.5, budget=2000, seed=1)
    words = read(result, tmp_path).words
    assert "1 of 3 numbers lies outside the central 95% of the new simulations" in words
    assert "the furthest out is x[2], with a two-sided tail probability below 0.01." in words


def test_what_is_missing_without_matplotlib_is_said():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import fbar\n"
        "problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.2])\n"
        "try: fbar.infer(problem, fbar.mean('theta'), budget=100, seed=1).report('never.html')\n"
        "except fbar.MissingExtra as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "matplotlib is not installed; install it with" in told.stdout


@pytest.mark.parametrize(
    "column",
    [
        np.array([None, "a", "b", 1] * 10, dtype=object),
        np.where(np.arange(100) < 70, 0.0, np.arange(100)),
        np.concatenate([np.arange(50.0), [np.inf, np.inf, -np.inf]]),
        np.array([f"c{i}" for i in range(30)] * 2),
        np.arange(1000) % 40,
    ],
    ids=["none", "ties", "infinite", "many labels", "integers"],
)
def test_places_of_failures_are_parts_of_all_that_was_simulated(column):
    parts = parts_of(column)
    assert (np.sum([rows for _, rows in parts], axis=0) == 1).all()
    assert all(rows.any() for _, rows in parts)
    assert len({words for words, _ in parts}) == len(parts)


@pytest.mark.slow
def test_a_label_of_one_model_among_several(tmp_path):
    def simulate(theta, rng):
        return np.where(rng.random(theta.rows) < 0.1, np.nan, rng.standard_normal(theta.rows))

    models = {
        "one": fbar.Model(simulate, fbar.Prior(kind=fbar.Categorical(["x", None]), mu=stats.norm(0, 1))),
        "two": fbar.Model(simulate, fbar.Prior(z=stats.norm(0, 1))),
    }
    problem = fbar.Problem.models(models, observed=0.0)
    result = fbar.infer(problem, fbar.mean("mu"), method="rejection", tolerance=0.5, budget=2000, seed=1)
    words = read(result, tmp_path, predictive=0).words
    assert "kind = " in words
    assert {place.words for place in result.failed if place.parameter == "kind"} >= {"x", "None"}


@pytest.mark.slow
def test_a_loaded_run_is_reported_for_the_targets_that_are_asked(tmp_path):
    fbar.infer(NORMAL, fbar.mean("mu"), tolerance=0.3, budget=4000, seed=1, run=tmp_path / "run")
    asked = [fbar.quantile("mu", 0.9), fbar.mean("mu"), fbar.mean("double")]
    result = fbar.load(tmp_path / "run", NORMAL, asked)
    found = read(result, tmp_path, predictive=0)
    for target in asked:
        assert sum(cell == target.name for cell in found.text) >= 3  # estimate, what half of its error costs, carriers
        assert f"{target.name} against the tolerance" in found.said
    bands = {band.name: band for band in fbar.plot.Tolerance.of(result).bands}
    limits = result.extrapolated().estimates
    for estimate in result.estimates:
        band = bands[estimate.name]
        assert band.values[band.tolerances == 0.3] == estimate.value
        if band.extrapolated is not None:
            assert band.extrapolated == limits[estimate.name].value
    assert [line.target for line in fbar.plot.Error.of(result).lines] == ["mean:mu"]  # the others were asked later


@pytest.mark.slow
def test_recorded_outputs_have_a_posterior(tmp_path):
    """An output that is asked for like a parameter is shown like one."""

    def simulate(theta, rng):
        x = theta["mu"] + rng.standard_normal(theta.rows)
        return {"x": x, "next": x + rng.standard_normal(theta.rows)}

    problem = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), simulate, 1.0, records=["next"])
    result = fbar.infer(problem, [fbar.mean("mu"), fbar.mean("next")], tolerance=0.3, budget=4000, seed=1)
    found = read(result, tmp_path, predictive=0)
    assert "posterior of next" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert str(result["mean:next"]) in found.words
