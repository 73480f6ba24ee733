"""Priors with constraints: shares of a whole, parameters in order, conditions. Against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.question.priors import structure

SAME = stats.norm(1, 2)
PRIORS = {
    "dirichlet": fbar.Prior(fbar.dirichlet(a=1, b=2.5, c=0.7, d=3)),
    "two shares": fbar.Prior(fbar.dirichlet(a=1, b=1)),
    "order of the same": fbar.Prior(fbar.ordered(a=SAME, b=SAME, c=SAME)),
    "order of others": fbar.Prior(fbar.ordered(a=stats.uniform(0, 2), b=stats.norm(1, 1), c=stats.gamma(2.0))),
    "order by condition": fbar.truncate(fbar.Prior(a=stats.expon(), b=stats.norm(0, 1)), where="a < b"),
}


@pytest.mark.parametrize("name", PRIORS)
def test_the_map_from_the_cube_its_inverse_and_the_density_agree(name):
    """The map is triangular: its density is one over the product of the slopes on the diagonal."""
    prior = PRIORS[name]
    u = np.random.default_rng(5).uniform(0.02, 0.98, (60, prior.dimension))
    points = prior.from_unit(u)
    again = fbar.Points({n: points[n] for n in points})
    assert np.allclose(prior.to_unit(again), u, atol=1e-7)
    slope = np.ones(len(u))
    for j, column in enumerate(prior.names):
        h = np.zeros(prior.dimension)
        h[j] = 1e-5
        slope *= (prior.from_unit(u + h)[column] - prior.from_unit(u - h)[column]) / 2e-5
    assert np.allclose(np.exp(prior.logpdf(points)) * slope, 1.0, rtol=2e-3)


def test_dirichlet_is_scipys():
    alphas = {"a": 1.0, "b": 2.5, "c": 0.7, "d": 3.0}
    prior = fbar.Prior(**fbar.dirichlet(alphas), rate=stats.gamma(2))
    assert prior.names == ("a", "b", "c", "rate")
    points = prior.sample(20_000, rng=np.random.default_rng(1))
    shares = np.array([points[name] for name in alphas])
    assert np.allclose(shares.sum(axis=0), 1)
    assert (shares >= 0).all()
    expected = stats.dirichlet(list(alphas.values())).logpdf(shares[:, :500] / shares[:, :500].sum(axis=0))
    found = prior.logpdf(points.take(np.arange(500))) - stats.gamma(2).logpdf(points["rate"][:500])
    assert np.allclose(found, expected, atol=1e-6)
    total = sum(alphas.values())
    for name, alpha in alphas.items():  # p > 1e-6 four times
        assert stats.kstest(points[name], stats.beta(alpha, total - alpha).cdf).pvalue > 1e-6
    outside = fbar.Points({"a": [0.6, -0.1], "b": [0.6, 0.2], "c": [0.1, 0.2], "rate": [1.0, 1.0]})
    assert (prior.logpdf(outside) == -np.inf).all()


def test_an_order_has_the_density_of_independent_parameters_times_a_constant():
    prior = PRIORS["order of the same"]
    points = prior.sample(20_000, rng=np.random.default_rng(2))
    assert (points["a"] < points["b"]).all()
    assert (points["b"] < points["c"]).all()
    product = sum(SAME.logpdf(points[name]) for name in "abc")
    assert np.allclose(prior.logpdf(points), product + math.log(6), atol=1e-6)
    for place, name in enumerate("abc", 1):  # F of an order statistic is a beta variable; p > 1e-6 three times
        assert stats.kstest(SAME.cdf(points[name]), stats.beta(place, 4 - place).cdf).pvalue > 1e-6
    other = PRIORS["order of others"]
    points = other.sample(20_000, rng=np.random.default_rng(3))
    product = stats.uniform(0, 2).logpdf(points["a"]) + stats.norm(1, 1).logpdf(points["b"])
    constant = other.logpdf(points) - product - stats.gamma(2.0).logpdf(points["c"])
    assert np.allclose(constant, constant[0], atol=1e-6)
    rng = np.random.default_rng(4)
    a, b, c = (d.rvs(400_000, random_state=rng) for d in (stats.uniform(0, 2), stats.norm(1, 1), stats.gamma(2.0)))
    kept = (a < b) & (b < c)
    assert math.exp(-constant[0]) == pytest.approx(kept.mean(), rel=0.02)  # five standard errors
    for name, column in (("a", a), ("b", b), ("c", c)):
        assert stats.ks_2samp(points[name], column[kept]).pvalue > 1e-6
    wrong = fbar.Points({"a": [1.0], "b": [0.5], "c": [2.0]})
    assert other.logpdf(wrong) == -np.inf


def test_an_order_as_a_condition_is_the_same_prior():
    both = stats.uniform(0, 1)
    whole = fbar.Prior(a=both, rate=stats.gamma(2), b=both, d=lambda t: stats.norm(t["a"], 1))
    for where in ("a < b", "b > a", "a <= b"):
        prior = fbar.truncate(whole, where=where)
        assert prior.names == ("a", "b", "rate", "d")
        points = prior.sample(50, rng=np.random.default_rng(1))
        assert (points["a"] < points["b"]).all()
        assert np.allclose(prior.logpdf(points), whole.logpdf(points) + math.log(2))


def test_any_condition_is_drawn_by_rejection_and_exactly():
    """A triangle: P = 1/2, both parameters have density 2(1 − x)."""
    base = fbar.Prior(a=stats.uniform(0, 1), b=stats.uniform(0, 1))
    by_text = fbar.truncate(base, where="a + b < 1")
    by_function = fbar.truncate(base, where=lambda t: t["a"] + t["b"] < 1)
    points = by_text.sample(20_000, rng=np.random.default_rng(7))
    for name in "ab":
        assert stats.kstest(points[name], stats.beta(1, 2).cdf).pvalue > 1e-6
    assert np.allclose(by_text.logpdf(points), math.log(2), atol=1e-3)
    assert np.array_equal(by_function.sample(99, rng=np.random.default_rng(7))["a"], points["a"][:99])
    u = np.random.default_rng(8).random((100, 2))
    assert np.array_equal(by_text.from_unit(u)["a"], by_text.from_unit(u[::-1])["a"][::-1])  # row by row
    outside = fbar.Points({"a": [0.9, 0.2, 2.0], "b": [0.9, 0.2, -3.0]})
    assert np.isfinite(by_text.logpdf(outside)).tolist() == [False, True, False]
    assert structure(by_text).continuous


def test_conditions_on_a_finite_prior_leave_values_out():
    prior = fbar.truncate(fbar.Finite(n=[1, 2, 3, 4], probabilities=[0.1, 0.2, 0.3, 0.4]), where="n > 2")
    assert prior.points["n"].tolist() == [3, 4]
    assert np.allclose(prior.probabilities, [3 / 7, 4 / 7])


UNIFORM = stats.uniform(0, 1)
BASE = fbar.Prior(a=UNIFORM, b=UNIFORM)
CHOICE = fbar.ModelChoice({"one": BASE, "none": None})
MISTAKES = {
    "never": (lambda: fbar.truncate(BASE, where="a > 2 + b"), "too rarely to draw"),
    "no order": (lambda: fbar.ordered(a=stats.uniform(5, 1), b=UNIFORM), "a < b almost never holds"),
    "unknown": (lambda: fbar.truncate(BASE, where="a < x"), "there is no parameter 'x'; known: a, b"),
    "numbers": (lambda: fbar.truncate(BASE, where=lambda t: t["a"]), "where must be true or false"),
    "no condition": (lambda: fbar.truncate(BASE, 0, 1), "give a condition: truncate(prior, where='a < b')"),
    "one parameter": (lambda: fbar.truncate(UNIFORM, where="a < b"), "where= is for a whole prior"),
    "models": (lambda: fbar.truncate(CHOICE, where="a < b"), "restrict the priors of its models"),
    "one share": (lambda: fbar.dirichlet(a=1), "two shares or more"),
    "concentration": (lambda: fbar.dirichlet(a=1, b=0), "the concentration of 'b' must be positive"),
    "one in order": (lambda: fbar.ordered(a=UNIFORM), "two parameters or more"),
    "discrete order": (lambda: fbar.ordered(a=stats.poisson(3), b=UNIFORM), "that of 'a' is discrete"),
    "twice": (lambda: fbar.Prior(fbar.dirichlet(a=1, b=1), a=UNIFORM), "parameter 'a' is given twice"),
    "no values": (lambda: fbar.truncate(fbar.Finite(n=[1]), where="n > 2"), "holds for none of the 1 values"),
    "text": (lambda: fbar.truncate(BASE, where=3), "where must be a function"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_is_refused_in_one_line(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(fbar.InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def sampled_shares(theta, rng):
    """Counts of three kinds among 40."""
    shares = np.stack([theta["a"], theta["b"], theta["c"]], axis=1)
    return rng.multinomial(40, shares / shares.sum(axis=1, keepdims=True))[:, :2].astype(float)


SHARES = fbar.Problem(fbar.Prior(fbar.dirichlet(a=1, b=1, c=2)), sampled_shares, observed=[10.0, 20.0])
"""Its posterior is Dirichlet(11, 21, 12)."""


def noisy(theta, rng):
    return np.stack([theta["a"], theta["b"]], axis=1) + 0.3 * rng.standard_normal((theta.rows, 2))


ORDER = fbar.Problem(fbar.Prior(fbar.ordered(a=UNIFORM, b=UNIFORM)), noisy, observed=[0.6, 0.5])
TRIANGLE = fbar.Problem(fbar.truncate(BASE, where="a + b < 1"), noisy, observed=[0.6, 0.5])


def by_grid(inside):
    """E[a | x] of the two-parameter problems, by the midpoint rule."""
    x = (np.arange(1000) + 0.5) / 1000
    a, b = np.meshgrid(x, x, indexing="ij")
    weight = np.exp(-0.5 * ((a - 0.6) ** 2 + (b - 0.5) ** 2) / 0.09) * inside(a, b)
    return float((weight * a).sum() / weight.sum())


QUESTIONS = {
    "shares": (SHARES, "c", 12 / 44, 3.0),
    "order": (ORDER, "a", by_grid(lambda a, b: a < b), 0.1),
    "condition": (TRIANGLE, "a", by_grid(lambda a, b: a + b < 1), 0.1),
}
METHODS = {
    "targeted at the data": (None, None),
    "targeted": ("targeted", True),
    "rejection": ("rejection", True),
    "smc": (fbar.SMC(accepted=300), True),
    "smc in normal coordinates": (fbar.SMC(accepted=300, coordinates="normal"), True),
    "stratified": (fbar.Rejection(scheme=fbar.Stratified()), True),
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers(question, method):
    """Within 4.5 of its standard errors and the distance that the tolerance may make: one in 100,000 by chance."""
    problem, name, truth, tolerance = QUESTIONS[question]
    how, at_tolerance = METHODS[method]
    options, budget = ({"tolerance": tolerance}, 6000) if at_tolerance else ({}, 1500)
    found = fbar.infer(problem, fbar.mean(name), method=how, budget=budget, seed=3, **options)[f"mean:{name}"]
    assert abs(found.value - truth) < 4.5 * found.standard_error + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_recorded_runs_load_and_resume(question, tmp_path):
    problem, name, _, tolerance = QUESTIONS[question]
    target, run, options = fbar.mean(name), tmp_path / "run", {"budget": 600, "tolerance": tolerance, "seed": 1}
    first = fbar.infer(problem, target, run=run, **options)
    assert fbar.load(run, problem)[target.name].value == first[target.name].value
    again = fbar.infer(problem.replace(), target, run=run, **options)
    assert again[target.name].value == first[target.name].value
    more = fbar.extend(run, problem, budget=900)
    assert more.simulations == 900
    other = problem.replace(prior=fbar.Prior(a=UNIFORM, b=UNIFORM), derived={"c": lambda t: 1 - t["a"]})
    with pytest.raises(fbar.InputError, match=r"problem\.prior"):
        fbar.load(run, other)


def test_a_model_of_several_may_have_such_a_prior():
    def fixed(theta, rng):
        return rng.multinomial(40, [0.4, 0.4, 0.2], size=theta.rows)[:, :2].astype(float)

    models = {"shares": fbar.Model(sampled_shares, SHARES.prior), "fixed": fixed}
    problem = fbar.Problem.models(models, observed=[10.0, 20.0])
    result = fbar.infer(problem, [fbar.mean("c"), fbar.model_probability("shares")], tolerance=2.0, budget=8000, seed=1)
    found = result["mean:c"]
    assert abs(found.value - 12 / 44) < 4.5 * found.standard_error + 0.02
    other = fbar.Model(sampled_shares, fbar.Prior(fbar.dirichlet(a=1, c=1)))
    with pytest.raises(fbar.InputError, match="follows from others there"):
        fbar.Problem.models({"shares": models["shares"], "other": other}, observed=[1.0, 2.0])


def test_a_share_that_follows_cannot_be_derived_again():
    with pytest.raises(fbar.InputError, match="derived parameter 'c' has the name of a parameter"):
        SHARES.replace(derived={"c": lambda t: t["a"]})
