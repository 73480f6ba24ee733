"""Nothing that a user writes changes an answer without a word."""

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.question.expressions import Expression

PRIOR = fbar.Prior(a=stats.uniform(1, 2), b=stats.uniform(2, 1))


def near(theta, rng):
    return theta["a"] + theta["b"] + rng.normal(0, 0.5, theta.rows)


def posed(**options):
    return fbar.Problem(PRIOR, near, observed=4.5, **options)


def numbers(result):
    """Everything that makes up a posterior."""
    points = result.posterior.points
    return [points[name].copy() for name in points] + [result.posterior.weights.copy()]


# ---------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log(a, b)", "log takes 1 value; in 'log(a, b)' it is given 2"),
        ("exp(a, b)", "exp takes 1 value"),
        ("abs()", "abs takes 1 value; in 'abs()' it is given 0"),
        ("sqrt(a, b, a)", "sqrt takes 1 value"),
        ("minimum(a, b, a)", "minimum takes 2 values; in 'minimum(a, b, a)' it is given 3"),
        ("maximum(a)", "maximum takes 2 values"),
        ("log(*a)", "not allowed"),
        ("log(a, out=b)", "not allowed"),
        ("a > 1j", "the constant 1j, which is not allowed"),
        ("a > None", "the constant None"),
        ("a == b'x'", "the constant b'x'"),
        ("a == ...", "not allowed"),
        ("a > 1e999", "a number that is too large"),
        ("a > 1" + "0" * 400, "a number that is too large"),
        ("'%2000000000d' % 1 == 'x'", "can only be compared by == and !="),
        ("'x' * 1000000000 == 'x'", "can only be compared by == and !="),
        ("a > 'x'", "can only be compared by == and !="),
        ("-'x' == a", "can only be compared by == and !="),
        ("not " * 300 + "a > 1", "nested more than 200 deep"),
        ("+".join(["a"] * 2000) + " > 1", "nested more than 200 deep"),
        ("(" * 5000 + "a" + ")" * 5000, "10,000 characters"),
        ("(" * 4000 + "a" + ")" * 4000, "cannot read the expression"),
        ("a > 1 \x00", "cannot read the expression"),
        ("a \ud800 1", "cannot read the expression"),
    ],
)
def test_what_an_expression_may_not_hold_is_refused_before_it_is_evaluated(text, message):
    with pytest.raises(fbar.InputError) as caught:
        Expression(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m == 1", "compares labels with numbers"),
        ("a == 'x'", "compares labels with numbers"),
        ("m > m", "can only be compared by == and !="),
        ("m + 1", "can only be compared by == and !="),
        ("m", "it gives labels"),
        ("'x'", "it gives labels"),
        ("a > 1 and b", "'and' joins conditions"),
        ("not a", "'not' joins conditions"),
        ("a or b", "'or' joins conditions"),
        ("z > 1", "complex128"),
        ("when > 1", "datetime64"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, message):
    columns = {
        "a": np.array([1.0, 2.0]),
        "b": np.array([0, 2]),
        "m": np.array(["x", "1"]),
        "z": np.array([1j, 2.0]),
        "when": np.array(["2020", "2021"], dtype="datetime64[Y]"),
    }
    with pytest.raises(fbar.InputError) as caught:
        Expression(text)(columns)
    assert message in str(caught.value)


def test_towers_of_powers_end_at_once():
    """Of Python's whole numbers this one has 10²⁷ digits."""
    three = "(True + True + True)"
    assert np.isinf(Expression(f"{three}**{three}**{three}**{three}")({}))


def test_whole_numbers_do_not_wrap_around_in_an_expression():
    columns = {"n": np.array([200], np.uint8), "k": np.array([100], np.int8), "big": np.array([2**62])}
    assert Expression("k - n")(columns) == -100
    assert Expression("n * n")(columns) == 40_000
    assert Expression("-n")(columns) == -200
    assert Expression("k + k")(columns) == 200
    assert Expression("big * 4")(columns) == 2.0**64
    assert Expression("h * 1000")({"h": np.array([1000.0], np.float16)}) == 1e6


def test_conditions_can_be_counted():
    columns = {"a": np.array([0.0, 2.0, 2.0]), "b": np.array([0.0, 0.0, 2.0])}
    assert Expression("(a > 1) + (b > 1) == 2")(columns).tolist() == [False, False, True]
    assert Expression("(a > 1) + (b > 1)")(columns).tolist() == [0, 1, 2]


def test_a_comparison_with_what_is_not_a_number_is_not_taken_for_false():
    columns = fbar.Points({"a": [-1.0, 1.0, 9.0]})
    for text in ("log(a) > 1", "not log(a) > 1", "log(a) != 3", "log(a) > 1 or a < -5", "(log(a) > 0) + 1 > 1"):
        with pytest.raises(fbar.InputError, match=r"is not defined at a=-1\.0"):
            Expression(text)(columns)
    # One side of "and" and "or" is enough where it decides.
    assert Expression("a > 0 and log(a) > 1")(columns).tolist() == [False, False, True]
    assert Expression("log(a) > 1 and a > 0")(columns).tolist() == [False, False, True]
    assert Expression("a <= 0 or log(a) > 1")(columns).tolist() == [True, False, True]
    assert Expression("not (a <= 0 or log(a) > 1)")(columns).tolist() == [False, True, False]
    assert Expression("(a > 0) & (log(a) > 1)")(columns).tolist() == [False, False, True]


def test_a_derived_parameter_that_is_not_a_number_is_not_counted_as_outside():
    problem = posed(derived={"root": lambda t: np.where(t["a"] < 2, np.nan, t["a"])})
    for target in (fbar.probability("root < 2.5"), fbar.probability_between("root", 0, 2.5)):
        with pytest.raises(fbar.InputError, match="is not defined at a="):
            fbar.infer(problem, target, budget=100, tolerance=1.0)


def test_a_parameter_may_have_the_name_of_a_function():
    assert Expression("log > 1")({"log": np.array([0.0, 2.0])}).tolist() == [False, True]
    assert Expression("log(log) + abs > 1").names == ("abs", "log")


# ---------------------------------------------------------------- functions that write into what they are given


def overwrites(theta):
    theta["b"][:] = 0.0
    return theta["a"]


def test_no_question_can_change_a_posterior():
    result = fbar.infer(posed(), fbar.mean("b"), budget=2000, tolerance=0.5, seed=1)
    before, value = numbers(result), result["mean:b"].value
    for target in (fbar.expectation(overwrites), fbar.probability(lambda t: overwrites(t) > 1)):
        with pytest.raises(fbar.InputError, match="writes into its input, which is shared"):
            result.expect(target)
    for array in (result.posterior.weights, *(result.posterior.points[name] for name in ("a", "b"))):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.0
    assert all(np.array_equal(*pair) for pair in zip(before, numbers(result), strict=True))
    assert result.expect(fbar.mean("b")).value == value


def test_derived_parameters_and_priors_cannot_write_into_parameters():
    with pytest.raises(fbar.InputError, match="writes into its input"):
        fbar.infer(posed(derived={"c": overwrites}), fbar.mean("c"), budget=100, tolerance=1.0)
    with pytest.raises(ValueError, match="read-only"):
        fbar.Prior(b=stats.uniform(), a=lambda t: stats.norm(overwrites({"a": t["b"], "b": t["b"]}), 1)).sample(
            5, rng=np.random.default_rng(1)
        )


def test_functions_of_the_data_work_on_copies():
    """What they write is lost, and the answer is that of functions that write nothing."""

    def sorted_in_place(x):
        x.sort(axis=1)
        return x

    def shifted_in_place(x, observed):
        x -= observed
        observed *= 0
        return np.abs(x).max(axis=1)

    def many(theta, rng):
        return theta["a"][:, None] + rng.normal(size=(theta.rows, 4))

    observed = np.array([3.0, 1.0, 2.0, 2.0])
    asked = {"budget": 1000, "method": fbar.SMC([3.0, 1.0], accepted=100), "seed": 2}
    plain = fbar.Problem(
        PRIOR, many, observed, summary=lambda x: np.sort(x, axis=1), distance=lambda x, o: np.abs(x - o).max(axis=1)
    )
    writes = fbar.Problem(PRIOR, many, observed, summary=sorted_in_place, distance=shifted_in_place)
    wanted, found = (fbar.infer(problem, fbar.mean("a"), **asked) for problem in (plain, writes))
    assert found["mean:a"].value == wanted["mean:a"].value
    assert writes.observed.tolist() == [1.0, 2.0, 2.0, 3.0]
    assert writes.raw.tolist() == observed.tolist() == [3.0, 1.0, 2.0, 2.0]


def test_functions_may_fill_the_same_array_again_and_again():
    """A distance, a summary or a transform that returns its own buffer: what was given before must not change."""
    buffers = {}

    def kept(name, values):
        buffer = buffers.setdefault((name, values.shape), np.empty(values.shape))
        buffer[:] = values
        return buffer

    def infer(wrap):
        problem = fbar.Problem(
            fbar.UnitTransform(
                lambda u: {"a": wrap("theta", 1 + 2 * u[:, 0])}, ["a"], logpdf=lambda t: np.log(0.5) + 0 * t["a"]
            ),
            lambda theta, rng: theta["a"] + rng.normal(0, 0.5, theta.rows),
            2.0,
            summary=lambda x: wrap("summary", x),
            distance=lambda x, o: wrap("distance", np.abs(x - o)),
        )
        method = fbar.SMC([1.0, 0.5], accepted=200)
        return fbar.infer(problem, fbar.mean("a"), method=method, budget=3000, block_size=100, seed=3)["mean:a"]

    assert infer(kept).value == infer(lambda _, values: values.copy()).value


# ---------------------------------------------------------------- what is kept by reference


def test_a_problem_keeps_its_data_when_the_callers_array_changes():
    data, values, p, cost = np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([0.5, 0.25]), np.array([1.0, 2.0])
    problem = fbar.Problem(PRIOR, near, data, distance=fbar.PNorm(2, scales := np.array([1.0, 1.0])))
    table = fbar.Problem.tabulated(fbar.Finite(theta=values), p, cost=cost)
    kind = fbar.Categorical(values)
    for array in (data, values, p, scales, cost):
        array[:] = 9.0
    assert problem.observed.tolist() == problem.raw.tolist() == [1.0, 2.0]
    assert problem.measure(np.array([[1.0, 5.0]]), problem.observed).tolist() == [3.0]
    assert table.points["theta"].tolist() == kind.values.tolist() == [1.0, 2.0]
    assert table.p_star.tolist() == [0.5, 0.25]
    assert table.cost.tolist() == [1.0, 2.0]
    for array in (problem.observed, problem.raw):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
