"""The entrances of runs, of their results, of studies and of the paper's equations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import fbar
from attack.rooms import Entrance, Rooms
from fbar.engine.choose import as_engine


def of_runs(rooms: Rooms) -> list[Entrance]:
    return [*_running(rooms), *_answers(rooms), *_studies(rooms), *_equations(rooms)]


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
        Entrance("fbar.Workers", fbar.Workers, {"workers": 1}),
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
        Entrance("Run.ask", lambda limit, ahead: run().ask(limit, extra_blocks=ahead), {"limit": 100, "ahead": 0}),
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
            "fbar.CostBudget",
            fbar.CostBudget,
            {"cost": 1},
            then=lambda rule: fbar.infer(rooms.timed, fbar.mean("a"), tolerance=1, stop=rule | fbar.Budget(60), seed=1),
        ),
        Entrance("fbar.AcceptedCount", fbar.AcceptedCount, {"accepted": 50}, then=rooms.obey),
        Entrance("fbar.StandardError", fbar.StandardError, {"target": "mean:a", "wanted": 0.1}, then=rooms.obey),
        Entrance("fbar.RelativeError", fbar.RelativeError, {"target": "mean:a", "wanted": 0.1}, then=rooms.obey),
        Entrance("rule | …", lambda other: fbar.Budget(200) | other, {"other": fbar.AcceptedCount(9)}, then=rooms.obey),
        Entrance("rule & …", lambda other: fbar.Budget(200) & other, {"other": fbar.AcceptedCount(9)}, then=rooms.obey),
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
        Entrance("Result.predict", result.predict, {"n": 3}),
        Entrance("Result.report", result.report, {"path": "page.html", "predictive": 0}),
        Entrance("Result.summary", result.summary, {"level": 0.9}),
        Entrance("Result.sample", result.sample, {"size": 20, "seed": 1}),
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
    drawn: dict[str, Any] = {
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
        Entrance("Study.run", rooms.study.run, {"workers": 1, "progress": False}, ("engine", "workers")),
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
