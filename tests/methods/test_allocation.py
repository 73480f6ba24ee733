"""Whole numbers of simulations."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fbar import theory
from fbar.designs.allocation import largest_remainder, top_up

SHARES = arrays(float, st.integers(1, 12), elements=st.floats(0, 1)).filter(lambda a: a.sum() > 1e-3)


@given(SHARES, st.integers(1, 10**8))
def test_largest_remainder_keeps_the_total_and_errs_by_less_than_one(shares, total):
    amounts = theory.normalise(shares) * total
    counts = largest_remainder(amounts)
    assert counts.sum() == total
    assert (np.abs(counts - amounts) < 1 + 1e-6).all()
    assert (counts >= 0).all()


def test_largest_remainder_leaves_whole_numbers_alone():
    assert largest_remainder(np.array([0.1, 0.2, 0.7]) * 1000).tolist() == [100, 200, 700]


@given(SHARES, st.integers(0, 500), st.integers(1, 1000), st.randoms(use_true_random=False))
def test_top_up_adds_what_is_asked_and_fills_to_a_level(shares, most, extra, random):
    shares = theory.normalise(shares)
    counts = np.array([random.randint(0, most) for _ in shares])
    added = top_up(counts, shares, extra)
    assert added.sum() == extra
    assert (added >= 0).all()
    total = counts + added
    filled = added > 1
    if filled.any():
        # No cell that was left alone lies below the level (less the rounding) that others were filled to.
        level = np.max((total[filled] - 1) / shares[filled])
        assert (total + 1 >= level * shares * (1 - 1e-9) - 1).all()


def test_top_up_is_the_best_of_all_ways_to_add():
    counts, alpha, extra = np.array([3, 0, 1]), np.array([0.04, 0.25, 0.09]), 6
    best = min(
        (np.array(x) for x in itertools.product(range(extra + 1), repeat=3) if sum(x) == extra),
        key=lambda x: float((alpha / np.maximum(counts + x, 1e-9)).sum()),
    )
    assert top_up(counts, theory.optimal_shares(alpha), extra).tolist() == best.tolist()


def test_trials_are_topped_up_one_by_one():
    counts = np.array([[3, 0, 1], [0, 5, 5], [2, 2, 2]])
    shares = theory.normalise([[1, 2, 3], [3, 2, 1], [0, 1, 1]])
    assert np.array_equal(top_up(counts, shares, 7), [top_up(c, s, 7) for c, s in zip(counts, shares, strict=True)])
