"""Densities from simulations, a user's own estimate of the likelihood, and inverse binomial sampling."""

import math

import numpy as np
import pytest
from scipy import stats

import fbar
from fbar.methods.worth.density import Scale, epanechnikov, silverman
from fbar.methods.worth.until_match import Matches
from fbar.methods.worth.valuation import Replicates
from fbar.testing import MethodConformance, finish

NUMBERS = stats.norm.ppf((np.arange(50) + 0.5) / 50) + 0.7


def simulate_numbers(theta, rng):
    return theta["theta"][:, None] + rng.normal(size=(theta.rows, 50))


def numbers_problem():
    """Fifty normal numbers of mean 0.7 and a standard normal prior: the posterior is N(0.7 · 50/51, 1/51)."""
    truth = {"mean:theta": 0.7 * 50 / 51}
    return fbar.Problem(fbar.Prior(theta=stats.norm(0, 1)), simulate_numbers, NUMBERS, truth=truth)


class TestDensityApproximation(MethodConformance):
    method = fbar.DensityApproximation(replicates=10)
    budget = 800
    runs = 40

    @property
    def problem(self):
        return numbers_problem()

    known = problem


def noisy(theta, rng):
    """log N(1; θ, 1) with an error of variance 4 in the logarithm, and no bias in the likelihood."""
    return stats.norm.logpdf(1.0, theta["theta"], 1.0) + 2 * rng.normal(size=theta.rows) - 2


class TestPseudoMarginal(MethodConformance):
    method = fbar.PseudoMarginal()
    budget = 1500
    runs = 60

    @property
    def problem(self):
        return fbar.with_likelihood(fbar.Prior(theta=stats.norm(0, 1)), noisy, truth={"mean:theta": 0.5})

    known = problem


class TestEstimatesOfEitherSign(TestPseudoMarginal):
    @property
    def problem(self):
        def estimate(theta, rng):
            return stats.norm.pdf(1.0, theta["theta"], 1.0) * (1 + 1.5 * rng.normal(size=theta.rows))

        return fbar.with_likelihood(fbar.Prior(theta=stats.norm(0, 1)), estimate, log=False, truth={"mean:theta": 0.5})

    known = problem


FLIPS = np.array([1, 0, 1, 1])


class TestUntilMatch(MethodConformance):
    method = fbar.UntilMatch()
    budget = 4000
    runs = 40
    answers_after = 3000

    @property
    def problem(self):
        """The posterior of a coin after three heads and a tail: Beta(4, 2)."""
        return fbar.Problem(
            fbar.Prior(theta=stats.uniform(0, 1)),
            lambda t, rng: (rng.random((t.rows, 4)) < t["theta"][:, None]).astype(int),
            FLIPS,
            truth={"mean:theta": 4 / 6},
        )

    known = problem


class TestUntilMatchInLogarithms(TestUntilMatch):
    method = fbar.UntilMatch("log-likelihood", matches=6)


def test_the_kernel_density_is_the_sum_of_kernels():
    rng = np.random.default_rng(1)
    y, at, h = np.sort(rng.normal(size=300)), np.linspace(-2, 2, 9), 0.7
    u = (at[:, None] - y) / h
    expected = (0.75 * np.maximum(1 - u**2, 0)).sum(axis=1) / (300 * h)
    assert epanechnikov(y, at, h) == pytest.approx(expected)
    assert epanechnikov(y, np.array([99.0]), h) > 0


def test_the_bandwidth_suits_densities_of_several_peaks():
    """Two narrow peaks far apart, where Silverman's rule spans both. The truth is by quadrature; four error bars."""
    rng = np.random.default_rng(0)
    data = np.where(np.arange(40) % 2, 3.0, -3.0) + 0.1 * rng.normal(size=40)

    def simulate(theta, rng):
        centres = np.where(rng.random((theta.rows, 40)) < 0.5, 3.0, -3.0)
        return centres + theta["theta"][:, None] * rng.normal(size=(theta.rows, 40))

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0.01, 0.5)), simulate, data)
    sigma = np.linspace(0.0101, 0.51, 2000)
    log_l = -40 * np.log(sigma) - ((np.abs(data) - 3) ** 2).sum() / (2 * sigma**2)
    truth = np.average(sigma, weights=np.exp(log_l - log_l.max()))
    result = fbar.infer(
        problem,
        fbar.mean("theta"),
        budget=20_000,
        method=fbar.DensityApproximation(replicates=100),
        seed=1,
        progress=False,
    )
    found = result.estimates[0]
    assert found.value == pytest.approx(truth, abs=4 * found.standard_error + 0.01)


def test_a_bandwidth_that_decides_is_doubted():
    """Ten data in a narrow peak beside a wide one, and two simulated data sets at each draw."""
    data = np.concatenate([np.linspace(-0.02, 0.02, 10), np.linspace(-3, 3, 10)])

    def simulate(theta, rng):
        narrow = rng.random((theta.rows, 20)) < 0.5
        return np.where(narrow, theta["theta"][:, None], 2.0) * rng.normal(size=(theta.rows, 20))

    problem = fbar.Problem(fbar.Prior(theta=stats.uniform(0.005, 0.5)), simulate, data)
    result = fbar.infer(
        problem, fbar.mean("theta"), budget=2000, method=fbar.DensityApproximation(replicates=4), seed=1, progress=False
    )
    assert not result.estimates[0].trusted
    assert any("kernel smooths the density" in text for text in result.estimates[0].warnings)


def test_whole_numbers_are_counted():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.gamma(2.0)),
        lambda t, rng: rng.poisson(t["theta"][:, None], size=(t.rows, 20)),
        np.array([1, 2, 0, 3, 1] * 4),
        truth={"mean:theta": (2 + 28) / 21},
    )
    result = fbar.infer(problem, fbar.mean("theta"), budget=10_000, method="density", seed=1, progress=False)
    assert result.estimates[0].value == pytest.approx(30 / 21, abs=4 * result.estimates[0].standard_error)


def test_the_estimates_that_are_averaged_make_the_log_variance_one():
    problem = fbar.with_likelihood(fbar.Prior(theta=stats.norm(0, 1)), noisy)
    run = fbar.PseudoMarginal().start(problem, fbar.mean("theta"), 1, 4000)
    finish(run)
    assert run.valuation.replicates > 1  # the log-variance of one is 4
    exact = fbar.with_likelihood(
        fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: stats.norm.logpdf(1.0, t["theta"], 1.0)
    )
    run = fbar.PseudoMarginal().start(exact, fbar.mean("theta"), 1, 4000)
    finish(run)
    assert run.valuation.replicates == 1


def test_draws_are_weighed_by_where_they_came_from():
    """Proposals are wider than the posterior and about as centred: a variance shows whether w = p/q is used."""
    problem = fbar.with_likelihood(
        fbar.Prior(theta=stats.norm(0, 1)), lambda t, rng: stats.norm.logpdf(1.0, t["theta"], 1.0)
    )
    run = fbar.PseudoMarginal(replicates=1).start(problem, fbar.variance("theta"), 1, 10_000)
    found = finish(run).expect(fbar.variance("theta"))
    assert found.value == pytest.approx(0.5, abs=4 * found.standard_error)
    assert found.standard_error < 0.02


def test_inverse_binomial_sampling_is_unbiased():
    """a for m = 2 and three data of probability 0.3, 0.6 and 0.9; four standard errors."""
    rng, p, n = np.random.default_rng(5), np.array([0.3, 0.6, 0.9]), 40_000
    x = (rng.random((n, 60, 3)) < p).astype(float)
    wave = Replicates(x, np.zeros((n, 60)), np.zeros((n, 60), dtype=bool), {}, {})
    found = Matches("likelihood", 2, 1000, np.ones(3)).value([wave])
    assert found.complete.all()
    a = np.exp(found.log_size)
    assert abs(a.mean() - p.prod()) < 4 * a.std() / math.sqrt(n)
    logs = Matches("log-likelihood", 2, 1000, np.ones(3))._log_likelihood(x == 1)
    centre = logs[0] + logs[1] / 2
    assert abs(centre.mean() - np.log(p).sum()) < 4 * centre.std() / math.sqrt(n)
    assert logs[1].mean() == pytest.approx(centre.var(), rel=0.05)


def test_draws_that_are_given_up_are_counted_where_they_matter():
    problem = fbar.Problem(
        fbar.Prior(theta=stats.uniform(0, 0.02)),
        lambda t, rng: (rng.random((t.rows, 2)) < t["theta"][:, None]).astype(int),
        np.array([1, 1]),
    )
    result = fbar.infer(
        problem, fbar.mean("theta"), budget=5000, method=fbar.UntilMatch(most=20), seed=1, progress=False
    )
    assert not result.estimates[0].trusted
    assert "given up after 20 simulations" in result.estimates[0].warnings[0]


@pytest.mark.parametrize(
    ("method", "problem", "message"),
    [
        (fbar.PseudoMarginal(), numbers_problem(), "no estimate of its likelihood"),
        (fbar.UntilMatch(), numbers_problem(), "a list of whole numbers"),
        (fbar.DensityApproximation(), numbers_problem().replace(summary=lambda x: x[:, :2]), "leave out summary="),
        (fbar.UntilMatch(), numbers_problem().replace(summary=lambda x: x[:, :2]), "leave out summary="),
    ],
)
def test_what_a_method_cannot_value_is_refused(method, problem, message):
    with pytest.raises(fbar.InputError, match=message):
        method.start(problem, fbar.mean("theta"), 1, 10_000)


def test_settings_are_checked():
    with pytest.raises(fbar.InputError, match="at least 2 simulated data sets"):
        fbar.DensityApproximation(replicates=1)
    with pytest.raises(fbar.InputError, match="at least 2 matches"):
        fbar.UntilMatch(matches=1)
    with pytest.raises(fbar.InputError, match="must be a function estimate"):
        fbar.with_likelihood(fbar.Prior(theta=stats.norm(0, 1)), 3.0)


def test_heavy_tails_are_put_on_another_scale():
    """Numbers of 1e9 beside those that matter leave the density as it is; and data without tails stay as they are."""
    rng = np.random.default_rng(1)
    y = np.sort(np.concatenate([rng.normal(size=200), [-1e12, 1e9, 3e11]]))
    at = np.array([-1.0, 0.2, 2.0])
    expected = np.maximum(1 - ((at[:, None] - y) / 0.5) ** 2, 0).sum(axis=1) * 0.75 / (0.5 * y.size)
    assert epanechnikov(y, at, 0.5) == pytest.approx(expected, rel=1e-9)
    assert Scale.of(rng.normal(size=50)) == Scale()
    assert np.ptp(Scale.of(y)(y)) < 60


def test_a_density_that_misses_the_data_is_not_better_the_narrower_it_is():
    narrow, wide = (np.sort(width * np.linspace(-1, 1, 100)) for width in (1e-6, 1.0))
    at = np.array([5.0, 6.0])
    low = epanechnikov(narrow, at, silverman(narrow), 0.1)
    assert (low <= epanechnikov(wide, at, 0.1, 0.1) * (1 + 1e-9)).all()


def test_few_effective_draws_are_doubted():
    """A likelihood so narrow that one draw carries everything: its estimate has no spread, and is not reliable."""
    problem = fbar.with_likelihood(
        fbar.Prior(theta=stats.uniform(0, 1)), lambda t, rng: -1e12 * (t["theta"] - 0.5) ** 2
    )
    method = fbar.PseudoMarginal(replicates=1)
    result = fbar.infer(problem, fbar.mean("theta"), budget=60, method=method, seed=1, progress=False)
    assert not result.estimates[0].trusted
