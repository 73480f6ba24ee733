"""Wrong calls of fbar from Python: each works, or is refused in one line.

``python -m attack.wrong_calls --seed 2 --number 5000`` makes so many and prints what was wrong with fbar's answers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np

from attack.entrances import entrances
from attack.rooms import Entrance, Rooms
from attack.wrong_values import ARRAYS, CONTAINERS, FUNCTIONS, NUMBERS, TEXTS, WRONG
from fbar.errors import FbarError

PATIENCE = 60.0
"""Seconds after which a call is endless; a loaded machine takes ten for a report."""
INTERRUPTED = 1.0
"""Seconds after which a call that asks for very much is interrupted, as by Ctrl-C."""
MOST_CHARACTERS = 1_000
"""How long a message may be."""
MUCH = ("2**53", "1e300", "uint64")
"""Numbers that are allowed for a budget, and are not to be waited for."""
AMOUNTS = ("budget", "budgets", "simulations", "limit", "accepted", "hits", "trials", "number", "size", "other")


class Outcome(NamedTuple):
    """A call in words, what came of it (fine, refused, raw or endless), the exception's text, and where it was."""

    call: str
    verdict: str
    text: str = ""
    where: str = ""


class Late(KeyboardInterrupt):
    """Time is up; a KeyboardInterrupt, because that is what a user would send."""


def wrong_calls(seed: int, number: int) -> Iterator[Outcome]:
    """So many wrong calls; the same ones for the same seed."""
    with Rooms() as rooms:
        yield from _calls(Random(seed), number, entrances(rooms))


def _calls(rng: Random, number: int, doors: list[Entrance]) -> Iterator[Outcome]:
    order: list[Entrance] = []
    for _ in range(number):
        if not order:  # each entrance as often as the others
            order = rng.sample(doors, len(doors))
        door = order.pop()
        changed = rng.sample(door.open, min(len(door.open), 1 if rng.random() < 0.8 else 2))
        yield attempt(door, {name: rng.choice(_kindred(door.right.get(name), rng)) for name in changed})


def _kindred(right: Any, rng: Random) -> list[str]:
    """Words of any wrong values, or as often of those that are like the right one and pass the first look."""
    if rng.random() < 0.5:
        return list(WRONG)
    if callable(right) and not isinstance(right, type):
        return list(FUNCTIONS)
    if isinstance(right, int | float):
        return list(NUMBERS)
    if isinstance(right, str):
        return list(TEXTS)
    if isinstance(right, list | tuple | dict | np.ndarray):
        return [*CONTAINERS, *ARRAYS]
    return list(WRONG)


def attempt(door: Entrance, wrong: dict[str, str]) -> Outcome:
    """One call, in a directory of its own, with its wrong arguments by their words."""
    words = f"{door.words}({', '.join(f'{name}: {value}' for name, value in wrong.items())})"
    much = any(value in MUCH and name in AMOUNTS for name, value in wrong.items())
    with (
        tempfile.TemporaryDirectory(prefix="fbar-wrong-call-") as place,
        within(place),
        warnings.catch_warnings(record=True) as told,
        clock(much),
    ):
        warnings.simplefilter("always")
        try:
            given = door({name: WRONG[value]() for name, value in wrong.items()})
            f"{given!r} {given}"
        except KeyboardInterrupt as error:
            return Outcome(words, "fine" if much else "endless", "", where(error))
        except BaseException as error:
            if any(name == "progress" and callable(WRONG[value]()) for name, value in wrong.items()):
                return Outcome(words, "fine")  # what a user's own callback raises is theirs
            return _judged(words, door, error)
    return _leaked(words, told)


def _judged(words: str, door: Entrance, error: BaseException) -> Outcome:
    text = _said(error)
    if isinstance(error, door.protocol):
        return Outcome(words, "refused" if text else "raw", text, where(error))
    if not isinstance(error, FbarError):
        return Outcome(words, "raw", f"{type(error).__name__}: {text}"[:300], where(error))
    if fault := unfit(text):
        return Outcome(words, "raw", f"a message {fault}: {text[:300]!r}", where(error))
    return Outcome(words, "refused", text, where(error))


def unfit(text: str) -> str:
    """What is wrong with a message as a line for a scientist at a terminal; nothing if it is fit."""
    if not text.strip():
        return "that is empty"
    if len(text) > MOST_CHARACTERS:
        return f"of {len(text):,} characters"
    if len(text.splitlines()) > 1:
        return "of several lines"
    bad = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    return "" if bad is None else f"with the character {bad!r}"


def _leaked(words: str, told: list[warnings.WarningMessage]) -> Outcome:
    """A call that worked: fine, unless numpy complained to the user of what fbar did."""
    for warning in told:
        if issubclass(warning.category, RuntimeWarning | DeprecationWarning) or "umpy" in warning.category.__module__:
            where = f"{os.path.basename(warning.filename)}:{warning.lineno}"
            return Outcome(words, "raw", f"{warning.category.__name__}: {str(warning.message)[:200]}", where)
    return Outcome(words, "fine")


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as spoilt:
        return f"(its message cannot be read: {type(spoilt).__name__})"


def where(error: BaseException) -> str:
    """The innermost line of fbar that the exception came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if f"{os.sep}fbar{os.sep}" in frame.filename:
            return f"{frame.filename.rpartition(f'{os.sep}fbar{os.sep}')[2]}:{frame.lineno} in {frame.name}"
    return ""


@contextlib.contextmanager
def within(place: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def clock(much: bool) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Late

    before, begun = signal.signal(signal.SIGALRM, late), time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, INTERRUPTED if much else PATIENCE, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # somebody else's alarm, such as that of a test's own time limit
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 0.01))


def main() -> None:
    """Make the calls, and print those that were answered badly by where, or with ``--messages`` all messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=1500)
    parser.add_argument("--messages", action="store_true", help="print every distinct message, with a call of it")
    chosen = parser.parse_args()
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    bad: dict[tuple[str, str], list[Outcome]] = {}
    messages: dict[str, Outcome] = {}
    for outcome in wrong_calls(chosen.seed, chosen.number):
        counts[outcome.verdict] += 1
        if outcome.verdict in ("raw", "endless"):
            bad.setdefault((outcome.where, outcome.text.partition(":")[0]), []).append(outcome)
        elif outcome.verdict == "refused":
            messages.setdefault(outcome.text, outcome)
    for (where, kind), found in sorted(bad.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):4d}  {where}  {kind}\n        {found[0].call}\n        {found[0].text}")
    if chosen.messages:
        for text, outcome in sorted(messages.items()):
            print(f"{text}\n        {outcome.call}  [{outcome.where}]")
    print(f"{sum(counts.values()):,} wrong calls in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
