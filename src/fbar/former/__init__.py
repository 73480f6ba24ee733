"""Names that were changed, and what they are called now.

A former name in new input is refused with the present one. What was recorded under it is read as if it had been
recorded under the present one, and the model of a recorded run may use it: it was right when the run was started.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, ParamSpec, TypeVar

from fbar.errors import InputError
from fbar.former.tables import MODULES, NAMES, ONCE, TARGETS, WHOLE_ONCE, WHOLE_TARGETS

P = ParamSpec("P")
R = TypeVar("R")


# ---------------------------------------------------------------- in new input: refused


def refuse_target(name: str) -> None:
    """Refuse a target's name as it was written once."""
    now = target(name)
    if now != name:
        raise InputError(f"the target {name!r:.100} is now written {now!r:.100}")


def arguments(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse former keyword arguments of a function: ``@arguments(client="engine")``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for before in renamed.keys() & kwargs.keys():
                called = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"{called}({before}=...) is now {called}({renamed[before]}=...)")
            return function(*args, **kwargs)

        return checked

    return decorate


# ---------------------------------------------------------------- in what was recorded: as it is called now


def target(name: str) -> str:
    """A target's name as it is now.

    >>> target("interval:0<a<1"), target("mean:a"), target("posterior")
    ('probability_between:0<a<1', 'mean:a', 'probabilities')
    """
    kind, colon, what = name.partition(":")
    if colon:
        return f"{TARGETS.get(kind.strip(), kind)}:{what}"
    return WHOLE_TARGETS.get(name, name)


def target_once(name: str) -> str:
    """A target's name as it was at first, for digests that recorded studies are known by.

    >>> target_once("model_probability:a"), target_once("second_moment:a"), target_once("probability_between:0<a<1")
    ('model-probability:a', 'second_moment:a', 'interval:0<a<1')
    """
    kind, colon, what = name.partition(":")
    if colon:
        return f"{ONCE.get(kind, kind)}:{what}"
    whole = next((now for now in WHOLE_TARGETS.values() if name == now or name.startswith(f"{now}[")), "")
    return WHOLE_ONCE[whole] + name[len(whole) :] if whole else name


def settings(recorded: Any) -> Any:
    """The settings of a recorded run or study, with the names of now; what is not in its place is left alone."""
    if not isinstance(recorded, dict):
        return recorded
    found = dict(recorded)
    for key, inner in _INNER.items():
        if key in found:
            found[key] = inner(found[key])
    return found


_WITHOUT_TOLERANCE: dict[str, str | float] = {"Targeted": "chosen", "Rejection": 0.0, "Importance": 0.0}
"""What methods did without a tolerance before there were answers at the data."""


def answer(recorded: dict[str, Any]) -> dict[str, Any]:
    """The settings of a leg that was recorded before there were answers at the data (it has no ``at_data``).

    Without a tolerance, a targeted run chose one from its budget then, and other draws were matched exactly. The first
    runs that answered at the data recorded the tolerance 0 of other draws.

    >>> answer({"method": {"type": "Targeted", "tolerance": None}})
    {'method': {'type': 'Targeted', 'tolerance': 'chosen'}}
    >>> answer({"method": {"type": "Rejection", "tolerance": 0.0}, "at_data": True})["method"]["tolerance"] is None
    True
    """
    method = recorded.get("method")
    then = _WITHOUT_TOLERANCE.get(str(method.get("type"))) if isinstance(method, dict) else None
    if not isinstance(method, dict) or then is None:
        return recorded
    tolerance = method.get("tolerance")
    if recorded.get("at_data") is True and tolerance == 0 == then:
        return {**recorded, "method": {**method, "tolerance": None}}
    if "at_data" in recorded or tolerance is not None:
        return recorded
    return {**recorded, "method": {**method, "tolerance": then}}


def result(recorded: Any) -> Any:
    """How a recorded run ended, with the names of now."""
    if not isinstance(recorded, dict):
        return recorded
    found = dict(recorded)
    for key in ("estimates", "bias", "missing"):
        if key in found:
            found[key] = by_target(found[key])
    return found


def study(recorded: Any) -> Any:
    """The settings of a recorded study, with the names of now."""
    if not isinstance(recorded, dict):
        return recorded
    found = dict(recorded)
    for part in ("problems", "methods"):
        if isinstance(found.get(part), dict):
            found[part] = {name: settings(inner) for name, inner in found[part].items()}
    return found


def trial(recorded: Any) -> Any:
    """What a study kept of a trial, with the names of now."""
    if not isinstance(recorded, dict):
        return recorded
    found = {**recorded, "estimates": by_target(recorded["estimates"])}
    if isinstance(found.get("scores"), dict):
        found["scores"] = {score: by_target(values) for score, values in found["scores"].items()}
    return found


def by_target(values: Any) -> Any:
    """What is kept by the names of targets."""
    return {target(name): value for name, value in values.items()} if isinstance(values, Mapping) else values


def _targets(names: Any) -> Any:
    return [target(name) if isinstance(name, str) else name for name in names] if isinstance(names, list) else names


MOST_LEVELS = 50
"""Deeper a stopping rule is not made of others, whatever a file holds."""


def _rule(described: Any, level: int = 0) -> Any:
    """A stopping rule, and those that it is made of."""
    if not isinstance(described, dict) or level > MOST_LEVELS:
        return described
    found = dict(described)
    if isinstance(found.get("type"), str):
        found["type"] = NAMES.get(found["type"], found["type"])
    if isinstance(found.get("target"), str):
        found["target"] = target(found["target"])
    for key in ("first", "second"):
        if key in found:
            found[key] = _rule(found[key], level + 1)
    return found


def _part(described: Any) -> Any:
    """A method, or summaries to be learned: they name targets, and are not made of others that do."""
    if not isinstance(described, dict):
        return described
    names = {"targets": _targets, "importance": by_target}
    return {key: names[key](value) if key in names else value for key, value in described.items()}


_INNER: dict[str, Callable[[Any], Any]] = {
    "targets": _targets,
    "stop": _rule,
    "precision": by_target,
    "importance": by_target,
    "method": _part,
    "summaries": _part,
}


# ---------------------------------------------------------------- in the model of a recorded run: still good

_allowed: ContextVar[bool] = ContextVar("former names are allowed", default=False)


MODEL_OF_RUN = "fbar_model_of_run_"
"""How the name of a module begins that is the model of a recorded run: its functions may use former names whenever and
wherever they are called, in workers too."""


def now(name: str) -> str | None:
    """The public name that a former one has now, where former names are allowed; None for others."""
    return NAMES.get(name) if name in NAMES and (_allowed.get() or _asked_by_model()) else None


_helpers: set[str] = set()
"""Modules that models of recorded runs have imported: what stands beside a model is as old as it."""


def _asked_by_model() -> bool:
    """Whether the code that asks is that of a recorded run's model: the first beyond this package and the import."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        who = frame.f_globals.get("__name__", "")
        if who not in (__name__, "fbar") and not who.startswith("importlib") and who != "_frozen_importlib":
            return isinstance(who, str) and (who.startswith(MODEL_OF_RUN) or who in _helpers)
        frame = frame.f_back
    return False


def is_allowed() -> bool:
    """Whether the model of a recorded run is being read."""
    return _allowed.get()


def removed(name: str) -> str:
    """Why fbar has no attribute of a name."""
    if name in NAMES:
        return f"fbar.{name} is now fbar.{NAMES[name]}"
    moved = _moved(f"fbar.{name}")
    if moved:
        return f"fbar.{name} is now {' and '.join(moved)}"
    return f"module 'fbar' has no attribute {name!r}"


@contextmanager
def allowed() -> Iterator[None]:
    """Within it former names of fbar and of its modules lead to what they are now."""
    token, finder, before = _allowed.set(True), _Finder(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    finder.find_hidden()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _allowed.reset(token)
        finder.forget()
        _helpers.update(name for name in sys.modules.keys() - before if name.partition(".")[0] != "fbar")


def _moved(module: str) -> tuple[str, ...]:
    """Where a module is now; nothing for one that has not moved."""
    parts = module.split(".")
    for length in range(len(parts), 1, -1):
        found = MODULES.get(".".join(parts[:length]))
        if found is not None:
            rest = parts[length:]
            return tuple(".".join((place, *rest)) for place in ((found,) if isinstance(found, str) else found))
    return ()


class _Finder(MetaPathFinder):
    """Finds modules under their former names."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def find_hidden(self) -> None:
        """Put in place those that a public name hides: imported as others are, they would hide the public name."""
        public = {*NAMES, *vars(sys.modules["fbar"])}
        for name in MODULES:
            parent, _, child = name.rpartition(".")
            if parent == "fbar" and child in public and name not in sys.modules:
                self._found.append(name)
                sys.modules[name] = _joined(name, _moved(name))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        places = _moved(fullname) if fullname.startswith("fbar.") else ()
        if not places:
            return None
        self._found.append(fullname)
        return ModuleSpec(fullname, _Moved(places), is_package=True)

    def forget(self) -> None:
        """Leave no trace of them, so that they are not found elsewhere."""
        for name in self._found:
            module = sys.modules.pop(name, None)
            parent, _, child = name.rpartition(".")
            above = sys.modules.get(parent)
            if module is None or above is None or vars(above).get(child) is not module:
                continue
            home = f"{above.__name__}.{child}"
            if sys.modules.get(home) is not module:  # else it is at home there, whatever both were called
                delattr(above, child)


def _joined(name: str, places: Sequence[str]) -> ModuleType:
    """The module that is at the new place; one with more names where it was split, or had names that were changed."""
    modules = [import_module(place) for place in places]
    known = {key: value for module in modules for key, value in vars(module).items() if not key.startswith("__")}
    renamed = {before: known[present] for before, present in NAMES.items() if present in known}
    if len(modules) == 1 and not renamed:
        return modules[0]
    joined = ModuleType(name)
    vars(joined).update(known, **renamed)
    return joined


class _Moved(Loader):
    """Loads a module under its former name, by taking it from its new place."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = places
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _joined(spec.name, self._places)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which importing under another name has replaced


class _OfModels(MetaPathFinder):
    """Finds modules under their former names for functions of recorded runs' models, when they are called."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        places = _moved(fullname) if fullname.startswith("fbar.") else ()
        return ModuleSpec(fullname, _Moved(places), is_package=True) if places and _asked_by_model() else None


sys.meta_path.append(_OfModels())  # after all others: it is asked only for what nobody finds
