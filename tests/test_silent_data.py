"""Data that are missing, short, shared or named like something else are not taken for what they are not."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.cli import app

PRIOR = fbar.Prior(a=stats.uniform(0, 4))
Masked = np.ma.MaskedArray


def noisy(theta, rng):
    return theta["a"] + rng.normal(0, 0.3, theta.rows)


def pair(theta, rng):
    return theta["a"][:, None] + rng.normal(0, 0.3, (theta.rows, 2))


def infer(simulate, observed=2.0, targets=None, tolerance=0.5, **options):
    problem = fbar.Problem(PRIOR, simulate, observed, **options)
    method = fbar.Rejection(tolerance=tolerance)
    return fbar.infer(problem, targets or fbar.mean("a"), method=method, budget=1000, block_size=50, seed=1)


# ---------------------------------------------------------------- masks


def hidden(values, where):
    return Masked(values, where)


@pytest.mark.parametrize(
    "call",
    [
        lambda: infer(pair, Masked([2.0, -999.0], [False, True])),
        lambda: infer(pair, [np.ma.masked, 2.0]),
        lambda: fbar.Problem(PRIOR, pair, [2.0, 2.0]).with_observed(Masked([2.0, -999.0], [False, True])),
        lambda: infer(pair, [2.0, 2.0], summary=lambda x: hidden(x, x > 3)),
        lambda: infer(noisy, distance=lambda x, o: hidden(np.abs(x - o), x > 2)),
        lambda: infer(noisy, accept=lambda x, o: hidden(np.abs(x - o) < 1, x > 2), tolerance=0.0),
        lambda: infer(noisy, derived={"d": lambda t: hidden(t["a"], t["a"] > 2)}, targets=fbar.mean("d")),
        lambda: infer(noisy, targets=fbar.expectation(lambda t: hidden(t["a"], t["a"] > 2))),
        lambda: infer(noisy, targets=fbar.probability(lambda t: hidden(t["a"] > 1, t["a"] > 2))),
        lambda: fbar.Finite(a=Masked([1.0, -999.0], [False, True])),
        lambda: fbar.Finite(a=[1.0, 2.0], probabilities=Masked([0.5, 0.5], [False, True])),
        lambda: fbar.Categorical(Masked([1.0, 2.0], [False, True])),
    ],
)
def test_masked_values_are_refused_where_they_would_be_taken_for_data(call):
    with pytest.raises(fbar.InputError, match=r"is masked in \d+ of \d+ places"):
        call()


def test_a_mask_that_hides_nothing_does_no_harm():
    plain = infer(pair, [2.0, 2.0])
    assert infer(pair, Masked([2.0, 2.0], [False, False]))["mean:a"].value == plain["mean:a"].value
    assert infer(lambda t, rng: Masked(pair(t, rng)), [2.0, 2.0])["mean:a"].value == plain["mean:a"].value


@pytest.mark.parametrize(
    "simulate",
    [
        lambda t, rng: Masked(np.full(t.rows, 2.0), t["a"] > 3),
        lambda t, rng: Masked(np.full(t.rows, 2), t["a"] > 3),
        lambda t, rng: {"x": Masked(np.full(t.rows, 2.0), t["a"] > 3)},
        lambda t, rng: [Masked(2.0, a > 3) for a in t["a"]],
        fbar.each(lambda t, rng: np.ma.masked if t["a"] > 3 else 2.0),
        fbar.each(lambda t, rng: {"x": np.ma.masked if t["a"] > 3 else 2.0}),
    ],
)
def test_a_masked_output_is_a_failed_simulation(simulate):
    """What lies under the masks is the data themselves."""
    result = infer(simulate)
    assert result.posterior.points["a"].max() <= 3
    assert result.run.seen.failures == 1000 - result.accepted > 100


def test_a_masked_record_is_not_a_number():
    def simulate(theta, rng):
        return {"x": noisy(theta, rng), "peak": Masked(theta["a"], theta["a"] > 2)}

    for target in (fbar.mean("peak"), fbar.quantile("peak", 0.5), fbar.probability("peak > 1")):
        with pytest.raises(fbar.InputError, match=r"not defined at a=.*peak=nan"):
            infer(simulate, targets=target, records=["peak"])


# ---------------------------------------------------------------- kinds of numbers


def complex_summary(x):
    return np.fft.fft(x, axis=1)


def test_numbers_that_cannot_be_compared_are_refused():
    for observed in ([2.0, np.nan], [2.0, None], [2j, 1.0], np.array(["2020", "2021"], "datetime64[Y]")):
        with pytest.raises(fbar.InputError, match=r"observed"):
            infer(pair, observed)
    with pytest.raises(fbar.InputError, match="it gives complex128 values"):  # its imaginary part was dropped
        infer(pair, [2.0, 2.0], summary=complex_summary)
    with pytest.raises(fbar.InputError, match="simulated summaries are complex128"):
        infer(lambda t, rng: noisy(t, rng) + 1j)
    with pytest.raises(fbar.InputError, match="simulated summaries are complex128"):
        infer(lambda t, rng: noisy(t, rng) + 1j, "label", tolerance=0.0)
    with pytest.raises(fbar.InputError, match="distances must be numbers"):
        infer(noisy, distance=lambda x, o: np.abs(x - o).astype(str))
    with pytest.raises(fbar.InputError, match="holds complex ones"):
        infer(noisy, derived={"d": lambda t: t["a"] + 0j}, targets=fbar.mean("d"))


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int8, np.float16])
def test_short_and_unsigned_numbers_do_not_wrap_around_in_functions_of_the_user(kind):
    """Of unsigned numbers 2 − 3 is 255: a distance would see those above the data alone. Half floats end at 65,504."""
    scale = 100 if kind is np.float16 else 1

    def simulate(as_kind):
        return lambda t, rng: (scale * np.rint(10 * noisy(t, rng)).clip(0, 60)).astype(kind).astype(as_kind)

    def squared(x, observed):
        return np.sqrt((x - observed) ** 2)

    def steps(x):
        return np.stack([x - 30, x * 3], axis=1)

    def far(x, observed):
        return np.abs(x - observed).max(axis=1)

    for options in ({"distance": squared}, {"summary": steps}, {"summary": steps, "distance": far}):
        found = infer(simulate(kind), kind(20 * scale), tolerance=10 * scale, **options)
        wanted = infer(simulate(np.float64), 20.0 * scale, tolerance=10 * scale, **options)
        assert found.accepted == wanted.accepted > 50
        assert found["mean:a"].value == wanted["mean:a"].value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fbar.Importance(weighting="inf%"), "unknown weighting 'inf%'"),
        (lambda: fbar.Importance(pseudo_count=-1), "pseudo_count must be a number of at least 0"),
        (lambda: fbar.Importance(rounds=0), "rounds must be a positive integer"),
        (lambda: fbar.Importance(kernel="x"), "unknown acceptance kernel"),
        (lambda: fbar.Rejection(tolerance=-1), "tolerance must be a number of at least 0"),
        (lambda: fbar.Rejection(rounds=2.5), "rounds must be a positive integer"),
        (lambda: fbar.StandardError("mean:a", np.inf), "must be finite"),
        (lambda: fbar.RelativeError("mean:a", np.inf), "must be finite"),
        (lambda: fbar.Spent(np.inf), "must be finite"),
        (lambda: infer(noisy, targets=fbar.density_at("a", 1j)), "x must be a number"),
        (lambda: fbar.density_at("a", np.nan), "x must be a number"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(make, message):
    with pytest.raises(fbar.InputError, match=message):
        make()


def test_a_precision_of_infinitely_many_percent_is_none():
    problem = fbar.Problem(PRIOR, noisy, 2.0)
    for wanted in ("inf%", "nan%", "-1%", "1e999%"):
        with pytest.raises(fbar.InputError, match="wanted standard error must be"):
            fbar.infer(problem, fbar.mean("a"), tolerance=0.5, precision={"a": wanted})


# ---------------------------------------------------------------- rows that are mixed


@pytest.mark.parametrize(
    "options",
    [
        {"targets": fbar.expectation(lambda t: t["a"] - t["a"].mean())},
        {"targets": fbar.expectation(lambda t: np.cumsum(t["a"]))},
        {"targets": fbar.probability(lambda t: t["a"] > np.median(t["a"]))},
        {"targets": fbar.mean("d"), "derived": {"d": lambda t: t["a"].max()}},
        {"targets": fbar.mean("d"), "derived": {"d": lambda t: t["a"] + np.random.default_rng().normal(size=t.rows)}},
        {"summary": lambda x: x - x.mean(axis=0)},
        {"distance": lambda x, o: np.abs(x - o) / x.std()},
        {"accept": lambda x, o: np.abs(x - o) <= np.sort(np.abs(x - o))[len(x) // 2], "tolerance": 0.0},
    ],
)
def test_functions_must_treat_every_row_by_itself(options):
    """Otherwise the answer depends on how many simulations happen to be in a batch."""
    with pytest.raises(fbar.InputError, match="must treat every row by itself"):
        infer(noisy, **options)


def test_a_later_question_is_looked_at_too():
    result = infer(noisy)
    with pytest.raises(fbar.InputError, match="must treat every row by itself"):
        result.expect(fbar.expectation(lambda t: t["a"] / t["a"].sum()))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fbar.Problem(PRIOR, noisy, 2.0, records=["r", "r"]), "records names an output twice"),
        (lambda: fbar.Problem(PRIOR, noisy, 2.0, records=["a"]), "'a' has the name of a parameter"),
        (
            lambda: fbar.Problem(PRIOR, noisy, 2.0, records=["r"], derived={"r": lambda t: t["a"]}),
            "'r' has the name of a parameter",
        ),
        (lambda: fbar.Prior({"a": stats.norm()}, a=stats.uniform()), "'a' is given twice"),
        (lambda: fbar.Finite({"a": [1, 2]}, a=[3, 4]), "'a' is given twice"),
    ],
)
def test_a_name_means_one_thing(make, message):
    with pytest.raises(fbar.InputError, match=message):
        make()


def test_exported_columns_of_parameters_keep_their_values(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    prior = fbar.Prior(weight=stats.uniform(2, 1), round=stats.uniform(2, 1), failure=stats.uniform(2, 1))
    problem = fbar.Problem(prior, lambda t, rng: t["weight"], 2.5)
    result = fbar.infer(problem, fbar.mean("weight"), method="rejection", tolerance=0.2, budget=500, seed=1, run="r")
    frame = result.to_pandas()
    assert frame["weight"].between(2, 3).all()
    assert frame["weight_of_point"].sum() == pytest.approx(1)
    app(["export", "r", "--all", "--out", "all.csv"], exit_on_error=False, result_action="return_value")
    written = pandas.read_csv("all.csv")
    for name in ("weight", "round", "failure"):
        assert written[name].between(2, 3).all()
    assert set(written["round_of_simulation"]) == set(range(16))
    assert "failure_of_simulation" in written
