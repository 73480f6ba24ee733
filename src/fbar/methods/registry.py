"""Methods by name: one registration makes a method known to the library, the command line, studies and recorded runs.

A method is registered beside its class, by a decorator; so is one of another package, when it is imported by a model
file or as a plugin (see `fbar.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from fbar.checks import choice, shown
from fbar.errors import InputError
from fbar.methods.method import Method
from fbar.system.plugins import load_plugins

Needs = Literal[
    "",
    "continuous parameters",
    "data that are numbers",
    "independent data",
    "independent whole numbers",
    "an estimate of the likelihood",
    "a cheap simulator",
    "a known acceptance probability",
    "a finite prior",
]
"""What a problem must have for a method."""

Maker = TypeVar("Maker", bound=Callable[[], Method])


@dataclass(frozen=True)
class Registered:
    """A method with the settings that its name stands for.

    ``make`` returns the method; ``for_budget`` the one that a study runs on a budget, if that is different.
    """

    name: str
    title: str
    make: Callable[[], Method]
    needs: Needs = ""
    for_budget: Callable[[int], Method] | None = None

    @property
    def place(self) -> str:
        """Where it was registered: a module that is imported again may register the same method again."""
        return _place(self.make)


_REGISTERED: dict[str, Registered] = {}
_PARTS: dict[str, type[Any]] = {}

PARTS: Mapping[str, type[Any]] = MappingProxyType(_PARTS)
"""What a recorded method may be made of, by the name of its type: methods, and the parts they were registered with."""


def register(
    name: str,
    title: str,
    *,
    needs: Needs = "",
    parts: Iterable[type[Any]] = (),
    for_budget: Callable[[int], Method] | None = None,
) -> Callable[[Maker], Maker]:
    """Register a method: a decorator of its class, or of a function that makes one with other settings.

    Parameters
    ----------
    name
        Its name for ``fbar.infer(method=...)``, ``--method`` and studies, such as ``"smc-last"``.
    title
        What it does, in one line.
    needs
        What a problem must have for it, such as ``"a finite prior"``; nothing by default.
    parts
        Frozen dataclasses that its settings may hold, such as kernels, so that recorded runs can be resumed.
    for_budget
        A function of the budget that gives the method for a study, where its settings depend on it.
    """
    if not isinstance(name, str) or not name or set(name) & set("/:. "):
        raise InputError(f"the name of a method must be text without '/', ':', '.' or spaces; got {shown(name)}")
    choice(needs, get_args(Needs), "need")

    def add(make: Maker) -> Maker:
        entry = Registered(name, title, make, needs, for_budget)
        known = _REGISTERED.get(name)
        if known is not None:
            _require_free(f"a method {name!r}", known.place, entry.place)
        if isinstance(make, type):
            _add_part(make)
        for part in parts:
            _add_part(part)
        _REGISTERED[name] = entry
        return make

    return add


def unregister(name: str) -> None:
    """Remove a method of another package; nothing happens if there is none."""
    entry = _REGISTERED.get(name)
    if entry is None:
        return
    if entry.place.startswith("fbar."):
        raise InputError(f"{name} is one of fbar's own methods; it cannot be unregistered")
    del _REGISTERED[name]
    if isinstance(entry.make, type):
        _PARTS.pop(entry.make.__name__, None)


def _add_part(part: type[Any]) -> None:
    if not is_dataclass(part):
        raise InputError(f"{part.__name__} must be a dataclass, so that its settings can be recorded")
    known = _PARTS.get(part.__name__)
    if known is not None and known is not part:
        _require_free(f"a class {part.__name__}", _place(known), _place(part))
    _PARTS[part.__name__] = part


def _require_free(what: str, known: str, place: str) -> None:
    """Refuse a name that is taken, unless by the same thing or by a model file, which may have been read before."""
    if known != place and not known.startswith(("fbar_model_", "__main__")):
        raise InputError(f"{what} already exists, in {known.partition(':')[0]}; choose another name")


def _place(thing: Any) -> str:
    if isinstance(thing, partial):
        return f"{_place(thing.func)} of {thing.args}, {thing.keywords}"
    return f"{thing.__module__}:{thing.__qualname__}"


def registered() -> dict[str, Registered]:
    """Every method by name: those for any problem first, and then by what they need."""
    load_plugins()
    order = get_args(Needs)
    return {entry.name: entry for entry in sorted(_REGISTERED.values(), key=lambda entry: order.index(entry.needs))}


def find(name: str) -> Registered:
    """The method of that name."""
    if name not in _REGISTERED:
        load_plugins()
    return _REGISTERED[choice(name, _REGISTERED, "method")]


def as_method(given: Method | str) -> Method:
    """A method, by its name or as it is."""
    if isinstance(given, str):
        return find(given).make()
    if not isinstance(given, Method):
        raise InputError(f"method must be a method such as fbar.Rejection(), or its name; got {shown(given)}")
    return given
