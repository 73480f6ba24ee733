"""The study: problems × methods × budgets × trials."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from fbar import former
from fbar.checks import choice, listed_of, positive_integer, positive_number, real, shown, texts
from fbar.checks import path as as_path
from fbar.engine import as_engine
from fbar.errors import InputError
from fbar.ledger.settings import describe
from fbar.problems import Benchmark, load
from fbar.problems.benchmark import LEVELS
from fbar.question.problem import Problem
from fbar.question.targets import as_targets, parse
from fbar.question.truth import Listed
from fbar.results.notebook import joined, table
from fbar.running.replication import Found, Progress, replicate
from fbar.scores import Score, as_score
from fbar.seeds import Seeds
from fbar.study.contenders import as_contenders
from fbar.study.journal import Journal
from fbar.study.progress import StudyProgress
from fbar.study.ranking import ERROR
from fbar.study.results import StudyResult
from fbar.study.trials import Arena, Cell, StudyTrials, TrialRecord
from fbar.system.signals import ending_as_by_ctrl_c, interrupted

DEFAULT_SCORES = ("mse", "coverage", "acceptance-rate", "ess")


class Study:
    """Score algorithms by their error, over replicated trials on problems with known truth.

    Parameters
    ----------
    problems
        Names of the catalogue (``fbar problems`` lists them), problems with known truth, or a mapping from your
        own names to problems. ``"two-moons/3"`` is its third observation; ``"two-moons/fresh"`` draws parameters from
        the prior and data from the simulator in every trial, as calibration needs.
    methods
        Names (``fbar methods``), methods such as ``fbar.SMC(accepted=500)``, or functions ``algorithm(problem, budget,
        rng)`` that return weighted samples, a posterior, or estimates with errors; as a list or a mapping from names.
    budgets
        Numbers of simulations that a method may use; the simulator counts them and refuses more.
    trials
        Independent repetitions of each combination. All methods share a trial's seed.
    scores
        Names (``fbar scores``) or scores.
    seed
        The same seed gives the same trials. It is 1 by default, unlike the new seed of `infer`: a study is a
        measurement that others repeat, and a directory of trials can only be resumed with its seed.
    targets
        What is estimated, or a mapping from a problem's name to that; by default all targets with a known truth.
    tolerance
        The tolerance of all methods: the share of simulations from the prior that it accepts (1e-2 or 1e-3), or a
        mapping from a problem's name to a tolerance.
    truth
        What estimates are compared with: ``"posterior"``, or ``"tolerance"``, the exact truth of ABC at the tolerance,
        where that can be computed: then the error does not include the tolerance's bias, which all methods share.

    Examples
    --------
    >>> study = Study("ramp", ["rejection", "optimal"], budgets=200, trials=20, scores=["mse"])
    >>> result = study.run(workers=1, progress=False)
    >>> len(result.rows())
    200
    """

    def __init__(
        self,
        problems: Any,
        methods: Any,
        budgets: int | Sequence[int],
        trials: int = 100,
        scores: Any = DEFAULT_SCORES,
        seed: int = 1,
        *,
        targets: Any = None,
        tolerance: float | Mapping[str, float] = LEVELS[0],
        truth: str = "posterior",
    ) -> None:
        self.contenders = as_contenders(methods)
        several = isinstance(budgets, Sequence | np.ndarray) and not isinstance(budgets, str) and len(np.shape(budgets))
        listed = listed_of(budgets, "budgets") if several else [budgets]
        if not listed:
            raise InputError("give at least one budget")
        self.budgets = tuple(dict.fromkeys(positive_integer(budget, "budget") for budget in listed))
        self.trials = positive_integer(trials, "trials")
        self.seed = Seeds.of(seed).entropy
        choice(truth, ("posterior", "tolerance"), "truth")
        self.truth, self.tolerance = truth, tolerance
        given = [scores] if isinstance(scores, str | Score) else listed_of(scores, "scores")
        self.scores: tuple[Score, ...] = tuple(as_score(score) for score in given)
        names = [score.name for score in self.scores]
        if not names:
            raise InputError("give at least one score; fbar scores lists them")
        if len(set(names)) < len(names):
            raise InputError(f"the score {shown(max(names, key=names.count))} is given twice")
        self._targets = targets
        given_problems = _problems(problems)
        for option, where in ((targets, "in targets="), (tolerance, "in tolerance=")):
            for name in option if isinstance(option, Mapping) else ():
                choice(name, given_problems, "problem", where)  # a misspelt one would be left out in silence
        self.arenas = {name: self._arena(name, problem) for name, problem in given_problems.items()}

    # ------------------------------------------------------------ what is run

    def _arena(self, name: str, problem: Problem) -> Arena:
        fresh = name.endswith("/fresh")
        if fresh and any(score.name == ERROR for score in self.scores):
            raise InputError(
                f"{name}: the error {ERROR!r} is for repeated runs on the same data; with fresh data use "
                "scores of calibration, such as sbc, coverage or true-parameters"
            )
        tolerance = self._tolerance(name, problem)
        scored = problem
        if self.truth == "tolerance" and problem.has_summaries:
            known = problem.truth_at(tolerance) if isinstance(problem, Benchmark) else None
            if known is None or fresh:
                raise InputError(
                    f"the truth of ABC at a tolerance is not known for {shown(name)}; use truth='posterior' "
                    "(the default)"
                )
            scored = _with_truth(problem, Listed(list(known.values()), known.how))
        asked = self._targets.get(name) if isinstance(self._targets, Mapping) else self._targets
        if asked is not None:
            targets = as_targets(asked)
            for target in targets:
                target.check_space(problem.probe)
        else:
            targets = tuple(parse(item) for item in (problem if fresh else scored).truth())
            if not targets:
                raise InputError(f"the truth of {shown(name)} is not known; give it to the problem as truth=")
        return Arena(name, problem, scored, targets, tolerance, fresh)

    def _tolerance(self, name: str, problem: Problem) -> float:
        if not problem.has_summaries:
            return 0.0
        if isinstance(self.tolerance, Mapping):
            if name not in self.tolerance:
                raise InputError(f"tolerance names no value for {shown(name)}; known: {', '.join(self.tolerance)}")
            return positive_number(self.tolerance[name], "tolerance")
        if not isinstance(problem, Benchmark):
            raise InputError(f"{shown(name)} is your own problem: give its tolerance as tolerance={{{shown(name)}: …}}")
        known = problem.tolerances
        if real(self.tolerance) not in known:
            levels = ", ".join(f"{level:g}" for level in known)
            raise InputError(
                f"tolerance must be the share of the prior's simulations to accept, one of {levels}, or a mapping "
                f"from problems to tolerances; got {shown(self.tolerance)}"
            )
        return known[float(self.tolerance)]

    def only(
        self,
        problems: Iterable[str] | None = None,
        *,
        methods: Iterable[str] | None = None,
        budgets: Iterable[int] | None = None,
    ) -> Study:
        """The same study restricted to some of its problems, methods or budgets: its trials are those of the whole."""
        other = copy.copy(self)
        if problems is not None:
            chosen = set(texts(problems, "problems", "['ramp']")) & set(self.arenas)
            if not chosen:
                raise InputError(f"this study has none of these problems; it has {', '.join(self.arenas)}")
            other.arenas = {name: arena for name, arena in self.arenas.items() if name in chosen}
        if methods is not None:
            known = [contender.name for contender in self.contenders]
            names = {choice(name, known, "method", "in this study") for name in texts(methods, "methods", "['smc']")}
            other.contenders = tuple(contender for contender in self.contenders if contender.name in names)
        if budgets is not None:
            sizes = {positive_integer(budget, "budget") for budget in listed_of(budgets, "budgets")}
            if not sizes or not sizes <= set(self.budgets):
                shown_budgets = ", ".join(f"{budget:,}" for budget in self.budgets)
                raise InputError(f"budgets must be some of the study's, {shown_budgets}; got {shown(sorted(sizes))}")
            other.budgets = tuple(budget for budget in self.budgets if budget in sizes)
        return other

    def _told(self) -> dict[str, str]:
        """What it is about, in words."""
        return {
            "problems": ", ".join(self.arenas),
            "methods": ", ".join(contender.name for contender in self.contenders),
            "budgets": ", ".join(f"{budget:,}" for budget in self.budgets),
            "trials": f"{self.trials:,}",
            "scores": ", ".join(score.name for score in self.scores),
        }

    def __repr__(self) -> str:
        return f"Study({'; '.join(f'{name} {text}' for name, text in self._told().items())})"

    def _repr_html_(self) -> str:
        return joined(table(["study", ""], [[name, text] for name, text in self._told().items()]))

    @property
    def cells(self) -> list[Cell]:
        return [
            Cell(problem, contender.name, budget)
            for problem in self.arenas
            for budget in self.budgets
            for contender in self.contenders
        ]

    def settings(self) -> dict[str, Any]:
        """The settings that determine whether recorded trials belong to this study."""
        return {
            "seed": str(self.seed),
            "truth": self.truth,
            "tolerance": "given" if isinstance(self.tolerance, Mapping) else self.tolerance,
            "scores": [describe(score) if score.__dict__ else score.name for score in self.scores],
            "problems": {name: _described(arena) for name, arena in self.arenas.items()},
            "methods": {contender.name: contender.described() for contender in self.contenders},
            "budgets": list(self.budgets),
            "trials": self.trials,
        }

    # ------------------------------------------------------------ running

    @former.arguments(client="engine")
    def run(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        workers: int | None = None,
        engine: Any = None,
        progress: bool | Progress = True,
    ) -> StudyResult:
        """Run the trials that are not recorded yet, and return the results.

        Parameters
        ----------
        out
            A directory where finished trials are kept as they arrive. Running the study again resumes it; more trials,
            budgets, methods or problems add to it.
        workers
            Processes of this machine, by default one for each processor. With 1 all trials run in this process.
        engine
            Where to run instead, as for `infer`: a `concurrent.futures.Executor`, a Dask client or its address, or an
            engine.
        progress
            Whether to show progress, or a function that is called with the share of the work that is done, the trials
            done, and all trials to run.
        """
        if workers is not None:
            positive_integer(workers, "workers")
        chosen = None if engine is None else as_engine(engine, workers)
        try:
            with ending_as_by_ctrl_c(), ExitStack() as stack:
                journal = (
                    stack.enter_context(Journal(as_path(out, "out"), self.settings())) if out is not None else None
                )
                line = StudyProgress(progress)
                stack.callback(line.end)
                trials = StudyTrials(self.arenas, {c.name: c for c in self.contenders}, self.scores, self.seed)
                found: Found[Cell, TrialRecord] = replicate(
                    trials, self.cells, self.trials, engine=chosen, workers=workers, journal=journal, progress=line
                )
        except KeyboardInterrupt as error:
            kept = (
                f"finished trials are kept in {out}; run it again to resume" if out is not None else "nothing is kept"
            )
            raise interrupted(error, f"interrupted; {kept}") from None
        wanted = {(cell, trial): found[cell, trial] for cell in self.cells for trial in range(self.trials)}
        return StudyResult(wanted, self.arenas, [score.name for score in self.scores], self.settings())


def _described(arena: Arena) -> dict[str, Any]:
    """What tells a problem from another of the same name: also its data and its truth, and all of one's own problem."""
    found = {"tolerance": arena.tolerance, "targets": [target.name for target in arena.targets]}
    if not arena.fresh:
        known = arena.scored.truth()
        truth = [
            f"{former.target_once(name)} {item.value:.8g} {item.standard_error:.2g}" for name, item in known.items()
        ]
        own = None if isinstance(arena.problem, Benchmark) else describe(arena.problem)
        parts = [describe(arena.problem.observed), truth, own]
        found["digest"] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return found


def _problems(given: Any) -> dict[str, Problem]:
    if isinstance(given, Problem):
        given = [given]
    if isinstance(given, Mapping):
        for name, problem in given.items():
            if not isinstance(problem, Problem):
                raise InputError(f"{shown(name)} must be a problem; got {shown(problem)}")
        found = {str(name): problem for name, problem in given.items()}
    else:
        listed = listed_of(given, "problems") if isinstance(given, Iterable) and not isinstance(given, str) else [given]
        found = dict(_problem(item) for item in listed)
    if not found:
        raise InputError("give at least one problem; fbar problems lists them")
    return found


def _problem(given: Any) -> tuple[str, Problem]:
    if isinstance(given, Benchmark):
        which = "own" if given.observation is None else given.observation
        return (given.name if which == 1 else f"{given.name}/{which}"), given
    if isinstance(given, Problem):
        raise InputError("your own problem needs a name: problems={'name': problem}")
    if not isinstance(given, str):
        raise InputError(f"a problem is a name from the catalogue or an fbar.Problem; got {shown(given)}")
    name, _, which = given.partition("/")
    if which == "fresh":
        problem = load(name)
        if not isinstance(problem, Benchmark):
            raise InputError(f"the data of {name} are an event, so it cannot draw fresh data")
        return given, problem
    if which and not which.isdigit():
        raise InputError(f"write {name}/3 for its third observation, or {name}/fresh; got {shown(given)}")
    return given, load(name, int(which or 1))


def _with_truth(problem: Problem, known: Listed) -> Problem:
    """The problem with another truth."""
    return problem.replace(truth=known)
