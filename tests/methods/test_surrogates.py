"""Gaussian-process surrogates: the rules of every method, the published formulas, answers, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

import fbar
from fbar.methods.surrogates.acquisition import integrated_variance, lower_confidence_bound
from fbar.methods.surrogates.distances import POWERS, scaled, threshold, tolerance
from fbar.methods.surrogates.gaussian_process import GaussianProcess, Hyperparameters, fitted
from fbar.methods.surrogates.posterior import within
from fbar.methods.surrogates.sampling import Threshold, sampled, weighted
from fbar.question.space import Space
from fbar.testing import MethodConformance, finish

TOLERANCE = 0.6


def normal(theta, rng):
    return theta["theta"] + 0.5 * rng.standard_normal(theta.rows)


PRIOR = fbar.Prior(theta=stats.norm(0, 2))
PROBLEM = fbar.Problem(PRIOR, normal, observed=1.0)
EXACT = 4 / 4.25, np.sqrt(4 * 0.25 / 4.25)
"""The posterior's mean and standard deviation."""


def abc_mean():
    """That of ABC's posterior at the tolerance, by quadrature."""

    def density(t):
        return stats.norm.pdf(t, 0, 2) * (ndtr((1 + TOLERANCE - t) / 0.5) - ndtr((1 - TOLERANCE - t) / 0.5))

    mass, first = (integrate.quad(f, -8, 8)[0] for f in (density, lambda t: t * density(t)))
    return first / mass


class SurrogateConformance(MethodConformance):
    budget = 30
    block_size = 5

    @property
    def problem(self):
        return PROBLEM

    @property
    def known(self):
        return PROBLEM.replace(truth={"mean:theta": abc_mean()})

    def test_estimates_lie_within_their_error_bars_of_the_truth(self):
        """Of 8 intervals that cover 90%, more than 4 miss with a probability of 4 in 10,000; benchmarks have more."""
        runs = [self.method.start(self.known, self.target, seed, self.budget) for seed in range(8)]
        limits = [finish(run).expect(self.target).interval() for run in runs]
        assert sum(not low <= abc_mean() <= high for low, high in limits) <= 4


class TestBOLFI(SurrogateConformance):
    method = fbar.BOLFI(tolerance=TOLERANCE, initial=12, batch=9)


class TestIntegratedVariance(SurrogateConformance):
    method = fbar.BOLFI("eiv", tolerance=TOLERANCE, initial=12, batch=9)


# ------------------------------------------------------------ the Gaussian process


@pytest.fixture(scope="module")
def process():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((25, 2))
    y = 3 + 2 * (x[:, 0] ** 2 + np.abs(x[:, 1]) + 0.3 * rng.standard_normal(25))
    return GaussianProcess(x, y, fitted(x, y))


POINTS = np.random.default_rng(2).standard_normal((40, 2))


def with_further(process, x, y):
    """The same hyperparameters, and one more simulation."""
    return GaussianProcess(np.vstack([process.x, x]), np.append(process.y, y), process.hyperparameters)


def test_the_gaussian_process_is_scikit_learns(process):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    known = process.hyperparameters
    kernel = 10 * DotProduct(1.0) ** 2 + ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel()
    amplitude, *lengths, noise = np.exp(known.logs)
    kernel.set_params(k1__k2__k1__constant_value=amplitude, k1__k2__k2__length_scale=lengths, k2__noise_level=noise)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(process.x, (process.y - known.centre) / known.spread)
    mean, covariance = model.predict(POINTS, return_cov=True)
    here = process.at(POINTS)
    assert np.allclose(here.mean, known.centre + known.spread * mean, rtol=1e-6)
    latent = covariance - noise * np.eye(len(POINTS))
    assert np.allclose(here.variance, known.spread**2 * np.diag(latent), rtol=1e-4, atol=1e-8)
    assert np.allclose(here.column(3), known.spread**2 * latent[:, 3], rtol=1e-4, atol=1e-6)
    assert process.least_simulated == pytest.approx(process.at(process.x).mean.min(), rel=1e-6)


def test_what_a_simulation_leaves_of_the_variance_is_known_before_it_is_run(process):
    here, later = process.at(POINTS), with_further(process, POINTS[:1], 5.0).at(POINTS)
    here.condition(0, process.noise)
    assert np.allclose(here.variance, later.variance, rtol=1e-5)
    assert np.allclose(here.column(7), with_further(process, POINTS[:1], -9.0).at(POINTS).column(7), atol=1e-6)


def test_each_simulation_is_predicted_from_all_others(process):
    mean, variance = process.left_out
    others = GaussianProcess(process.x[1:], process.y[1:], process.hyperparameters).at(process.x[:1])
    assert mean[0] == pytest.approx(others.mean[0], rel=1e-5)
    assert variance[0] == pytest.approx(others.variance[0] + process.noise, rel=1e-5)
    expected, spread, seen = within(process, float(np.median(process.y)))
    assert seen == 13
    assert abs(seen - expected) < 3 * spread


def test_functions_are_drawn_with_the_covariance_of_the_process(process):
    here = process.at(POINTS)
    mean, variance, column = here.mean, here.variance.copy(), here.column(0)
    drawn = here.functions(20_000, np.random.default_rng(3), 40)
    assert np.allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 20_000))
    assert np.allclose(np.cov(drawn.T)[0], column, atol=0.05 * variance.max())


# ------------------------------------------------------------ acquisition


def test_the_lower_confidence_bound_is_the_published_one(process):
    (first,) = lower_confidence_bound(process, POINTS, 1)
    here = process.at(POINTS)
    eta = np.sqrt(2 * np.log(25.0**6 * np.pi**2 / 0.3))
    assert np.array_equal(first, POINTS[np.argmin(here.mean - eta * np.sqrt(here.variance))])
    batch = lower_confidence_bound(process, POINTS, 5)
    assert len(np.unique(batch, axis=0)) > 1  # pending points count as simulated


def test_the_integrated_variance_is_the_smallest_that_can_be_expected(process):
    """By brute force: y at each candidate by quadrature, and var Φ((h − f)/σ) by quadrature over f."""
    h, noise = 6.0, process.noise
    places, candidates = POINTS[:12], POINTS[12:18]
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    weights = weights / weights.sum()

    def variance(at):
        f = at.mean[:, None] + np.sqrt(at.variance)[:, None] * nodes
        chance = ndtr((h - f) / np.sqrt(noise))
        return chance**2 @ weights - (chance @ weights) ** 2

    left = []
    for candidate in candidates:
        there = process.at(candidate[None])
        ys = there.mean[0] + np.sqrt(there.variance[0] + noise) * nodes
        after = [variance(with_further(process, candidate[None], y).at(places)).mean() for y in ys]
        left.append(weights @ after)
    known = weighted(process, process.at(places), np.zeros(len(places)), h)
    (chosen,) = integrated_variance(process, candidates, known, 0, 1)
    assert np.array_equal(chosen, candidates[np.argmin(left)])


def test_the_posterior_of_a_surrogate_is_sampled(process):
    space = Space(fbar.Prior(a=stats.norm(), b=stats.norm()), "normal")
    found = sampled(process, space, Threshold(5.0, 0.0), 2048, np.random.default_rng(1))
    x = np.random.default_rng(2).standard_normal((200_000, 2))
    here = process.at(x[:20_000])
    like = ndtr((5.0 - here.mean) / np.sqrt(here.variance + process.noise))
    mean = like @ x[:20_000] / like.sum()
    assert np.allclose(found.weights @ found.x, mean, atol=0.05)
    assert found.accepted_share == pytest.approx(like.mean(), rel=0.05)
    lowest = sampled(process, space, Threshold(None, 0.0), 256, np.random.default_rng(1)).threshold
    assert lowest == pytest.approx(here.mean.min(), abs=0.1)


# ------------------------------------------------------------ distances


@pytest.mark.parametrize("power", POWERS.values())
def test_scales_of_distances_have_inverses(power):
    assert tolerance(threshold(0.3, power), power) == pytest.approx(0.3)
    assert np.allclose(scaled(np.array([0.3, np.nan, 0.7]), power), [threshold(d, power) for d in (0.3, 0.7, 0.7)])


def test_a_distance_of_0_has_a_logarithm():
    assert np.allclose(scaled(np.array([0.0, 2.0, 4.0]), 0.0), np.log([1.0, 2.0, 4.0]))


# ------------------------------------------------------------ answers


@pytest.mark.parametrize("name", ["bolfi", "bolfi-eiv"])
def test_a_hundred_simulations_are_enough_for_a_rough_answer(name):
    result = fbar.infer(PROBLEM, [fbar.mean("theta"), fbar.sd("theta")], method=name, budget=80, seed=3, progress=False)
    mean, sd = result.estimates
    assert mean.value == pytest.approx(EXACT[0], abs=0.3)
    assert sd.value == pytest.approx(EXACT[1], abs=0.3)
    assert 0 < mean.bias < mean.standard_error < 0.4
    assert result.posterior.about.endswith("the smallest distance that the surrogate expects")
    assert result.tolerance == pytest.approx(float(result.posterior.about.split()[4].strip(",")), rel=1e-3)
    assert result.at(2.0)["sd:theta"].value > sd.value
    assert [stage.simulations for stage in result.run.stages()] == [20, 60]
    assert result.run.forecast(fbar.mean("theta"), 0.01) is None
    assert mean.trusted == (name == "bolfi-eiv")  # the other's intervals held too rarely
    with pytest.raises(fbar.InputError, match="cannot be adjusted"):
        result.adjusted()


def test_simulations_find_the_way_to_a_tolerance_that_is_out_of_reach_at_first():
    wide = fbar.Problem(
        fbar.Prior(theta=stats.uniform(-500, 1000)), lambda t, rng: t["theta"] + rng.normal(size=t.rows), observed=137.0
    )
    run = fbar.BOLFI("eiv", tolerance=2.0, initial=12, batch=6).start(wide, fbar.mean("theta"), 1, 42)
    finish(run)
    assert (run.distance[:12] > 2).all()
    assert (run.distance[12:] < 20).sum() >= 10


def test_a_run_is_resumed_with_the_recorded_points(tmp_path):
    method, asked = fbar.BOLFI(initial=12, batch=9), {"seed": 1, "progress": False, "run": tmp_path / "run"}
    fbar.infer(PROBLEM, fbar.mean("theta"), method=method, budget=30, **asked)
    longer = fbar.extend(tmp_path / "run", PROBLEM, budget=39, progress=False)
    again = fbar.load(tmp_path / "run", PROBLEM)
    assert longer.simulations == again.simulations == 39
    assert str(longer.estimates) == str(again.estimates)


def test_a_round_asks_for_the_points_of_its_record():
    run = fbar.BOLFI(initial=12, batch=3).start(PROBLEM, fbar.mean("theta"), 1, 30)
    assert run.round_state() is None  # the first round follows from the seed
    run.tell(*((batch, fbar.simulate(PROBLEM, batch)) for batch in run.ask()))
    state = run.round_state()
    run.restore_round({**state, "x": np.zeros((3, 1)), "logs": state["logs"] + 0.1})
    (batch,) = run.ask()
    assert np.array_equal(batch.points["theta"], np.zeros(3))
    assert np.array_equal(run.round_state()["logs"], state["logs"] + 0.1)
    assert isinstance(run.hyperparameters, Hyperparameters)


def test_slow_simulations_of_a_batch_can_run_in_parallel():
    slow = PROBLEM.replace(simulate=fbar.each(lambda t, rng: t["theta"] + 0.5 * rng.standard_normal()))
    assert [batch.simulations for batch in fbar.BOLFI().start(slow, fbar.mean("theta"), 1, 60).ask()] == [1] * 20


# ------------------------------------------------------------ bad input


def driven(problem, budget=30, **settings):
    return finish(fbar.BOLFI(initial=12, batch=9, **settings).start(problem, fbar.mean("theta"), 1, budget))


def test_distances_that_are_all_the_same_give_no_posterior():
    with pytest.raises(fbar.NoPosterior, match="equally far from the data"):
        driven(PROBLEM.replace(simulate=lambda theta, rng: np.full(theta.rows, 3.0)))


def test_simulations_that_fail_are_far_from_the_data():
    def fails(theta, rng):
        return np.where(theta["theta"] > 2, np.nan, normal(theta, rng))

    posterior = driven(PROBLEM.replace(simulate=fails), 39)
    assert posterior.value(fbar.mean("theta"))[0] < 2
    with pytest.raises(fbar.NoPosterior, match="0 of 30 simulations have a distance"):
        driven(PROBLEM.replace(simulate=lambda theta, rng: np.full(theta.rows, np.nan)))


def test_duplicate_points_do_no_harm():
    x = np.repeat(np.linspace(-1, 1, 6)[:, None], 4, axis=0)
    y = x[:, 0] ** 2
    assert np.allclose(GaussianProcess(x, y, fitted(x, y)).at(x).mean, y, atol=0.02)


def test_a_budget_of_the_initial_design_is_flagged():
    posterior = finish(fbar.BOLFI().start(PROBLEM, fbar.mean("theta"), 1, 15))
    assert any("all 15 simulations are from the prior" in doubt for doubt in posterior.doubts)
    assert not posterior.expect(fbar.mean("theta")).trusted


def test_a_tolerance_that_no_simulation_came_within_is_flagged():
    posterior = driven(PROBLEM, tolerance=1e-6)
    assert any(doubt.startswith("0 simulations came within the tolerance 1e-06") for doubt in posterior.doubts)


@pytest.mark.parametrize(
    ("problem", "budget", "message"),
    [
        (PROBLEM, 9, "needs at least 10 simulations, better 40; got 9"),
        (PROBLEM, 2000, "at most 1,500 simulations"),
        (fbar.Problem(fbar.Finite(theta=[1, 2]), normal, observed=1.0), 30, "discrete parameters"),
        (fbar.Problem(fbar.Prior(theta=stats.poisson(3)), normal, observed=1.0), 30, "discrete parameters"),
        (fbar.Problem.models({"a": fbar.Model(normal, PRIOR), "b": normal}, observed=1.0), 30, "a choice of models"),
        (fbar.Problem.bernoulli(PRIOR, lambda t: ndtr(t["theta"])), 30, "only match its data or do not"),
    ],
)
def test_what_a_surrogate_cannot_do_is_refused(problem, budget, message):
    target = fbar.mean("theta") if "theta" in problem.names else fbar.model_probability("a")
    with pytest.raises(fbar.InputError, match=message):
        fbar.BOLFI().start(problem, target, 1, budget)


@pytest.mark.parametrize(
    "settings", [{"acquisition": "ucb"}, {"scale": "cube"}, {"tolerance": 0}, {"initial": 0}, {"batch": 0}]
)
def test_settings_are_checked(settings):
    with pytest.raises(fbar.InputError, match=next(iter(settings))):
        fbar.BOLFI(**settings)


def test_simulations_that_were_chosen_have_no_weights():
    run = fbar.BOLFI().start(PROBLEM, fbar.mean("theta"), 1, 30)
    with pytest.raises(fbar.InputError, match="they have no weights"):
        run.all_simulations()
