"""Where targeted runs simulate: goals, importance and costs, against exact variances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.aiming.aim import FLOOR, Aim
from fbar.question.space import Particles
from targeted_runs import EXPONENTIAL, THETA, A, Z, ask, gauss, normal

pytestmark = pytest.mark.arithmetic


def everywhere(run):
    """The coordinates of all simulations."""
    return run.store.take(np.arange(run.simulations)).x


def exact(proposals, acceptance, psi, cost=None):
    """∫ p² m ψ²/q over (∫ p m)² for draws of one parameter in working coordinates, the mean over groups.

    With a cost: times E_q[c].
    """

    space = proposals[0].space
    particles = Particles(np.zeros(Z.size, dtype=np.int64), Z[:, None])
    points = space.points(particles)
    m, p = acceptance(points), stats.norm.pdf(Z)
    total = np.trapezoid(p * m, Z)
    result = []
    for q in proposals:
        density = np.exp(q.log_density(particles))
        value = np.trapezoid(p**2 * m * psi(points) ** 2 / density, Z) / total**2
        result.append(value * (1 if cost is None else np.trapezoid(density * cost(points), Z)))
    return float(np.mean(result))


def p_exponential(points):
    return np.exp(-np.abs(points["theta"]))


TAIL = fbar.probability("theta > 3")
P_TAIL = math.exp(-3) / 2
PSI = {
    "mean": (lambda t: t["theta"], 2.0),
    "tail": (lambda t: (t["theta"] > 3) - P_TAIL, P_TAIL * (1 - P_TAIL)),
}


def relative_errors(**options):
    """N V/σ² of the mean and of the tail's probability, from the proposals that 12,000 simulations teach."""
    run = ask(EXPONENTIAL, [THETA, TAIL], 12_000, seed=7, **options).run
    return np.array([exact(run.store.proposals[-1], p_exponential, psi) / unit for psi, unit in PSI.values()])


def test_importance_moves_simulations_and_the_worst_error_is_reduced():
    both = relative_errors()
    mean = relative_errors(importance={"probability:theta > 3": 0.01})
    tail = relative_errors(importance={"mean:theta": 0.01})
    worst = relative_errors(goal="worst")
    assert mean[0] < 0.85 * tail[0]
    assert tail[1] < 0.8 * mean[1]
    assert tail.argmax() == 0
    assert worst.max() < 0.85 * tail.max(), "the largest relative error, then that of the mean, is reduced"
    assert worst.max() < 1.05 * both.max()
    assert (both > [8.0, 2.8]).all(), "(∫ p √m |ψ|)²/Z²/σ², which no design of independent draws is below"


def test_the_worst_error_is_the_least_possible():
    """Of draws from ω = base g the variances are V_j ∝ (Σ base g)(Σ base ψ_j²/g): g against the best by search.

    Four targets that are alike and one on the other side: the sum of squares cares little for that one.
    """
    rng = np.random.default_rng(2)
    n = 3000
    points = fbar.Points({"a": rng.standard_normal(n)})
    weights, base = np.full(n, 1 / n), np.full(n, 1.0)
    targets = [fbar.probability(f"a > {x}") for x in (2.0, 2.1, 2.2, 2.3)] + [fbar.probability("a < -2")]
    psi = np.concatenate([t.influence(points, weights) for t in targets], axis=1)
    square = psi**2 / (psi**2).mean(axis=0)

    def largest(g):
        return (base @ g * ((base / g) @ square)).max() / n**2

    found = {goal: largest(Aim.of(targets, goal, None).g(points, weights, base)) for goal in ("weighted", "worst")}
    best = min(
        largest(np.sqrt(square @ np.array([(1 - x) / 4] * 4 + [x]) + FLOOR**2)) for x in np.linspace(0.01, 0.99, 99)
    )
    assert found["worst"] < 0.9 * found["weighted"]
    assert found["worst"] < 1.02 * best


def cost(theta):
    return np.exp(4 * theta["a"])


def costly(theta, rng):
    return {"x": gauss(theta, rng), "cost": cost(theta)}


def test_per_second_goes_where_simulations_are_cheap():
    """Cost × variance of the last proposals by quadrature: at c = e^{4a}, a ~ U(−1, 1), lower by a third at least."""
    problem = fbar.Problem(fbar.Prior(a=stats.uniform(-1, 2)), costly, observed=0.0, cost="returned")
    second, single = (ask(problem, A, 6000, tolerance=0.5, per=per).run for per in ("second", "simulation"))

    def p(points):
        return stats.norm.cdf((0.5 - points["a"]) / 0.5) - stats.norm.cdf((-0.5 - points["a"]) / 0.5)

    product = [exact(run.store.proposals[-1], p, lambda t: t["a"], cost) for run in (second, single)]
    assert product[0] < 0.67 * product[1]
    assert everywhere(second).mean() < everywhere(single).mean() - 0.2
    assert second.spent_cost < single.spent_cost
    with pytest.raises(fbar.InputError, match="costs of this problem's simulations are not known"):
        ask(normal(), A, 1000, per="second")
