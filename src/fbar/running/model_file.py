"""Model files: plain Python that defines ``problem``, ``targets`` and, optionally, a ``method``.

A file that the user names is run. One that a recorded run names is run only if this user has run it before, or says
that it may be: see `fbar.system.trust`.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from fbar import former
from fbar.checks import shown
from fbar.errors import InputError, LedgerError, UntrustedModel
from fbar.methods import Method
from fbar.question.problem import Problem
from fbar.question.simulators import KnownAcceptance, SimulatorFunction
from fbar.question.targets import Target, as_targets
from fbar.system.files import NO_LINKS, require_own_file, written_beside
from fbar.system.trust import NAMED, TRUSTED, digest, place_of, remember, was_run, why_not_own

COPY = "fbar-model.py"
"""A run's copy of its model file."""
MOST_BYTES = 10_000_000
"""How long a model file may be."""

TEMPLATE = '''"""A model for fbar: fill in the simulator, the prior and the data.

Run it as it is:

    fbar infer {name} --budget 20000                                  # the posterior, estimated at the data
    fbar infer {name} --tolerance 0.5 --precision rate=1% --run my-run    # recorded: rerun it to resume
    fbar explain my-run rate
"""

import numpy as np
from scipy import stats

import fbar

# The data, or summaries of them, in the form of one row of the simulator's output.
observed = np.array([12.0, 7.0, 9.0, 11.0, 8.0])

# What is known about the parameters beforehand: any distributions of scipy.stats, by name.
prior = fbar.Prior(
    rate=stats.uniform(1, 29),
    spread=stats.uniform(0.1, 4.9),
)


def simulate(theta, rng):
    """A batch in, a batch out: theta["rate"] is an array of n values, the result has one row for each.

    A simulator of one parameter set at a time is wrapped by @fbar.each instead; an external program is
    fbar.program(["./model", "{{rate}}", "{{seed}}"]). Draw random numbers only from rng: the seed decides the result.
    """
    mean = theta["rate"][:, None]
    return mean + theta["spread"][:, None] * rng.standard_normal((theta.rows, len(observed)))


def summary(x):
    """The numbers that simulations and data are compared by: the fewer, the better. Also applied to the data."""
    return np.stack([x.mean(axis=1), x.std(axis=1)], axis=1)


problem = fbar.Problem(prior, simulate, observed, summary=summary, derived={{"log_rate": lambda t: np.log(t["rate"])}})

# What you want to know: fbar spends its simulations on these and gives each an error bar.
targets = [
    fbar.mean("rate"),
    fbar.probability("rate > 10"),
    fbar.quantile("spread", 0.9),
]

# Optional method; --method and --tolerance on the command line override it.
# method = fbar.Targeted(goal="worst"), or fbar.SMC([8, 4, 2], accepted=500, perturbation="normal")
'''


@dataclass(frozen=True)
class ModelFile:
    """A problem and its targets, and where they came from."""

    problem: Problem
    targets: tuple[Target, ...]
    path: Path
    name: str
    content: bytes
    """What was run."""
    method: Method | None = None

    def describe(self) -> dict[str, Any]:
        return {"file": str(self.path), "name": self.name}

    def copy_to(self, directory: Path) -> None:
        """Keep what was run with the run, for the day the file is gone."""
        try:
            with written_beside(directory / COPY) as new:
                new.write_bytes(self.content)
        except OSError as error:
            raise LedgerError(f"cannot write {directory / COPY}: {error.strerror or error}") from None

    def remember(self) -> str:
        """Keep that the user ran this file; returns a warning if that cannot be kept."""
        return remember(self.path, self.content)


def read(given: str, targets: Sequence[str] = ()) -> ModelFile:
    """Read ``MODEL.py`` or ``MODEL.py:name``; ``targets`` by name replace the file's own."""
    text, _, name = given.rpartition(":") if ".py:" in given else (given, "", "")
    path = Path(text).resolve()
    if not path.is_file():
        raise InputError(f"there is no model file {text}; create one with: fbar init {text or 'model.py'}")
    return _read(path, _bytes(path), name or "problem", targets)


def simulator(given: str) -> SimulatorFunction:
    """The simulator that ``FILE.py:name`` defines, or that of the problem; its name is ``simulate`` by default."""
    text, _, name = given.rpartition(":") if ".py:" in given else (given, "", "simulate")
    path = Path(text).resolve()
    if not path.is_file():
        raise InputError(f"there is no file {text}; give the simulator as FILE.py:NAME")
    found = getattr(imported(path), name, None)
    if isinstance(found, Problem):
        found = found.simulate
    if isinstance(found, KnownAcceptance) or not callable(found):
        what = "is missing" if found is None else f"is {shown(found)}"
        raise InputError(f"{path.name} must define the simulator {name}(theta, rng), but {name} {what}")
    made: SimulatorFunction = found
    return made


def _read(
    path: Path,
    content: bytes,
    name: str,
    targets: Sequence[str] = (),
    *,
    place: Path | None = None,
    of_run: bool = False,
) -> ModelFile:
    text = path.name
    module = imported(path, content, place=place, of_run=of_run)
    problem = getattr(module, name, None)
    if not isinstance(problem, Problem):
        what = "is missing" if problem is None else f"is a {type(problem).__name__}, not an fbar.Problem"
        raise InputError(f"{text} must define {name} = fbar.Problem(...), but {name} {what}")
    method = getattr(module, "method", None)
    if method is not None and not isinstance(method, Method):
        raise InputError(f"{text} must define method = fbar.SMC(...) or another method; it is {shown(method)}")
    if targets:
        return ModelFile(problem, as_targets(targets), path, name, content, method)
    own = getattr(module, "targets", None)
    if own is None:
        raise InputError(f"{text} defines no targets; add targets = [fbar.mean(...)], or give --target mean:NAME")
    return ModelFile(problem, as_targets(own), path, name, content, method)


class _Loader(SourceFileLoader):
    """Runs the very bytes that were looked at, and never compiled code beside them: anyone may have put that there."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self.content = content

    def get_code(self, fullname: str) -> CodeType:
        code = compile(self.content, self.path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


def imported(path: Path, content: bytes | None = None, *, place: Path | None = None, of_run: bool = False) -> Any:
    """The file as a module; modules beside it can be imported, unless it is a run's copy.

    A copy has the ``place`` where its content was run before, so that it finds there what it reads from beside itself.
    """
    if path.suffix != ".py":
        raise InputError(f"{path.name} is not a Python file")
    name = f"{former.MODEL_OF_RUN if of_run else 'fbar_model_'}{path.stem}"
    content = _bytes(path) if content is None else content
    loader = _Loader(name, place or path, content)
    spec = importlib.util.spec_from_file_location(name, place or path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.cache.pop(str(place or path), None)
    if place is not None:  # the source of its functions is the copy's, whatever is at that place now
        lines = content.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[str(place)] = (len(content), None, lines, str(place))
    elif str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        loader.exec_module(module)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except (Exception, SystemExit) as error:
        line = _line_of(error, place or path)
        why = f"{path.name}{line} cannot be read: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and place is not None:
            why += "; modules are not imported from a run's directory: put the model file back next to them"
        raise InputError(why) from error
    with suppress(ImportError):  # workers elsewhere cannot import the file: its functions travel whole
        import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    return module


def _bytes(path: Path, flags: int = 0) -> bytes:
    """What a model file holds."""
    try:
        with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path} is too long for a model file: the limit is {MOST_BYTES:,} bytes")
    return content


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


@dataclass(frozen=True)
class _Choice:
    """The file of a recorded run that would be executed, what it holds, and why that takes the user's word."""

    path: Path
    content: bytes
    why_not: str = ""
    """Why it is not executed without ``trust``; nothing if this user has run it before."""
    place: Path | None = None
    """For the run's copy: the place that it is executed as if it were at."""


def of_run(directory: Path, about: dict[str, Any] | None, *, trust: bool = False) -> ModelFile:
    """The model of a recorded run: its file if it is still there, or else the copy that the run kept.

    Refused unless this user has run it before; ``trust`` says that it may be run all the same.
    """
    if about is None:
        raise InputError(
            f"{directory} was made from Python: give its problem, as in fbar.load({str(directory)!r}, problem)"
        )
    chosen = _choose(directory, about)
    if chosen.why_not and not trust:
        raise UntrustedModel(
            f"{chosen.why_not}: read that file, and if you trust it rerun the command with --trust (in Python "
            "trust=True)"
        )
    with former.allowed():  # it may be as old as the run
        return _read(chosen.path, chosen.content, about["name"], place=chosen.place, of_run=True)


def remember_of_run(directory: Path, about: dict[str, Any]) -> str:
    """Keep that the model of a recorded run may be run; returns a warning if that cannot be kept.

    What is kept is the one file that `of_run` takes, as it is now: if it changes before that, it is refused.
    """
    chosen = _choose(directory, about)
    return remember(chosen.place or chosen.path, chosen.content, TRUSTED) if chosen.why_not else ""


def _choose(directory: Path, about: dict[str, Any]) -> _Choice:
    """Which file of a run is to be executed, and whether this user may do so without a word.

    The file that the run names, if it is there: as this user ran it, or edited if the run's copy shows that he began
    the run with it and only he can have edited it. The copy has its turn only if it is the same, or there is no such
    file. It is executed as if at a place where this user ran it: what is beside the copy may be somebody else's.
    """
    original, copy = Path(os.path.abspath(about["file"])), (directory / COPY).resolve()
    kept = _kept(directory / COPY)
    began = kept is not None and was_run(original, digest(kept), NAMED)
    strange = f"{directory} does not seem to be a run of yours, and this would run its model file"
    if _is_file(original):
        content = _bytes(original)
        if was_run(original, digest(content)):
            return _Choice(original, content)
        if content != kept:
            if not began:
                differs = "" if kept is None else f" (which differs from the run's copy {COPY})"
                return _Choice(original, content, f"{strange} {original}{differs}")
            why = why_not_own(original)
            changed = f"the model file {original} has changed since {directory} began, and {why}" if why else ""
            return _Choice(original, content, changed)
        if place_of(digest(content)) is None:
            return _Choice(original, content, f"{strange} {original}")
    if kept is None:
        raise InputError(f"the model file of {directory} is gone: neither {original} nor {copy} exists")
    place = original if began else place_of(digest(kept))
    return _Choice(copy, kept, "" if place else f"{strange} {copy}", place or copy)


def _is_file(path: Path) -> bool:
    """Whether there is such a Python file, at a place that somebody else may have written down."""
    try:
        return path.suffix == ".py" and path.is_file()
    except (OSError, ValueError):  # too long, or none at all
        return False


def _kept(copy: Path) -> bytes | None:
    """A run's copy of its model file; None if there is none."""
    require_own_file(copy)
    return _bytes(copy, NO_LINKS) if copy.exists() else None
