"""Priors and densities: sample, logpdf and from_unit agree with one another and with closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fbar
from fbar.question.priors import Density, Mixture
from fbar.question.priors.marginals import Scipy, Uniform, as_marginal

pytestmark = pytest.mark.arithmetic

CONTINUOUS = {
    "uniform": fbar.Prior(a=stats.uniform(-1, 3)),
    "frozen": fbar.Prior(a=stats.gamma(2.5, scale=0.5), b=stats.norm(1, 2)),
    "new-style": fbar.Prior(a=stats.Normal(mu=1.0, sigma=2.0), b=stats.Uniform(a=0.0, b=3.0)),
    "truncated": fbar.Prior(a=fbar.truncate(stats.norm(0, 1), low=0.5), b=fbar.truncate(stats.expon(), high=2)),
    "dependent": fbar.Prior(a=stats.uniform(1, 2), b=lambda t: stats.norm(t["a"], t["a"] / 2)),
    "density": fbar.Prior(a=Density(lambda x: np.abs(x) * np.exp(-(x**2)), -3, 4)),
}
UNITS = st.floats(0.02, 0.98)


@pytest.mark.parametrize("name", CONTINUOUS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_from_unit_to_unit_and_logpdf_agree(name, data):
    """The map from the cube is triangular, so that its density is one over the product of its diagonal slopes."""
    prior = CONTINUOUS[name]
    d = prior.dimension
    u = np.array([[data.draw(UNITS) for _ in range(d)]])
    points = prior.from_unit(u)
    again = fbar.Points({n: points[n] for n in points})
    assert np.allclose(prior.to_unit(again), u, atol=1e-7)
    slope = 1.0
    for j, column in enumerate(prior.names):
        h = np.zeros((1, d))
        h[0, j] = 1e-6
        slope *= (prior.from_unit(u + h)[column][0] - prior.from_unit(u - h)[column][0]) / 2e-6
    assert np.exp(prior.logpdf(points))[0] * slope == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_are_uniform_in_the_cube(name):
    """Kolmogorov–Smirnov at p > 1e-6 for each coordinate; about ten tests."""
    prior = CONTINUOUS[name]
    sample = prior.sample(20_000, rng=np.random.default_rng(1))
    unit = prior.to_unit(fbar.Points({n: sample[n] for n in sample}))
    for column in unit.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-6


def test_lean_uniform_is_scipys():
    lean, plain = as_marginal(stats.uniform(-1, 3), "a"), Scipy(stats.uniform(-1, 3))
    assert isinstance(lean, Uniform)
    x, u = np.linspace(-2, 3, 11), np.linspace(0, 1, 11)
    for method, values in (("logpdf", x), ("cdf", x), ("ppf", u)):
        assert np.allclose(getattr(lean, method)(values), getattr(plain, method)(values))


def test_categorical_and_discrete_parameters_beside_continuous_ones():
    prior = fbar.Prior(kind=fbar.Categorical(["x", "y"], [0.25, 0.75]), n=stats.poisson(2), a=stats.norm(0, 1))
    sample = prior.sample(40_000, rng=np.random.default_rng(2))
    assert abs((sample["kind"] == "x").mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 40_000)
    assert abs((sample["n"] == 3).mean() - stats.poisson(2).pmf(3)) < 5 * np.sqrt(0.2 / 40_000)
    one = fbar.Points({"kind": ["x"], "n": [3.0], "a": [0.5]})
    expected = 0.25 * stats.poisson(2).pmf(3) * stats.norm.pdf(0.5)
    assert np.exp(prior.logpdf(one))[0] == pytest.approx(expected)
    other = fbar.Points({"kind": ["z"], "n": [3.0], "a": [0.5]})
    assert prior.logpdf(other)[0] == -np.inf


def test_a_transform_of_the_cube():
    def disc(u):
        radius, angle = np.sqrt(u[:, 0]), 2 * np.pi * u[:, 1]
        return {"x": radius * np.cos(angle), "y": radius * np.sin(angle)}

    prior = fbar.UnitTransform(disc, ["x", "y"], logpdf=lambda t: np.full(t.rows, -np.log(np.pi)))
    sample = prior.sample(50_000, rng=np.random.default_rng(3))
    inside = (sample["x"] > 0) & (sample["y"] > 0) & (sample["x"] ** 2 + sample["y"] ** 2 < 0.25)
    assert abs(inside.mean() - 1 / 16) < 5 * np.sqrt(1 / 16 / 50_000)
    assert np.allclose(prior.logpdf(sample), -np.log(np.pi))
    assert prior.to_unit(sample).shape == (50_000, 2)
    with pytest.raises(fbar.InputError, match="cannot be inverted"):
        prior.to_unit(fbar.Points({"x": [0.1], "y": [0.2]}))


CHOICE = fbar.ModelChoice(
    {"one": fbar.Prior(a=stats.norm(0, 1)), "two": fbar.Prior(a=stats.norm(3, 1), b=stats.uniform(0, 1)), "none": None},
    [0.5, 0.3, 0.2],
)


def test_model_choice_has_the_columns_of_all_models_and_a_mask():
    sample = CHOICE.sample(50_000, rng=np.random.default_rng(4))
    assert CHOICE.names == ("model", "a", "b")
    two = sample["model"] == "two"
    assert np.array_equal(sample.present("b"), two)
    assert np.isnan(sample["b"][~two]).all()
    assert not np.isnan(sample["b"][two]).any()
    assert np.array_equal(sample.present("a"), sample["model"] != "none")
    assert abs(two.mean() - 0.3) < 5 * np.sqrt(0.21 / 50_000)
    assert abs(sample["a"][two].mean() - 3) < 5 / np.sqrt(two.sum())
    some = sample.take(np.flatnonzero(two)[:3])
    expected = np.log(0.3) + stats.norm(3, 1).logpdf(some["a"])
    assert np.allclose(CHOICE.logpdf(some), expected)
    assert np.allclose(CHOICE.logpdf(CHOICE.embed("none", None)), np.log(0.2))


def test_the_mean_of_a_parameter_that_some_models_lack_is_conditional():
    points = fbar.Points(
        {"model": ["x", "y", "y", "x"], "b": [np.nan, 2.0, 4.0, np.nan]},
        present={"b": np.array([False, True, True, False])},
    )
    weights = np.array([0.4, 0.3, 0.1, 0.2])
    for target, expected in ((fbar.mean("b"), 2.5), (fbar.variance("b"), 0.75), (fbar.second_moment("b"), 7.0)):
        assert target.value(points, weights)[0] == pytest.approx(expected)
        psi = target.influence(points, weights)[:, 0]
        t = 1e-7
        for i in range(4):
            mixed = (1 - t) * weights + t * np.eye(4)[i]
            assert (target.value(points, mixed)[0] - expected) / t == pytest.approx(psi[i], abs=1e-5)


def test_densities_are_inverted_to_full_precision():
    cases = [
        (
            Density(lambda x: np.exp(-np.abs(x)), -40, 60),
            stats.laplace(),
        ),
        (Density(lambda x: x * (1 - x) ** 3, 0, 1), stats.beta(2, 4)),
        (Density(lambda x: np.exp(-((x - 0.3) ** 2) / 2e-8), 0, 1), stats.norm(0.3, 1e-4)),
        (Density(lambda x: np.where(x < 0.5, 3.0, 1.0), 0, 1), None),
    ]
    u = np.random.default_rng(5).random(20_000)
    for density, truth in cases:
        x = density.ppf(u)
        if truth is None:
            expected = np.where(u < 0.75, u / 1.5, 0.5 + (u - 0.75) / 0.5)
            assert np.abs(x - expected).max() < 1e-9
        else:
            assert np.abs(truth.cdf(x) - u).max() < 1e-10  # the tails cut off hold 1e-18
            assert np.allclose(density.pdf(x[:100]), truth.pdf(x[:100]), rtol=1e-9)
        assert np.abs(density.cdf(x[:200]) - u[:200]).max() < 1e-9


def test_mixtures():
    a, b = fbar.Prior(t=stats.norm(0, 1)), fbar.Prior(t=stats.norm(5, 0.5))
    mixture = Mixture([a, b], [0.3, 0.7])
    sample = mixture.sample(50_000, rng=np.random.default_rng(6))["t"]
    assert abs((sample > 2.5).mean() - 0.7) < 5 * np.sqrt(0.21 / 50_000) + 0.005
    points = fbar.Points({"t": [0.3, 4.8]})
    expected = 0.3 * stats.norm(0, 1).pdf(points["t"]) + 0.7 * stats.norm(5, 0.5).pdf(points["t"])
    assert np.allclose(np.exp(mixture.logpdf(points)), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fbar.Prior(), "needs named parameters"),
        (lambda: fbar.Prior(a=3), "needs a distribution"),
        (lambda: fbar.Prior(a=stats.norm), "needs a frozen distribution"),
        (lambda: fbar.Prior(a=stats.uniform(0, 0)), "improper or has no mass"),
        (lambda: fbar.Prior(a=stats.norm(0, -1)), "improper or has no mass"),
        (lambda: fbar.Prior(a=lambda t: stats.norm(0, 1)), "cannot depend on others"),
        (lambda: fbar.truncate(stats.uniform(0, 1), low=2), "leaves no mass"),
        (lambda: fbar.truncate(stats.norm(), low=2, high=1), "needs low < high"),
        (lambda: fbar.Categorical([]), "needs at least one value"),
        (lambda: fbar.Categorical([1, 1]), "must differ"),
        (lambda: fbar.Categorical(["a", "b"], [0.5, 0.6]), "sum to 1"),
        (lambda: fbar.ModelChoice({}), "at least one model"),
        (lambda: fbar.ModelChoice({"a": 3}), "needs a prior"),
        (lambda: Density(lambda x: x, -1, 1), "negative at"),
        (lambda: Density(lambda x: np.full_like(x, np.nan), 0, 1), "not finite at"),
        (lambda: Density(lambda x: 1 / x, 0, 1).mass, "could not be"),
        (lambda: Density(lambda x: 0 * x, 0, 1), "zero everywhere"),
        (lambda: Density(lambda x: x, 0, np.inf), "finite ends"),
        (lambda: fbar.UnitTransform(lambda u: {"x": u[:, 0]}, ["y"]), "its names are"),
        (lambda: CONTINUOUS["frozen"].from_unit([[0.5]]), r"shape (n, 2); got (1, 1)"),
        (lambda: fbar.Finite.grid(), "needs named axes"),
        (lambda: fbar.Finite(theta=[1, 2], prob=[0.1, 0.9]), "did you mean 'probabilities'?"),
        (lambda: fbar.Finite([1, 2]), "name the parameter"),
        (lambda: fbar.Finite(theta=[1, None]), "must be a list of numbers or labels"),
        (lambda: fbar.Finite(theta=[1, "x"]), "must be a list of numbers or labels"),
    ],
)
def test_improper_input_is_refused_in_one_line(make, message):
    with pytest.raises(fbar.InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_grid():
    prior = fbar.Finite.grid(beta=[1.0, 2.0], gamma=[0.1, 0.2, 0.3])
    assert prior.size == 6
    assert set(zip(prior.points["beta"].tolist(), prior.points["gamma"].tolist(), strict=True)) == {
        (b, g) for b in (1.0, 2.0) for g in (0.1, 0.2, 0.3)
    }
