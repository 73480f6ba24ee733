"""What every adapter must do: stated once, asked of each."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.problems import load
from fbar.problems.catalogue import names
from fbar.question.priors import Finite
from fbar.question.truth import Known
from fbar.scores import as_approximation
from fbar.study import Posed, Study

NOISE, DATA, TOLERANCE = 0.5, (1.2, 2.4), 1.0
MISTAKE = 1e-5
"""The chance that one comparison with the truth fails though all is right."""


def _simulate(theta, rng):
    return np.column_stack([theta["a"], theta["b"]]) + NOISE * rng.standard_normal((theta.rows, 2))


def two_dimensional():
    """a ~ N(0, 1), b ~ U(−3, 3), x = (a, b) + noise: one unbounded and one bounded parameter, near its edge.

    Its truth is that of ABC at the tolerance, so that the error is an algorithm's own.
    """
    moment = truth_of_abc()
    known = {
        f"mean:{name}": Known(f"mean:{name}", moment[name], 0.0, np.sqrt(moment[f"{name}²"] - moment[name] ** 2))
        for name in "ab"
    }
    return fbar.Problem(fbar.Prior(a=stats.norm(0, 1), b=stats.uniform(-3, 6)), _simulate, observed=DATA, truth=known)


@lru_cache
def truth_of_abc(tolerance=TOLERANCE):
    """E a, E a², E b, E b² of the ABC posterior: a sum over a fine grid, as |x − x*|²/σ² is noncentral χ² given θ."""
    a, b = np.linspace(-4, 5, 1801), np.linspace(-3, 3, 1201)[:-1] + 0.0025
    square = ((a - DATA[0])[:, None] ** 2 + (b - DATA[1])[None, :] ** 2) / NOISE**2
    p = stats.norm.pdf(a)[:, None] * stats.ncx2.cdf((tolerance / NOISE) ** 2, 2, np.maximum(square, 1e-12))
    p /= p.sum()
    of_a, of_b = p.sum(axis=1), p.sum(axis=0)
    return {"a": of_a @ a, "a²": of_a @ a**2, "b": of_b @ b, "b²": of_b @ b**2}


def solve(algorithm, problem, budget, seed, tolerance):
    posed = Posed.of(problem, budget, tolerance)
    found = as_approximation(algorithm(posed, budget, np.random.default_rng(seed)), posed, posed.spent)
    return posed, found


def estimates(algorithm, trials, budget, tolerance=TOLERANCE, *, weighted=True):
    """Estimates of the four expectations in independent trials, shape (trials, 4)."""
    result = []
    for seed in range(trials):
        _, found = solve(algorithm, two_dimensional(), budget, seed, tolerance)
        points, w = found.sample()
        w = w if weighted else np.full(len(w), 1 / len(w))
        result.append([w @ points[name] ** k for name in "ab" for k in (1, 2)])
    return np.array(result)


def t_values(values, tolerance=TOLERANCE):
    known = np.array(list(truth_of_abc(tolerance).values()))
    return (values.mean(axis=0) - known) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def limit(trials):
    return stats.t.isf(MISTAKE / 2, trials - 1)


def agrees_with_the_truth(algorithm, trials=16, budget=800):
    t = t_values(estimates(algorithm, trials, budget))
    assert (np.abs(t) < limit(trials)).all(), t


def notices_lost_weights(algorithm, trials=16, budget=800):
    """The comparison with the truth is sharp enough to notice an adapter that forgets the weights."""
    t = t_values(estimates(algorithm, trials, budget, weighted=False))
    assert np.abs(t).max() > limit(trials), t


def solves_gaussian_linear(algorithm, trials=12, budget=2000, tolerance=1.6):
    """The mean along the data, in ten dimensions.

    x ~ N(0, 2v I) before it is conditioned on the ball |x − x*| ≤ ε, and E[θ|x] = x/2. Along x*/|x*| the density of x
    is N(t; 0, 2v) times the probability that the other nine coordinates stay within the ball.
    """
    problem = load("gaussian-linear")
    length = np.linalg.norm(problem.observed)
    t = length + tolerance * (np.arange(20_000) + 0.5) / 10_000 - tolerance
    p = stats.norm.pdf(t, 0, np.sqrt(0.2)) * stats.chi2.cdf((tolerance**2 - (t - length) ** 2) / 0.2, 9)
    truth = (p * t).sum() / p.sum() / 2
    found = []
    for seed in range(trials):
        posed, answer = solve(algorithm, problem, budget, seed, tolerance)
        assert posed.spent == budget
        points, w = answer.sample()
        theta = np.column_stack([points[name] for name in problem.prior.names])
        found.append(w @ theta @ problem.observed / length)
    z = (np.mean(found) - truth) / (np.std(found, ddof=1) / np.sqrt(trials))
    assert abs(z) < limit(trials), (np.mean(found), truth, z)
    prior_z = np.mean(found) / (np.std(found, ddof=1) / np.sqrt(trials))
    assert prior_z > limit(trials)  # what was learned is no accident


def keeps_to_any_budget(algorithm, budgets=(1, 20, 21, 37, 100, 333)):
    """Never more simulations than allowed, at any budget; where they were too few, it says so."""
    solved = 0
    for budget in budgets:
        posed = Posed.of(two_dimensional(), budget, TOLERANCE)
        try:
            result = algorithm(posed, budget, np.random.default_rng(budget))
        except fbar.NoPosterior:
            assert budget <= 100
        else:
            solved += 1
            assert as_approximation(result, posed, posed.spent).sample()[0].rows >= 1
        assert posed.spent <= budget
    assert solved >= 2


def is_reproducible(algorithm, global_state):
    """By the trial's generator alone, whatever was drawn before; and global random numbers are left as they were."""
    results = []
    for seed in (5, 5, 6):
        before = global_state()
        _, found = solve(algorithm, two_dimensional(), 400, seed, TOLERANCE)
        assert global_state() == before
        np.random.standard_normal(3)  # noqa: NPY002 - what else a process does
        points, weights = found.sample()
        results.append(np.column_stack([points["a"], points["b"], weights]))
    np.testing.assert_array_equal(results[0], results[1])
    assert results[0].shape != results[2].shape or not np.array_equal(results[0], results[2])


def continuous_problems():
    return [name for name in names() if not isinstance(load(name).prior, Finite)]


def works_on(name, algorithm, *, sequential, budget=400):
    """On a problem of the catalogue: finite points within the prior's support, or a refusal that says why."""
    problem = load(name)
    tolerance = problem.tolerances[1e-2] if problem.has_summaries else 0.0
    if sequential and not problem.has_summaries:
        with pytest.raises(fbar.InputError, match="event"):
            solve(algorithm, problem, budget, 1, tolerance)
        return
    try:
        posed, found = solve(algorithm, problem, budget, 1, tolerance)
    except fbar.NoPosterior:
        return
    points, weights = found.sample()
    assert posed.spent <= budget
    assert np.isfinite(problem.prior.logpdf(points)).all()
    assert weights.sum() == pytest.approx(1)


def ranks(methods, budget=600, trials=4):
    """A study of these methods and two of fbar's runs, gives every trial a score, and is the same on one process."""
    study = Study(
        {"two-dimensional": two_dimensional()},
        {"rejection": "rejection", "smc": "smc", **methods},
        budgets=budget,
        trials=trials,
        scores=["mse"],
        tolerance={"two-dimensional": TOLERANCE},
    )
    result = study.run(workers=2, progress=False)
    assert {row["status"] for row in result.trial_rows()} == {"ok"}
    assert all(row["simulations"] <= budget for row in result.trial_rows())
    ranking = result.ranking()
    assert {standing.method for standing in ranking.standings} == {"rejection", "smc", *methods}
    assert all(standing.trials == trials and standing.failed == 0 for standing in ranking.standings)
    # In units of the posterior variance an algorithm that learned nothing, and gave the prior's means, would have 8.8.
    assert all(standing.mean < 1 for standing in ranking.standings), ranking
    again = study.run(workers=1, progress=False)
    assert again.rows() == result.rows()
