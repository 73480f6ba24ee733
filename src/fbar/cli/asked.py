"""What a recorded run was asked to do, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fbar.errors import InputError
from fbar.methods import stopping
from fbar.methods.restored import restored_method
from fbar.methods.stopping import StoppingRule


def method_in_words(settings: Mapping[str, Any]) -> str:
    """The method, and its tolerance if it has one."""
    described = settings["method"]
    name = str(described.get("type", "?"))
    with suppress(InputError):  # a method of the user's
        tolerance = restored_method(described).final_tolerance
        return name if not tolerance or math.isinf(tolerance) else f"{name} at tolerance {tolerance:g}"
    return name


def rule_of(settings: Mapping[str, Any]) -> StoppingRule | None:
    """The rule that ends the run; None if there is none, or a custom one."""
    with suppress(InputError):
        return None if settings.get("stop") is None else stopping.restored(settings["stop"])
    return None


def end_in_words(settings: Mapping[str, Any]) -> str:
    """When the run ends."""
    ends = [f"budget {settings['budget']:,}"] if settings.get("budget") else []
    if settings.get("stop"):
        rule = rule_of(settings)
        ends.append("until a custom rule holds" if rule is None else f"until {rule}")
        ends += [f"at most {settings['limit']:,} simulations"] if settings.get("limit") else []
    return ", ".join(ends) or "until it ends on its own"
