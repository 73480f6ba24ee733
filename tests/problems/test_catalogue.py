"""What every problem of the catalogue must have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_tables import problems_table

import fbar
from fbar import problems
from fbar.errors import InputError
from fbar.problems import Benchmark
from fbar.problems.benchmark import LEVELS, OBSERVATIONS
from fbar.problems.catalogue import recipe, recipes

pytestmark = pytest.mark.arithmetic

ROOT = Path(__file__).parents[2]
RECIPES = recipes()
WANTED = 3e-4
"""Ten times better than 10⁵ posterior draws, in posterior standard deviations."""


def test_the_page_about_the_problems_is_up_to_date():
    page = (ROOT / "docs" / "problems.md").read_text()
    found = page.partition("<!-- begin: problems -->\n")[2].partition("\n<!-- end: problems -->")[0]
    assert found == problems_table(), "run: make tables"


def test_the_issue_of_names():
    """Those of the benchmark, under their own names."""
    benchmark = [
        "two-moons",
        "gaussian-linear",
        "gaussian-linear-uniform",
        "gaussian-mixture",
        "slcp",
        "slcp-distractors",
        "bernoulli-glm",
        "bernoulli-glm-raw",
        "sir",
        "lotka-volterra",
        "g-and-k",
        "ma2",
        "mg1",
        "poisson-or-geometric",
        "filippi",
    ]
    assert set(benchmark) == set(RECIPES)
    seeds = [recipe(name).seed for name in RECIPES]
    assert len(set(seeds)) == len(seeds), "two problems would share their random numbers"


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("observation", range(1, OBSERVATIONS + 1))
def test_stored_truths_are_whole_precise_and_consistent(name, observation):
    problem = problems.load(name, observation)
    assert isinstance(problem, Benchmark)
    truth = problem.truth()
    assert truth.how
    numeric = [n for n in problem.prior.names if problem.probe[n].dtype.kind in "biuf"]
    for parameter in numeric:
        mean, second = truth[f"mean:{parameter}"], truth[f"second_moment:{parameter}"]
        for known in (mean, second):
            assert np.isfinite([known.value, known.standard_error, known.deviation]).all()
            assert 0 <= known.standard_error <= WANTED * known.deviation
        # Var θ = E θ² − (E θ)²: the spread of a mean is known from the other two.
        # Of a parameter that one model has, ψ = 1_m (θ − μ_m)/P_m has the variance Var_m/P_m.
        model = {"rate": "model_probability:poisson", "p": "model_probability:geometric"}.get(parameter)
        share = 1.0 if model is None else truth[model].value
        variance = (second.value - mean.value**2) / share
        assert variance == pytest.approx(mean.deviation**2, rel=1e-2, abs=1e-9 * second.value)
        assert second.deviation > 0
    assert set(problem.tolerances) == set(LEVELS)
    assert problem.tolerances[1e-3] <= problem.tolerances[1e-2]
    assert problem.true_parameters


@pytest.mark.parametrize("name", RECIPES)
def test_observations_are_what_their_seed_makes(name):
    """Bit for bit up to the ten digits that are written; another numpy may draw other numbers, and would fail here."""
    made = recipe(name)
    for observation in (1, 7):
        theta, data = made.draw(observation)
        problem = problems.load(name, observation)
        assert problem.data == pytest.approx(data, rel=1e-9)
        for parameter, value in problem.true_parameters.items():
            assert theta[parameter][0] == pytest.approx(value, rel=1e-9) if not isinstance(value, str) else True


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_tolerances_accept_their_share_of_the_prior(name):
    """20,000 fresh simulations: the share within the 1% tolerance is 1% within 5 errors, or more where it is 0."""
    problem = problems.load(name, 2)
    rng = np.random.default_rng(8)
    theta = problem.prior.sample(20_000, rng=rng).with_derived(problem.derived)
    distance, _ = problem.distances(problem.outcomes(problem.simulate(theta, rng), 20_000))
    share = (distance <= problem.tolerances[1e-2]).mean()
    error = np.sqrt(0.01 / 20_000 + 0.01 / 400_000)
    assert share > 0.01 - 5 * error
    if problem.tolerances[1e-2] > 0 and recipe(name).shape != (20,):
        tied = (distance == problem.tolerances[1e-2]).mean()
        assert share - tied < 0.01 + 5 * error


@pytest.mark.parametrize("name", RECIPES)
def test_wrong_data_are_refused_in_one_line(name):
    problem = problems.load(name)
    size = max(1, int(problem.data.size))
    for data in ([1.0] * (size + 1), [np.nan] * size, "words"):
        with pytest.raises(InputError) as caught:
            problem.with_observed(data)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_target_that_is_not_stored():
    """P(θ1 > 0) of two-moons by its own draws, against the same from 200,000 fresh ones (|z| < 5)."""
    problem = problems.load("two-moons", 3)
    target = fbar.probability("theta1 > 0")
    value, error = problem.truth(target)[0], problem.truth_error(target)[0]
    drawn = (problem.reference.sample(200_000, np.random.default_rng(9))["theta1"] > 0).mean()
    assert abs(value - drawn) < 5 * np.hypot(error, np.sqrt(value * (1 - value) / 200_000))


@pytest.mark.slow
def test_a_truth_that_is_none_is_refused():
    """Departures of a queue that are all equal: the likelihood has no bound as the service times come together."""
    problem = problems.load("mg1").with_observed([4.0] * 20)
    with pytest.raises(InputError, match="could not be computed for these data: its error is"):
        problem.truth()
