"""Truths by importance sampling of a density: several modes, curved densities, and what is said of their error.

Random comparisons hold |z| < 5; a test of m of them raises a false alarm with a probability below m · 6·10⁻⁷.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

import fbar
from catalogue_references import columns
from fbar.problems.truths.importance import ImportancePosterior, on_unit_cube, t4_quantile

pytestmark = pytest.mark.arithmetic


@pytest.mark.slow
def test_several_modes_are_found_with_their_masses():
    """Two narrow normals far from one another and from the middle, with masses 1 : 3, in three dimensions."""
    centres, scales, masses = np.array([[2.0, -1.5, 0.5], [-1.5, 2.0, 1.0]]), (0.02, 0.1), (0.25, 0.75)

    def log_density(z):
        parts = [
            math.log(m) + stats.norm.logpdf(z, c, s).sum(axis=1)
            for m, c, s in zip(masses, centres, scales, strict=True)
        ]
        return np.logaddexp(*parts) - 3.0

    ref = ImportancePosterior(log_density, lambda z: z, lambda p: (columns(p), np.zeros(p.rows)), ("a", "b", "c"))
    assert ref.met
    assert abs(ref.log_evidence + 3.0) < 5 * ref.log_evidence_error < 1e-2
    left = ref.expect(fbar.probability("a < 0"))  # any other target
    assert abs(left[0][0] - 0.75) < 5 * left[1][0] < 1e-2
    for column, name in enumerate("abc"):
        first, second = ref.truth()[f"mean:{name}"], ref.truth()[f"second_moment:{name}"]
        mean = float(np.dot(masses, centres[:, column]))
        square = float(np.dot(masses, centres[:, column] ** 2 + np.array(scales) ** 2))
        assert abs(first.value - mean) < 5 * first.standard_error < 5 * 3e-4 * first.deviation
        assert abs(second.value - square) < 5 * second.standard_error
        assert first.deviation == pytest.approx(math.sqrt(square - mean**2), rel=1e-2)


@pytest.mark.slow
def test_a_curved_density_and_its_error():
    """A banana, b ~ N(a², 0.5²) with a ~ N(0, 1): E[b] = 1, E[b²] = 3.25; the error bars hold over seeds."""

    def log_density(z):
        return -(z[:, 0] ** 2) / 2 - 2 * (z[:, 1] - z[:, 0] ** 2) ** 2 - math.log(math.pi)

    z = []
    for seed in range(3):
        ref = ImportancePosterior(log_density, lambda z: z, None, ("a", "b"), error=3e-3, seed=seed)
        truth = ref.truth()
        z += [(truth[n].value - v) / truth[n].standard_error for n, v in (("mean:b", 1.0), ("second_moment:b", 3.25))]
        assert abs(ref.log_evidence) < 5 * ref.log_evidence_error
    assert np.abs(z).max() < 5


def test_a_density_on_the_unit_cube():
    def log_density(u):
        return stats.beta.logpdf(u, [3, 1.0], [2, 8.0]).sum(axis=1)

    ref = ImportancePosterior(on_unit_cube(log_density), ndtr, lambda p: (ndtri(columns(p)), None), ("a", "b"))
    for name, law in (("a", stats.beta(3, 2)), ("b", stats.beta(1, 8))):
        item = ref.truth()[f"mean:{name}"]
        assert abs(item.value - law.mean()) < 5 * item.standard_error < 5 * 3e-4 * item.deviation
        assert item.deviation == pytest.approx(law.std(), rel=1e-3)


def test_points_without_weight_do_not_spoil_the_moments():
    """θ = exp(20 z) overflows far out, where the density is cut off."""

    def log_density(z):
        return np.where(np.abs(z).max(axis=1) < 3, -(z**2).sum(axis=1) / 2, -np.inf)

    with np.errstate(over="ignore"):
        ref = ImportancePosterior(log_density, lambda z: np.exp(20 * z), None, ("a", "b"), dimension=2, error=0.1)
        truth = ref.truth()
    assert np.isfinite([truth["mean:a"].value, truth["mean:a"].deviation]).all()


def test_the_closed_quantile_function_of_t4():
    u = np.array([1e-12, 1e-4, 0.2, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(t4_quantile(u), stats.t(4).ppf(u), rtol=1e-6, atol=1e-7)
