"""Methods from the settings of a recorded run, which anybody may have written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from fbar.errors import InputError
from fbar.methods.method import Method
from fbar.methods.registry import PARTS
from fbar.system.plugins import load_plugins
from fbar.system.schema import fits

MOST_COUNT = 10**9
"""The largest whole number in a recorded method."""


def restored_method(described: Any) -> Method:
    """A method from its description as JSON."""
    found = restored(described)
    if not isinstance(found, Method):
        raise InputError(f"the run's method is recorded as {described!r:.60}, which is not a method")
    return found


def restored(described: Any) -> Any:
    """A method, or a part of one, from its description as JSON."""
    if isinstance(described, Mapping):
        if "type" not in described:
            return {key: restored(value) for key, value in described.items()}
        part = _part(described["type"])
        inner = {str(key): restored(value) for key, value in described.items() if key != "type"}
        return _made(part, inner)
    if isinstance(described, list):
        return tuple(restored(item) for item in described)
    return described


def _part(name: Any) -> type[Any]:
    if isinstance(name, str) and name not in PARTS:
        load_plugins()
    if not isinstance(name, str) or name not in PARTS:
        raise InputError(
            f"the run's method has a part that fbar does not know ({name!r:.60}): rerun the original command, or "
            "register it with fbar.methods.register in the model file"
        )
    return PARTS[name]


def _made(part: type[Any], given: Mapping[str, Any]) -> Any:
    """A part from recorded values, which may be anything."""
    hints = get_type_hints(part)
    known = {field.name for field in fields(part)}
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"the run's method has a setting {name!r:.60} that {part.__name__} does not know; update fbar"
            )
        if not fits(value, hints[name]):
            raise InputError(f"the run's method has {part.__name__}({name}={value!r:.60}), which is not a valid value")
        if isinstance(value, int) and abs(value) > MOST_COUNT:
            raise InputError(f"the run's method has {part.__name__}({name}={value!r:.60}): at most {MOST_COUNT:,}")
    try:
        return part(**given)
    except TypeError:
        raise InputError(f"the run's method has a {part.__name__} without all the settings it requires") from None
