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
    with pytest.raises(fbar.InputError, match=r"is masked at \d+ of \d+ positions"):
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
    with pytest.raises(fbar.InputError, match="it returns complex128 values"):  # its imaginary part was dropped
        infer(pair, [2.0, 2.0], summary=complex_summary)
    with pytest.raises(fbar.InputError, match="simulated summaries are complex128"):
        infer(lambda t, rng: noisy(t, rng) + 1j)
    with pytest.raises(fbar.InputError, match="simulated summaries are complex128"):
        infer(lambda t, rng: noisy(t, rng) + 1j, "label", tolerance=0.0)
    with pytest.raises(fbar.InputError, match="distances must be numbers"):
        infer(noisy, distance=lambda x, o: np.abs(x - o).astype(str))
    with pytest.raises(fbar.InputError, match="is complex; take its real part"):
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
        (lambda: fbar.CostBudget(np.inf), "must be finite"),
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


# ---------------------------------------------------------------- priors that contradict themselves


class Own:
    """A marginal of the user's own on [0, 1]: uniform draws, and whatever density."""

    discrete = False
    support = (0.0, 1.0)

    def __init__(self, logpdf):
        self.logpdf = logpdf

    def ppf(self, u):
        return u

    def cdf(self, x):
        return np.clip(x, 0.0, 1.0)


class Bell(stats.rv_continuous):
    def _pdf(self, x):
        return np.exp(-x * x / 2)  # √(2π) too large


class Cube(stats.rv_continuous):
    def _pdf(self, x):
        return np.ones_like(x)

    def _cdf(self, x):
        return x**3


def test_a_density_that_is_not_that_of_the_draws_is_refused():
    """Draws come by one of the two and weights by the other: with this transform ABC-SMC gave 0.71 for 0.5."""
    fbar.Prior(a=Own(lambda x: np.zeros(len(x))))
    for wrong in (lambda x: 3 * x, lambda x: np.full(len(x), np.log(2.0))):
        with pytest.raises(fbar.InputError, match="its density is not that of its ppf and cdf"):
            fbar.Prior(a=Own(wrong))
        with pytest.raises(fbar.InputError, match="logpdf is not the density of the transform"):
            fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=lambda t, wrong=wrong: wrong(t["a"]))
    with pytest.raises(fbar.InputError, match="its distribution function exceeds 1"):
        fbar.Prior(a=Bell(a=-5, b=5)())
    with pytest.raises(fbar.InputError, match="its density is not that of its ppf and cdf"):
        fbar.Prior(a=Cube(a=0, b=1)())


def test_transforms_with_their_own_density_are_taken():
    def triangle(u):
        return {"x": u[:, 0] ** 2, "y": u[:, 0] * u[:, 1]}

    fbar.UnitTransform(triangle, ["x", "y"], logpdf=lambda t: -np.log(2 * t["x"]))
    fbar.UnitTransform(lambda u: {"k": np.floor(10 * u[:, 0])}, ["k"], logpdf=lambda t: np.zeros(t.rows))
    kinked = fbar.UnitTransform(
        lambda u: {"a": np.where(u[:, 0] < 0.5, u[:, 0], 4 * u[:, 0] - 1.5)},
        ["a"],
        logpdf=lambda t: np.where(t["a"] < 0.5, 0.0, -np.log(4.0)),
    )
    assert kinked.names == ("a",)
    with pytest.raises(fbar.InputError, match="logpdf is not the density of the transform"):
        fbar.UnitTransform(triangle, ["x", "y"], logpdf=lambda t: np.zeros(t.rows))


def test_what_a_result_shows_cannot_be_changed():
    vector = fbar.expectation(lambda t: np.stack([t["a"], t["a"] ** 2], axis=1), vector=True, name="powers")
    result = infer(noisy, targets=[fbar.mean("a"), vector])
    table = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2]), [0.3, 0.1])
    for array in (
        result["powers"].value,
        result["powers"].standard_error,
        result.estimates.covariance,
        table.p_star,
        table.prior.probabilities,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.5


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
