"""The one loop: ask, simulate, tell, until a stopping rule holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import function as check_function
from fbar.engine import Engine, InProcess
from fbar.errors import InputError, SimulatorFailed
from fbar.estimate import Estimates
from fbar.methods import AdaptiveAllocation, Method, Rejection, Run
from fbar.outcomes import Failure
from fbar.posterior import Posterior
from fbar.priors import Finite
from fbar.problem import Problem
from fbar.stopping import StandardError, StoppingRule, require_rule
from fbar.targets import Target, as_targets

Progress = Callable[[Run], None]
MOST_SIMULATIONS = 10_000_000
"""Where a run ends at the latest that was given a stopping rule and no budget."""

HOPELESS = 100_000
"""A run towards a precision ends with an error after so many simulations if none was accepted."""


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave. Print it; ask it further questions with `expect`, at no new simulation."""

    run: Run
    posterior: Posterior
    estimates: Estimates
    stopped_by: str

    @property
    def simulations(self) -> Any:
        return self.posterior.simulations

    @property
    def accepted(self) -> Any:
        return self.posterior.accepted

    @property
    def seed(self) -> int:
        return self.run.seeds.entropy

    def expect(self, targets: Target | Sequence[Target]) -> Any:
        """The `Estimate` of any target, or the `Estimates` of several."""
        return self.posterior.expect(targets)

    def __getitem__(self, name: str) -> Any:
        return self.estimates[name]

    def __str__(self) -> str:
        accepted = np.sum(self.accepted)
        lines = [str(self.estimates)]
        lines += [f"warning: {text}" for text in self.run.warnings]
        failures = self.run.seen.failures
        if failures:
            lines.append(f"warning: {failures} simulations failed and were rejected: {self.run.seen.failed}")
        lines.append(f"{np.sum(self.simulations):,} simulations, {accepted:,.6g} accepted; {self.stopped_by}")
        return "\n".join(lines)

    __repr__ = __str__


def drive(
    run: Run,
    stop: StoppingRule | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> str:
    """Ask, simulate and tell until the run is finished or the stopping rule holds at a round's end.

    Returns why it ended. ``progress`` is called with the run after every block.
    """
    if stop is not None:
        require_rule(stop).check(run)
    with (engine or InProcess()).session(run.problem) as session:
        round = -1
        while not run.finished:
            if run.round > round:
                round = run.round
                if stop is not None and run.simulations > 0 and stop.holds(run):
                    return "stopped by its rule"
                if stop is not None and run.simulations >= HOPELESS:
                    _require_hope(run)
            session.submit(run.ask(ahead=session.ahead))
            for answer in session.collect():
                run.tell(answer)
                if progress is not None:
                    progress(run)
            _require_success(run)
    if stop is not None and not stop.holds(run):
        return f"{run.ended}; its stopping rule was not reached"
    return run.ended


def _require_success(run: Run) -> None:
    failed = run.seen.counts.get(Failure.EXCEPTION, 0)
    if failed >= run.simulations > 0:
        example = run.seen.examples.get(Failure.EXCEPTION, "")
        raise SimulatorFailed(
            f"every one of {run.simulations} simulations raised an exception; the first was {example}"
        )


def _require_hope(run: Run) -> None:
    """A rule on the error is never met without acceptances: say so long before the budget is gone."""
    run.posterior()


def infer(
    problem: Problem,
    targets: Target | Sequence[Target],
    *,
    method: Method | None = None,
    budget: int | None = None,
    precision: Mapping[str, float] | None = None,
    stop: StoppingRule | None = None,
    seed: Any = None,
    block_size: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Estimate posterior expectations with error bars.

    Parameters
    ----------
    problem, targets
        What is asked: see `Problem`, and `mean`, `probability` and the other targets.
    method
        The algorithm. On a finite space `AdaptiveAllocation` by default, which spends simulations where they
        reduce the error of the targets; on others `Rejection`.
    budget
        The largest number of simulations.
    precision
        Standard errors that end the run, by target name: ``{"mean:theta": 0.01}``; all must be reached.
    stop
        A stopping rule of your own in place of ``precision``.
    seed
        The same seed gives the same result.

    >>> import fbar
    >>> problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    >>> print(fbar.infer(problem, fbar.mean("theta"), budget=10_000, seed=1)["mean:theta"])
    1.829(16)
    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be an fbar.Problem; got {problem!r}")
    if method is not None and not isinstance(method, Method):
        raise InputError(f"method must be a method such as fbar.Rejection(); got {method!r}")
    if progress is not None:
        check_function(progress, "progress")
    listed = as_targets(targets)
    if precision is not None and stop is not None:
        raise InputError("give either precision= or stop=, not both")
    if precision is not None:
        if not isinstance(precision, Mapping) or not precision:
            raise InputError("precision must name its targets; give for example {'mean:theta': 0.01}")
        for name, wanted in precision.items():
            rule = StandardError(name, wanted)
            stop = rule if stop is None else stop & rule
    if budget is None and stop is None and not (method is not None and method.ends_by_itself):
        raise InputError("say when to stop: give budget=, precision= or stop=")
    if method is None:
        method = AdaptiveAllocation() if isinstance(problem.prior, Finite) else Rejection()
    if stop is None:
        run = method.start(problem, listed, seed, budget, block_size=block_size)
    else:
        limits = [n for n in (budget, require_rule(stop).limit, MOST_SIMULATIONS) if n is not None]
        run = method.start(problem, listed, seed, limit=min(limits), block_size=block_size)
    ended = drive(run, stop, progress=progress)
    posterior = run.posterior()
    return Result(run, posterior, posterior.expect(listed), ended)
