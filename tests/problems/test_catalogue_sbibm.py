"""The problems of the sbibm benchmark: simulators and truths against second computations.

Random comparisons have |z| < 5, a false-alarm rate of about 10⁻⁶ each.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from fbar import problems
from fbar.errors import InputError
from fbar.problems import stored
from fbar.problems.benchmark import Benchmark
from fbar.problems.catalogue import recipe
from fbar.problems.models import bernoulli_glm, slcp, two_moons
from fbar.problems.store import rounded
from fbar.problems.truths import slcp_posterior, truncated
from fbar.problems.truths.transport import columns, moment_truth, scrambles
from fbar.question.points import Points
from fbar.question.targets import mean, probability, second_moment

pytestmark = pytest.mark.arithmetic

NAMES = [
    "gaussian-linear",
    "gaussian-linear-uniform",
    "gaussian-mixture",
    "two-moons",
    "slcp",
    "slcp-distractors",
    "bernoulli-glm",
    "bernoulli-glm-raw",
]
WITH_ABC = NAMES[:4]
DISTINCT = [name for name in NAMES if name not in ("slcp-distractors", "bernoulli-glm-raw")]


@pytest.fixture(scope="module")
def computed():
    """References of observation 2, computed once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = problems.load(name, 2).reference
        return made[name]

    return get


def log_likelihood(name, theta, x):
    """p(x|θ) up to a constant, from the problem's definition and scipy alone. θ: (n, d)."""
    if name in ("gaussian-linear", "gaussian-linear-uniform"):
        return stats.norm.logpdf(x, theta, math.sqrt(0.1)).sum(axis=1)
    if name == "gaussian-mixture":
        parts = [stats.norm.logpdf(x, theta, sd).sum(axis=1) for sd in (1.0, 0.1)]
        return np.logaddexp(*parts) - math.log(2)
    if name == "two-moons":
        p1 = x[0] - 0.25 + np.abs(theta[:, 0] + theta[:, 1]) / math.sqrt(2)
        p2 = x[1] - (theta[:, 1] - theta[:, 0]) / math.sqrt(2)
        r = np.hypot(p1, p2)
        return np.where(p1 > 0, stats.norm.logpdf(r, 0.1, 0.01) - np.log(math.pi * r), -np.inf)
    if name == "slcp":
        s1, s2, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, np.tanh(theta[:, 4])
        cov = np.empty((len(theta), 2, 2))
        cov[:, 0, 0], cov[:, 1, 1] = s1**2 + 1e-6, s2**2 + 1e-6
        cov[:, 0, 1] = cov[:, 1, 0] = rho * s1 * s2
        away = x.reshape(4, 2) - theta[:, None, :2]
        quadratic = np.einsum("njd,nde,nje->n", away, np.linalg.inv(cov), away)
        return -2 * np.linalg.slogdet(cov)[1] - quadratic / 2 - 4 * math.log(2 * math.pi)
    eta = theta @ bernoulli_glm.design().T
    return theta @ x - np.logaddexp(0, eta).sum(axis=1)


def chains(name, x, start, rng, steps):
    """Metropolis chains with differential steps from many starts; θ after each kept step, (steps, n, d)."""
    prior, theta = recipe(name).prior, start.copy()

    def density(t):
        with np.errstate(divide="ignore", over="ignore"):
            return prior.logpdf(Points(dict(zip(prior.names, t.T, strict=True)))) + log_likelihood(name, t, x)

    now, kept = density(theta), []
    n, d = theta.shape
    for step in range(steps):
        i, j = rng.integers(n, size=(2, n))
        gamma = (1.0 if step % 10 == 0 else 2.38 / math.sqrt(2 * d)) * rng.choice([1.0, 0.4, 0.1], size=(n, 1))
        proposal = theta + gamma * (start[i] - start[j]) + 1e-6 * rng.standard_normal((n, d))
        then = density(proposal)
        move = np.log(rng.random(n)) < then - now
        theta, now = np.where(move[:, None], proposal, theta), np.where(move, then, now)
        kept.append(theta)
    return np.array(kept)


# ---------------------------------------------------------------- every problem


@pytest.mark.parametrize("name", NAMES)
def test_contract(name):
    made = recipe(name)
    assert made.prior.names == tuple(f"theta{i}" for i in range(1, made.prior.dimension + 1))
    rng = np.random.default_rng(1)
    x = made.simulate(made.prior.sample(1000, rng=rng), rng)
    assert x.shape == (1000, *made.shape)
    assert np.isfinite(x).all()
    for observation in (1, 10):
        problem = problems.load(name, observation)
        theta, data = made.draw(observation)
        np.testing.assert_allclose(problem.data, data, rtol=1e-9)
        for key, value in problem.true_parameters.items():
            assert value == pytest.approx(theta[key][0], rel=1e-9)
        truth = problem.truth()
        assert list(truth) == [f"{kind}:{n}" for n in made.prior.names for kind in ("mean", "second_moment")]
        for item in truth.values():
            assert item.deviation > 0
            assert item.standard_error <= 3e-4 * item.deviation
        second, first = truth["second_moment:theta1"].value, truth["mean:theta1"].value
        assert second - first**2 == pytest.approx(truth["mean:theta1"].deviation ** 2, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_data_are_refused(name):
    problem = problems.load(name)
    size = problem.data.size
    for bad, words in (
        (np.zeros(size + 1), f"are {size} numbers"),
        (np.full(size, np.nan), "finite"),
        (np.full(size, np.inf), "finite"),
        (["a"] * size, "must be numbers"),
    ):
        with pytest.raises(InputError, match=words) as error:
            problem.with_observed(bad)
        assert "\n" not in str(error.value)


def test_flips_are_zeros_and_ones():
    with pytest.raises(InputError, match=r"zeros and ones; got 0\.5"):
        problems.load("bernoulli-glm-raw").with_observed([0.5] + [0] * 99)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_stored_is_what_is_computed(name, computed):
    kept = stored.read(name)
    assert sorted(kept) == list(range(1, 11))
    for observation, item in kept.items():
        assert item.observed == pytest.approx(rounded(recipe(name).draw(observation)[1].tolist()), rel=1e-9)
    if name == "bernoulli-glm-raw":
        return  # the same computation as bernoulli-glm's
    if name == "slcp-distractors":
        x = slcp.without_distractors(np.array(kept[2].observed))
        fresh = slcp_posterior.SlcpPosterior(x).integrate(32, 10)[0].T.ravel()
        for value, item in zip(fresh, kept[2].truth.values(), strict=True):
            assert value == pytest.approx(item.value, abs=1e-3 * item.deviation)
        return
    truth = computed(name).truth()
    for key, item in kept[2].truth.items():
        assert truth[key].value == pytest.approx(item.value, rel=1e-9, abs=1e-9 + item.standard_error)
        assert truth[key].deviation == pytest.approx(item.deviation, rel=1e-5)
    if name in WITH_ABC:
        problem = problems.load(name, 2)
        assert len(kept[2].truths_at) == 2
        for tolerance, known in kept[2].truths_at.items():
            fresh = recipe(name).truth_at(problem.data, tolerance)
            for key, item in known.items():
                assert fresh[key].value == pytest.approx(item.value, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
def test_truth_against_metropolis(name, computed):
    """From draws of the reference, moved by a kernel that leaves the posterior of the raw likelihood unchanged."""
    x = problems.load(name, 2).data
    rng = np.random.default_rng(11)
    reference = computed(name)
    start = columns(recipe(name).prior.names, reference.sample(1000, rng))
    kept = chains(name, x, start, rng, 80)[40:]
    check(reference.truth(), kept)


def check(truth, kept):
    """Means over each chain are independent between chains."""
    for i in range(kept.shape[2]):
        for kind, power in (("mean", 1), ("second_moment", 2)):
            values = (kept[:, :, i] ** power).mean(axis=0)
            item = truth[f"{kind}:theta{i + 1}"]
            error = math.hypot(values.std() / math.sqrt(len(values)), item.standard_error)
            assert abs(values.mean() - item.value) < 5 * error, item.name


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
def test_density_and_draws(name, computed):
    """The density is that of prior times likelihood and integrates to one; draws have the truth's moments."""
    problem, reference, rng = problems.load(name, 2), computed(name), np.random.default_rng(3)
    prior = problem.prior
    draws = reference.sample(4000, rng)
    theta = columns(prior.names, draws)
    check(reference.truth(), theta[None])
    assert len(np.unique(theta[:, -1])) == 4000
    log_p = reference.log_density(draws)
    joint = prior.logpdf(draws) + log_likelihood(name, theta, problem.data)
    np.testing.assert_allclose(log_p - log_p[0], joint - joint[0], atol=1e-6)
    # A mixture of half the draws, blurred, and the prior is a proposal with an evident density.
    half, d = theta[:150], theta.shape[1]
    spread = 0.35 * np.cov(theta.T) if name not in ("two-moons", "slcp") else np.diag(theta.var(axis=0)) * 0.003
    kernel = stats.multivariate_normal(np.zeros(d), spread)
    size = 40_000
    made = half[rng.integers(150, size=size)] + kernel.rvs(size, random_state=rng).reshape(size, d)
    from_prior = rng.random(size) < 0.2
    made[from_prior] = columns(prior.names, prior.sample(int(from_prior.sum()), rng=rng))
    points = Points(dict(zip(prior.names, made.T, strict=True)))
    log_k = np.logaddexp.reduce([kernel.logpdf(made - centre) for centre in half]) - math.log(150)
    log_q = np.logaddexp(math.log(0.8) + log_k, math.log(0.2) + prior.logpdf(points))
    with np.errstate(over="ignore"):
        w = np.exp(reference.log_density(points) - log_q)
    assert abs(w.mean() - 1) < 5 * w.std() / math.sqrt(size)
    assert w.std() / math.sqrt(size) < 0.1
    outside = Points({n: np.full(1, 11.0) for n in prior.names})
    if name not in ("gaussian-linear", "bernoulli-glm"):
        assert reference.log_density(outside)[0] == -np.inf


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
def test_any_target(name, computed):
    reference = computed(name)
    value, error = reference.expect(probability("theta1 < theta2"))
    draws = reference.sample(4000, np.random.default_rng(8))
    share = (draws["theta1"] < draws["theta2"]).mean()
    assert 0 <= error[0] < 0.01
    assert abs(share - value[0]) < 5 * math.hypot(error[0], math.sqrt(max(value[0] * (1 - value[0]), 1e-4) / 4000))
    assert reference.expect(mean("theta1"))[0][0] == reference.truth()["mean:theta1"].value
    nodes, wrong = reference.nodes.expect(second_moment("theta2"))
    item = reference.truth()["second_moment:theta2"]
    assert abs(nodes[0] - item.value) < 5 * math.hypot(wrong[0], item.standard_error) + 1e-9


# ---------------------------------------------------------------- ABC at a tolerance


@pytest.mark.parametrize("name", WITH_ABC)
def test_abc_truth_against_simulations(name):
    problem, rng, found = problems.load(name, 3), np.random.default_rng(4), []
    tolerance = problem.tolerances[0.01]
    for _ in range(4):
        theta = problem.prior.sample(100_000, rng=rng)
        x = recipe(name).simulate(theta, rng)
        found.append(columns(problem.prior.names, theta.take(np.linalg.norm(x - problem.data, axis=1) <= tolerance)))
    kept = np.concatenate(found)
    assert len(kept) == pytest.approx(4000, rel=0.2)
    check(problem.truth_at(tolerance), kept[None])


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ABC)
def test_abc_truth_tends_to_the_posterior(name):
    problem = problems.load(name, 4)
    exact, near, far = problem.truth(), problem.truth_at(1e-5), problem.truth_at(35.0 if "mix" in name else 6.0)
    assert problem.recipe.truth_at(problem.data, 0.0)["mean:theta1"].value == pytest.approx(exact["mean:theta1"].value)
    for key, item in exact.items():
        assert near[key].value == pytest.approx(item.value, abs=1e-4 * item.deviation)
    law = problem.prior.marginals["theta1"]
    u = (np.arange(10_000) + 0.5) / 10_000
    spread = law.ppf(u).std()
    assert far["mean:theta1"].value == pytest.approx(0.0, abs=1e-3 * spread)
    assert far["mean:theta1"].deviation == pytest.approx(spread, rel=1e-3)
    for bad in (-1.0, math.nan):
        with pytest.raises(InputError, match="tolerance"):
            problem.truth_at(bad)


def test_two_moons_in_a_ball_by_two_ways():
    """Data from the ball and θ from the prior, around the tolerance where one takes over; the fold is in the ball."""
    x = np.array([0.3, 0.5])
    truths = []
    for draw in (two_moons.from_ball, two_moons.from_prior):
        parts = [draw(x, 0.3, unit) for unit in scrambles(4, 13, 16, seed=2)]
        truths.append(moment_truth(("theta1", "theta2"), parts, ""))
    for key, first in truths[0].items():
        second = truths[1][key]
        assert abs(first.value - second.value) < 5 * math.hypot(first.standard_error, second.standard_error)
        assert first.standard_error < 1e-3 * first.deviation


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_gaussian_linear_in_a_ball_by_symmetry(scale):
    """Along x* the density is N(s; 0, 0.2) times a central χ²₉ probability across it: one integral over s."""
    x = scale * problems.load("gaussian-linear", 5).data
    tolerance, v, length = 1.1, 0.2, float(np.linalg.norm(x))
    t, w = truncated.gauss_legendre(400)
    s = length - tolerance + 2 * tolerance * t
    room = np.maximum(tolerance**2 - (s - length) ** 2, 0) / v
    log_p = -(s**2) / (2 * v) + np.log(stats.chi2(9).cdf(room))
    p = w * np.exp(log_p - log_p.max())
    along = (p * s).sum() / p.sum()
    square = (p * s**2).sum() / p.sum()
    across = (p * v * stats.chi2(11).cdf(room) / stats.chi2(9).cdf(room)).sum() / p.sum()
    truth = recipe("gaussian-linear").truth_at(x, tolerance)
    for i, e in enumerate(x / length):
        assert truth[f"mean:theta{i + 1}"].value == pytest.approx(e * along / 2, rel=1e-8)
        second = (e**2 * square + (1 - e**2) * across) / 4 + 0.05
        assert truth[f"second_moment:theta{i + 1}"].value == pytest.approx(second, rel=1e-8)


# ---------------------------------------------------------------- one by one


def test_box_moments_are_scipys():
    """gaussian-linear-uniform: 0.1 is a variance."""
    x = np.array([-5.0, -1.2, -1.0, -0.3, 0.0, 0.1, 0.7, 1.0, 1.3, 4.0])
    truth = problems.load("gaussian-linear-uniform").with_observed(x).truth()
    sd = math.sqrt(0.1)
    for i, m in enumerate(x):
        law = stats.truncnorm((-1 - m) / sd, (1 - m) / sd, loc=m, scale=sd)
        assert truth[f"mean:theta{i + 1}"].value == pytest.approx(law.mean(), rel=1e-9)
        assert truth[f"mean:theta{i + 1}"].deviation == pytest.approx(law.std(), rel=1e-6)
        assert truth[f"second_moment:theta{i + 1}"].value == pytest.approx(law.moment(2), rel=1e-9)


@pytest.mark.parametrize("x", [(9.7, 3.0), (-0.2, -10.3)])
def test_gaussian_mixture_on_a_grid(x):
    grid = -10 + 20 * (np.arange(4000) + 0.5) / 4000
    near1, near2 = (grid[np.abs(grid - value) < 7] for value in x)
    parts = []
    for sd in (1.0, 0.1):
        f1, f2 = stats.norm.pdf(near1, x[0], sd), stats.norm.pdf(near2, x[1], sd)
        parts.append((f1.sum() * f2.sum(), (f1 * near1).sum() * f2.sum(), f1.sum() * (f2 * near2**2).sum()))
    total, first, second = np.sum(parts, axis=0)
    truth = problems.load("gaussian-mixture").with_observed(x).truth()
    assert truth["mean:theta1"].value == pytest.approx(first / total, abs=1e-5)
    assert truth["second_moment:theta2"].value == pytest.approx(second / total, abs=1e-3)


@pytest.mark.parametrize("x", [(-0.05, 0.2), (0.33, -0.7), (-1.05, 0.02), (0.24, 1.45)])
def test_two_moons_on_a_grid(x):
    """Inside, at the sign of θ1 + θ2, and at the corners of the box: the likelihood with its 1/r on 4000² points."""
    side = -1 + 2 * (np.arange(4000) + 0.5) / 4000
    sums = np.zeros(4)
    for rows in np.split(side, 40):
        theta = np.stack(np.meshgrid(rows, side, indexing="ij"), axis=-1).reshape(-1, 2)
        u = x[0] - 0.25 + np.abs(theta.sum(axis=1)) / math.sqrt(2)
        v = x[1] - (theta[:, 1] - theta[:, 0]) / math.sqrt(2)
        theta = theta[(u > 0) & (np.abs(u**2 + v**2 - 0.0125) < 0.0175)]
        p = np.exp(log_likelihood("two-moons", theta, np.array(x)))
        sums += [p.sum(), p @ theta[:, 0], p @ theta[:, 0] ** 2, p @ theta[:, 1] ** 2]
    truth = problems.load("two-moons").with_observed(x).truth()
    scale = truth["mean:theta1"].deviation
    assert truth["mean:theta1"].value == pytest.approx(sums[1] / sums[0], abs=2e-3 * scale)
    assert truth["second_moment:theta1"].value == pytest.approx(sums[2] / sums[0], abs=2e-3 * scale)
    assert truth["second_moment:theta2"].value == pytest.approx(sums[3] / sums[0], abs=2e-3 * scale)


def test_two_moons_far_out():
    for x in ([5.0, 5.0], [-20.0, 0.1], [0.25 + 0.1, math.sqrt(2)], [-3.0, 0.0]):
        problem = problems.load("two-moons").with_observed(x)
        assert all(math.isfinite(item.value) and item.deviation > 0 for item in problem.truth().values())
        assert all(item.standard_error < 1e-6 * item.deviation for item in problem.truth().values())
    # left of the arc, the nearest the box comes is θ = ±(1, 1)
    assert problem.truth()["second_moment:theta1"].value == pytest.approx(1, abs=1e-2)
    with pytest.raises(InputError, match=r"effective|within"):
        problem.truth_at(0.5)


def test_slcp_simulates_its_covariance():
    """With s1 = θ3²: the variance is θ3⁴."""
    n, rng = 40_000, np.random.default_rng(2)
    values = {"theta1": 0.3, "theta2": -1.0, "theta3": -1.3, "theta4": 0.8, "theta5": 0.9}
    x = recipe("slcp").simulate(Points({key: np.full(n, value) for key, value in values.items()}), rng)
    pairs = x.reshape(-1, 2) - [0.3, -1.0]
    expected = np.array([[1.3**4, math.tanh(0.9) * 1.69 * 0.64], [math.tanh(0.9) * 1.69 * 0.64, 0.8**4]])
    for i, j in ((0, 0), (0, 1), (1, 1)):
        product = pairs[:, i] * pairs[:, j]
        assert abs(product.mean() - expected[i, j]) < 5 * product.std() / math.sqrt(4 * n)


@pytest.mark.slow
def test_slcp_is_symmetric_and_feels_the_jitter():
    """Four equal draws: θ3 and θ4 are as large as the jitter lets them be, 10⁻⁶ = θ⁴."""
    truth = slcp_posterior.SlcpPosterior(np.tile([1.0, -2.0], 4)).truth()
    assert truth["mean:theta3"].value == truth["mean:theta4"].value == 0.0
    assert truth["mean:theta3"].standard_error == 0.0
    assert truth["mean:theta1"].value == pytest.approx(1.0, abs=1e-6)
    assert abs(truth["mean:theta5"].value) < 1e-8  # by symmetry
    # m integrated out, |S|^(−3/2) is left: importance sampling from half-Cauchys of the jitter's scale
    rng = np.random.default_rng(6)
    t = 0.03 * np.tan(rng.random((400_000, 2)) * math.atan(100))
    rho = np.tanh(rng.uniform(-3, 3, 400_000))
    det = (t[:, 0] ** 4 + 1e-6) * (t[:, 1] ** 4 + 1e-6) - (rho * t[:, 0] ** 2 * t[:, 1] ** 2) ** 2
    w = det**-1.5 * (1 + (t / 0.03) ** 2).prod(axis=1)
    w /= w.mean()
    second = (w * t[:, 0] ** 2).mean()
    error = (w * (t[:, 0] ** 2 - second)).std() / math.sqrt(400_000)
    assert abs(second - truth["second_moment:theta3"].value) < 5 * error
    assert error < 0.02 * second


def test_distractors_say_nothing_and_hide_the_data():
    problem, rng = problems.load("slcp-distractors", 6), np.random.default_rng(7)
    inside = slcp.without_distractors(problem.data)
    assert all(np.isclose(problem.data, value).any() for value in inside)
    theta, _ = recipe("slcp-distractors").draw(6)
    many = Points({name: np.full(2000, theta[name][0]) for name in theta})
    x = recipe("slcp-distractors").simulate(many, rng)
    eight = np.array([slcp.without_distractors(row) for row in x]).reshape(-1, 2)
    for i in (0, 1):
        assert abs(eight[:, i].mean() - theta[f"theta{i + 1}"][0]) < 5 * eight[:, i].std() / math.sqrt(len(eight))


def test_glm_matrices():
    """B⁻¹ and V from the definition, and the two problems' data from one another."""
    prior, p = recipe("bernoulli-glm").prior, bernoulli_glm.precision()
    theta = prior.sample(20_000, rng=np.random.default_rng(1))
    z = columns(prior.names, theta) @ np.linalg.cholesky(p)
    cov = z.T @ z / 20_000
    assert np.abs(cov - np.eye(10)).max() < 5 * math.sqrt(2 / 20_000)
    assert p[0, 0] == 0.5
    d = np.eye(9) - np.eye(9, k=-1)
    f = d @ d + np.diag(np.sqrt(np.arange(9) / 9))
    np.testing.assert_allclose(p[1:, 1:], f.T @ f)
    np.testing.assert_allclose(prior.to_unit(Points({n: theta[n] for n in prior.names})), theta.unit, atol=1e-9)
    exact = stats.multivariate_normal(np.zeros(10), np.linalg.inv(p)).logpdf(columns(prior.names, theta))
    np.testing.assert_allclose(prior.logpdf(theta), exact, atol=1e-8)
    v = bernoulli_glm.design()
    assert v[3, 4] == v[0, 1]
    assert v[2, 4] == 0
    raw = problems.load("bernoulli-glm-raw", 4)
    assert set(np.unique(raw.data)) == {0.0, 1.0}
    np.testing.assert_array_equal(raw.reference.x, raw.data @ v)
    rng = np.random.default_rng(5)
    y = recipe("bernoulli-glm-raw").simulate(theta, rng)
    p_t = expit(columns(prior.names, theta) @ v.T)
    z_t = (y - p_t).sum(axis=0) / np.sqrt((p_t * (1 - p_t)).sum(axis=0))
    assert np.abs(z_t).max() < 5


def test_glm_far_out_is_the_tilted_prior():
    """With x so large that every flip is sure, the posterior is N(B(x − Vᵀp), B) with p = 0 or 1."""
    x = np.full(10, 1e5)
    reference = bernoulli_glm.GlmPosterior(x)
    b, v = np.linalg.inv(bernoulli_glm.precision()), bernoulli_glm.design()
    sure = (v @ (b @ x) > 0).astype(float)
    np.testing.assert_allclose(reference.centre, b @ (x - v.T @ sure), atol=0.1)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (3.0, 9.0), (30.0, 31.0), (-1e4, -9.999e3), (5.0, 5.0 + 1e-9)])
def test_cut_normals(low, high):
    """Mass and inverse against scipy's, and against each other where scipy has none."""
    log_mass = float(truncated.log_mass(low, high))
    if abs(low) < 40 and high - low > 1e-6:
        tail = stats.norm.logsf(low) + np.log1p(-np.exp(stats.norm.logsf(high) - stats.norm.logsf(low)))
        assert log_mass == pytest.approx(tail, rel=1e-10)
    _, log_w = truncated.nodes(low, high, 96)
    assert log_mass == pytest.approx(np.logaddexp.reduce(log_w), rel=1e-8)
    u = np.array([0.1, 0.5, 0.9])
    t = truncated.ppf(u, low, high)
    assert ((t >= low) & (t <= high)).all()
    if high - low > 1e-6:
        np.testing.assert_allclose(np.exp(truncated.log_mass(np.full(3, low), t) - log_mass), u, rtol=1e-5)
    assert truncated.log_mass(1.0, 1.0) == -np.inf


def test_a_problem_with_other_data_is_computed():
    other = problems.load("gaussian-linear").with_observed([0.1] * 10)
    assert isinstance(other, Benchmark)
    assert other.truth()["mean:theta3"].value == pytest.approx(0.05)
    assert problems.load("slcp").truth_at(1.0) is None
    assert problems.load("bernoulli-glm").truth_at(1.0) is None
