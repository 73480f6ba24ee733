"""What calls begin with: an entrance of fbar with arguments that are right, and problems, runs and results.

What is made at an entrance is used at once (``then``): a wrong argument must not wait for a later call to be found out
by an exception that explains nothing.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import fbar


@dataclass(frozen=True)
class Entrance:
    """A callable, arguments that are right, and which of them may be made wrong."""

    words: str
    call: Callable[..., Any]
    right: Mapping[str, Any] = field(default_factory=dict)
    leave: tuple[str, ...] = ()
    """Arguments that stay as they are."""
    then: Callable[[Any], Any] | None = None
    """What is done with what it gives."""
    protocol: tuple[type[Exception], ...] = ()
    """Exceptions that Python's own protocols demand here."""

    @cached_property
    def open(self) -> tuple[str, ...]:
        """The arguments that may be made wrong."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = [name for name, p in inspect.signature(self.call).parameters.items() if p.kind in kinds]
        return tuple(name for name in dict.fromkeys([*self.right, *known]) if name not in self.leave)

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        given = self.call(**{**self.right, **arguments})
        return given if self.then is None else self.then(given)


def simulate(theta: Any, rng: np.random.Generator) -> Any:
    return theta["a"][:, None] + theta["b"][:, None] * rng.standard_normal((theta.rows, 2))


class Rooms:
    """Problems, runs and results, made once; to be closed at the end."""

    def __init__(self) -> None:
        self.prior = fbar.Prior(a=stats.norm(0, 1), b=stats.uniform(0.5, 1))
        self.finite = fbar.Finite(a=[1.0, 2.0, 3.0])
        self.points = self.prior.sample(5, rng=np.random.default_rng(1))
        self.problem = fbar.Problem(self.prior, simulate, [0.5, 0.2], derived={"r": lambda t: t["a"] * t["b"]})
        self.table = fbar.Problem.tabulated(self.finite, [0.3, 0.1, 0.2])
        self.timed = fbar.Problem(self.prior, simulate, [0.5, 0.2], cost=lambda theta: np.ones(theta.rows))
        self.known = fbar.Problem.bernoulli(self.prior, lambda theta: np.full(theta.rows, 0.5))
        self.models = fbar.ModelChoice({"m": self.prior, "n": None})
        self.targets = [fbar.mean("a"), fbar.probability("a > 0")]
        self.result = fbar.infer(self.problem, self.targets, tolerance=1, budget=1500, seed=1)
        self.rejection = fbar.infer(self.problem, self.targets, tolerance=1, budget=800, seed=1, method="rejection")
        self.counted = fbar.infer(self.table, fbar.mean("a"), budget=500, seed=1)
        self._open = ExitStack()
        self.threads = self._open.enter_context(ThreadPoolExecutor(1))
        study = fbar.Study(["ramp"], ["rejection", "optimal"], [60, 90], 3, ["mse", "ess"])
        self.study = study
        self.scored = study.run(workers=1, progress=False)

    def __enter__(self) -> Rooms:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def recorded(self) -> Path:
        """A run's directory, to be copied."""
        place = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="fbar-wrong-calls-"))) / "run"
        fbar.infer(self.problem, self.targets, tolerance=1, budget=300, seed=1, run=place)
        return place

    def copy(self) -> Path:
        """A run's directory in the present one."""
        place = Path("recorded-run")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.recorded, place)
        return place

    # ------------------------------------------------------------ what is done with what calls give

    def ask(self, target: Any) -> Any:
        return self.result.expect(target)

    def draw(self, prior: Any) -> Any:
        points = prior.sample(3, rng=np.random.default_rng(1))
        return points, prior.logpdf(points)

    def solve(self, problem: Any) -> Any:
        return fbar.infer(problem, fbar.mean("a"), tolerance=1, budget=200, seed=1)

    def match(self, problem: Any) -> Any:
        return fbar.infer(problem, fbar.mean("a"), budget=200, seed=1)

    def use(self, method: Any) -> Any:
        return fbar.infer(self.problem, fbar.mean("a"), method=method, budget=200, seed=1)

    def use_likelihood(self, method: Any) -> Any:
        problem = fbar.with_likelihood(self.prior, lambda theta, rng: -(theta["a"] ** 2))
        return fbar.infer(problem, fbar.mean("a"), method=method, budget=200, seed=1)

    def use_fidelities(self, method: Any) -> Any:
        simulator = fbar.Fidelities(self.problem.simulate, self.problem.simulate)
        problem = fbar.Problem(self.prior, simulator, [0.5, 0.2])
        return fbar.infer(problem, fbar.mean("a"), method=method, budget=400, seed=1)

    def use_flips(self, method: Any) -> Any:
        problem = fbar.Problem(self.prior, lambda theta, rng: rng.integers(2, size=(theta.rows, 1)), [1])
        return fbar.infer(problem, fbar.mean("a"), method=method, budget=600, seed=1)

    def count(self, method: Any) -> Any:
        return fbar.infer(self.table, fbar.mean("a"), method=method, budget=200, seed=1)

    def obey(self, rule: Any) -> Any:
        return fbar.infer(self.problem, fbar.mean("a"), tolerance=1, stop=rule | fbar.Budget(200), seed=1)

    def draw_marginal(self, marginal: Any) -> Any:
        return self.draw(fbar.Prior(a=marginal))

    def step(self, run: Any) -> Any:
        batches = run.ask()
        run.tell(*((batch, fbar.simulate(run.problem, batch)) for batch in batches))
        return run
