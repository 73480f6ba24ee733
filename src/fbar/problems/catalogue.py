"""The catalogue: problems by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

from fbar.checks import choice, real
from fbar.errors import InputError
from fbar.problems.benchmark import Benchmark, Recipe
from fbar.problems.models import continuous, discrete
from fbar.question.problem import Problem

RECIPES: dict[str, str] = {
    "gaussian-linear": "gaussian",
    "gaussian-linear-uniform": "gaussian",
    "gaussian-mixture": "gaussian",
    "two-moons": "two_moons",
    "slcp": "slcp",
    "slcp-distractors": "slcp",
    "bernoulli-glm": "bernoulli_glm",
    "bernoulli-glm-raw": "bernoulli_glm",
    "sir": "sir",
    "lotka-volterra": "lotka_volterra",
    "g-and-k": "g_and_k",
    "ma2": "ma2",
    "mg1": "mg1",
    "poisson-or-geometric": "counts",
    "filippi": "ring",
}
"""The module of `fbar.problems` that makes each recipe, in its ``RECIPES``."""

EVENTS: dict[str, tuple[Callable[[], Problem], str]] = {
    "two-hypotheses": (discrete.two_hypotheses, "two hypotheses, p(x*|theta) = 0.3 and 0.05 (figures 1 and 2)"),
    "discretised-gaussian": (discrete.discretised_gaussian, "101 values, a Gaussian likelihood (figures S1 and S2)"),
    "ten-values": (discrete.ten_values, "ten values, a narrow likelihood (figures S3 and S4)"),
    "two-sided-exponential": (continuous.two_sided_exponential, "one parameter on (-40, 60) (figure 3)"),
    "ramp": (continuous.ramp, "a likelihood that rises over (0, 1) (figure 4)"),
    "nested-models": (continuous.nested_models, "two nested models (figure 5)"),
}
"""The paper's problems whose data are an event: each with its maker and one line."""


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue."""

    name: str
    title: str
    parameters: int
    data: int | None


@lru_cache(maxsize=64)
def recipe(name: str) -> Recipe:
    module = import_module(f"fbar.problems.{RECIPES[choice(name, RECIPES, 'problem')]}")
    made: Recipe = module.RECIPES[name]()
    return made


def names() -> list[str]:
    return [*EVENTS, *RECIPES]


def load(name: str, observation: int = 1) -> Problem:
    """A problem of the catalogue, with one of its ten observations.

    >>> load("ramp").truth()["mean:theta"].value
    0.6666666666666666
    """
    choice(name, names(), "problem")
    if name in EVENTS:
        if real(observation) != 1:
            raise InputError(f"the data of {name} are an event; it has observation 1 alone")
        return EVENTS[name][0]()
    return Benchmark.of(recipe(name), observation)


def entries() -> list[Entry]:
    """Every problem, with one line about it."""
    result = [Entry(name, title, make().prior.dimension, None) for name, (make, title) in EVENTS.items()]
    for name in RECIPES:
        made = recipe(name)
        size = 1
        for axis in made.shape:
            size *= axis
        result.append(Entry(name, made.title, made.prior.dimension, size))
    return result


def markdown() -> str:
    """The table of all problems, as it stands in ``docs/problems.md``."""
    lines = [
        "| problem | what it is | parameters | data | seed | the first observation's truth | at a tolerance | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in entries():
        problem = load(entry.name)
        seed, at, source = "–", "no tolerance", "the paper"
        if isinstance(problem, Benchmark):
            known = all(problem.truth_at(tolerance) is not None for tolerance in problem.tolerances.values())
            seed, source = str(problem.recipe.seed), problem.recipe.source
            at = ("known" if problem.recipe.truth_at is not None else "brute force") if known else "not known"
        data = "an event" if entry.data is None else str(entry.data)
        names = ", ".join(problem.prior.names) if len(problem.prior.names) < 6 else f"theta1 … theta{entry.parameters}"
        cells = (f"`{entry.name}`", entry.title, names, data, seed, problem.truth().how, at, source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
