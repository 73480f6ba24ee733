"""The tolerances of targeted runs: chosen, named, reached or not.

Random results are compared with known values at |z| < 4.5 (once in 150,000 times by chance) unless a test says more.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar import problems
from fbar.estimation.crossfitted import Crossfitted
from fbar.estimation.store import Entry
from fbar.question.space import Particles, Space
from targeted_runs import A, Z, ask, normal

pytestmark = pytest.mark.arithmetic


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian-mixture", "two-moons"])
def test_a_chosen_tolerance_falls_with_the_budget(name):
    """The median of seven runs. And the bias of a small budget is in proportion: the root mean square of z below 4.

    A budget that settled for the first tolerances it saw would have 20 and more.
    """
    problem = problems.load(name)
    target = fbar.second_moment("theta1")
    small, large = (
        [ask(problem, target, budget, seed=s, tolerance="chosen") for s in range(7)] for budget in (800, 25_600)
    )
    assert np.median([r.run.wanted.tolerance for r in large]) < np.median([r.run.wanted.tolerance for r in small])
    truth = problem.truth(target)[0]
    z = [(r.estimates[0].value - truth) / r.estimates[0].standard_error for r in small]
    assert np.sqrt(np.mean(np.square(z))) < 4


def test_other_tolerances_of_a_run():
    """Against ABC's posterior by quadrature; adjusted, the mean is 0.4 as at tolerance 0, extrapolated nearly so."""

    def truth(tolerance):
        m = stats.norm.cdf((0.5 + tolerance - Z) / 0.5) - stats.norm.cdf((0.5 - tolerance - Z) / 0.5)
        return np.trapezoid(Z * m * stats.norm.pdf(Z), Z) / np.trapezoid(m * stats.norm.pdf(Z), Z)

    result = ask(normal(), A, 6000, tolerance=0.8)
    found = [(result, truth(0.8)), (result.adjusted(), 0.4), (result.at(0.3), truth(0.3)), (result.at(2.0), truth(2))]
    found.append((result.extrapolated(), (4 * truth(0.4) - truth(0.8)) / 3))
    for other, known in found:
        estimate = other.estimates[0]
        assert abs(estimate.value - known) < 4.5 * estimate.standard_error
    curve = result.curve()
    tolerances = [tolerance for tolerance, _ in curve]
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[0] == pytest.approx(3.2)
    assert 0.8 in tolerances
    assert tolerances[-1] < 0.8
    for tolerance, (estimate,) in curve:
        assert abs(estimate.value - truth(tolerance)) < 4.5 * estimate.standard_error
    everything = result.at(math.inf)
    assert everything.accepted == 6000
    estimate = everything.estimates[0]
    assert abs(estimate.value) < 4.5 * estimate.standard_error, "at an infinite tolerance the posterior is the prior"


def test_a_budget_that_ends_before_the_tolerance_says_so():
    result = ask(normal(), A, 400, tolerance=0.004, seed=2)
    assert any("still coming closer to the data" in text for text in result.warnings)
    assert not result.estimates[0].trusted
    enough = ask(normal(), A, 500, tolerance=0.5)
    assert enough.warnings == ()


@pytest.mark.slow
def test_whole_numbers_are_matched_exactly():
    """λ ~ Gamma(2), x ~ Poisson(λ) = 3: λ|x ~ Gamma(5, 1/2), mean 2.5."""
    problem = fbar.Problem(fbar.Prior(lam=stats.gamma(2)), lambda t, rng: rng.poisson(t["lam"]), observed=3)
    z = []
    for tolerance in (0.0, None):
        for seed in range(8):
            estimate = ask(problem, fbar.mean("lam"), 4000, seed=seed, tolerance=tolerance).estimates[0]
            z.append((estimate.value - 2.5) / estimate.standard_error)
    assert abs(sum(z)) / 4 < 4.5
    assert np.mean(np.square(z)) < stats.chi2(16).ppf(1 - 1e-5) / 16 * 1.2


def measured(*blocks, group=0):
    """Simulations at these distances, of group 0 all but the first block's second one."""
    store = Crossfitted(normal(), Space(normal().prior, "normal"), 2)
    for block in blocks:
        for distance in block:
            mine = group if distance == 0.5 else 0
            particles = Particles(np.zeros(1, dtype=np.int64), np.zeros((1, 1)))
            store.add(Entry(0, mine, particles, np.array([distance]), {}, None))
    return store


@pytest.mark.parametrize(("k", "expected"), [(0, 1.0), (1, 1.0), (2, 2.0), (9, 4.0)])
def test_the_nearest_distance(k, expected):
    assert measured([4.0, math.nan, 2.0, 1.0, math.inf]).everything.nearest(k) == expected
    assert measured([4.0, 0.5, 2.0], [1.0], [math.inf], group=1).everything.nearest(k, without=1) == expected
    assert measured([math.nan, math.inf]).everything.nearest(k) == math.inf


def test_a_stage_on_the_way_tells_its_own_tolerance_and_what_was_within():
    problem = fbar.Problem(
        fbar.Prior(mu=stats.norm(0, 1)), lambda t, rng: t["mu"] + rng.standard_normal(t.rows), observed=0.5
    )
    run = fbar.infer(problem, fbar.mean("mu"), tolerance=0.05, budget=10_000, seed=1).run
    stages = run.stages()
    assert sum(stage.simulations for stage in stages) == run.simulations
    way = [stage for stage in stages if stage.words == "towards the data"]
    assert len(way) > 1
    end = np.cumsum([stage.simulations for stage in stages])
    for stage, last in zip(stages, end, strict=True):
        if stage in way:
            assert stage.tolerance > 0.05
        distance = run.store.everything.distance.take(np.arange(last - stage.simulations, last))
        assert stage.accepted == (distance <= stage.tolerance).sum()
    assert stages[-1].tolerance == 0.05
