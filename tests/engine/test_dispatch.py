"""The account of a worker's death: what is sent again, split, run while nothing else is, and given up."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from fbar.engine.dispatch import DEPTH, Dispatcher, Fault, GivenUp, Pool, Returned


@dataclass(frozen=True)
class Letters:
    """A job of some letters."""

    text: str

    @property
    def key(self):
        return self.text

    def pieces(self):
        return [Letters(letter) for letter in self.text] if len(self.text) > 1 else []


class Died(Exception):
    pass


class Told(Pool):
    """Workers that do what the test tells them; ``sent`` is what they were sent, in order."""

    def __init__(self, size=1, *, blames_neighbours=False):
        self.size, self.blames_neighbours = size, blames_neighbours
        self.sent, self.running, self.ended, self.closed = [], {}, [], False

    def send(self, job, seconds):
        self.sent.append(job.text)
        future = Future()
        self.running[job.text] = future
        return future

    def done(self, future):
        self.ended.append(future)

    def fault(self, future, error):
        return error.args[0] if isinstance(error, Died) else Fault.DIED if error is None else None

    def close(self):
        self.closed = True

    def returns(self, text):
        self.running.pop(text).set_result(text.upper())

    def dies(self, text, fault=Fault.DIED):
        self.running.pop(text).set_exception(Died(fault))


def at_work(pool, *texts, **options):
    left = [Letters(text) for text in texts]
    return Dispatcher(pool, lambda: left.pop(0) if left else None, **options)


def test_jobs_come_back():
    pool = Told(size=2)
    dispatcher = at_work(pool, "a", "b", "c", "d", "e")
    dispatcher.fill()
    assert pool.sent == ["a", "b", "c", "d"][: DEPTH * 2]
    pool.returns("b")
    assert dispatcher.collect(1) == [Returned(Letters("b"), "B")]
    dispatcher.fill()
    assert pool.sent[-1] == "e"
    for text in "acde":
        pool.returns(text)
    assert {found.report for found in dispatcher.collect(1)} == set("ACDE")
    assert not dispatcher.busy
    assert len(pool.ended) == 5


def test_a_job_that_never_began_is_sent_again_however_often():
    pool = Told()
    dispatcher = at_work(pool, "ab")
    for _ in range(5):
        dispatcher.fill()
        pool.dies("ab", Fault.DROPPED)
        assert dispatcher.collect(1) == []
    dispatcher.fill()
    pool.returns("ab")
    assert dispatcher.collect(1) == [Returned(Letters("ab"), "AB")]


@pytest.mark.parametrize("fault", [Fault.DIED, Fault.OVERDUE])
def test_a_job_is_split_and_the_piece_that_kills_again_is_given_up(fault):
    pool = Told()
    dispatcher = at_work(pool, "ab")
    dispatcher.fill()
    pool.dies("ab", fault)
    assert dispatcher.collect(1) == []
    dispatcher.fill()
    assert pool.sent == ["ab", "a", "b"]
    pool.returns("a")
    pool.dies("b", fault)
    assert dispatcher.collect(1) == [Returned(Letters("a"), "A")]
    dispatcher.fill()
    assert pool.sent == ["ab", "a", "b", "b"]
    pool.dies("b", fault)
    assert dispatcher.collect(1) == [GivenUp(Letters("b"), fault)]
    assert not dispatcher.busy


def test_a_piece_that_came_back_has_all_its_tries_again():
    pool = Told()
    dispatcher = at_work(pool, "a", "a")
    dispatcher.fill()
    pool.dies("a")
    dispatcher.collect(1)
    dispatcher.fill()
    pool.returns("a")
    assert len(dispatcher.collect(1)) == 1


def test_fewer_tries_where_they_are_asked_for():
    pool = Told()
    dispatcher = at_work(pool, "a", tries=lambda job: 1)
    dispatcher.fill()
    pool.dies("a")
    assert dispatcher.collect(1) == [GivenUp(Letters("a"), Fault.DIED)]


def test_suspects_are_run_while_nothing_else_is():
    """Both are blamed for one death; alone, "a" is innocent, and "b" dies twice more."""
    pool = Told(blames_neighbours=True)
    dispatcher = at_work(pool, "a", "b", "c", "d")
    dispatcher.fill()
    assert pool.sent == ["a", "b"]
    pool.dies("a")
    pool.dies("b")
    assert dispatcher.collect(1) == []
    order = []
    while dispatcher.busy:
        dispatcher.fill()
        dispatcher.fill()  # sends nothing more
        assert len(pool.running) == 1 or set(pool.running) == {"c", "d"}
        for text in list(pool.running):
            pool.dies(text) if text == "b" else pool.returns(text)
        order += dispatcher.collect(1)
        dispatcher.fill()
    assert GivenUp(Letters("b"), Fault.DIED) in order
    assert {found.report for found in order if isinstance(found, Returned)} == set("ACD")
    assert sorted(pool.sent[2:5]) == ["a", "b", "b"]
    assert pool.sent[5:] == ["c", "d"]


def test_other_errors_end_the_run():
    pool = Told()
    dispatcher = at_work(pool, "a")
    dispatcher.fill()
    pool.running.pop("a").set_exception(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        dispatcher.collect(1)
    dispatcher.close()
    assert pool.closed


def test_a_future_that_is_never_done_is_looked_for(monkeypatch):
    pool = Told()
    dispatcher = at_work(pool, "a", limit=lambda job: 3.0)
    dispatcher.fill()
    monkeypatch.setattr(pool, "lost", lambda: list(pool.running.values()), raising=False)
    assert dispatcher.collect(0.01) == []
    dispatcher.fill()
    assert pool.sent == ["a", "a"]
