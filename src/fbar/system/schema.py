"""What the settings and the result of a recorded run may hold.

They are read from files that may have been damaged, or made by somebody who means harm, under checksums that are right.
What is done with them relies on what is checked here: the shape of the JSON, and how large it may be. Whether the
values make sense together is checked by those who use them.
"""

from __future__ import annotations

import collections.abc
import math
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union, get_args, get_origin

from fbar.errors import InputError, LedgerError

MOST_LEVELS = 50
MOST_PARTS = 1_000_000
MOST_TEXT = 1_000_000
MOST_NUMBER = 2**128
"""How deep the JSON may be, how many values it may hold in all, how long a text and how large a whole number may be."""
MOST_TARGETS = 20_000
MOST_IN_TARGETS = 5_000_000
MOST_NAME = 20_000
"""How many targets there may be, of how many characters together, and how long one name may be."""
MOST_SIMULATIONS = 2**53
MOST_IN_BLOCK = 10**9
MOST_WORKERS = 10_000
MOST_SECONDS = 1e9

Check = Callable[[Any, str], None]


class _Wrong(Exception):
    """Something is not what it has to be."""


def check_legs(legs: Iterable[Any], run: object = "the run") -> None:
    """The same for all legs of a run."""
    for leg in legs:
        check_settings(leg.settings, leg.result, run)


def require_recordable(settings: Any) -> None:
    """Refuse settings that could not be read again, before a run is recorded with them."""
    try:
        _check(settings, None)
    except _Wrong as error:
        raise InputError(f"a recorded run cannot have these settings: {error}") from None


def check_settings(settings: Any, result: Any = None, run: object = "the run") -> None:
    """Refuse what cannot be the settings of a run's leg, and how it ended if it did, in one line."""
    try:
        _check(settings, result)
    except _Wrong as error:
        raise LedgerError(f"the settings of {run} cannot be used: {error}; damaged, or not written by fbar") from None


def check_progress(tree: Any) -> None:
    """The same for what a driver writes about its progress."""
    try:
        _limits(tree)
        _PROGRESS(tree, "")
        for moment in (tree["now"], *tree["moments"]):
            _same_shapes(moment["estimates"], "estimate")
    except _Wrong as error:
        raise LedgerError(f"what is written about the run's progress cannot be used: {error}") from None


def _check(settings: Any, result: Any) -> None:
    _limits(settings)
    _limits(result)
    _SETTINGS(settings, "")
    if sum(map(len, settings["targets"])) > MOST_IN_TARGETS:
        raise _Wrong(f"targets have more than {MOST_IN_TARGETS:,} characters in total")
    if result is not None:
        _RESULT(result, "the result")
        _same_shapes(result["estimates"], "the result's estimate")


def _same_shapes(estimates: Mapping[str, Any], what: str) -> None:
    for name, estimate in estimates.items():
        if _shape(estimate["value"]) != _shape(estimate["standard_error"]):
            raise _Wrong(f"{what} of {name!r:.60} and its error differ in shape")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what a type annotation says; whole numbers are numbers, and True is not one.

    >>> fits(1, float), fits(True, int), fits("1", float | None), fits((1.0, 2), tuple[float, ...])
    (True, False, False, True)
    """
    if hint is Any:
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in inner)
    if hint in (None, type(None)):
        return value is None
    if hint in (int, float):
        known = (int,) if hint is int else (int, float)
        return isinstance(value, known) and not isinstance(value, bool) and not _is_nan(value)
    if origin is tuple or origin is collections.abc.Sequence:
        return isinstance(value, list | tuple) and all(fits(item, inner[0]) for item in value)
    if origin is collections.abc.Mapping:
        return isinstance(value, Mapping) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    kind = origin or hint
    return isinstance(kind, type) and isinstance(value, kind)


def _is_nan(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _limits(tree: Any) -> None:
    """Refuse JSON that is too deep or too large, whatever it contains."""
    level, parts = [tree], 0
    for _ in range(MOST_LEVELS):
        parts += len(level)
        if parts > MOST_PARTS:
            raise _Wrong(f"they hold more than {MOST_PARTS:,} values")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str):
                if len(item) > MOST_TEXT:
                    raise _Wrong(f"a text has more than {MOST_TEXT:,} characters")
            elif isinstance(item, int) and abs(item) >= MOST_NUMBER:
                raise _Wrong("a whole number is 2**128 or larger")
        level = below
        if not level:
            return
    raise _Wrong(f"they are nested more than {MOST_LEVELS} deep")


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of nested lists, which must have one."""
    if not isinstance(value, list):
        return ()
    inner = {_shape(item) for item in value}
    if len(inner) > 1:
        raise _Wrong("an estimate in the result has rows of different lengths")
    return (len(value), *(inner.pop() if inner else ()))


# ---------------------------------------------------------------- kinds of values


def _refuse(value: Any, where: str, wanted: str) -> _Wrong:
    given = repr(value)
    return _Wrong(f"{where or 'they'} must be {wanted}; got {given if len(given) <= 60 else given[:57] + '...'}")


def _anything(value: Any, where: str) -> None:
    return


def _text(most: int = MOST_TEXT) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise _refuse(value, where, "a text")
        if len(value) > most:
            raise _refuse(value, where, f"a text of at most {most:,} characters")

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(low: int, high: int) -> Check:
    def check(value: Any, where: str) -> None:
        if not _is_whole(value) or not low <= value <= high:
            raise _refuse(value, where, f"a whole number from {low} to {high}")

    return check


def _number(low: float = -math.inf, high: float = math.inf) -> Check:
    def check(value: Any, where: str) -> None:
        if not (_is_whole(value) or isinstance(value, float)) or not low <= value <= high:  # NaN is in no range
            limits = "" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}"
            raise _refuse(value, where, f"a number{limits}")

    return check


def _flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise _refuse(value, where, "true or false")


def _maybe(inner: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def _nested(inner: Check) -> Check:
    """A value, or lists of them."""

    def check(value: Any, where: str) -> None:
        if isinstance(value, list):
            for item in value:
                check(item, where)
        else:
            inner(value, where)

    return check


def _listed(inner: Check, least: int = 0, most: int = MOST_PARTS) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _refuse(value, where, f"a list of {least} to {most:,}" if most < MOST_PARTS else "a list")
        for item in value:
            inner(item, f"each of {where}")

    return check


def _named(inner: Check) -> Check:
    """Values by name."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(value, where, "values by name")
        for name, item in value.items():
            _text(MOST_NAME)(name, f"a name in {where}")
            inner(item, f"{where}, {name!r:.60},")

    return check


def _fields(needed: Mapping[str, Check], further: Mapping[str, Check] | None = None) -> Check:
    """An object with these fields; others are ignored, since they may be of a later version."""
    further = further or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(value, where, "an object with " + ", ".join(needed or further))
        for name, inner in {**needed, **further}.items():
            if name in value:
                inner(value[name], f"{where}'s {name}" if where else name)
            elif name in needed:
                raise _Wrong(f"{name} is missing" + (f" in {where}" if where else ""))

    return check


def _seed(value: Any, where: str) -> None:
    known = _is_whole(value) or (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 40)
    if not known or not 0 <= int(value) < MOST_NUMBER:
        raise _refuse(value, where, "a whole number from 0 to 2**128 - 1")


_KIND = _fields({"type": _text(MOST_NAME)})
_COUNT = _whole(0, MOST_SIMULATIONS)
_NAMES = _listed(_text(MOST_NAME), 1, MOST_TARGETS)
_TEXTS = _listed(_text())

_SETTINGS = _fields(
    {
        "problem": _fields({}),
        "targets": _NAMES,
        "method": _KIND,
        "budget": _maybe(_whole(1, MOST_SIMULATIONS)),
        "limit": _maybe(_whole(1, MOST_SIMULATIONS)),
        "stop": _maybe(_KIND),
        "block_size": _maybe(_whole(1, MOST_IN_BLOCK)),
        "seed": _seed,
    },
    {
        "streams": _whole(1, 100),
        "at_data": _flag,
        "summaries": _maybe(
            _fields(
                {"targets": _NAMES, "regression": _text(MOST_NAME)},
                {"simulations": _maybe(_whole(1, MOST_SIMULATIONS))},
            )
        ),
        "model": _maybe(_fields({"file": _text(MOST_NAME), "name": _text(MOST_NAME)})),
        "machine": _maybe(
            _fields({}, {"workers": _maybe(_whole(0, MOST_WORKERS)), "timeout": _maybe(_number(0, MOST_SECONDS))})
        ),
    },
)

_ESTIMATE = _fields(
    {
        "value": _nested(_maybe(_number())),
        "standard_error": _nested(_maybe(_number())),
        "trusted": _nested(_flag),
        "warnings": _TEXTS,
    },
    {
        "df": _nested(_maybe(_number())),
        "labels": _TEXTS,
        "about": _text(),
        "bias": _nested(_maybe(_number())),
        "reliability": _text(),
        "difference": _fields(
            {
                "value": _nested(_maybe(_number())),
                "standard_error": _nested(_maybe(_number())),
                "trusted": _nested(_flag),
            }
        ),
    },
)

_MAYBE_NUMBER = _maybe(_number())

_OF_ROW = ("mean", "sd", "low", "high", "mean_error", "total_error", "sd_error", "low_error", "high_error")
_WORDS_OF_ROW = ("name", "mean_reliability", "sd_reliability", "interval_reliability")

_SUMMARY = _fields(
    {
        "level": _number(0, 1),
        "kind": _text(MOST_NAME),
        "about": _text(),
        "models": _listed(
            _fields(
                {
                    "model": _text(MOST_NAME),
                    "probability": _MAYBE_NUMBER,
                    "probability_error": _MAYBE_NUMBER,
                    "prior": _number(),
                    "reliability": _text(MOST_NAME),
                    "rows": _listed(
                        _fields(
                            {
                                **dict.fromkeys(_WORDS_OF_ROW, _text(MOST_NAME)),
                                **dict.fromkeys(_OF_ROW, _MAYBE_NUMBER),
                            }
                        )
                    ),
                }
            )
        ),
        "left_out": _TEXTS,
        "warnings": _TEXTS,
    }
)

_RESULT = _fields(
    {
        "estimates": _named(_ESTIMATE),
        "simulations": _COUNT,
        "accepted": _number(0, MOST_SIMULATIONS),
        "warnings": _TEXTS,
        "stopped_by": _text(),
        "rounds": _COUNT,
    },
    {
        "failures": _named(_COUNT),
        "cost": _maybe(_number()),
        "cost_unit": _maybe(_text()),
        "unused": _COUNT,
        "remarks": _TEXTS,
        "about": _text(),
        "about_tolerance": _text(),
        "at_data": _flag,
        "tolerance": _maybe(_number()),
        "bias": _named(_anything),
        "summary": _SUMMARY,
        "missing": _named(_fields({"more": _COUNT, "low": _COUNT, "high": _COUNT})),
        "seed": _seed,
    },
)

_MOMENT = _fields(
    {"simulations": _COUNT, "accepted": _maybe(_number(0, MOST_SIMULATIONS)), "estimates": _named(_ESTIMATE)}
)

_PROGRESS = _fields(
    {
        "leg": _whole(0, MOST_PARTS),
        "machine": _text(MOST_NAME),
        "began": _number(0, MOST_SECONDS * 1000),
        "written": _number(0, MOST_SECONDS * 1000),
        "stopped": _text(),
        "failures": _named(_COUNT),
        "unshown": _COUNT,
        "moments": _listed(_MOMENT),
        "now": _fields(
            {
                "simulations": _COUNT,
                "budget": _maybe(_whole(1, MOST_SIMULATIONS)),
                "limit": _maybe(_whole(1, MOST_SIMULATIONS)),
                "round": _COUNT,
                "rate": _maybe(_number(0)),
                "more": _maybe(_COUNT),
                "accepted": _maybe(_number(0, MOST_SIMULATIONS)),
                "tolerance": _maybe(_number(0)),
                "falling": _flag,
                "final_tolerance": _maybe(_number(0)),
                "estimates": _named(_ESTIMATE),
                "title": _text(MOST_NAME),
                "estimating": _flag,
            }
        ),
    }
)
