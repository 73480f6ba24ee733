"""Every entrance of fbar that takes arguments, with arguments that are right.

What is made at an entrance is used at once (``then``): a wrong argument must not wait for a later call to be found out
by an exception that explains nothing.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import fbar
from fbar.engine.choose import as_engine
from fbar.targets import parse


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
    """What calls begin with: problems, runs and results, made once."""

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
        self.threads = ThreadPoolExecutor(1)
        study = fbar.Study(["ramp"], ["rejection", "optimal"], [60, 90], 3, ["mse", "ess"])
        self.study = study
        self.scored = study.run(workers=1, progress=False)

    @cached_property
    def recorded(self) -> Path:
        """A run's directory, to be copied."""
        self._kept = tempfile.TemporaryDirectory(prefix="fbar-wrong-calls-")
        place = Path(self._kept.name) / "run"
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


def entrances(rooms: Rooms) -> list[Entrance]:
    """All of them; each has its words once."""
    rng = np.random.default_rng(1)
    listed = [
        *_questions(rooms),
        *_priors(rooms, rng),
        *_methods(rooms),
        *_running(rooms),
        *_answers(rooms),
        *_studies(rooms),
        *_equations(rooms),
    ]
    assert len({entrance.words for entrance in listed}) == len(listed)
    return listed


def _questions(rooms: Rooms) -> list[Entrance]:
    names = {"a": lambda t: t["a"]}
    return [
        Entrance("fbar.mean", fbar.mean, {"name": "a"}, then=rooms.ask),
        Entrance("fbar.second_moment", fbar.second_moment, {"name": "a"}, then=rooms.ask),
        Entrance("fbar.variance", fbar.variance, {"name": "a"}, then=rooms.ask),
        Entrance("fbar.covariance", fbar.covariance, {"first": "a", "second": "b"}, then=rooms.ask),
        Entrance("fbar.probability", fbar.probability, {"predicate": "a > 0"}, then=rooms.ask),
        Entrance("fbar.interval", fbar.interval, {"name": "a", "low": 0, "high": 1}, then=rooms.ask),
        Entrance("fbar.model_probability", fbar.model_probability, {"model": 1.0, "name": "a"}, then=rooms.ask),
        Entrance("fbar.quantile", fbar.quantile, {"name": "a", "level": 0.5}, then=rooms.ask),
        Entrance("fbar.density_at", fbar.density_at, {"name": "a", "x": 0.1}, then=rooms.ask),
        Entrance("fbar.expectation", fbar.expectation, {"function": "a * b"}, then=rooms.ask),
        Entrance("fbar.posterior", fbar.posterior, {"values": {"a": [1.0, 2.0]}}, then=rooms.counted.expect),
        Entrance("fbar.targets.parse", parse, {"text": "mean:a"}, then=rooms.ask),
        Entrance("fbar.Points", fbar.Points, {"columns": {"a": [1.0, 2.0]}}, ("present", "unit", "owner")),
        Entrance(
            "fbar.Points of derived",
            lambda derived: fbar.Points({"a": [1.0]}, derived)["d"],
            {"derived": {"d": names["a"]}},
        ),
        Entrance("Points.take", rooms.points.take, {"index": [0, 1]}),
        Entrance("Points.only", rooms.points.only, {"names": ["a"]}),
        Entrance("Points.without", rooms.points.without, {"names": ["a"]}),
        Entrance("Points.with_columns", rooms.points.with_columns, {"columns": {"c": np.zeros(5)}}),
        Entrance("Points.with_derived", rooms.points.with_derived, {"derived": names}),
        Entrance("Points.repeat", rooms.points.repeat, {"times": [1, 0, 1, 2, 0]}),
        Entrance("Points.label", rooms.points.label, {"row": 0}),
        Entrance("Points.present", rooms.points.present, {"name": "a"}),
        Entrance("Points.concatenate", fbar.Points.concatenate, {"parts": [rooms.points, rooms.points]}),
        Entrance("points[…]", lambda key: rooms.points[key], {"key": "a"}, protocol=(KeyError,)),
        Entrance(
            "fbar.Problem",
            fbar.Problem,
            {"prior": rooms.prior, "simulate": simulate, "observed": [0.5, 0.2]},
            then=rooms.solve,
        ),
        Entrance(
            "fbar.Problem that knows its truth",
            lambda truth, p_star: fbar.Problem(rooms.prior, simulate, [0.5, 0.2], truth=truth, p_star=p_star),
            {"truth": {"mean:a": (0.3, 0.01)}, "p_star": None},
            then=lambda problem: (problem.truth(fbar.mean("a")), problem.truth(), problem.truth_error(fbar.mean("a"))),
        ),
        Entrance(
            "fbar.Problem that knows p*",
            lambda p_star: fbar.Problem(rooms.prior, simulate, [0.5, 0.2], p_star=p_star),
            {"p_star": lambda theta, tolerance: np.full(theta.rows, 0.5)},
            then=lambda problem: (problem.acceptance_probability(problem.probe), rooms.solve(problem)),
        ),
        Entrance(
            "fbar.Problem on a finite space",
            lambda cost, observed: fbar.Problem(
                rooms.finite, lambda t, rng: rng.poisson(t["a"]), observed, cost=cost, records=()
            ),
            {"cost": [1.0, 2.0, 3.0], "observed": 1},
            then=rooms.solve,
        ),
        Entrance(
            "fbar.Problem.tabulated",
            fbar.Problem.tabulated,
            {"prior": rooms.finite, "p_star": [0.1, 0.2, 0.3]},
            then=lambda problem: (rooms.match(problem), problem.truth(fbar.mean("a"))),
        ),
        Entrance(
            "fbar.Problem.bernoulli",
            fbar.Problem.bernoulli,
            {"prior": rooms.prior, "p_star": lambda theta: np.full(theta.rows, 0.5)},
            then=rooms.match,
        ),
        Entrance(
            "fbar.Problem.models",
            fbar.Problem.models,
            {"models": {"m": fbar.Model(simulate, rooms.prior)}, "observed": [0.5, 0.2]},
            then=rooms.solve,
        ),
        Entrance("Problem.with_observed", rooms.problem.with_observed, {"observed": [0.1, 0.1]}, then=rooms.solve),
        Entrance("Problem.truth", rooms.table.truth, {"target": fbar.mean("a")}),
        Entrance("Problem.truth_error", rooms.table.truth_error, {"target": fbar.mean("a")}),
        Entrance("Problem.outcomes", rooms.problem.outcomes, {"output": np.zeros((3, 2)), "simulations": 3}),
        Entrance("Problem.distance", rooms.problem.distance, {"summaries": np.zeros((3, 2))}),
        Entrance("Problem.cost_of", rooms.problem.cost_of, {"points": rooms.points}),
        Entrance("Problem.check_targets", rooms.problem.check_targets, {"targets": [fbar.mean("a")]}),
        Entrance("Problem.acceptance_probability", rooms.known.acceptance_probability, {"theta": rooms.points}),
        Entrance(
            "fbar.Model",
            lambda simulate, prior: fbar.Problem.models({"m": fbar.Model(simulate, prior)}, [0, 0]),
            {"simulate": simulate, "prior": rooms.prior},
            then=rooms.solve,
        ),
        Entrance(
            "fbar.each",
            fbar.each,
            {"function": lambda theta, rng: [theta["a"], theta["b"]]},
            then=lambda s: rooms.solve(fbar.Problem(rooms.prior, s, [0.5, 0.2])),
        ),
        Entrance("fbar.program", fbar.program, {"command": ["true", "{a}"]}),
        Entrance(
            "fbar.Separable",
            lambda a: fbar.Separable(a=a),
            {"a": lambda a: np.exp(-(a**2))},
            then=lambda p: rooms.match(fbar.Problem.bernoulli(rooms.prior, p)),
        ),
        Entrance(
            "fbar.PNorm",
            fbar.PNorm,
            {},
            then=lambda d: rooms.solve(fbar.Problem(rooms.prior, simulate, [0.5, 0.2], distance=d)),
        ),
        Entrance("fbar.Acceptance", fbar.Acceptance, {}),
        Entrance("fbar.problems.load", fbar.problems.load, {"name": "ramp"}),
        Entrance("fbar.problems.ten_values", fbar.problems.ten_values, {}),
        Entrance("fbar.problems.filippi", fbar.problems.filippi, {}),
    ]


def _priors(rooms: Rooms, rng: np.random.Generator) -> list[Entrance]:
    density = fbar.Density(lambda x: np.exp(-np.abs(x)), -4, 5)
    label = fbar.Categorical(["x", "y"])
    shift = fbar.UnitTransform(lambda u: {"a": u[:, 0]}, ["a"], logpdf=lambda t: np.zeros(t.rows))
    mixture = fbar.Mixture([rooms.prior, rooms.prior], [0.5, 0.5])
    listed = [
        Entrance("fbar.Prior by name", lambda a: fbar.Prior(a=a), {"a": stats.norm(0, 1)}, then=rooms.draw),
        Entrance(
            "fbar.Prior by position",
            lambda marginals: fbar.Prior(marginals),
            {"marginals": {"a": stats.norm()}},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.Prior that depends",
            lambda b: fbar.Prior(a=stats.norm(0, 1), b=b),
            {"b": lambda t: stats.norm(t["a"], 1)},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.Finite",
            lambda a, probabilities=None: fbar.Finite(a=a, probabilities=probabilities),
            {"a": [1, 2, 3]},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.Finite by position", lambda columns: fbar.Finite(columns), {"columns": {"a": [1, 2]}}, then=rooms.draw
        ),
        Entrance(
            "fbar.Finite.grid", lambda a, b: fbar.Finite.grid(a=a, b=b), {"a": [1, 2], "b": [3, 4]}, then=rooms.draw
        ),
        Entrance(
            "fbar.Categorical",
            fbar.Categorical,
            {"values": ["x", "y"], "probabilities": [0.5, 0.5]},
            then=rooms.draw_marginal,
        ),
        Entrance(
            "fbar.Density",
            fbar.Density,
            {"function": lambda x: np.exp(-(x**2)), "low": -1, "high": 1},
            then=rooms.draw_marginal,
        ),
        Entrance("fbar.truncate", fbar.truncate, {"given": stats.norm(0, 1), "low": 0}, then=rooms.draw_marginal),
        Entrance(
            "fbar.Mixture",
            fbar.Mixture,
            {"components": [rooms.prior, rooms.prior], "weights": [0.5, 0.5]},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.ModelChoice",
            fbar.ModelChoice,
            {"models": {"m": rooms.prior, "n": None}, "probabilities": [0.5, 0.5]},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.UnitTransform",
            fbar.UnitTransform,
            {"function": lambda u: {"a": u[:, 0]}, "names": ["a"], "logpdf": lambda t: np.zeros(t.rows)},
            then=rooms.draw,
        ),
        Entrance("fbar.Seeds.of", fbar.Seeds.of, {"seed": 1}, then=lambda seeds: seeds.pilot()),
        Entrance("Seeds.trial", fbar.Seeds(1).trial, {"index": 1}),
        Entrance("Seeds.generator", fbar.Seeds(1).generator, {"purpose": 0, "round": 0, "block": 0}),
        Entrance("ModelChoice.probability", rooms.models.probability, {"label": "m"}),
    ]
    own = {
        "Prior": rooms.prior,
        "Finite": rooms.finite,
        "UnitTransform": shift,
        "Mixture": mixture,
        "ModelChoice": rooms.models,
    }
    for name, prior in own.items():
        points = prior.sample(2, rng=rng)
        listed += [
            Entrance(f"{name}.sample", prior.sample, {"size": 2, "rng": rng}),
            Entrance(f"{name}.logpdf", prior.logpdf, {"points": points}),
            Entrance(f"{name}.from_unit", prior.from_unit, {"unit": np.full((2, prior.dimension), 0.5)}),
        ]
        if name != "Mixture":
            listed.append(Entrance(f"{name}.to_unit", prior.to_unit, {"points": points}))
    for name, marginal in {"Density": density, "Categorical": label}.items():
        listed += [
            Entrance(f"{name}.ppf", marginal.ppf, {"u": np.array([0.5])}),
            Entrance(f"{name}.cdf", marginal.cdf, {"x": marginal.ppf(np.array([0.5]))}),
            Entrance(f"{name}.logpdf", marginal.logpdf, {"x": marginal.ppf(np.array([0.5]))}),
        ]
    return [*listed, Entrance("Density.pdf", density.pdf, {"x": 0.5})]


def _methods(rooms: Rooms) -> list[Entrance]:
    def near(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda method: fbar.infer(rooms.problem, fbar.mean("a"), method=method, budget=300, seed=1)

    listed = [
        Entrance("fbar.Targeted", fbar.Targeted, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Rejection", fbar.Rejection, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Importance", fbar.Importance, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Importance on a finite space", fbar.Importance, {}, then=rooms.count),
        Entrance("fbar.SMC", fbar.SMC, {"accepted": 20}, ("simulations",), then=rooms.use),
        Entrance("fbar.Allocation", fbar.Allocation, {}, then=rooms.count),
        Entrance("fbar.AdaptiveAllocation", fbar.AdaptiveAllocation, {}, then=rooms.count),
        Entrance("fbar.AdaptivePosterior", fbar.AdaptivePosterior, {}, then=rooms.count),
        Entrance("fbar.InverseBinomial", fbar.InverseBinomial, {}, then=rooms.count),
        Entrance(
            "fbar.QuantileSchedule",
            fbar.QuantileSchedule,
            {"tolerance": 1},
            then=lambda schedule: rooms.use(fbar.SMC(schedule, accepted=20)),
        ),
        Entrance(
            "fbar.AcceptanceRateSchedule",
            fbar.AcceptanceRateSchedule,
            {"tolerance": 1},
            then=lambda schedule: rooms.use(fbar.SMC(schedule, accepted=20)),
        ),
        Entrance("fbar.Stratified", fbar.Stratified, {}, then=lambda s: rooms.use(fbar.Rejection(s, tolerance=1))),
        Entrance("fbar.Sobol", fbar.Sobol, {}, then=lambda s: rooms.use(fbar.Rejection(s, tolerance=1))),
        Entrance("fbar.Scaled", fbar.Scaled, {}, then=lambda d: rooms.use(fbar.SMC([2, 1], accepted=20, distance=d))),
        Entrance(
            "fbar.KernelRegression",
            fbar.KernelRegression,
            {},
            then=lambda e: rooms.use(fbar.Importance("prior", "stratified", e, tolerance=1)),
        ),
        Entrance(
            "fbar.DoublyRobust",
            fbar.DoublyRobust,
            {},
            then=lambda e: rooms.use(fbar.Importance("prior", "independent", e, tolerance=1)),
        ),
        Entrance(
            "fbar.LearnedSummaries",
            fbar.LearnedSummaries,
            {"simulations": 200},
            then=lambda s: fbar.infer(rooms.problem, fbar.mean("a"), budget=600, seed=1, summaries=s),
        ),
    ]
    listed += [
        Entrance(
            f"fbar.{name}",
            getattr(fbar, name),
            {},
            then=lambda k: rooms.use(fbar.SMC([2, 1], accepted=20, perturbation=k)),
        )
        for name in ("NormalKernel", "LocalNormalKernel", "UniformKernel")
    ]
    return listed


def _running(rooms: Rooms) -> list[Entrance]:
    asked = {"problem": rooms.problem, "targets": fbar.mean("a")}
    few = {"budget": 200, "seed": 1}

    def run(budget: int = 200) -> Any:
        return fbar.Rejection(tolerance=1).start(rooms.problem, fbar.mean("a"), 1, budget, block_size=50)

    def finished() -> Any:
        begun = run()
        fbar.drive(begun)
        return begun

    return [
        Entrance("fbar.infer", fbar.infer, {**asked, "tolerance": 1, **few}, ("workers", "timeout", "engine")),
        Entrance(
            "fbar.infer on a finite space",
            fbar.infer,
            {"problem": rooms.table, "targets": fbar.mean("a"), **few},
            ("workers", "timeout", "engine", "run"),
        ),
        Entrance(
            "fbar.infer to a precision",
            lambda precision, budget: fbar.infer(
                rooms.problem, rooms.targets, precision=precision, budget=budget, tolerance=1, seed=1
            ),
            {"precision": {"a": "10%"}, "budget": 200},
        ),
        Entrance("infer(workers=, engine=, timeout=)", as_engine, {}),
        Entrance("fbar.Workers", fbar.Workers, {"count": 1}),
        Entrance("fbar.Futures", fbar.Futures, {"executor": rooms.threads, "workers": 1}),
        Entrance(
            "fbar.load",
            lambda run, problem, targets=None: fbar.load(
                rooms.copy() if isinstance(run, Rooms) else run, problem, targets
            ),
            {"run": rooms, "problem": rooms.problem},
        ),
        Entrance(
            "fbar.extend",
            lambda run, problem: fbar.extend(rooms.copy() if isinstance(run, Rooms) else run, problem, budget=400),
            {"run": rooms, "problem": rooms.problem},
        ),
        Entrance(
            "fbar.extend by more",
            lambda budget, tolerance, precision, stop, targets, progress: fbar.extend(
                rooms.copy(),
                rooms.problem,
                targets,
                budget=budget,
                tolerance=tolerance,
                precision=precision,
                stop=stop,
                progress=progress,
            ),
            {"budget": 400, "tolerance": None, "precision": None, "stop": None, "targets": None, "progress": False},
        ),
        Entrance(
            "fbar.drive",
            lambda run, stop=None, engine=None, progress=None, until_round=None: fbar.drive(
                globals()["_begin"](run), stop, engine=engine, progress=progress, until_round=until_round
            ),
            {"run": run},
        ),
        Entrance("Method.start", fbar.Rejection(tolerance=1).start, {**asked, **few}, then=rooms.step),
        Entrance(
            "Method.start of many trials",
            fbar.Allocation().start,
            {"problem": rooms.table, "targets": fbar.mean("a"), "trials": 3, **few},
            then=rooms.step,
        ),
        Entrance("Run.ask", lambda limit, ahead: run().ask(limit, ahead=ahead), {"limit": 100, "ahead": 0}),
        Entrance("Run.tell", _told(run), {"answer": None, "outcomes": None}),
        Entrance(
            "Run.extend",
            lambda budget, limit, tolerance, targets: finished().extend(
                budget=budget, limit=limit, tolerance=tolerance, targets=targets
            ),
            {"budget": 300, "limit": None, "tolerance": None, "targets": None},
        ),
        Entrance("Run.forecast", rooms.rejection.run.forecast, {"target": fbar.mean("a"), "wanted": 0.1}),
        Entrance("fbar.simulate", fbar.simulate, {"problem": rooms.problem, "batch": run().ask()[0]}),
        Entrance(
            "LearnedSummaries.learn",
            fbar.LearnedSummaries().learn,
            {**asked, "simulations": 200, "seed": 1},
            ("engine",),
        ),
        Entrance("fbar.Budget", fbar.Budget, {"simulations": 100}, then=rooms.obey),
        Entrance(
            "fbar.Spent",
            fbar.Spent,
            {"cost": 1},
            then=lambda rule: fbar.infer(rooms.timed, fbar.mean("a"), tolerance=1, stop=rule | fbar.Budget(60), seed=1),
        ),
        Entrance("fbar.Acceptances", fbar.Acceptances, {"accepted": 50}, then=rooms.obey),
        Entrance("fbar.StandardError", fbar.StandardError, {"target": "mean:a", "wanted": 0.1}, then=rooms.obey),
        Entrance("fbar.RelativeError", fbar.RelativeError, {"target": "mean:a", "wanted": 0.1}, then=rooms.obey),
        Entrance("rule | …", lambda other: fbar.Budget(200) | other, {"other": fbar.Acceptances(9)}, then=rooms.obey),
        Entrance("rule & …", lambda other: fbar.Budget(200) & other, {"other": fbar.Acceptances(9)}, then=rooms.obey),
    ]


def _begin(run: Any) -> Any:
    """A run that is to be made, or what was given in its place."""
    return run() if getattr(run, "__qualname__", "").endswith("_running.<locals>.run") else run


def _told(run: Callable[[], Any]) -> Callable[..., Any]:
    def tell(answer: Any, outcomes: Any) -> Any:
        begun = run()
        batch = begun.ask()[0]
        outcomes = fbar.simulate(begun.problem, batch) if outcomes is None else outcomes
        begun.tell((batch, outcomes) if answer is None else answer)
        return begun

    return tell


def _answers(rooms: Rooms) -> list[Entrance]:
    result, estimates = rooms.result, rooms.result.estimates
    taken = (KeyError, IndexError, TypeError)  # of a sequence that is indexed
    listed = [
        Entrance("Result.expect", result.expect, {"targets": fbar.mean("a")}),
        Entrance("Result.at", result.at, {"tolerance": 1.2}),
        Entrance("Result.curve", result.curve, {"tolerances": [1, 2]}),
        Entrance("Result.extrapolated", result.extrapolated, {}),
        Entrance("Result.adjusted", result.adjusted, {}),
        Entrance("Result.forecast", result.forecast, {"precision": {"mean:a": 0.01}}),
        Entrance("Result.explain", result.explain, {"target": "mean:a"}),
        Entrance("Result.predictive", result.predictive, {"number": 3}),
        Entrance("Result.report", result.report, {"path": "page.html", "predictive": 0}),
        Entrance("Result.to_arviz", result.to_arviz, {"draws": 10}),
        Entrance("result[…]", lambda key: result[key], {"key": "mean:a"}, protocol=taken),
        Entrance("Posterior.expect", result.posterior.expect, {"targets": fbar.mean("a")}),
        Entrance("Posterior.value", result.posterior.value, {"target": fbar.mean("a")}),
        Entrance("Posterior.contributions", result.posterior.contributions, {"target": fbar.mean("a")}),
        Entrance("Estimate.interval", estimates[0].interval, {"level": 0.9}),
        Entrance("estimates[…]", lambda key: estimates[key], {"key": 0}, protocol=taken),
        Entrance("Estimates.difference", estimates.difference, {"first": "mean:a", "second": "mean:a"}),
        Entrance("Estimates.ratio", estimates.ratio, {"first": "mean:a", "second": "mean:a"}),
        Entrance(
            "Estimates.combine",
            lambda function, first, name: estimates.combine(function, first, name=name),
            {"function": lambda a: 2 * a, "first": "mean:a", "name": "twice"},
        ),
    ]
    drawn = {
        "error": {"result": result}, "influence": {"result": result, "target": "mean:a"},
        "marginals": {"result": result}, "pairs": {"result": result}, "places": {"result": result},
        "rounds": {"result": result}, "tolerance": {"result": result},
        "predictive": {"observed": [0.5, 0.2], "simulated": np.zeros((4, 2)) + np.arange(4)[:, None]},
        "curves": {"study": rooms.scored}, "ranking": {"study": rooms.scored}, "versus": {"study": rooms.scored},
    }  # fmt: skip
    for name, right in drawn.items():
        listed.append(Entrance(f"fbar.plot.{name}", getattr(fbar.plot, name), right, then=_close))
    return listed


def _close(_: Any) -> None:
    from matplotlib import pyplot

    pyplot.close("all")


def _studies(rooms: Rooms) -> list[Entrance]:
    scored = rooms.scored
    cell = {"problem": "ramp", "method": "rejection", "budget": 60}
    sample = {"theta": [0.1, 0.2]}
    scene = fbar.scores.Scene(fbar.problems.load("ramp"), (fbar.mean("theta"),))
    approximation = fbar.scores.as_approximation(
        fbar.infer(scene.problem, fbar.mean("theta"), budget=100, seed=1).posterior, scene.problem, 100
    )
    return [
        Entrance(
            "fbar.Study",
            fbar.Study,
            {"problems": ["ramp"], "methods": ["rejection"], "budgets": [60], "trials": 2, "scores": ["mse"]},
            ("trials", "budgets"),
        ),
        Entrance(
            "fbar.Study of so much",
            lambda budgets, trials: fbar.Study("ramp", "rejection", budgets, trials),
            {"budgets": 60, "trials": 2},
        ),
        Entrance(
            "fbar.Study of an own method",
            lambda method: fbar.Study("ramp", {"own": method}, 60, 2, ["mse"]).run(workers=1, progress=False),
            {"method": lambda problem, budget, rng: sample},
        ),
        Entrance("Study.only", rooms.study.only, {"problems": ["ramp"]}),
        Entrance("Study.run", rooms.study.run, {"workers": 1, "progress": False}, ("client", "workers")),
        Entrance("StudyResult.ranking", scored.ranking, {}),
        Entrance("StudyResult.curve", scored.curve, {"problem": "ramp", "method": "rejection"}),
        Entrance("StudyResult.curves", scored.curves, {}),
        Entrance("StudyResult.efficiency", scored.efficiency, {"reference": "rejection"}),
        Entrance("StudyResult.against", scored.against, {"x": "ess"}),
        Entrance("StudyResult.values", scored.values, {"score": "mse", **cell}),
        Entrance("StudyResult.records", scored.records, cell),
        Entrance("StudyResult.statuses", scored.statuses, cell),
        Entrance("StudyResult.components", scored.components, {"score": "mse", "problem": "ramp"}),
        Entrance("StudyResult.deviation", scored.deviation, {"problem": "ramp", "name": "mean:theta"}),
        Entrance("StudyResult.label", scored.label, {"score": "mse"}),
        Entrance("StudyResult.direction", scored.direction, {"score": "mse"}),
        Entrance("StudyResult.to_pandas", scored.to_pandas, {}),
        Entrance("StudyResult.write", scored.write, {"directory": "tables"}),
        Entrance("StudyResult.report", scored.report, {"path": "study.html"}),
        Entrance(
            "fbar.plot.write_figures", fbar.plot.write_figures, {"result": scored, "directory": "figures"}, then=_close
        ),
        Entrance("fbar.scores.as_score", fbar.scores.as_score, {"given": "mse"}),
        Entrance(
            "fbar.scores.as_approximation",
            fbar.scores.as_approximation,
            {"result": sample, "problem": scene.problem, "simulations": 10},
        ),
        Entrance("fbar.scores.as_points", fbar.scores.as_points, {"given": {"theta": [0.1]}, "problem": scene.problem}),
        Entrance("fbar.scores.checked_weights", fbar.scores.checked_weights, {"weights": [0.5, 0.5], "size": 2}),
        Entrance("fbar.scores.expected_coverage", fbar.scores.expected_coverage, {"ranks": [0.1, 0.5, 0.7]}),
        Entrance("fbar.scores.uniformity", fbar.scores.uniformity, {"ranks": np.linspace(0, 1, 50)}),
        Entrance("fbar.scores.summarise", fbar.scores.summarise, {"errors": [0.1, -0.1, 0.2]}),
        Entrance(
            "fbar.scores.trial_errors", fbar.scores.trial_errors, {"approximation": approximation, "scene": scene}
        ),
        Entrance(
            "fbar.scores.posterior_deviation",
            fbar.scores.posterior_deviation,
            {"target": fbar.mean("theta"), "scene": scene},
        ),
        Entrance("Approximation.estimate", approximation.estimate, {"target": fbar.mean("theta")}),
    ]


def _equations(rooms: Rooms) -> list[Entrance]:
    known = {"prior": [0.5, 0.5], "p_star": [0.3, 0.1], "f": [1.0, 2.0], "counts": [5, 5], "weights": [0.5, 0.5],
             "q": [0.5, 0.5], "q_hat": [0.4, 0.6], "shares": [0.5, 0.5], "alpha": [1.0, 2.0], "simulations": 10,
             "draws": [1, 2, 3], "t": np.array([0.5, 1.0]), "phi": fbar.theory.kullback_leibler, "mean_r": 1.0,
             "mean_s": 2.0, "var_r": 1.0, "cov_rs": 0.1, "var_s": 1.0}  # fmt: skip
    listed = []
    for name, equation in vars(fbar.theory).items():
        if not name.startswith("_") and callable(equation) and equation.__module__ == "fbar.theory":
            takes = inspect.signature(equation).parameters
            listed.append(Entrance(f"fbar.theory.{name}", equation, {k: v for k, v in known.items() if k in takes}))
    square = {"problem": fbar.Problem.bernoulli(fbar.Prior(a=stats.uniform(0, 1)), lambda t: np.asarray(t["a"] ** 2))}
    of_targets = {**square, "targets": fbar.mean("a")}
    for names, right in ((("targeted", "stratified"), of_targets), (("posterior", "max_ess"), square)):
        listed += [
            Entrance(f"fbar.designs.{name}", getattr(fbar.designs, name), right, then=rooms.draw) for name in names
        ]
    design = {"q": fbar.Prior(a=stats.norm()), "prior": fbar.Prior(a=stats.norm())}
    return [*listed, Entrance("fbar.designs.defensive", fbar.designs.defensive, design, then=rooms.draw)]
