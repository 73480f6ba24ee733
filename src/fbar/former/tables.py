"""The former names: public names, modules, and kinds of targets, with what they are called now."""

from __future__ import annotations

NAMES: dict[str, str] = {
    "Acceptances": "AcceptedCount",
    "Spent": "CostBudget",
    "interval": "probability_between",
    "posterior": "probabilities",
}
"""Public names of fbar, and types in recorded settings."""

MODULES: dict[str, str | tuple[str, ...]] = {
    "fbar.designs.partition": "fbar.designs.boxes",
    "fbar.scores.sampling": "fbar.scores.spending",
    "fbar.acceptance": "fbar.question.acceptance",
    "fbar.again": "fbar.results.again",
    "fbar.csv_cells": "fbar.system.csv_cells",
    "fbar.distances": "fbar.question.distances",
    "fbar.estimate": "fbar.estimation.estimate",
    "fbar.estimators": "fbar.estimation",
    "fbar.explanation": ("fbar.diagnostics.explanation.data", "fbar.diagnostics.explanation.account"),
    "fbar.expressions": "fbar.question.expressions",
    "fbar.faults": "fbar.diagnostics.faults",
    "fbar.files": "fbar.system.files",
    "fbar.inference": "fbar.running",
    "fbar.keeping": "fbar.system.keeping",
    "fbar.locks": "fbar.system.locks",
    "fbar.markup": "fbar.results.markup",
    "fbar.methods.adaptive": "fbar.methods.finite.adaptive",
    "fbar.methods.allocation": "fbar.methods.finite.allocation",
    "fbar.methods.base": (
        "fbar.methods.method",
        "fbar.methods.run",
        "fbar.methods.start",
        "fbar.methods.ask_tell",
    ),
    "fbar.methods.cells": "fbar.methods.finite.cells",
    "fbar.methods.inverse_binomial": "fbar.methods.finite.inverse_binomial",
    "fbar.methods.learning": ("fbar.methods.aiming.learning", "fbar.methods.aiming.aim"),
    "fbar.methods.targeted.aim": "fbar.methods.aiming.aim",
    "fbar.methods.targeted.learning": "fbar.methods.aiming.learning",
    "fbar.methods.named": ("fbar.methods.registry", "fbar.methods.restored"),
    "fbar.methods.schedules": "fbar.methods.smc.schedules",
    "fbar.model_file": "fbar.running.model_file",
    "fbar.notebook": "fbar.results.notebook",
    "fbar.outcomes": "fbar.question.outcomes",
    "fbar.outputs": "fbar.question.outputs",
    "fbar.pictures": "fbar.plot.look",
    "fbar.points": "fbar.question.points",
    "fbar.posterior": "fbar.estimation.posterior",
    "fbar.predictive": "fbar.diagnostics.predictive",
    "fbar.priors": "fbar.question.priors",
    "fbar.problem": "fbar.question.problem",
    "fbar.problems.ball": "fbar.problems.truths.ball",
    "fbar.problems.bernoulli_glm": "fbar.problems.models.bernoulli_glm",
    "fbar.problems.brute_force": "fbar.problems.truths.brute_force",
    "fbar.problems.conditional": "fbar.problems.models.conditional",
    "fbar.problems.continuous": ("fbar.problems.models.continuous", "fbar.problems.models.filippi"),
    "fbar.problems.counts": "fbar.problems.models.counts",
    "fbar.problems.cubature": "fbar.problems.truths.cubature",
    "fbar.problems.discrete": "fbar.problems.models.discrete",
    "fbar.problems.g_and_k": "fbar.problems.models.g_and_k",
    "fbar.problems.gaussian": "fbar.problems.models.gaussian",
    "fbar.problems.importance": "fbar.problems.truths.importance",
    "fbar.problems.lotka_volterra": "fbar.problems.models.lotka_volterra",
    "fbar.problems.ma2": "fbar.problems.models.ma2",
    "fbar.problems.mg1": "fbar.problems.models.mg1",
    "fbar.problems.modes": "fbar.problems.truths.modes",
    "fbar.problems.ode": "fbar.problems.truths.ode",
    "fbar.problems.ring": "fbar.problems.models.filippi",
    "fbar.problems.sir": "fbar.problems.models.sir",
    "fbar.problems.slcp": "fbar.problems.models.slcp",
    "fbar.problems.slcp_grid": "fbar.problems.truths.slcp_grid",
    "fbar.problems.slcp_posterior": "fbar.problems.truths.slcp_posterior",
    "fbar.problems.transport": "fbar.problems.truths.transport",
    "fbar.problems.truncated": "fbar.problems.truths.truncated",
    "fbar.problems.two_moons": "fbar.problems.models.two_moons",
    "fbar.processes": "fbar.system.processes",
    "fbar.program": "fbar.question.program",
    "fbar.progress": "fbar.running.progress",
    "fbar.proposals": "fbar.designs.proposals",
    "fbar.proposals.learnt": "fbar.designs.proposals.learned",
    "fbar.proposals.space": "fbar.question.space",
    "fbar.report": "fbar.results.report",
    "fbar.result": "fbar.results.result",
    "fbar.schema": "fbar.system.schema",
    "fbar.settings": "fbar.ledger.settings",
    "fbar.signals": "fbar.system.signals",
    "fbar.simulators": "fbar.question.simulators",
    "fbar.stopping": "fbar.methods.stopping",
    "fbar.summaries": ("fbar.methods.summaries", "fbar.running.summaries"),
    "fbar.summaries.learn": (
        "fbar.methods.summaries.learned",
        "fbar.methods.summaries.pilot",
        "fbar.running.summaries",
    ),
    "fbar.summaries.regressions": "fbar.methods.summaries.regressions",
    "fbar.targets": "fbar.question.targets",
    "fbar.targets.kinds": (
        "fbar.question.targets.expectations",
        "fbar.question.targets.covariances",
        "fbar.question.targets.densities",
    ),
    "fbar.targets.make": "fbar.question.targets",
    "fbar.terminal": "fbar.system.terminal",
    "fbar.trust": "fbar.system.trust",
    "fbar.truth": "fbar.question.truth",
}
"""Modules, and with them all modules within; several where one was split."""

TARGETS: dict[str, str] = {
    "density": "density_at",
    "interval": "probability_between",
    "model-probability": "model_probability",
    "second-moment": "second_moment",
}
"""Kinds of targets: what stands before the colon in a target's name."""

WHOLE_TARGETS: dict[str, str] = {"posterior": "probabilities"}
"""Targets whose name has no colon."""

ONCE: dict[str, str] = {now: once for once, now in TARGETS.items() if once != "second-moment"}
"""Kinds of targets as their names began at first; that of `second_moment` was written so in a target's name always."""

WHOLE_ONCE: dict[str, str] = {now: once for once, now in WHOLE_TARGETS.items()}
"""Targets without a colon as they were called at first."""
