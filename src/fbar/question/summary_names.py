"""Names of the numbers that simulations are compared by: the summaries, or the data where there is no summary function.

A name stands for one number or for several, such as the days of a series; these are numbered: cases[1], cases[2], ….
Names come with the problem (``summary_names=``) or from a summary function that returns a mapping. They change no
estimate: they are what tables, plots, reports and exported files call the numbers by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import counted, positive_integer, require_name, shown, texts
from fbar.errors import InputError
from fbar.question.simulators.calls import as_values
from fbar.question.simulators.failures import Nonsense

MOST_NAMED = 100_000
"""Numbers whose names are read from a record, at most."""

SummaryNames = str | Sequence[str] | Mapping[str, int]
"""A name for each number, one name for all of them, or names with how many numbers each stands for."""


def checked_names(given: SummaryNames | None, numbers: int) -> dict[str, int]:
    """Names with how many numbers each stands for, checked against how many there are.

    >>> checked_names(["cases", "peak day"], 2), checked_names("cases", 14)
    ({'cases': 1, 'peak day': 1}, {'cases': 14})
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        found = {
            require_name(name, "the name of a summary"): positive_integer(size, f"summary_names[{shown(name)}]")
            for name, size in given.items()
        }
    elif isinstance(given, str):
        found = {require_name(given, "the name of a summary"): numbers}
    else:
        listed = texts(given, "summary_names", "['cases', 'peak day']")
        for name in listed:
            require_name(name, "the name of a summary")
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise InputError(f"summary_names gives the same name twice: {shown(twice[0])}")
        found = dict.fromkeys(listed, 1)
    if sum(found.values()) != numbers:
        raise InputError(
            f"summary_names names {counted(sum(found.values()), 'number')}, but simulations are compared by {numbers}; "
            "give a name for each, or one name for all of them"
        )
    return found


def numbered(names: Mapping[str, int]) -> tuple[str, ...]:
    """A name for each number.

    >>> numbered({"cases": 2, "peak day": 1})
    ('cases[1]', 'cases[2]', 'peak day')
    """
    return tuple(name if size == 1 else f"{name}[{place + 1}]" for name, size in names.items() for place in range(size))


def recorded_labels(recorded: Any) -> tuple[str, ...]:
    """A name for each number from a record, which may be anybody's; nothing where it holds no usable names."""
    if not isinstance(recorded, Mapping) or not all(type(size) is int for size in recorded.values()):
        return ()
    numbers = sum(recorded.values())
    if not 0 < numbers <= MOST_NAMED:
        return ()
    try:
        return numbered(checked_names(recorded, numbers))
    except InputError:
        return ()


def columns(values: Any) -> tuple[Any, dict[str, int]]:
    """What a summary function returned, with a mapping as the columns of one array, and its names if it is one."""
    if not isinstance(values, Mapping):
        return values, {}
    if not values:
        raise Nonsense("summary returned an empty mapping; return values by name, as in {'mean': x.mean(axis=1)}")
    arrays = {_name(name): as_values(f"summary {shown(name)}", value) for name, value in values.items()}
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1 or lengths == {()}:
        shapes = ", ".join(f"{name}: {array.shape}" for name, array in arrays.items())
        raise Nonsense(
            "every value that summary returns must have a row for each simulation, as x.mean(axis=1) has; "
            f"got shapes {shapes}"
        )
    flat: dict[str, npt.NDArray[Any]] = {name: array.reshape(len(array), -1) for name, array in arrays.items()}
    return np.concatenate(list(flat.values()), axis=1), {name: array.shape[1] for name, array in flat.items()}


def _name(given: Any) -> str:
    try:
        return require_name(given, "the name of a summary")
    except InputError as error:
        raise Nonsense(str(error)) from None
