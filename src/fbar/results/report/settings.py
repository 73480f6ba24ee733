"""Settings, seed and versions of a run, and how to run it again."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.results.again import again
from fbar.results.markup import element, join
from fbar.results.report.page import Section, details, notes, table

if TYPE_CHECKING:
    from fbar.results.result import Result

PACKAGES = ("fbar", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")


def settings(result: Result) -> Section:
    """Settings, seed, versions, and what to type to have it all again."""
    asked = dict(result.settings)
    decisive = {key: value for key, value in asked.items() if key != "machine"}
    rows = [
        (key, _said(asked[key])) for key in ("targets", "budget", "limit", "block_size") if asked.get(key) is not None
    ]
    rows += [(f"method.{key}", _said(value)) for key, value in asked.get("method", {}).items() if value is not None]
    rows += [("until", _said(asked["stop"]))] if asked.get("stop") else []
    rows += [("seed", str(result.seed)), ("simulations", f"{int(np.sum(result.simulations)):,}")]
    rows += [("run", str(result.directory))] if result.directory is not None else []
    body = [
        table(["setting", "value"], rows, left=2),
        element("h3", "Run it again"),
        element("pre", again(result), class_="wrapped"),
        element("h3", "Versions"),
        table(["package", "version"], _versions(), left=2),
        details(
            "All settings that determine the result", element("pre", json.dumps(decisive, indent=2, ensure_ascii=False))
        )
        if asked
        else "",
        notes(["The same seed and settings give the same numbers, on any number of workers."]),
    ]
    line = f"seed {result.seed}, versions, how to run it again"
    return Section("settings", "Settings", join(body), folded=True, line=line)


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        own = ", ".join(f"{key}={_said(item)}" for key, item in value.items() if key != "type" and item is not None)
        return f"{value['type']}({own})" if "type" in value else own
    if isinstance(value, list):
        return ", ".join(_said(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
