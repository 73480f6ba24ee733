"""The store of simulations, column by column, and the mixture of proposals against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fbar.estimation import store
from fbar.estimation.cells import ActualCounts, Cells
from fbar.estimation.columns import Column, NotKept
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.kept import Kept
from fbar.estimation.mixture import Component, Mixture, components
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.estimation.store import Entry, Store, failures
from fbar.question.acceptance import Acceptance
from fbar.question.outcomes import Failure, Simulated
from fbar.question.points import Points
from fbar.question.targets import mean


class Listed:
    """θ as rows of an array."""

    def __init__(self):
        self.parts = []

    def add(self, theta, near):
        self.parts.append(theta)

    def take(self, rows):
        return np.concatenate(self.parts)[rows]


def filled(sizes, *, near=3, **options):
    """A store of blocks with θ = distance = 0, 1, 2, …, of which every third is near."""
    made, start = Store(Listed(), **options), 0
    for number, size in enumerate(sizes):
        theta = np.arange(start, start + size, dtype=np.float64)
        made.add(
            Entry(
                number // 2,
                number % 2,
                theta,
                theta.copy(),
                {"twice": 2 * theta},
                np.stack([theta, -theta], axis=1),
                near=np.flatnonzero(theta % near == 0),
            )
        )
        start += size
    return made


def test_rows_know_their_blocks():
    made = filled([3, 2, 4, 1])
    rows = np.array([0, 2, 3, 5, 8, 9])
    assert made.block_of(rows).tolist() == [0, 0, 1, 2, 2, 3]
    assert made.round_of(rows).tolist() == [0, 0, 0, 1, 1, 1]
    assert made.group_of(rows).tolist() == [0, 0, 1, 0, 0, 1]
    found = [(round, number, size, places.tolist()) for round, number, size, _, places in made.in_blocks(rows)]
    assert found == [(0, 0, 3, [0, 2]), (0, 1, 2, [0]), (1, 0, 4, [0, 3]), (1, 1, 1, [0])]


@pytest.mark.parametrize("planned", [math.inf, 10, 1000])
def test_beyond_its_size_a_store_keeps_the_near_ones(planned, monkeypatch):
    """Whether the end is known from the beginning or not, and what was near stays where it was."""
    monkeypatch.setattr(store, "MOST_SIMULATIONS", 50)
    made = filled([30, 20, 25], needs_all=False, most=planned)
    near = np.arange(0, 75, 3)
    assert not made.distance.whole
    assert np.array_equal(made.distance.take(near), near)
    assert np.array_equal(made.summaries.flat(near, 2)[:, 1], -near)
    assert np.array_equal(made.recorded(near)["twice"], 2 * near)
    for what in (made.distance.take, made.recorded, made.failure):
        with pytest.raises(NotKept):
            what(np.array([0, 61]))
    made.narrow(np.arange(0, 25, 2))
    assert np.array_equal(made.distance.take(near[::2]), near[::2])
    with pytest.raises(NotKept):
        made.distance.take(near)


def test_a_small_store_keeps_all():
    made = filled([30, 20, 25], needs_all=False, most=75)
    rows = np.arange(75)
    assert np.array_equal(made.distance.take(rows), rows)
    assert np.array_equal(made.recorded(rows)["twice"], 2 * rows)
    assert not made.failure(rows).any()
    assert made.accepted(Acceptance(10.0))[0].size == 11
    assert made.nearest(5) == 4
    assert made.nearest(5, without=0) == 34


def test_too_many_numbers_are_not_kept(monkeypatch):
    monkeypatch.setattr(store, "MOST_NUMBERS", 60)
    assert filled([20, 10]).summaries.whole
    assert filled([20, 20]).summaries.empty
    assert filled([20, 20], needs_summaries=True).summaries.whole
    monkeypatch.setattr(store, "FEW_NUMBERS", 1)  # now two numbers are data, not summaries
    monkeypatch.setattr(store, "MOST_DATA", 30)
    assert filled([20, 10]).summaries.empty


def test_what_has_failed_after_all():
    made = Store(Listed())
    kinds = np.array([0, Failure.TIMED_OUT, 0], dtype=np.int8)
    for failure in (kinds, None):
        entry = Entry(0, 0, np.zeros(3), np.array([1.0, np.nan, 2.0]), {"r": np.ones(3)}, None, failure=failure)
        made.add(entry)
    made.all_failed()
    made.add(Entry(0, 0, np.zeros(1), np.array([5.0]), {}, None))
    assert np.isnan(made.distance.take(np.arange(6))).all()
    late = Failure.UNUSABLE
    assert made.failure(np.arange(7)).tolist() == [late, Failure.TIMED_OUT, late, late, late, late, 0]
    assert made.recorded(np.arange(6)) == {}


def test_a_distance_that_is_not_a_number_is_a_failure():
    outcomes = Simulated(np.zeros((3, 1)), failure=np.array([0, Failure.KILLED, 0], dtype=np.int8))
    assert failures(outcomes, np.array([1.0, np.nan, np.nan])).tolist() == [0, Failure.KILLED, Failure.NOT_FINITE]
    assert failures(Simulated(np.zeros((2, 1))), np.ones(2)) is None


def test_blocks_of_other_shapes_have_no_numbers():
    column = Column()
    column.add(np.zeros((2, 1)), np.zeros(0, dtype=np.int64))  # all failed, so that the shape was not known
    column.add(np.arange(6.0).reshape(2, 3), np.zeros(0, dtype=np.int64))
    found = column.flat(np.array([0, 3]), 3)
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [3, 4, 5]


def test_rows_can_be_cleared():
    rows = Kept()
    rows.add(np.arange(3))
    rows.clear()
    assert len(rows) == 0
    rows.add(np.array([7]))
    assert rows.whole().tolist() == [7]


# ---------------------------------------------------------------- the mixture

RNG = np.random.default_rng(3)
LOG_Q = RNG.normal(size=(5, 40))
LOG_P = RNG.normal(size=40)
OWN = RNG.uniform(0, 0.3, size=(5, 40))


def mixture(calls, **options):
    def log_density(number, rows):
        calls.append((number, rows.size))
        return LOG_Q[number, rows]

    def own_part(number, rows, log_q):
        assert np.array_equal(log_q, LOG_Q[number, rows])
        return OWN[number, rows] * np.exp(log_q)

    return Mixture(log_density, lambda rows: LOG_P[rows], own_part, **options)


def naive(rows, listed):
    n = np.array([c.draws for c in listed])
    q = np.exp(LOG_Q[[c.number for c in listed]][:, rows])
    own = (n[:, None] * OWN[[c.number for c in listed]][:, rows] * q).sum(axis=0)
    total = (n[:, None] * q).sum(axis=0)
    return LOG_P[rows] - np.log(total / n.sum()), own / total


@pytest.mark.parametrize("carried", [False, True])
def test_a_mixture_is_its_definition_whatever_was_asked_before(carried):
    """Growing rows, growing draws of the last proposal, more proposals, fewer again, other numbers of draws."""
    calls: list[tuple[int, int]] = []
    made = mixture(calls, carried=carried)
    asked = [
        (np.array([3, 7, 20]), [(0, 10)]),
        (np.array([3, 8, 20]), [(0, 10), (1, 4)]),
        (np.arange(0, 40, 3), [(0, 10), (1, 9)]),
        (np.arange(40), [(0, 10), (1, 9), (3, 20), (4, 1)]),
        (np.array([7, 8]), [(0, 10), (1, 5)]),
        (np.arange(5, 35), [(0, 10), (1, 9), (3, 25), (4, 3)]),
        (np.array([39]), [(2, 8), (1, 9)]),
        (np.arange(40), [(0, 10), (1, 9), (3, 20), (4, 1)]),
    ]
    for rows, listed in asked:
        found = [Component(*c) for c in listed]
        before = made.copy()
        for own in (before, made):  # a copy gives the same and leaves no trace
            log_w, share = own.weighed(rows, found)
            expected, expected_share = naive(rows, found)
            assert np.allclose(log_w, expected, rtol=0, atol=1e-12)
            assert np.allclose(share, expected_share, rtol=0, atol=1e-12)
    assert np.array_equal(made.last_density(4, np.arange(40)), LOG_Q[4])
    assert np.isnan(made.last_density(2, np.arange(40))).all()


@pytest.mark.parametrize("carried", [False, True])
def test_no_density_is_evaluated_twice(carried):
    calls: list[tuple[int, int]] = []
    made, rows = mixture(calls, carried=carried), np.arange(30)
    for listed in ([(0, 5)], [(0, 9)], [(0, 9), (1, 3)], [(0, 9), (1, 7)], [(0, 9), (1, 7), (2, 2)]):
        made.log_weights(rows, [Component(*c) for c in listed])
        made.log_weights(rows[:10], [Component(*c) for c in listed])
    assert calls == [(0, 30), (1, 30), (2, 30)]


def test_rounds_of_one_proposal_are_one_component():
    assert components([(0, 5), (0, 6), (1, 0), (2, 3)]) == [Component(0, 11), Component(2, 3)]


# ---------------------------------------------------------------- what error models declare


def test_an_error_model_has_defaults_for_what_it_does_not_know():
    class Plain(ErrorModel):
        def error_bars(self, influence):
            m = influence.shape[1]
            return ErrorBars(np.eye(m), np.full(m, 9.0))

    posterior = Posterior(Points({"x": [1.0, 2.0]}), np.array([0.5, 0.5]), Plain(), 10, 2.0)
    assert posterior.expect(mean("x")).standard_error == 1
    assert posterior.ess is posterior.draws is posterior.cells is None
    assert posterior.contributions(mean("x")) is posterior.value_parts(mean("x")) is None
    assert posterior.known_share(np.ones((2, 1))) == 1.0
    assert posterior.has_errors
    with pytest.raises(TypeError, match="abstract"):
        ErrorModel()


def test_counts_declare_their_cells():
    counts = np.array([10.0, 20.0])
    cells = Cells(Points({"x": [1.0, 2.0]}), np.array([0.4, 0.6]), counts, counts / 2, counts / 2)
    posterior = ActualCounts()(cells)
    assert posterior.cells is cells
    assert posterior.draws is None
    parts, spreads = posterior.value_parts(mean("x"))
    assert parts.shape == spreads.shape == (2, 1)
    assert parts.sum() == pytest.approx(posterior.expect(mean("x")).variance)
