"""What is known of a true posterior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import problems
from fbar.errors import InputError
from fbar.question.truth import Known, Listed, Nodes

pytestmark = pytest.mark.arithmetic


def replicates(rng, parts=16, size=400):
    """N(0, 1) by importance sampling from N(0, 2²), in independent parts."""
    made = []
    for _ in range(parts):
        x = 2 * rng.standard_normal(size)
        made.append((fbar.Points({"x": x}), np.exp(stats.norm.logpdf(x) - stats.norm.logpdf(x, 0, 2)) * 7.0))
    return made


@pytest.mark.slow
def test_replicates_tell_their_error():
    """Over 200 repetitions z = (value − truth)/error has variance 15/13, that of t with 15 degrees of freedom.

    Its variance is known to a tenth; 5 errors are ±0.6, so an error bar wrong by a factor of 1.6 would be caught.
    """
    rng = np.random.default_rng(1)
    targets = {"mean:x": 0.0, "second_moment:x": 1.0, "variance:x": 1.0}
    z = {name: [] for name in targets}
    for _ in range(200):
        nodes = Nodes(replicates(rng), "importance sampling")
        for name, truth in targets.items():
            value, error = nodes.expect(fbar.question.targets.parse(name))
            z[name].append((value[0] - truth) / error[0])
    for name in targets:
        assert abs(np.mean(z[name])) < 5 * np.sqrt(1.15 / 200)
        assert 0.55 < np.var(z[name]) < 1.75


def test_the_jackknife_of_equal_parts_is_the_error_of_their_mean():
    x = np.array([[1.0, 2.0], [4.0, 7.0], [0.0, 1.0]])
    nodes = Nodes([(fbar.Points({"x": row}), np.ones(2)) for row in x], "draws")
    value, error = nodes.expect(fbar.mean("x"))
    assert value[0] == pytest.approx(x.mean())
    assert error[0] == pytest.approx(x.mean(axis=1).std(ddof=1) / np.sqrt(3))


def test_nodes_know_the_spread_of_f_and_can_be_drawn_from():
    rng = np.random.default_rng(2)
    nodes = Nodes(replicates(rng, size=4000), "importance sampling")
    truth = nodes.truth()
    assert list(truth) == ["mean:x", "second_moment:x"]
    assert truth["mean:x"].deviation == pytest.approx(1, abs=0.1)
    assert truth["second_moment:x"].deviation == pytest.approx(np.sqrt(2), abs=0.25)
    x = nodes.sample(20_000, rng)["x"]
    assert abs(x.mean()) < 5 * np.sqrt(1 / 20_000 + truth["mean:x"].standard_error ** 2)
    error = np.sqrt(2 / 20_000 + truth["second_moment:x"].standard_error ** 2)
    assert abs((x**2).mean() - 1) < 5 * error < 0.2  # the nodes without their weights have 4
    with pytest.raises(InputError, match="density of this problem"):
        nodes.log_density(fbar.Points({"x": np.zeros(1)}))


def test_a_quadrature_tells_how_far_it_is_refined():
    def grid(size):
        x = np.linspace(-6, 6, size)
        return fbar.Points({"x": x}), np.exp(-(x**2) / 2)

    exact = {"mean:x": Known("mean:x", 0.25, 0.5, 1.0)}
    nodes = Nodes([grid(401), grid(9)], "quadrature", error="refinement", exact=exact)
    value, error = nodes.expect(fbar.second_moment("x"))
    assert value[0] == pytest.approx(1, abs=1e-6)
    coarse_x, coarse_w = grid(9)
    coarse = (coarse_w * coarse_x["x"] ** 2).sum() / coarse_w.sum()
    assert error[0] == pytest.approx(abs(value[0] - coarse))
    assert (nodes.truth()["mean:x"].value, nodes.expect(fbar.mean("x"))[1][0]) == (0.25, 0.5)
    with pytest.raises(InputError, match="draws from this problem"):
        nodes.sample(3, np.random.default_rng(1))
    with pytest.raises(InputError, match="at least two parts"):
        Nodes([grid(9)], "quadrature")


def test_listed_values():
    known = Listed([Known("mean:x", 1.0, 0.1)], "given")
    assert known.expect(fbar.mean("x"))[1] == 0.1
    with pytest.raises(InputError, match=r"'mean:y' is not known for this problem; known: mean:x"):
        known.expect(fbar.mean("y"))
    assert known.truth().as_rows() == [{"name": "mean:x", "truth": 1.0, "standard_error": 0.1, "deviation": None}]


def test_a_finite_posterior_is_exact():
    problem = problems.load("two-hypotheses")
    truth = problem.truth()
    p = 0.3 / 0.35
    assert truth["mean:theta"].value == pytest.approx(p + 2 * (1 - p))
    assert truth["mean:theta"].deviation == pytest.approx(np.sqrt(p * (1 - p)))
    assert truth["second_moment:theta"].value == pytest.approx(p + 4 * (1 - p))
    drawn = problem.reference.sample(10_000, np.random.default_rng(3))["theta"]
    assert abs((drawn == 1).mean() - p) < 5 * np.sqrt(p * (1 - p) / 10_000)


def test_the_papers_truths_by_their_own_draws_and_density():
    """Every value and spread of figures 3 and 4 against 200,000 exact draws (|z| < 5), densities by integration."""
    for name, low, high in (("ramp", 0.0, 1.0), ("two-sided-exponential", -40.0, 60.0)):
        problem = problems.load(name)
        size = 200_000
        draws = problem.reference.sample(size, np.random.default_rng(4))
        w = np.full(size, 1 / size)
        for item in problem.truth().values():
            target = fbar.question.targets.parse(item.name)
            assert abs(target.value(draws, w)[0] - item.value) < 5 * item.deviation / np.sqrt(size)
            assert target.influence(draws, w).std() == pytest.approx(item.deviation, rel=0.05)
        x = np.linspace(low, high, 1_000_001)
        density = np.exp(problem.reference.log_density(fbar.Points({"theta": x})))
        assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-6)
        outside = fbar.Points({"theta": np.array([low - 1, high + 1])})
        assert np.isneginf(problem.reference.log_density(outside)).all()


def test_other_data_of_any_problem():
    problem = fbar.Problem(
        fbar.Finite(theta=[1, 2]),
        lambda t, rng: t["theta"],
        1.0,
        truth={"mean:theta": 1.0},
        derived={"y": lambda t: 2 * t["theta"]},
    )
    other = problem.with_observed(2.0)
    assert other.observed == 2
    assert list(other.derived) == ["y"]
    assert not other.truth()
    with pytest.raises(InputError, match="it cannot take other data"):
        problems.load("ramp").with_observed(1.0)


def test_the_nested_models_truths_by_importance_sampling():
    """400,000 draws of the prior, weighted by the known acceptance; values within 5 errors, spreads within 5%."""
    problem = problems.load("nested-models")
    points = problem.prior.sample(400_000, rng=np.random.default_rng(5))
    w = problem.acceptance_probability(points)
    w = w / w.sum()
    for item in problem.truth().values():
        target = fbar.question.targets.parse(item.name)
        psi = target.influence(points, w)[:, 0]
        error = np.sqrt(((w * psi) ** 2).sum())
        assert abs(target.value(points, w)[0] - item.value) < 5 * error
        assert np.sqrt((w * psi**2).sum()) == pytest.approx(item.deviation, rel=0.05)
    names = [name for name in problem.prior.names if name != "model"]
    assert all(f"{kind}:{name}" in problem.truth() for name in names for kind in ("mean", "second_moment"))
