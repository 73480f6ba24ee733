"""Every entrance of fbar that takes arguments, with arguments that are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import fbar
from attack.entrances_of_runs import of_runs
from attack.rooms import Entrance, Rooms, simulate
from fbar.question.targets import parse


def entrances(rooms: Rooms) -> list[Entrance]:
    """All of them; each has its words once."""
    rng = np.random.default_rng(1)
    listed = [
        *_questions(rooms),
        *_priors(rooms, rng),
        *_methods(rooms),
        *of_runs(rooms),
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
        Entrance("fbar.sd", fbar.sd, {"name": "a"}, then=rooms.ask),
        Entrance("fbar.correlation", fbar.correlation, {"first": "a", "second": "b"}, then=rooms.ask),
        Entrance("fbar.credible_interval", fbar.credible_interval, {"name": "a", "level": 0.5}, then=rooms.ask),
        Entrance("fbar.hdi", fbar.hdi, {"name": "a", "level": 0.5}, then=rooms.ask),
        Entrance(
            "fbar.bayes_factor",
            fbar.bayes_factor,
            {"first": 1.0, "second": 2.0, "name": "a"},
            then=rooms.counted.expect,
        ),
        Entrance("fbar.probability", fbar.probability, {"predicate": "a > 0"}, then=rooms.ask),
        Entrance(
            "fbar.probability_between", fbar.probability_between, {"name": "a", "low": 0, "high": 1}, then=rooms.ask
        ),
        Entrance("fbar.model_probability", fbar.model_probability, {"model": 1.0, "name": "a"}, then=rooms.ask),
        Entrance("fbar.quantile", fbar.quantile, {"name": "a", "level": 0.5}, then=rooms.ask),
        Entrance("fbar.density_at", fbar.density_at, {"name": "a", "x": 0.1}, then=rooms.ask),
        Entrance("fbar.expectation", fbar.expectation, {"function": "a * b"}, then=rooms.ask),
        Entrance("fbar.probabilities", fbar.probabilities, {"values": {"a": [1.0, 2.0]}}, then=rooms.counted.expect),
        Entrance("fbar.question.targets.parse", parse, {"text": "mean:a"}, then=rooms.ask),
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
            "fbar.Fidelities",
            fbar.Fidelities,
            {"real": simulate, "cheap": simulate},
            then=lambda s: rooms.solve(fbar.Problem(rooms.prior, s, [0.5, 0.2])),
        ),
        Entrance("fbar.RowNoise", fbar.RowNoise, {"seeds": [1, 2]}, then=lambda noise: noise.normal(2)),
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
            "fbar.truncate of a prior",
            lambda where: fbar.truncate(fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1)), where=where),
            {"where": "a + b < 1"},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.dirichlet",
            lambda a, b: fbar.Prior(fbar.dirichlet(a=a, b=b, c=1)),
            {"a": 1.0, "b": 2},
            then=rooms.draw,
        ),
        Entrance(
            "fbar.ordered",
            lambda a, b: fbar.Prior(fbar.ordered(a=a, b=b)),
            {"a": stats.norm(0, 1), "b": stats.norm(1, 1)},
            then=rooms.draw,
        ),
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
    own: dict[str, Any] = {
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
    marginals: dict[str, Any] = {"Density": density, "Categorical": label}
    for name, marginal in marginals.items():
        listed += [
            Entrance(f"{name}.ppf", marginal.ppf, {"u": np.array([0.5])}),
            Entrance(f"{name}.cdf", marginal.cdf, {"x": marginal.ppf(np.array([0.5]))}),
            Entrance(f"{name}.logpdf", marginal.logpdf, {"x": marginal.ppf(np.array([0.5]))}),
        ]
    return [*listed, Entrance("Density.pdf", density.pdf, {"x": 0.5})]


def _methods(rooms: Rooms) -> list[Entrance]:
    def near(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda method: fbar.infer(rooms.problem, fbar.mean("a"), method=method, budget=300, seed=1)

    def few(method: Any) -> Any:
        return fbar.infer(rooms.problem, fbar.mean("a"), method=method, budget=30, seed=1)

    listed = [
        Entrance("fbar.Targeted", fbar.Targeted, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Rejection", fbar.Rejection, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Importance", fbar.Importance, {"tolerance": 1}, then=rooms.use),
        Entrance("fbar.Importance on a finite space", fbar.Importance, {}, then=rooms.count),
        Entrance("fbar.SMC", fbar.SMC, {"accepted": 20}, ("simulations",), then=rooms.use),
        Entrance("fbar.PMC", fbar.PMC, {"accepted": 20}, then=rooms.use),
        Entrance("fbar.AdaptiveWeights", fbar.AdaptiveWeights, {"accepted": 20}, then=rooms.use),
        Entrance("fbar.ReplicaSMC", fbar.ReplicaSMC, {"particles": 20, "tolerance": 1.0}, then=rooms.use),
        Entrance("fbar.Allocation", fbar.Allocation, {}, then=rooms.count),
        Entrance("fbar.AdaptiveAllocation", fbar.AdaptiveAllocation, {}, then=rooms.count),
        Entrance("fbar.AdaptivePosterior", fbar.AdaptivePosterior, {}, then=rooms.count),
        Entrance("fbar.InverseBinomial", fbar.InverseBinomial, {}, then=rooms.count),
        Entrance("fbar.Multilevel", fbar.Multilevel, {}, then=rooms.use),
        Entrance("fbar.BOLFI", fbar.BOLFI, {}, then=few),
        Entrance("fbar.SyntheticLikelihood", fbar.SyntheticLikelihood, {}, then=rooms.use),
        Entrance("fbar.Multifidelity", fbar.Multifidelity, {"tolerance": 1}, then=rooms.use_fidelities),
        Entrance("fbar.MCMC", fbar.MCMC, {}, then=rooms.use),
        Entrance("fbar.SyntheticLikelihoodMCMC", fbar.SyntheticLikelihoodMCMC, {"chains": 1}, then=rooms.use),
        Entrance("fbar.DensityApproximation", fbar.DensityApproximation, {"replicates": 4}, then=rooms.use),
        Entrance("fbar.PseudoMarginal", fbar.PseudoMarginal, {}, then=rooms.use_likelihood),
        Entrance("fbar.UntilMatch", fbar.UntilMatch, {}, then=rooms.use_flips),
        Entrance(
            "fbar.with_likelihood",
            fbar.with_likelihood,
            {"prior": rooms.prior, "estimate": lambda theta, rng: -(theta["a"] ** 2)},
        ),
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
