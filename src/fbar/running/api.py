"""What users call: infer, extend and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fbar.checks import instance
from fbar.engine import as_engine
from fbar.methods import Method
from fbar.methods.stopping import StoppingRule
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.results.result import Result
from fbar.running.loop import Progress
from fbar.running.recall import as_directory
from fbar.running.recorded import engine_for, extend_run, load_run, run_task
from fbar.running.summaries import LearnedSummaries
from fbar.running.task import make_task
from fbar.system.terminal import waiting


def infer(
    problem: Problem,
    targets: Target | str | Sequence[Target | str],
    *,
    method: Method | str | None = None,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    seed: Any = None,
    run: str | Path | None = None,
    workers: int | None = None,
    engine: Any = None,
    timeout: float | None = None,
    block_size: int | None = None,
    summaries: LearnedSummaries | str | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Estimate posterior expectations with error bars.

    Parameters
    ----------
    problem, targets
        The question: see `Problem`, and `mean`, `probability` and the other targets, which may also be given by name,
        as in ``["mean:theta", "probability:theta > 2"]``.
    method
        The algorithm, or its name (``"targeted"``, ``"rejection"``, ``"smc"``, …). By default simulations are spent
        where they reduce the error of the targets: by `AdaptiveAllocation` on a finite space, by `Targeted` on others.
    budget
        The largest number of simulations.
    tolerance
        Estimate ABC's posterior at this tolerance, from simulations that come this close to the data; for ABC-SMC, the
        tolerance that it ends at. Without it the answer is about the posterior itself, estimated at the data by
        regression on all simulations, with the remaining bias included in the error bar; events, labels, and data of a
        finite space are matched exactly. For a tolerance that is chosen from the budget, see `Targeted`.
    precision
        Standard errors that end the run, by target name: ``{"mean:theta": 0.01}``, or fractions of the value,
        ``{"theta": "1%"}``; all must be reached. The kind can be left out if that is unambiguous.
    stop
        A stopping rule instead of ``precision``.
    seed
        The same seed gives the same result, on any number of workers. By default a new one is drawn, and kept as
        ``result.seed`` and in the run's record.
    run
        A directory that keeps every finished simulation. Rerunning the command resumes the run, or returns the finished
        result at once; other settings are refused, see `extend`.
    workers
        Local processes. None or 0 simulates in this process, which is best for vectorised simulators. A recorded run
        keeps their number and the time limit, for `extend` and for predictions.
    engine
        Instead of ``workers``: an engine such as `Futures`, a ``concurrent.futures.Executor``, a
        ``distributed.Client`` or its address.
    timeout
        Seconds that one simulation may take, inf for no limit; it needs workers, and starts one if none are given.
    block_size
        Simulations in a block, the unit of work and of seeds: another size gives different numbers.
    summaries
        By default, an answer at the data learns summaries from its own simulations if there are many data for the
        number of parameters and the problem has neither ``summary`` nor ``distance``; ``"none"`` turns this off. Or
        learn them for these targets from a pilot before the run: ``"linear"``, ``"boosting"``, ``"network"``,
        ``"auto"`` or `LearnedSummaries`. The pilot counts against the budget. A tolerance is then in units of about a
        posterior standard deviation.
    progress
        By default a terminal shows the estimates so far, the rate and the time left. True also writes a plain line from
        time to time if there is no terminal; False shows nothing. Or a function that is called with the run after every
        block.

    Examples
    --------
    >>> import fbar
    >>> problem = fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2])
    >>> print(fbar.infer(problem, fbar.mean("theta"), budget=10_000, seed=1)["mean:theta"])
    1.829(16)
    """
    task = make_task(
        problem,
        targets,
        method=method,
        budget=budget,
        tolerance=tolerance,
        precision=precision,
        stop=stop,
        block_size=block_size,
        summaries=summaries,
    )
    return run_task(task, seed=seed, run=run, engine=as_engine(engine, workers, timeout), progress=progress)


def extend(
    run: str | Path,
    problem: Problem | None = None,
    targets: Target | str | Sequence[Target | str] | None = None,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    precision: Mapping[str, float | str] | None = None,
    stop: StoppingRule | None = None,
    workers: int | None = None,
    engine: Any = None,
    timeout: float | None = None,
    progress: Progress | bool | None = None,
    trust: bool = False,
) -> Result:
    """Extend a finished run: a larger budget, a smaller tolerance, other targets. Nothing is simulated again.

    A run that answers at the data continues to do so, and has no tolerance to lower; only ABC-SMC can be extended to a
    tolerance. Whatever is left out stays as it was; ``budget`` includes the simulations that the run already has.
    ``problem`` can be left out for a run of a model file, which is then executed, if you have run it with ``fbar
    infer`` before or ``trust=True`` allows it, whoever wrote it. If a problem is given, no code of the run is executed.
    Simulations use the same number of local processes and the same time limit as the run, unless ``workers``,
    ``timeout`` (inf for none) or ``engine`` are given.
    """
    if problem is not None:
        instance(problem, Problem, "problem", "an fbar.Problem")
    directory = as_directory(run)
    return extend_run(
        directory,
        problem=problem,
        targets=targets,
        budget=budget,
        tolerance=tolerance,
        precision=precision,
        stop=stop,
        engine=engine_for(directory, engine, workers, timeout),
        progress=progress,
        trust=trust,
    )


def load(
    run: str | Path,
    problem: Problem | None = None,
    targets: Target | str | Sequence[Target | str] | None = None,
    *,
    trust: bool = False,
) -> Result:
    """The result of a recorded run, finished or not, without a new simulation.

    ``problem`` can be left out for a run of a model file, which is then executed, if you have run it with ``fbar
    infer`` before or ``trust=True`` allows it, whoever wrote it. If a problem is given, no code of the run is executed;
    targets that are Python functions must then be among ``targets``. The run's targets are used by default.
    """
    if problem is not None:
        instance(problem, Problem, "problem", "an fbar.Problem")
    directory = as_directory(run)
    with waiting(f"reading {directory}"):
        return load_run(directory, problem=problem, targets=targets, trust=trust)
