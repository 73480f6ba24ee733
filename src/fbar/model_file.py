"""Model files: plain Python that defines ``problem`` and ``targets``, and a ``method`` if it has a say in it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fbar.checks import shown
from fbar.errors import InputError
from fbar.methods import Method
from fbar.problem import Problem
from fbar.targets import Target, as_targets, parse

COPY = "fbar-model.py"
"""A run's copy of its model file."""

TEMPLATE = '''"""A model for fbar: fill in the simulator, the prior and the data.

Run it as it is:

    fbar infer {name} --budget 20000                                  # the tolerance is chosen from the budget
    fbar infer {name} --tolerance 0.5 --precision rate=1% --run my-run    # recorded: the same command again goes on
    fbar explain my-run rate
"""

import numpy as np
from scipy import stats

import fbar

# The data, or summaries of them, in the form of one row of the simulator's output.
observed = np.array([12.0, 7.0, 9.0, 11.0, 8.0])

# What is known of the parameters before: any distributions of scipy.stats, by name.
prior = fbar.Prior(
    rate=stats.uniform(1, 29),
    spread=stats.uniform(0.1, 4.9),
)


def simulate(theta, rng):
    """A batch in, a batch out: theta["rate"] is an array of n values, the result has one row for each.

    A simulator of one parameter set at a time is wrapped by @fbar.each instead; an external program is
    fbar.program(["./model", "{{rate}}", "{{seed}}"]). Draw random numbers from rng alone: the seed decides the result.
    """
    mean = theta["rate"][:, None]
    return mean + theta["spread"][:, None] * rng.standard_normal((theta.rows, len(observed)))


def summary(x):
    """What simulations are compared by: fewer numbers are compared with less loss. Applied to the data too."""
    return np.stack([x.mean(axis=1), x.std(axis=1)], axis=1)


problem = fbar.Problem(prior, simulate, observed, summary=summary, derived={{"log_rate": lambda t: np.log(t["rate"])}})

# What you want to know. fbar spends its simulations on these, and gives each an error bar.
targets = [
    fbar.mean("rate"),
    fbar.probability("rate > 10"),
    fbar.quantile("spread", 0.9),
]

# How, if you have a say in it; --method and --tolerance on the command line go before it.
# method = fbar.Targeted(goal="worst"), or fbar.SMC([8, 4, 2], accepted=500, perturbation="normal")
'''


@dataclass(frozen=True)
class ModelFile:
    """A problem and its targets, and where they came from."""

    problem: Problem
    targets: tuple[Target, ...]
    path: Path
    name: str
    method: Method | None = None

    def describe(self) -> dict[str, Any]:
        return {"file": str(self.path), "name": self.name}

    def copy_to(self, directory: Path) -> None:
        """Keep the file with the run, for the day it is gone."""
        shutil.copyfile(self.path, directory / COPY)


def read(given: str, targets: Sequence[str] = ()) -> ModelFile:
    """Read ``MODEL.py`` or ``MODEL.py:name``; ``targets`` by name replace the file's own."""
    text, _, name = given.rpartition(":") if ".py:" in given else (given, "", "")
    path = Path(text).resolve()
    if not path.is_file():
        raise InputError(f"there is no model file {text}; write one with: fbar init {text or 'model.py'}")
    return _read(path, name or "problem", targets)


def _read(path: Path, name: str, targets: Sequence[str] = ()) -> ModelFile:
    text = path.name
    module = imported(path)
    problem = getattr(module, name, None)
    if not isinstance(problem, Problem):
        what = "is not there" if problem is None else f"is a {type(problem).__name__}, not an fbar.Problem"
        raise InputError(f"{text} must define {name} = fbar.Problem(...); {name} {what}")
    method = getattr(module, "method", None)
    if method is not None and not isinstance(method, Method):
        raise InputError(f"{text} must define method = fbar.SMC(...) or another method; it is {shown(method)}")
    if targets:
        return ModelFile(problem, tuple(parse(target) for target in targets), path, name, method)
    own = getattr(module, "targets", None)
    if own is None:
        raise InputError(f"{text} defines no targets; add targets = [fbar.mean(...)], or give --target mean:NAME")
    return ModelFile(problem, as_targets(own), path, name, method)


def imported(path: Path) -> Any:
    """The file as a module; modules beside it can be imported."""
    spec = importlib.util.spec_from_file_location(f"fbar_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except (Exception, SystemExit) as error:
        line = _line_of(error, path)
        raise InputError(f"{path.name}{line} cannot be read: {type(error).__name__}: {error}") from error
    with suppress(ImportError):  # workers elsewhere cannot import the file: its functions travel whole
        import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    return module


def _line_of(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}" if lines else ""


def of_run(directory: Path, about: dict[str, Any] | None) -> ModelFile:
    """The model of a recorded run: its file if it is still there, or else the copy that the run kept."""
    if about is None:
        raise InputError(
            f"{directory} was made from Python: give its problem, as in fbar.load({str(directory)!r}, problem)"
        )
    original, copy = Path(about["file"]), directory / COPY
    path = original if original.is_file() else copy
    if not path.is_file():
        raise InputError(f"the model file of {directory} is gone: neither {original} nor {copy} is there")
    return _read(path, about["name"])
