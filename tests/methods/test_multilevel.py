"""Multilevel ABC: the rules of every method, the coupling of its levels, and what it refuses."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.estimation.telescope import BIASED_COUPLING, LOOSELY_COUPLED, Coupling, TelescopingPosterior
from fbar.methods.levels.plans import Level, falling, ladder_to, parts_of, shares
from fbar.problems.models.filippi import RingPosterior
from fbar.testing import MethodConformance, finish

ROOT = Path(__file__).parents[2]


def location():
    """θ ~ U(−5, 5), y = θ + N(0, 1) = 1: the mean of ABC's posterior is 1 but for the prior's edges, 10⁻⁴."""
    return fbar.Problem(
        fbar.Prior(theta=stats.uniform(-5, 10)),
        lambda theta, rng: theta["theta"] + rng.standard_normal(theta.rows),
        observed=1.0,
        truth={"mean:theta": 1.0},
    )


def correlated():
    """Two parameters of which the data know θ₁ and θ₁ − θ₂."""

    def simulate(theta, rng):
        noise = 0.3 * rng.standard_normal((theta.rows, 2))
        return np.stack([theta["a"], theta["a"] - theta["b"]], axis=1) + noise

    prior = fbar.Prior(a=stats.uniform(-5, 10), b=stats.uniform(-5, 10))
    return fbar.Problem(prior, simulate, observed=[0.0, 0.0])


class TestMultilevel(MethodConformance):
    method = fbar.Multilevel(tolerance=0.5)
    budget = 1000
    problem = known = property(lambda self: location())


class TestMultilevelChoosesItsTolerance(MethodConformance):
    method = fbar.Multilevel()
    budget = 700
    problem = known = property(lambda self: location())


class TestMixtureOfLevels(MethodConformance):
    method = fbar.Multilevel(tolerance=0.5, weights="mixture")
    budget = 1000
    problem = known = property(lambda self: location())


class TestCoupling:
    def test_partners_are_quantiles_of_the_level_above(self):
        first, second = np.array([[0.1], [0.4], [0.6], [0.9]]), np.array([[0.55], [0.5]])
        made = Coupling([first, second])
        # Ĝ₀ reaches the levels ¼ and ¾ at its first and third value; the larger draw has the larger partner.
        assert made.partners[0].tolist() == [[0.6], [0.1]]

    def test_equal_levels_are_their_own_partners(self):
        draws = np.random.default_rng(1).random((50, 3))
        made = Coupling([draws, draws, draws])
        assert np.array_equal(made.partners[0], draws)
        assert np.array_equal(made.partners[1], draws)

    def test_distribution_functions_rise_to_one(self):
        rng = np.random.default_rng(2)
        made = Coupling([rng.random((40, 2)), rng.random((17, 2)) * 0.5, rng.random((9, 2)) * 0.3])
        for marginals in made.marginals:
            for one in marginals:
                assert (np.diff(one.x) >= 0).all()
                assert (np.diff(one.upto) >= 0).all()
                assert one.upto[-1] == pytest.approx(1)
                assert one.weights.sum() == pytest.approx(1)

    def test_the_levels_above_do_not_change_a_mean(self):
        """The sum over levels of a function of one parameter is the average over the last one, up to a quadrature."""
        rng = np.random.default_rng(3)
        levels = [rng.random((400, 1)), 0.3 + 0.4 * rng.random((60, 1)), 0.4 + 0.2 * rng.random((30, 1))]
        problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: t["theta"], observed=0.5)
        mean = fbar.mean("theta")
        found = float(TelescopingPosterior(problem, levels, 1000).value(mean)[0])
        last = float(levels[-1].mean())
        assert abs(found - last) < 0.003 < 0.5 * levels[-1].std() / math.sqrt(30)


class TestPlans:
    def test_ladders_fall_by_their_ratio_to_the_tolerance(self):
        assert ladder_to(1.0, 9.0, 2.0) == (8.0, 4.0, 2.0, 1.0)
        assert ladder_to(1.0, 8.0, 2.0) == (8.0, 4.0, 2.0, 1.0)
        assert ladder_to(1.0, 0.5, 2.0) == (1.0,)

    def test_simulations_are_shared_as_lagrange_says(self):
        """n_l c_l ∝ √(v_l c_l): the least Σ v_l/n_l."""
        assert shares(np.array([[4.0], [1.0]]), np.array([1.0, 4.0]), 1000, 1).tolist() == [500, 500]
        assert shares(np.array([[9.0], [1.0]]), np.ones(2), 1000, 1).tolist() == [750, 250]

    def test_every_level_gets_as_many_draws_as_in_the_pilot(self):
        costs = np.array([2.0, 4.0, 10.0])
        found = shares(np.array([[1.0], [0.0], [1e-9]]), costs, 10_000, 100)
        assert found.tolist() == [8600, 400, 1000]
        assert (shares(np.array([[1.0], [0.0], [0.0]]), costs, 1600, 200) / costs).tolist() == [100, 100, 100]
        assert (shares(np.array([[1.0], [np.nan], [1.0]]), costs, 10_000, 100) / costs).min() == 100
        assert (shares(np.zeros((0, 0)), costs, 1600, 10) / costs).tolist() == [100, 100, 100]

    def test_parts_add_up(self):
        assert parts_of(100, np.array([0.997, 0.002, 0.001])).tolist() == [98, 1, 1]
        assert parts_of(2, np.ones(3)).tolist() == [1, 1, 0]

    def test_a_box_holds_the_accepted_draws(self):
        level = Level(0, False, 1.0, np.zeros(2), np.ones(2))
        unit = np.array([[0.2, 0.9], [0.5, 0.1], [0.8, 0.5], [0.0, 0.0]])
        level.add(unit, np.array([0.5, 1.0, 2.0, np.nan]), 10)
        low, high = level.box()
        assert (low.tolist(), high.tolist()) == ([0.2, 0.1], [0.5, 0.9])
        assert level.cost == 2
        assert level.within(0.7)[1].tolist() == [10]
        below = Level(1, False, 0.5, low, high)
        assert below.density(unit).tolist() == pytest.approx([1 / 0.24, 1 / 0.24, 0, 0])

    def test_falling_refuses_what_does_not_fall(self):
        with pytest.raises(fbar.InputError, match="2 rises after 1"):
            falling([1, 2])
        with pytest.raises(fbar.InputError, match="1 repeats after 1"):
            falling([1, 1])
        with pytest.raises(fbar.InputError, match="finite"):
            falling([math.inf, 1])
        with pytest.raises(fbar.InputError, match="at least one tolerance"):
            falling([])


class TestTolerances:
    def test_another_last_tolerance_keeps_the_levels_above_it(self):
        method = fbar.Multilevel(tolerances=[4, 2, 1])
        assert method.final_tolerance == 1
        assert method.at_tolerance(1.5).tolerances == (4, 2, 1.5)
        assert fbar.Multilevel().at_tolerance(1.5).final_tolerance == 1.5

    def test_a_tolerance_that_accepts_most_is_one_level(self):
        run = fbar.Multilevel(tolerance=50).start(location(), fbar.mean("theta"), 1, 500)
        estimate = finish(run).expect(fbar.mean("theta"))
        assert run.ladder == (50,)
        assert any("the answer is almost the prior" in text for text in estimate.warnings)


class TestAnswers:
    def test_the_coupling_is_flagged_where_it_is_biased(self):
        """The covariance of two correlated parameters is wrong by far; its interval holds the truth all the same."""
        targets = [fbar.mean("theta1"), fbar.covariance("theta1", "theta2")]
        run = fbar.Multilevel(tolerances=[2560, 320, 40]).start(fbar.problems.filippi(), targets, 1, 10_000)
        points, weights = RingPosterior(0.0, 40.0).parts[0]
        truth = float(targets[1].value(points, weights / weights.sum())[0])
        mean, covariance = finish(run).expect(targets)
        assert mean.trusted
        assert not covariance.trusted
        assert BIASED_COUPLING in covariance.warnings
        assert covariance.value < 0 < 5 < truth
        assert covariance.bias > 0.5 * covariance.standard_error
        low, high = covariance.interval(0.95)
        assert low < truth < high

    def test_several_parameters_are_flagged_where_no_bias_is_seen(self):
        either = fbar.probability("a > b")
        estimate = finish(fbar.Multilevel(tolerance=0.5).start(correlated(), either, 1, 10_000)).expect(either)
        assert estimate.warnings == (LOOSELY_COUPLED,)

    def test_mixture_weights_know_the_covariance(self):
        """var(y₁) within the ball is ε²/4, so that cov(a, b) = 0.09 + 0.0625 (a − b and a are independent)."""
        method = fbar.Multilevel(tolerance=0.5, weights="mixture")
        estimate = finish(method.start(correlated(), fbar.covariance("a", "b"), 1, 20_000)).expect(
            fbar.covariance("a", "b")
        )
        assert estimate.trusted
        assert abs(estimate.value - 0.1525) < 4 * estimate.standard_error < 0.08

    def test_quantiles_come_from_the_monotone_distribution_function(self):
        levels = [fbar.quantile("theta", level) for level in (0.1, 0.5, 0.9)]
        run = fbar.Multilevel(tolerance=0.5).start(location(), levels, 1, 20_000)
        low, middle, high = finish(run).expect(levels)
        assert low.value < middle.value < high.value
        spread = math.sqrt(1 + 0.25 / 3)
        for estimate, level in ((low, 0.1), (middle, 0.5), (high, 0.9)):
            assert abs(estimate.value - 1 - spread * stats.norm.ppf(level)) < 5 * estimate.standard_error < 2

    def test_published_error_bars_are_flagged(self):
        method = fbar.Multilevel(tolerance=0.5, error_bars="published")
        estimate = finish(method.start(location(), fbar.mean("theta"), 1, 4000)).expect(fbar.mean("theta"))
        assert not estimate.trusted
        assert any("published error bars" in text for text in estimate.warnings)

    def test_one_level_is_rejection(self):
        run = fbar.Multilevel(tolerances=[0.5]).start(location(), fbar.mean("theta"), 1, 4000)
        posterior = finish(run)
        assert (posterior.weights > 0).all()
        estimate = posterior.expect(fbar.mean("theta"))
        assert estimate.trusted
        assert abs(estimate.value - 1) < 4 * estimate.standard_error

    def test_the_curve_has_the_levels(self):
        run = fbar.Multilevel(tolerances=[2, 1, 0.5]).start(location(), fbar.mean("theta"), 1, 4000)
        finish(run)
        assert [tolerance for tolerance, _ in run.curve()] == [2, 1, 0.5]
        with pytest.raises(fbar.InputError, match=r"tolerances of its levels, 2, 1, 0\.5; got 0\.7"):
            run.posterior_at(0.7)

    def test_more_simulations_are_shared_among_the_levels(self):
        run = fbar.Multilevel(tolerances=[2, 1, 0.5]).start(location(), fbar.mean("theta"), 1, 2000)
        finish(run)
        boxes = [(level.low.tolist(), level.high.tolist()) for level in run.main]
        before = [level.simulations for level in run.main]
        run.extend(budget=4000)
        finish(run)
        assert run.simulations == 4000
        assert all(level.simulations > n for level, n in zip(run.main, before, strict=True))
        assert [(level.low.tolist(), level.high.tolist()) for level in run.main] == boxes
        with pytest.raises(fbar.InputError, match="start another run for a smaller one"):
            run.extend(budget=5000, tolerance=0.1)

    def test_a_rule_may_end_it(self):
        method, rule = fbar.Multilevel(tolerance=0.5), fbar.StandardError("mean:theta", 0.08)
        result = fbar.infer(location(), fbar.mean("theta"), method=method, stop=rule, seed=1, progress=False)
        assert result["mean:theta"].standard_error <= 0.08
        assert len(result.run.main) == 3
        assert 4000 < result.simulations < 100_000

    def test_samples_and_predictions_are_those_of_the_last_level(self):
        """Nothing can be drawn from signed weights; the answer remarks on it."""
        result = fbar.infer(
            location(), fbar.mean("theta"), method=fbar.Multilevel(tolerance=0.5), budget=2000, seed=1, progress=False
        )
        assert (result.posterior.weights < 0).any()
        last, _ = result.posterior.last_level
        assert set(result.sample(50)["theta"]) <= set(last["theta"])
        assert "draws of the last level" in str(result)
        assert len(result.predict(20)) == 20

    def test_every_simulation_has_a_weight(self):
        """Σ w over all simulations is their number, up to chance: the boxes are a mixture that covers the prior."""
        run = fbar.Multilevel(tolerance=0.5).start(location(), fbar.mean("theta"), 1, 10_000)
        finish(run)
        everything = run.all_simulations()
        assert len(everything) == 10_000
        total = sum(portion.weights.sum() for portion in everything.portions())
        assert total == pytest.approx(10_000, rel=0.05)


class TestRecordedRuns:
    def test_a_run_is_resumed_to_the_same_answer(self, tmp_path):
        asked = {"method": "multilevel", "seed": 1, "progress": False}
        whole = fbar.infer(location(), fbar.mean("theta"), budget=1000, **asked)
        fbar.infer(location(), fbar.mean("theta"), budget=1000, run=tmp_path / "run", **asked)
        again = fbar.infer(location(), fbar.mean("theta"), budget=1000, run=tmp_path / "run", **asked)
        assert again["mean:theta"].value == whole["mean:theta"].value
        assert again.run.simulations == 1000

    def test_a_round_takes_its_plan_from_the_record(self):
        run = fbar.Multilevel(tolerances=[2, 1]).start(location(), fbar.mean("theta"), 1, 2000)
        batches = run.ask()
        run.tell(*((batch, fbar.simulate(run.problem, batch)) for batch in batches))
        state = dict(run.round_state())
        state["sizes"] = np.array([7])
        state["box"] = np.array([[0.25], [0.5]])
        run.restore_round(state)
        (batch,) = run.ask()
        assert batch.simulations == 7
        assert ((batch.points["theta"] >= -2.5) & (batch.points["theta"] <= 0)).all()


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"tolerances": [1, 2]}, "must fall from level to level"),
            ({"tolerance": 1, "tolerances": [2, 1]}, "not both"),
            ({"tolerance": 0}, "no geometric ladder"),
            ({"ratio": 1}, "must be above 1"),
            ({"trials": 5}, "at least 10"),
            ({"weights": "last"}, "weights"),
            ({"error_bars": "none"}, "error_bars"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(fbar.InputError, match=message):
            fbar.Multilevel(**settings)

    def test_a_budget_that_is_too_small(self):
        with pytest.raises(fbar.InputError, match="at least 100 simulations"):
            fbar.Multilevel(tolerance=1).start(location(), fbar.mean("theta"), 1, 50)

    def test_neither_budget_nor_tolerance(self):
        with pytest.raises(fbar.InputError, match="give budget=, or tolerance="):
            fbar.Multilevel().start(location(), fbar.mean("theta"), 1, limit=1000)

    def test_finite_priors_and_problems_without_distances(self):
        finite = fbar.Problem(fbar.Finite(theta=[1.0, 2.0]), lambda t, rng: t["theta"], observed=1.0)
        with pytest.raises(fbar.InputError, match="parameter by parameter"):
            fbar.Multilevel().start(finite, fbar.mean("theta"), 1, 1000)
        with pytest.raises(fbar.InputError, match="distances"):
            fbar.Multilevel().start(fbar.problems.load("ramp"), fbar.mean("theta"), 1, 1000)

    def test_nothing_accepted(self):
        run = fbar.Multilevel(tolerances=[1e-9, 1e-10]).start(location(), fbar.mean("theta"), 1, 300)
        with pytest.raises(fbar.NoPosterior, match="all 300 simulations were rejected"):
            finish(run)

    @pytest.mark.parametrize("method", [fbar.Multilevel(), fbar.Multilevel(tolerance=1.0)])
    def test_no_simulation_succeeds(self, method):
        prior = fbar.Prior(theta=stats.uniform(-5, 10))
        problem = fbar.Problem(prior, lambda t, rng: np.full(t.rows, np.nan), observed=1.0)
        with pytest.raises(fbar.NoPosterior, match="all 300 simulations were rejected"):
            finish(method.start(problem, fbar.mean("theta"), 1, 300))

    def test_a_tolerance_out_of_reach(self):
        result = fbar.infer(
            location(),
            fbar.mean("theta"),
            method=fbar.Multilevel(tolerance=1e-6),
            budget=2000,
            seed=1,
            progress=False,
        )
        assert any("the requested tolerance 1e-06 was not reached" in text for text in result.warnings)
        assert not result["mean:theta"].trusted
        assert result.run.simulations == 2000

    def test_targets_that_need_a_density(self):
        with pytest.raises(fbar.InputError, match="signed weights"):
            fbar.Multilevel(tolerance=1).start(location(), fbar.hdi("theta"), 1, 1000)
        posterior = finish(fbar.Multilevel(tolerance=1).start(location(), fbar.mean("theta"), 1, 1000))
        with pytest.raises(fbar.InputError, match="signed weights"):
            posterior.expect(fbar.density_at("theta", 1.0))
        run = fbar.Multilevel(tolerance=1, weights="mixture").start(location(), fbar.hdi("theta"), 1, 1000)
        assert np.isfinite(finish(run).expect(fbar.hdi("theta")).value).all()

    def test_targets_of_recorded_outputs(self):
        def simulate(theta, rng):
            return {"x": theta["theta"] + rng.standard_normal(theta.rows), "z": theta["theta"] ** 2}

        problem = fbar.Problem(fbar.Prior(theta=stats.uniform(-5, 10)), simulate, observed=1.0, records=["z"])
        with pytest.raises(fbar.InputError, match="no recorded outputs at the partners"):
            fbar.Multilevel(tolerance=1).start(problem, fbar.mean("z"), 1, 1000)
        mixed = finish(fbar.Multilevel(tolerance=1, weights="mixture").start(problem, fbar.mean("z"), 1, 2000))
        assert mixed.expect(fbar.mean("z")).value == pytest.approx(mixed.value(fbar.second_moment("theta"))[0])

    def test_simulations_that_fail_are_rejected(self):
        def simulate(theta, rng):
            return np.where(rng.random(theta.rows) < 0.3, np.nan, theta["theta"] + rng.standard_normal(theta.rows))

        problem = fbar.Problem(fbar.Prior(theta=stats.uniform(-5, 10)), simulate, observed=1.0)
        estimate = finish(fbar.Multilevel(tolerance=0.5).start(problem, fbar.mean("theta"), 1, 4000)).expect(
            fbar.mean("theta")
        )
        assert abs(estimate.value - 1) < 4 * estimate.standard_error


class TestThePage:
    def test_its_table_is_that_of_the_measurement(self):
        """docs/methods/multilevel.md quotes benchmarks/systems/multilevel.csv."""
        with (ROOT / "benchmarks" / "systems" / "multilevel.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        page = (ROOT / "docs" / "methods" / "multilevel.md").read_text(encoding="utf-8")
        shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
        heads, found = shown[0], [dict(zip(shown[0], cells, strict=True)) for cells in shown[2:]]
        sums = [row for row in rows if row["method"] == "multilevel"]
        assert len(found) == len(sums) > 5
        for line, row in zip(found, sums, strict=True):
            assert line["target"] == f"`{row['target']}`"
            assert line["bias"] == f"{row['bias']} ± {row['bias_se']}"
            assert (line["published"], line["stated"]) == (row["published"], row["stated"])
            assert line["held"] == f"{float(row['coverage']):.0%}"
            for method in heads[8:]:
                own = [r["rmse"] for r in rows if r["method"] == method and _of(r) == _of(row)]
                assert line[method] == "".join(own)


def _of(row):
    return row["problem"], row["simulations"], row["target"]
