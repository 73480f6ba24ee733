"""Wrong calls of Python and wrong command lines, in portions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from attack.kinds import Kind
from attack.table import Tried
from attack.wrong_calls import Outcome, wrong_calls
from attack.wrong_commands import wrong_commands

BAD = ("raw", "endless")


class Calls(Kind):
    name = "calls"
    figure = 5000
    told = "wrong calls of Python"
    portion = 100
    outcomes: Callable[[int, int], Iterator[Outcome]] = staticmethod(wrong_calls)

    @property
    def cases(self) -> int | None:
        return None

    def attack(self, number: int) -> list[Tried]:
        """In a process of its own, so that other attacks see no trace of it."""
        seed = self.random(number).randrange(2**31)
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as apart:
            return [tried(self.told, apart.submit(_listed, self.outcomes, seed, self.portion).result())]


def _listed(outcomes: Callable[[int, int], Iterator[Outcome]], seed: int, number: int) -> list[Outcome]:
    return list(outcomes(seed, number))


def tried(told: str, outcomes: Iterable[Outcome]) -> Tried:
    number, failures = 0, []
    for outcome in outcomes:
        number += 1
        if outcome.verdict in BAD:
            failures.append(f"{outcome.verdict}: {outcome.call}: {outcome.text} ({outcome.where})")
    return Tried(told, number, tuple(failures))


class Commands(Calls):
    name = "commands"
    figure = 900
    told = "wrong command lines"
    portion = 20
    outcomes = staticmethod(wrong_commands)
