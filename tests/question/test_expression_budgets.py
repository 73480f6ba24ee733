"""Expressions of somebody else's cost little, or are refused in one line."""

from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.errors import InputError
from fbar.question import expressions
from fbar.question.expressions import MOST_PARTS, ROWS, Expression
from fbar.question.targets import parse

SECONDS = 20
"""Far more than any of these takes, far less than a bomb would."""


@pytest.fixture(autouse=True)
def _deadline() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


THREE = "(True+True+True)"
REFUSED = [
    "'%2000000000d' % 1 == 'x'",
    "'%2000000000d' % a == 'x'",
    "'x' * 10**9 == 'x'",
    "'x' * 9999999999 == a",
    "('x' + 'y') == a",
    "'x' 'y' < a",
    "[0] * 10**10 == a",
    "(0,) * 10**10 == a",
    "f'{a:>2000000000}' == 'x'",
    "b'x' * 10**9 == a",
    "1e400 > a",
    "1" * 5000 + " > a",
    "0x" + "f" * 5000 + " > a",
    "1_" * 3000 + "1 > a",
    "1 << 10**9 > a",
    "1 << 100 > a",
    "10**9 // 1 > a",
    "a > 1j",
    "abs(1j) > a",
    "a > ...",
    "a > None",
    "(lambda: 1)() > a",
    "[x for x in a] == a",
    "{a: a} == a",
    "(b := a) > 1",
    "a.__class__ == 1",
    "a[0] > 1",
    "a[::9999999999] > 1",
    "exp(*a) > 1",
    "exp(x=a) > 1",
    "minimum(a, a, a) > 1",
    "__import__('os') == 1",
    "a if a else a",
    "a @ a > 1",
    "a in a",
    "a is a",
    "await a",
    "yield a",
    "`a`",
    "a > 1; a > 2",
    "a > 1\nimport os",
    "a" * 10_001,
    "(" * 150 + "a" + ")" * 150 + " > (" * 150,
    "-" * 9_000 + "a",
    "not " * 2_400 + "a > 1",
    "a**" * 3_000 + "a",
    "a+" * 4_000 + "a",
    "a>" * 4_000 + "a",
    "a>0 and " * 1_200 + "a>0",
    "abs(" * 90 + "a" + ")" * 90 + "+abs(" * 800,
    "\x1b]52;c;eA==\x07",
    "",
    " ",
    "#",
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30].encode("unicode_escape").decode())
@pytest.mark.parametrize("kind", ["probability", "expectation"])
def test_bombs_and_whatever_is_no_arithmetic_are_refused_in_one_line(text: str, kind: str) -> None:
    points = fbar.Points({"a": np.linspace(0, 1, 50)})
    for evaluated in (lambda: Expression(text)(points), lambda: parse(f"{kind}:{text}").components(points)):
        with pytest.raises(InputError) as told:
            evaluated()
        assert len(str(told.value)) < 1000
        assert "\n" not in str(told.value)
        assert "\x1b" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        f"{THREE}**{THREE}**{THREE}**{THREE}**{THREE} > a",
        f"({THREE}**{THREE})**({THREE}**{THREE})**({THREE}**{THREE}) > a",
        "9**9**9**9**9**9 > a",
        "(9**9**9) % 7 > a",
        "a % 0 > 1 or a <= 1",
        "-(9**9**9) < a",
        "maximum(9**9**9, a) > 1",
    ],
)
def test_powers_are_those_of_floats(text: str) -> None:
    """A power of whole numbers could fill the memory."""
    try:
        held = Expression(text)({"a": np.linspace(0, 1, 50)})
    except InputError:  # what is not a number cannot be compared
        return
    assert held.shape == (50,)


def test_how_large_an_expression_may_be() -> None:
    columns = {"a": np.linspace(0, 1, 50)}
    terms = MOST_PARTS // 6
    assert Expression("+".join(["a"] * 150))(columns) == pytest.approx(150 * columns["a"])
    assert Expression(" and ".join(["a >= 0"] * terms))(columns).all()
    with pytest.raises(InputError, match=f"more than {MOST_PARTS:,} names, numbers and operators"):
        Expression(" and ".join(["a >= 0"] * (terms + 100)))


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        (" and ".join(["a+0 >= 0"] * 200), 6),
        (" or ".join(["a+0 < 0"] * 200), 6),
        (" <= ".join(["a+0"] * 200), 6),
        ("a**2" + "*(a+1)" * 90, 6),
        ("a*2+(" * 150 + "a" + ")" * 150 + " > 0", 6 + 150 / 4),  # operands that wait, at some of the rows
    ],
    ids=["and", "or", "chain", "product", "deep"],
)
def test_memory_does_not_grow_with_the_parts_of_an_expression(text: str, worth: float) -> None:
    """Some columns' worth, however many parts are joined."""
    columns = {"a": np.linspace(0.1, 1, 4 * ROWS)}
    expression, one = Expression(text), columns["a"].nbytes
    tracemalloc.start()
    try:
        expression(columns)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < worth * one


@pytest.mark.parametrize(
    "text",
    [
        "a > 0.5",
        "log(a) + b",
        "a > 0 and log(a) > -1",
        "m == 'x'",
        "n % 2 == 0",
        "not (a < b < 1)",
        "m != 'y' or a < b",
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 16, 40])
def test_rows_are_evaluated_some_at_a_time_and_give_the_same(
    text: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    columns = {
        "a": rng.random(rows) + 0.01,
        "b": rng.random(rows),
        "n": rng.integers(0, 9, rows),
        "m": rng.choice(["x", "yy"], rows),
    }
    whole = Expression(text)(columns)
    monkeypatch.setattr(expressions, "ROWS", 8)
    parts = Expression(text)(columns)
    assert parts.dtype == whole.dtype
    assert parts.shape == whole.shape == (rows,)
    np.testing.assert_allclose(parts, whole, rtol=1e-15)


def test_an_unknown_row_is_named_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "ROWS", 8)
    a = np.ones(40)
    a[29] = -1
    with pytest.raises(InputError, match="not defined in row 29"):
        Expression("log(a) > 1")({"a": a})
    with pytest.raises(InputError, match="labels"):
        Expression("m")({"m": np.array(["x"] * 40)})


def test_weightings_and_precisions_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="unknown weighting 'inf%'"):
        fbar.Importance(weighting="inf%")
    with pytest.raises(InputError, match="the constant 1j"):
        fbar.probability("a > 1j")
    for wanted in ("inf%", "nan%", "-1%", "0%", "1e400%", "%", "1", float("inf"), float("nan"), -1, 0):
        with pytest.raises(InputError):
            fbar.infer(PROBLEM, fbar.mean("a"), tolerance=1, precision={"mean:a": wanted})


PROBLEM = fbar.Problem(fbar.Prior(a=stats.uniform(0, 1)), lambda t, rng: t["a"], 0.5)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":",
            "x",
            "mean",
            "none:a",
            "probability_between:1<a",
            "probability_between:a<1<2<3",
            "probability_between:nan<a<1",
            "quantile:a",
            "density_at:a",
        ),
        *(
            "quantile:a,nan",
            "quantile:a,1e999",
            "quantile:a,x",
            "density_at:a=nan",
            "density_at:a=inf",
            "density_at:a=1=2=x",
        ),
        *(
            "covariance:a",
            "covariance:a,b,c",
            "probability_between:" + "<" * 10_000,
            "quantile:" + "," * 10_000,
            "\x1b:\x1b",
        ),
    ],
)
def test_names_that_are_no_targets_are_refused(text: str) -> None:
    with pytest.raises(InputError) as told:
        parse(text)
    assert "\n" not in str(told.value)
