"""The reference is complete, and types in signatures lead to the names that users write."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import fbar

MODULES = ("designs", "plot", "problems", "scores", "theory")
"""Public modules: each has a heading of its own and its names are documented as ``fbar.module.name``."""


KINDS = ("class", "exception", "function", "module", "data")


def public_names() -> list[str]:
    """Every name that users are promised, as it stands in the reference."""
    names = []
    for name in fbar.__all__:
        if name not in MODULES:
            names.append(f"fbar.{name}")
            continue
        module = getattr(fbar, name)
        listed = getattr(module, "__all__", None) or [
            item for item in vars(module) if not item.startswith("_") and is_from(getattr(module, item), module)
        ]
        names.extend([f"fbar.{name}", *(f"fbar.{name}.{item}" for item in listed)])
    return names


def is_from(thing: Any, module: Any) -> bool:
    return callable(thing) and getattr(thing, "__module__", None) == module.__name__


def check(app: Sphinx, env: Any) -> None:
    known = env.get_domain("py").objects
    missing = sorted(set(public_names()) - set(known))
    if missing:
        raise ExtensionError(f"public names that are not in the reference: {', '.join(missing)}")


def lead_to_public(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """``fbar.question.points.Points`` in an annotation is ``fbar.Points``; so is `Points` in docstrings."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or ("." in target and not target.startswith("fbar.")):
        return None
    name = target.rpartition(".")[2]
    domain = env.get_domain("py")
    known = [full for full, item in domain.objects.items() if full.endswith(f".{name}") and item.objtype in KINDS]
    if not known:
        return None
    here = set((node.get("py:module") or "").split("."))
    best = max(known, key=lambda full: (full == f"fbar.{name}", len(here & set(full.split("."))), -len(full)))
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", best, node, contnode)


def not_a_type(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What stands before a colon in the docstring of an attribute is a sentence; napoleon takes it for a type."""
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


LITERAL = re.compile(r"(``.*?``)")


def bars_are_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|f − f̄| is an absolute value and p(θ|x*) a condition, not substitutions."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = LITERAL.split(line)
            lines[i] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-check-consistency", check)
    app.connect("autodoc-process-docstring", not_a_type, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", bars_are_bars)
    app.connect("missing-reference", lead_to_public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
