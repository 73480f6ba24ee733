"""theory.py against closed forms and brute-force simulation.

Random comparisons are z-tests at |z| < 5: a false-alarm rate of 6e-7 each, of which there are about 40.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fbar import theory

pytestmark = pytest.mark.arithmetic

PRIOR = np.array([0.2, 0.5, 0.3])
P = np.array([0.3, 0.05, 0.6])
F = np.array([1.0, -2.0, 4.0])
VECTOR = np.array([[1.0, -2.0, 4.0], [0.0, 1.0, 0.0]])
COUNTS = np.array([4000, 9000, 2000])


def estimates(counts, trials=200_000, f=F, seed=1):
    rng = np.random.default_rng(seed)
    p_hat = rng.binomial(counts, P, size=(trials, 3)) / counts
    return theory.expectation(theory.normalise(PRIOR * p_hat), f)


def test_table_3_of_the_paper():
    prior, p, f, half = [0.5, 0.5], [0.3, 0.05], [1, 0], [0.5, 0.5]
    rejection = theory.variance(prior, p, f, half)

    def efficiency(shares):
        return round(float(rejection / theory.variance(prior, p, f, shares)), 2)

    assert efficiency(theory.max_acceptance(prior, p)) == 0.0
    assert efficiency(theory.inverse_binomial(p)) == 1.11
    assert efficiency(theory.max_ess(prior, p)) == 0.62
    assert efficiency(theory.min_unnormalised_mse(prior, p)) == 0.68
    assert efficiency(theory.min_mse(prior, p, f)) == 1.23
    ess = theory.expected_ess(prior, p, theory.max_ess(prior, p)) / theory.expected_ess(prior, p, half)
    assert round(float(ess), 2) == 1.18


def test_variance_is_that_of_simulated_estimates():
    values = estimates(COUNTS)
    expected = float(theory.variance(PRIOR, P, F, COUNTS))
    # Relative to its own sampling error, and to the next order of the expansion (about 1/n*).
    z = (values.var() / expected - 1) / np.sqrt(2 / len(values))
    assert abs(z) < 5 + 0.01 / np.sqrt(2 / len(values))


@pytest.mark.slow
def test_bias_is_that_of_simulated_estimates():
    counts = COUNTS // 40
    values = estimates(counts, trials=2_000_000)
    expected = float(theory.bias(PRIOR, P, F, counts))
    error = values.std() / np.sqrt(len(values))
    observed = values.mean() - float(theory.expectation(theory.posterior(PRIOR, P), F))
    assert abs(expected) > 10 * error, "the bias must be large enough to be seen"
    assert abs(observed - expected) < 5 * error + 0.1 * abs(expected)


def test_variance_and_bias_are_the_delta_method_of_a_ratio():
    v = PRIOR**2 * P * (1 - P) / COUNTS
    z = theory.evidence(PRIOR, P)
    mean_r = (PRIOR * P * F).sum()
    arguments = (v * F).sum(), v.sum()
    assert np.isclose(
        theory.ratio_variance(mean_r, z, (v * F**2).sum(), *arguments), theory.variance(PRIOR, P, F, COUNTS)
    )
    assert np.isclose(theory.ratio_bias(mean_r, z, *arguments), theory.bias(PRIOR, P, F, COUNTS))


def test_independent_variance_is_that_of_simulated_estimates():
    rng = np.random.default_rng(2)
    q, n, trials = np.array([0.3, 0.3, 0.4]), 20_000, 100_000
    hits = rng.binomial(rng.multinomial(n, q, size=trials), P)
    values = theory.expectation(theory.normalise(hits * PRIOR / q), F)
    expected = float(theory.independent_variance(PRIOR, P, F, q, n))
    z = (values.var() / expected - 1) / np.sqrt(2 / trials)
    assert abs(z) < 5 + 0.01 / np.sqrt(2 / trials)


def test_unnormalised_variance_is_that_of_simulated_estimates():
    rng = np.random.default_rng(3)
    p_hat = rng.binomial(COUNTS, P, size=(200_000, 3)) / COUNTS
    squared = ((PRIOR * (p_hat - P)) ** 2).sum(axis=1)
    z = (squared.mean() - theory.unnormalised_variance(PRIOR, P, COUNTS)) / (squared.std() / np.sqrt(len(squared)))
    assert abs(z) < 5


def test_expected_ess_is_that_of_simulated_weights():
    rng = np.random.default_rng(4)
    hits = rng.binomial(COUNTS, P, size=(5000, 3))
    w = PRIOR / COUNTS
    ess = (hits * w).sum(1) ** 2 / (hits * w**2).sum(1)
    assert abs(ess.mean() / theory.expected_ess(PRIOR, P, COUNTS) - 1) < 0.002


RULES = {
    "variance": lambda n, c=1.0: (theory.variance(PRIOR, P, F, n), theory.min_mse(PRIOR, P, F, c)),
    "vector": lambda n, c=1.0: (theory.variance(PRIOR, P, VECTOR, n).sum(), theory.min_mse(PRIOR, P, VECTOR, c)),
    "unnormalised": lambda n, c=1.0: (
        theory.unnormalised_variance(PRIOR, P, n),
        theory.min_unnormalised_mse(PRIOR, P, c),
    ),
    "ess": lambda n, c=1.0: (1 / theory.expected_ess(PRIOR, P, n), theory.max_ess(PRIOR, P, c)),
    "independent": lambda n, c=1.0: (
        theory.independent_variance(PRIOR, P, F, n, 1.0),
        theory.independent_min_mse(PRIOR, P, F, c),
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("cost", [(1.0, 1.0, 1.0), (1.0, 5.0, 0.2)])
def test_allocations_are_the_minimisers_that_a_numerical_search_finds(name, cost):
    cost = np.array(cost)

    def objective(log_n):
        n = np.exp(log_n)
        return float(RULES[name](n / (n @ cost))[0])  # at a total cost of one

    found = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-16})
    shares = RULES[name](np.ones(3), cost)[1]
    assert np.allclose(theory.normalise(np.exp(found.x)), shares, atol=1e-4)


@given(st.lists(st.floats(0.01, 0.99), min_size=2, max_size=2), st.floats(0.05, 0.95))
def test_two_cells_depend_on_neither_prior_nor_f(p, prior):
    expected = theory.two_cell_optimum(p)
    assert np.allclose(theory.min_mse([prior, 1 - prior], p, [3.0, -1.0]), expected)
    assert np.allclose(theory.min_mse([0.5, 0.5], p, [0.0, 1.0]), expected)


def test_two_cells_closed_form_refuses_three():
    with pytest.raises(ValueError, match="two cells"):
        theory.two_cell_optimum([0.1, 0.2, 0.3])


def test_a_fifty_percent_indicator_and_rare_acceptance_recover_the_other_scores():
    """Section 2: |f − f̄| constant gives the unnormalised optimum, and p → 0 the ESS optimum."""
    prior, p, f = np.full(4, 0.25), np.array([0.1, 0.3, 0.25, 0.15]), np.array([1.0, 1.0, 0.0, 0.0])
    assert np.isclose(theory.expectation(theory.posterior(prior, p), f), 0.5)
    assert np.allclose(theory.min_mse(prior, p, f), theory.min_unnormalised_mse(prior, p))
    assert np.allclose(theory.min_mse(prior, 1e-6 * p, f), theory.max_ess(prior, p), atol=1e-6)
    for shares in (prior, theory.posterior(prior, 1e-6 * p)):
        v = theory.independent_variance(prior, 1e-6 * p, f, shares, 1000)
        assert np.isclose(v, 1 / (4 * 1000 * theory.evidence(prior, 1e-6 * p)))


def test_a_vector_target_is_its_components_together():
    each = [theory.variance(PRIOR, P, row, COUNTS) for row in VECTOR]
    assert np.allclose(theory.variance(PRIOR, P, VECTOR, COUNTS), each)
    assert np.allclose(theory.bias(PRIOR, P, VECTOR, COUNTS), [theory.bias(PRIOR, P, r, COUNTS) for r in VECTOR])
    assert np.allclose(
        theory.independent_variance(PRIOR, P, VECTOR, PRIOR, 10),
        [theory.independent_variance(PRIOR, P, r, PRIOR, 10) for r in VECTOR],
    )


@pytest.mark.parametrize("f", [F, VECTOR])
def test_leading_axes_are_carried_along(f):
    p = np.stack([P, P[::-1], np.array([0.1, 0.2, 0.3])])
    counts = np.stack([COUNTS, COUNTS * 2, COUNTS[::-1]])
    together = theory.variance(PRIOR, p, f, counts)
    assert np.allclose(together, [theory.variance(PRIOR, p[i], f, counts[i]) for i in range(3)])
    for rule in (theory.min_mse, theory.independent_min_mse):
        assert np.allclose(rule(PRIOR, p, f), [rule(PRIOR, p[i], f) for i in range(3)])
    for rule in (theory.max_ess, theory.min_unnormalised_mse, theory.max_acceptance, theory.posterior):
        assert np.allclose(rule(PRIOR, p), [rule(PRIOR, p[i]) for i in range(3)])
    assert np.allclose(
        theory.expected_ess(PRIOR, p, counts), [theory.expected_ess(PRIOR, p[i], counts[i]) for i in range(3)]
    )


def test_a_cell_that_matters_and_gets_nothing_has_infinite_variance():
    assert theory.variance([0.5, 0.5], [0.3, 0.05], [1, 0], [10, 0]) == np.inf
    assert np.isfinite(theory.variance([0.5, 0.5], [1.0, 0.05], [1, 0], [0, 10])), "p = 1 needs no simulation"


def test_divergence_is_approximated_in_both_directions():
    q = np.array([0.2, 0.5, 0.3])
    direction = np.array([1.0, -2.0, 1.0])
    for size, allowed in ((1e-2, 0.05), (1e-4, 5e-4)):
        q_hat = q + size * direction
        approximation = theory.phi_divergence_approximation(q_hat, q)
        forward = theory.phi_divergence(q_hat, q, theory.kullback_leibler)
        backward = theory.phi_divergence(q, q_hat, theory.kullback_leibler)
        assert abs(forward / approximation - 1) < allowed
        assert abs(backward / approximation - 1) < allowed
    chi_squared = theory.phi_divergence(q_hat, q, lambda t: (t - 1) ** 2)
    assert np.isclose(chi_squared, theory.phi_divergence_approximation(q_hat, q, curvature=2.0))


def test_kl_scale_puts_the_divergence_of_two_cells_on_the_squared_error():
    q, d = np.array([0.857, 0.143]), 1e-4
    kl = theory.phi_divergence(q + np.array([d, -d]), q, theory.kullback_leibler)
    assert np.isclose(kl / theory.kl_scale(q), d**2, rtol=1e-3)


def test_inverse_binomial_log_likelihood_is_unbiased_and_knows_its_variance():
    rng = np.random.default_rng(5)
    for p in (0.5, 0.05):
        draws = rng.geometric(p, size=400_000)
        value, variance = theory.ibs_log_likelihood(draws), theory.ibs_variance(draws)
        assert abs(value.mean() - np.log(p)) < 5 * value.std() / np.sqrt(len(draws))
        excess = (value - np.log(p)) ** 2 - variance
        assert abs(excess.mean()) < 5 * excess.std() / np.sqrt(len(draws))
