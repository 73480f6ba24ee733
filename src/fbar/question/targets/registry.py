"""The kinds of targets, by name.

A function that makes targets is registered with its text form, such as ``NAME,LEVEL``. That one line gives it all that
fbar does with targets by name: the name ``quantile:beta,0.9`` in results, ``--target quantile:beta,0.9`` on the command
line, recorded runs that load and resume, and the reference.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from fbar import former
from fbar.checks import choice, require_name, shown, text
from fbar.errors import InputError
from fbar.question.targets.base import Target
from fbar.system.plugins import load_plugins

Maker = TypeVar("Maker", bound=Callable[..., Target])

_ARGUMENT = re.compile(r"[A-Z][A-Z_]*")
_READ: dict[Any, Callable[[str], Any]] = {"float": float, float: float, "int": int, int: int}
"""How arguments are read whose annotation is one of these; others are texts."""


@dataclass(frozen=True)
class Kind:
    """A kind of target: the function that makes it, and how it is written."""

    make: Callable[..., Target]
    form: str
    """What follows ``kind:`` in a target's name, the arguments of ``make`` in capital letters."""
    example: str
    """A whole name, such as ``quantile:beta,0.9``."""

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def title(self) -> str:
        """The first line of the function's documentation."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    @property
    def text(self) -> str:
        """``quantile:NAME,LEVEL``."""
        return f"{self.name}:{self.form}"

    def read(self, what: str) -> Target:
        """The target whose name is ``kind:what``."""
        arguments, between = _ARGUMENT.findall(self.form), {part for part in _ARGUMENT.split(self.form) if part}
        parts = re.split("|".join(map(re.escape, between)), what) if between else [what]
        taken = inspect.signature(self.make).parameters
        try:
            given = {
                name.lower(): _READ.get(taken[name.lower()].annotation, str)(part.strip())
                for name, part in zip(arguments, parts, strict=True)
            }
            return self.make(**given)
        except InputError:
            raise
        except (ValueError, TypeError):
            raise InputError(
                f"cannot read the target {shown(f'{self.name}:{what}')}; write it like {self.example}"
            ) from None


_KINDS: dict[str, Kind] = {}

KINDS: Mapping[str, Kind] = MappingProxyType(_KINDS)
"""Every kind that is registered so far, by name."""


def registered() -> dict[str, Kind]:
    """Every kind by name, in alphabetical order, with those of installed plugins."""
    load_plugins()
    return dict(sorted(KINDS.items()))


def register(form: str, example: str) -> Callable[[Maker], Maker]:
    """Register a function that makes targets; its name is the kind's.

    Parameters
    ----------
    form
        What follows the colon in a target's name: arguments of the function in capital letters, and what separates
        them. An argument annotated as float or int is read as one, others as text.
    example
        A target's whole name. The target that is read from it must have that very name.
    """

    def add(make: Maker) -> Maker:
        kind = Kind(make, form, example)
        unknown = {name.lower() for name in _ARGUMENT.findall(form)} - set(inspect.signature(make).parameters)
        if unknown:
            raise InputError(f"the form {shown(form)} has {', '.join(sorted(unknown))}, not an argument of {kind.name}")
        before = _KINDS.get(kind.name)
        if before is not None and before.make.__module__.startswith("fbar."):
            raise InputError(f"fbar already has a target {shown(kind.name)}; choose another name for the function")
        _KINDS[kind.name] = kind
        return make

    return add


def unregister(name: str) -> None:
    """Forget a kind that was registered, for tests and notebooks."""
    _KINDS.pop(name, None)


def parse(text: str) -> Target:
    """A target from its name, as on a command line.

    >>> [parse(text).name for text in ("mean:beta", "quantile:beta,0.9", "probability:beta > 3")]
    ['mean:beta', 'quantile:beta,0.9', 'probability:beta > 3']
    """
    if not isinstance(text, str) or ":" not in text:
        raise InputError(f"a target is written as kind:what, such as mean:beta; got {shown(text)}")
    found = _read_whole(former.target(text))  # what is wrong with more than its name is said first
    former.refuse_target(text)
    return found


def _read_whole(text: str) -> Target:
    kind, what = (part.strip() for part in text.split(":", 1))
    if kind not in KINDS:
        load_plugins()
    return KINDS[choice(kind, KINDS, "kind of target")].read(what)


# ---------------------------------------------------------------- what functions that make targets share


def parameter(name: str) -> str:
    """The name of a parameter; whether there is one is known when the target is used."""
    return text(name, "a parameter's name")


def require_own_name(name: str | None) -> None:
    """Refuse a user's own name of a target that would be taken for a former name of one of fbar's."""
    if name is not None and former.target(require_name(name, "a target's name")) != name and not former.is_allowed():
        raise InputError(f"a target of your own cannot be called {shown(name)}, as one of fbar's was; choose another")
