"""Targeted runs on problems of every kind, and input that is refused.

Random results are compared with known values at |z| < 4.5 (once in 150,000 times by chance) unless a test says more.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.designs.proposals import Learned
from fbar.designs.proposals.learned import Table
from fbar.methods.aiming.aim import Aim
from fbar.methods.aiming.learning import learn
from fbar.question.acceptance import Acceptance
from fbar.testing import same
from targeted_runs import EXPONENTIAL, NESTED, THETA, A, ask, gauss, normal, until

pytestmark = pytest.mark.arithmetic


def discrete_prior(theta, rng):
    shift = np.where(theta["c"] == "u", 1.0, 0.0)
    return theta["a"] + shift + 0.2 * theta["k"] + 0.3 * rng.standard_normal(theta.rows)


def failing_above(theta, rng):
    x = gauss(theta, rng)
    x[theta["a"] > 1] = np.nan
    return x


def wide(names):
    def simulate(theta, rng):
        centre = np.stack([theta[name] for name in names], axis=1)
        return centre + 0.3 * rng.standard_normal(centre.shape)

    return simulate


TEN = [f"t{i}" for i in range(10)]
CONSTANT = fbar.expectation(lambda t: np.full(t.rows, 0.1), name="constant")
KINDS = {
    "rule": (normal(accept=lambda s, o: np.abs(s - o) < 0.1), [A]),
    "labels": (
        fbar.Problem(
            fbar.Prior(a=stats.uniform(0, 1)),
            lambda t, rng: np.where(rng.random(t.rows) < t["a"], "yes", "no"),
            observed="yes",
        ),
        [A],
    ),
    "failures": (normal(failing_above), [A]),
    "discrete": (
        fbar.Problem(
            fbar.Prior(c=fbar.Categorical(["u", "v"], [0.3, 0.7]), a=stats.norm(0, 1), k=stats.randint(0, 4)),
            discrete_prior,
            observed=1.0,
        ),
        [A, fbar.mean("k"), fbar.probability("c == 'u'")],
    ),
    "conditional": (
        fbar.Problem(fbar.Prior(s=stats.expon(), a=lambda t: stats.norm(0, 0.1 + t["s"])), gauss, observed=0.5),
        [A, fbar.mean("s")],
    ),
    "transform": (
        fbar.Problem(
            fbar.UnitTransform(lambda u: {"a": u[:, 0], "b": u[:, 0] * u[:, 1]}, ["a", "b"]),
            lambda t, rng: t["a"] + t["b"] + 0.1 * rng.standard_normal(t.rows),
            observed=0.7,
        ),
        [A, fbar.mean("b")],
    ),
    "models": (
        fbar.Problem.models(
            {
                "A": fbar.Model(lambda t, rng: rng.poisson(t["a"]), fbar.Prior(a=stats.gamma(2))),
                "B": lambda t, rng: rng.poisson(2.0, t.rows),
                "C": fbar.Model(lambda t, rng: rng.poisson(t["k"]), fbar.Finite(k=[0.5, 1.0, 2.0, 9.0])),
            },
            2,
        ),
        [fbar.model_probability("C"), A, fbar.mean("k")],
    ),
    "recorded": (
        normal(lambda t, rng: {"x": gauss(t, rng), "more": t["a"] ** 2 + rng.random(t.rows)}, records=["more"]),
        [fbar.mean("more"), A],
    ),
    "vector and functionals": (
        normal(),
        [
            fbar.expectation(lambda t: np.stack([t["a"], t["a"] ** 2], axis=1), vector=True, name="both"),
            fbar.quantile("a", 0.9),
            fbar.density_at("a", 0.5),
            fbar.variance("a"),
        ],
    ),
    "constant": (normal(), [CONSTANT]),
    "constant and more": (normal(), [CONSTANT, A]),
    "ten parameters": (
        fbar.Problem(fbar.Prior(**{n: stats.norm(0, 1) for n in TEN}), wide(TEN), observed=np.full(10, 0.2)),
        [fbar.mean(name) for name in TEN],
    ),
    "event": (EXPONENTIAL, [THETA]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [2, 4])
def test_every_kind_of_problem_and_every_budget_gives_an_answer_or_says_why(kind, groups):
    """From one simulation on: exactly the budget is spent, warnings of numpy are errors, few acceptances no trust."""
    problem, targets = KINDS[kind]
    for budget in (1, 2, 3, 10, 40, 300, 1500):
        for seed in range(3 if budget < 1000 else 1):
            run = fbar.Targeted(groups=groups).start(problem, targets, seed, budget)
            fbar.drive(run)
            assert run.simulations == budget
            assert sum(stage.simulations for stage in run.stages()) == budget
            try:
                posterior = run.posterior()
            except fbar.NoPosterior:
                assert budget <= 300
                continue
            found = posterior.expect(list(targets))
            if posterior.points.rows < 10:
                assert not any(np.all(estimate.trusted) for estimate in found)
            if budget == 1500:
                assert all(np.isfinite(estimate.value).all() for estimate in found)


def test_models_cells_and_discrete_parameters_get_their_probabilities():
    """Exact posteriors by sums: Σz over eight runs within 4.5."""
    problem, _ = KINDS["models"]
    targets = [fbar.model_probability("B"), fbar.model_probability("C"), fbar.mean("k")]
    k = np.array([0.5, 1.0, 2.0, 9.0])
    a = 3 / 16  # ∫ λ e^−λ λ² e^−λ/2 dλ = Γ(4)/2⁴/2
    b, c = stats.poisson.pmf(2, 2.0), stats.poisson.pmf(2, k)
    truth = np.array([b, c.mean(), 0]) / (a + b + c.mean())
    truth[2] = (k * c).sum() / c.sum()
    z = []
    for seed in range(8):
        found = ask(problem, targets, 2500, seed=seed, tolerance=0.0).estimates
        z.append([(e.value - t) / e.standard_error for e, t in zip(found, truth, strict=True)])
    z = np.array(z)
    assert (np.abs(z.sum(0)) / math.sqrt(8) < 4.5).all()
    assert ((z**2).mean(0) < stats.chi2(8).ppf(1 - 1e-5) / 8 * 1.2).all()


def test_equal_simulations_do_not_take_each_others_acceptances_away():
    """m2 of a model of finitely many values is the acceptance rate of the value, never below zero."""
    problem, _ = KINDS["models"]
    run = until(fbar.Targeted(tolerance=0.0).start(problem, fbar.mean("k"), 1, 4000), 2)
    lesson = learn(
        run.store,
        None,
        Acceptance(0.0),
        Aim.of([fbar.mean("k")], "weighted", None),
        0.1,
        np.random.default_rng(0),
    )
    assert np.isfinite(lesson.proposal.shares).all()
    table = lesson.proposal.parts[2]
    assert isinstance(table, Table)
    assert np.isfinite(table.probabilities).all()


def test_a_model_that_nothing_was_accepted_of_is_not_forgotten():
    """Model 2 is accepted once in 200 draws of the prior: left to the defence, one run in ten would never see it."""
    target, unseen = fbar.model_probability(2), 0
    for seed in range(30):
        run = until(fbar.Targeted().start(NESTED, target, seed, 2000), 1)
        hit = run.store.everything.accepted(Acceptance(0.0))[0]
        for a, q in enumerate(run.store.proposals[1]):
            if isinstance(q, Learned):
                others = hit[run.store.everything.group_of(hit) != a]
                unseen += not (run.store.take(others).model == 1).any()
                assert q.shares[1] > 0.05
    assert unseen > 5


def test_simulations_that_all_fail_end_with_the_reason():
    problem = normal(lambda t, rng: np.full(t.rows, np.nan))
    for budget in (3, 40, 2000):
        with pytest.raises(fbar.SimulatorFailed, match="not finite"):
            ask(problem, A, budget)
        for tolerance, reason in (("chosen", f"all {budget} simulations were rejected"), (None, f"0 of {budget:,} ")):
            run = fbar.Targeted(tolerance=tolerance).start(problem, A, 1, budget)
            while batches := run.ask():
                run.tell(*[(batch, fbar.simulate(problem, batch)) for batch in batches])
            with pytest.raises(fbar.NoPosterior, match=reason):
                run.posterior()


def test_failures_are_rejections():
    """x fails where a > 1: the posterior is N(0.4, 0.2) cut at 1."""
    truth = stats.truncnorm(-math.inf, 0.6 / math.sqrt(0.2), 0.4, math.sqrt(0.2)).mean()
    z = []
    for seed in range(8):
        result = ask(normal(failing_above), A, 2500, seed=seed, tolerance=0.1)
        z.append((result.estimates[0].value - truth) / result.estimates[0].standard_error)
        assert any("failed and were rejected" in text for text in result.warnings)
    assert abs(sum(z)) / math.sqrt(8) < 4.5


def test_on_a_finite_space_it_is_the_adaptive_allocation():
    problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    ours = fbar.infer(problem, THETA, method=fbar.Targeted(), budget=3000, seed=4)
    theirs = fbar.infer(problem, THETA, method=fbar.AdaptiveAllocation(), budget=3000, seed=4)
    assert same(ours.posterior, theirs.posterior, THETA)
    with pytest.raises(fbar.InputError, match="importance names 'mean:b', which is not a target"):
        ask(problem, THETA, 100, importance={"mean:b": 2})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"groups": 1}, "at least 2; got groups=1"),
        ({"groups": 2.5}, "groups must be a positive integer"),
        ({"defence": 0}, "defence must lie between 0 and 1"),
        ({"defence": 1}, "defence must lie between 0 and 1"),
        ({"defence": -0.1}, "defence must be"),
        ({"defence": math.nan}, "defence must be"),
        ({"goal": "best"}, "goal"),
        ({"per": "hour"}, "per"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"tolerance": 0, "kernel": "gaussian"}, "needs a tolerance above 0"),
        ({"kernel": "square"}, "acceptance kernel"),
        ({"importance": {"mean:a": -1}}, "the importance of 'mean:a' must be a number of at least 0"),
        ({"importance": {"mean:a": math.nan}}, "the importance of 'mean:a' must be a number of at least 0"),
        ({"importance": {"mean:a": math.inf}}, "the importance of 'mean:a' must be finite"),
        ({"importance": {"mean:a": "much"}}, "the importance of 'mean:a' must be a number"),
        ({"importance": [1, 2]}, "importance must map target names to weights"),
    ],
)
def test_settings_are_checked(options, match):
    with pytest.raises(fbar.InputError, match=match):
        fbar.Targeted(**options)


def test_what_a_run_is_asked_is_checked():
    with pytest.raises(fbar.InputError, match="importance names 'mean:b', which is not a target; targets: mean:a"):
        ask(normal(), A, 100, importance={"mean:b": 1})
    with pytest.raises(fbar.InputError, match="importance of every target is 0"):
        ask(normal(), A, 100, importance={"mean:a": 0})
    with pytest.raises(fbar.InputError, match="trials= needs a finite parameter space"):
        fbar.Targeted().start(normal(), A, 1, 100, trials=3)
    with pytest.raises(fbar.InputError, match="leave tolerance and kernel at their defaults"):
        ask(EXPONENTIAL, THETA, 100, tolerance=1.0)
    run = fbar.Targeted(tolerance=0.5).start(normal(), A, 1, 100)
    with pytest.raises(fbar.NoPosterior, match="there are no simulations yet"):
        run.posterior()
    with pytest.raises(fbar.InputError, match="tell takes pairs"):
        run.tell((run.ask()[0], None))
