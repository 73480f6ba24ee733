"""What a report says of the question before any answer: its title, what it is about, the data, model, prior."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.estimation.at_data import PosteriorAtData
from fbar.question.problem import Problem
from fbar.question.simulators import KnownAcceptance, each
from fbar.question.simulators.choice import Choice
from fbar.results.markup import Html, element, join, paragraph
from fbar.results.report.page import Section, details, split_table
from fbar.results.report.prior import prior_rows

if TYPE_CHECKING:
    from fbar.results.result import Result

MOST_NUMBERS = 20
"""Numbers of the data that are written out, at most."""

MOST_LINES = 6
"""Lines of a docstring that are shown without unfolding, at most."""


def title(result: Result) -> str:
    """What the run is called: its model file, else its directory, else its first line."""
    model = result.settings.get("model")
    if model:
        return Path(model["file"]).stem
    if result.directory is not None:
        return result.directory.resolve().name
    return first_line(result) or "Inference"


def first_line(result: Result) -> str:
    """What the question is, in a line: the first of the model file's docstring, otherwise of the simulator's."""
    for text in (_of_file(result), *_docstrings(result.run.problem).values()):
        if text:
            return text.strip().splitlines()[0]
    return ""


def data(problem: Problem) -> str:
    """The data, as numbers where they are few."""
    if problem.raw is None:
        return "Only whether a simulation matches the data is known; the data themselves are not given."
    parts = {} if problem.named_data is None else problem.named_data.split(problem.raw)
    words = "; ".join(f"{name} {_in_numbers(part)}" for name, part in parts.items()) or _in_numbers(problem.raw)
    text = f"Data: {words}."
    if problem.summary is None or problem.observed is None:
        return text
    names, values = problem.summary_labels, np.ravel(problem.observed)
    if len(names) > MOST_NUMBERS:
        return f"{text} Compared through {_summaries(len(names))}."
    listed = ", ".join(f"{name} {_number(value, 4)}" for name, value in zip(names, values.tolist(), strict=True))
    return f"{text} Compared through {listed}."


def model(result: Result) -> Section:
    """The simulator's docstring, the prior of each parameter, and how simulations are compared with the data."""
    problem = result.run.problem
    texts = _docstrings(problem)
    words: list[object] = [_docstring(text, str(label)) for label, text in texts.items() if text]
    if not words:
        words.append(paragraph("The simulator has no docstring.", class_="soft"))
    words.append(paragraph(_compared(result), class_="soft"))
    head, rows = ("parameter", "prior", "median", "central 95%"), prior_rows(problem)
    shown = len(head) if any(middle for _, _, middle, _ in rows) else 2  # labels have no quantiles
    priors = element("div", split_table(head[:shown], [row[:shown] for row in rows], left=2), class_="prior")
    return Section("model", "Model and prior", element("div", element("div", *words), priors, class_="beside"))


def _docstring(text: str, label: str) -> Html:
    title = element("h3", label) if label else Html("")
    lines = inspect.cleandoc(text).splitlines()
    if len(lines) <= MOST_LINES:
        return join([title, element("pre", "\n".join(lines), class_="wrapped words")])
    end = next((place for place, line in enumerate(lines) if not line.strip()), MOST_LINES)
    end = min(max(end, 1), MOST_LINES)
    rest = "\n".join(lines[end:]).strip("\n")
    first = element("pre", "\n".join(lines[:end]), class_="wrapped words")
    return join([title, first, details("More about the model", element("pre", rest, class_="wrapped words"))])


def _compared(result: Result) -> str:
    """By what simulations are compared with the data."""
    problem, posterior = result.run.problem, result.posterior
    if isinstance(posterior, PosteriorAtData) and posterior.step.moved.prepared.learned is not None:
        learned = _summaries(posterior.step.moved.prepared.learned.dimension)
        return f"Simulations and data are compared by {learned}, learned from the simulated data."
    if problem.raw is None:
        return "The probability that a simulation matches the data is known."
    by = "directly"
    if problem.summary is not None:
        by = f"through {_name(problem.summary) or 'summary'}(x), {_summaries(len(problem.summary_labels))}"
    arguments = problem.arguments
    if arguments["accept"] is not None:
        how = f"the rule {_name(arguments['accept']) or 'that was given'}"
    elif arguments["distance"] is not None:
        how = f"the distance {_name(arguments['distance']) or 'that was given'}"
    else:
        how = "the Euclidean distance" if problem.compares_numbers else "equality"
    return f"Simulations are compared with the data {by}, using {how}."


def _of_file(result: Result) -> str:
    """The docstring of the model file, or of the script: of the module that defines a function of the problem."""
    problem = result.run.problem
    functions = [*_simulators(problem).values(), problem.summary, *problem.derived.values()]
    names = dict.fromkeys(function.__module__ for function in functions if function is not None)
    own = [name for name in names if name and not name.startswith("fbar.")]
    if not own or not (result.settings.get("model") or own[0] == "__main__"):
        return ""
    module = sys.modules.get(own[0])
    return "" if module is None else module.__doc__ or ""


def _simulators(problem: Problem) -> Mapping[Any, Callable[..., Any] | None]:
    """The user's own functions that simulate, by model; one without a label where there is no choice."""
    simulate = problem.simulate
    if isinstance(simulate, KnownAcceptance):
        return {"": None}
    if isinstance(simulate, Choice):
        return {label: _function(one.simulate) for label, one in simulate.models.items()}
    return {"": _function(simulate)}


def _function(given: Any) -> Callable[..., Any] | None:
    """The function inside what wraps it; an object that is called by itself."""
    found = given.function if isinstance(given, each) else given
    found = found.func if isinstance(found, partial) else found
    return found if callable(found) else None


def _docstrings(problem: Problem) -> dict[Any, str]:
    return {label: _doc(function) for label, function in _simulators(problem).items()}


def _doc(function: Callable[..., Any] | None) -> str:
    return "" if function is None else inspect.getdoc(function) or ""


def _name(function: Callable[..., Any]) -> str:
    name = str(getattr(function, "__name__", ""))
    return "" if name.startswith("<") else name


def _in_numbers(values: npt.NDArray[Any]) -> str:
    flat = np.ravel(values).tolist()
    shape = " × ".join(map(str, values.shape))
    if len(flat) <= MOST_NUMBERS:
        listed = ", ".join(map(_number, flat))
        return listed if values.ndim < 2 else f"{listed} ({shape})"
    first = ", ".join(map(_number, flat[:8]))
    if values.dtype.kind not in "biuf":
        return f"{first}, … ({shape} values)"
    low, high = float(np.min(values)), float(np.max(values))
    return f"{first}, … ({shape} numbers from {_number(low)} to {_number(high)})"


def _summaries(number: int) -> str:
    return "1 summary" if number == 1 else f"{number:,} summaries"


def _number(value: Any, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
