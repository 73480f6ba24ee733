"""The catalogue: problems by name.

A problem is registered under a name with a function that makes it: a `Recipe`, which has observations and a truth for
any data, or a `Problem` that knows its own truth. See "Adding a problem" in ``CONTRIBUTING.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from fbar.checks import choice, real, shown
from fbar.errors import InputError
from fbar.problems.benchmark import Benchmark, Recipe
from fbar.question.problem import Problem
from fbar.system.plugins import load_plugins

Maker = Callable[[], "Recipe | Problem"]


@dataclass(frozen=True)
class Registered:
    """A problem of the catalogue. ``maker`` is a function, or where it is found: "module:function"."""

    name: str
    maker: Maker | str
    title: str = ""

    def found(self) -> Maker:
        if not isinstance(self.maker, str):
            return self.maker
        module, _, function = self.maker.partition(":")
        maker: Maker = getattr(import_module(module), function)
        return maker


_REGISTERED: dict[str, Registered] = {}
_RECIPES: dict[str, Recipe] = {}


def register(name: str, maker: Maker | str, title: str = "") -> None:
    """Add a problem to the catalogue, under a name.

    Parameters
    ----------
    name
        Its name for `load`, studies and the command line, such as "two-moons".
    maker
        A function without arguments that returns a `Recipe` or a `Problem` with a known truth; or where it is found,
        as "my_package.my_module:function", so that the module is imported only when the problem is used.
    title
        One line about it; a recipe has its own.
    """
    if not isinstance(name, str) or not name or set(name) & set("/:. "):
        raise InputError(f"the name of a problem must be text without '/', ':', '.' or spaces; got {shown(name)}")
    if not (callable(maker) or (isinstance(maker, str) and maker.count(":") == 1)):
        raise InputError(f"the maker of {name} must be a function, or a name 'module:function'; got {shown(maker)}")
    entry = Registered(name, maker, title)
    known = _REGISTERED.get(name)
    if known is not None and _place(known) != _place(entry):
        raise InputError(f"a problem {name!r} already exists, made by {_place(known)}; choose another name")
    _REGISTERED[name] = entry
    _RECIPES.pop(name, None)


def unregister(name: str) -> None:
    """Take a problem of another package out of the catalogue; nothing if it is not there."""
    if name in BUILT_IN:
        raise InputError(f"{name} is one of fbar's own problems; it cannot be unregistered")
    _REGISTERED.pop(name, None)
    _RECIPES.pop(name, None)


def _place(entry: Registered) -> str:
    """Where a maker is defined: a module that is imported again may register the same problem again."""
    maker = entry.maker
    return maker if isinstance(maker, str) else f"{maker.__module__}:{maker.__qualname__}"


register(
    "two-hypotheses",
    "fbar.problems.models.discrete:two_hypotheses",
    "two hypotheses, p(x*|theta) = 0.3 and 0.05 (figures 1 and 2)",
)
register(
    "discretised-gaussian",
    "fbar.problems.models.discrete:discretised_gaussian",
    "101 values, a Gaussian likelihood (figures S1 and S2)",
)
register(
    "ten-values", "fbar.problems.models.discrete:ten_values", "ten values, a narrow likelihood (figures S3 and S4)"
)
register(
    "two-sided-exponential",
    "fbar.problems.models.continuous:two_sided_exponential",
    "one parameter on (-40, 60) (figure 3)",
)
register("ramp", "fbar.problems.models.continuous:ramp", "a likelihood that rises over (0, 1) (figure 4)")
register("nested-models", "fbar.problems.models.continuous:nested_models", "two nested models (figure 5)")
register("gaussian-linear", "fbar.problems.models.gaussian:gaussian_linear")
register("gaussian-linear-uniform", "fbar.problems.models.gaussian:gaussian_linear_uniform")
register("gaussian-mixture", "fbar.problems.models.gaussian:gaussian_mixture")
register("two-moons", "fbar.problems.models.two_moons:two_moons")
register("slcp", "fbar.problems.models.slcp:slcp")
register("slcp-distractors", "fbar.problems.models.slcp:slcp_distractors")
register("bernoulli-glm", "fbar.problems.models.bernoulli_glm:bernoulli_glm")
register("bernoulli-glm-raw", "fbar.problems.models.bernoulli_glm:bernoulli_glm_raw")
register("sir", "fbar.problems.models.sir:sir")
register("lotka-volterra", "fbar.problems.models.lotka_volterra:lotka_volterra")
register("g-and-k", "fbar.problems.models.g_and_k:g_and_k")
register("ma2", "fbar.problems.models.ma2:ma2")
register("mg1", "fbar.problems.models.mg1:mg1")
register("poisson-or-geometric", "fbar.problems.models.counts:poisson_or_geometric")
register("filippi", "fbar.problems.models.filippi:recipe")

BUILT_IN = tuple(_REGISTERED)
"""The names of fbar's own problems."""


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue; ``data`` counts the numbers of its data, None if these are an event."""

    name: str
    title: str
    parameters: int
    data: int | None


def names() -> list[str]:
    """The names of all problems, with those of installed plugins."""
    load_plugins()
    return list(_REGISTERED)


def _made(name: str) -> Recipe | Problem:
    """A recipe, which is made once, or a new problem."""
    if name in _RECIPES:
        return _RECIPES[name]
    made = _REGISTERED[name].found()()
    if not isinstance(made, Recipe | Problem):
        raise InputError(f"the maker of {name} must return a Recipe or a Problem; it returned {shown(made)}")
    if isinstance(made, Recipe) and made.name != name:
        raise InputError(f"the recipe registered as {name} calls itself {made.name}; the names must agree")
    if isinstance(made, Recipe):
        _RECIPES[name] = made
    return made


def _checked(name: str) -> str:
    if not isinstance(name, str) or name not in _REGISTERED:
        load_plugins()
    return choice(name, _REGISTERED, "problem")


def recipe(name: str) -> Recipe:
    """How a problem with data is made."""
    made = _made(_checked(name))
    if not isinstance(made, Recipe):
        raise InputError(f"{name} comes with fixed data; it has no recipe for other data")
    return made


def recipes() -> list[str]:
    """The names of fbar's own problems with data."""
    return [name for name in BUILT_IN if isinstance(_made(name), Recipe)]


def load(name: str, observation: int = 1) -> Problem:
    """A problem of the catalogue, with one of its ten observations.

    >>> load("ramp").truth()["mean:theta"].value
    0.6666666666666666
    """
    made = _made(_checked(name))
    if isinstance(made, Recipe):
        return Benchmark.of(made, observation)
    if real(observation) != 1:
        raise InputError(f"{name} has only observation 1")
    return made


def entries() -> list[Entry]:
    """Every problem, with one line about it."""
    result = []
    for name in names():
        made = _made(name)
        title = _REGISTERED[name].title
        if isinstance(made, Recipe):
            result.append(Entry(name, title or made.title, made.prior.dimension, math.prod(made.shape)))
        else:
            data = None if made.observed is None else int(made.observed.size)
            result.append(Entry(name, title, made.prior.dimension, data))
    return result
