"""Is the model wrong? How unusual the data are among what the model simulates, from the simulations that are there.

The data are compared with a run's own simulations, weighted to be a sample of what the model simulates at the posterior
(`fbar.diagnostics.predictive_weights`), by their distance to the nearest simulations and by each summary
(`fbar.diagnostics.rank_p_values`). The posterior was fitted to the data, which makes them look more usual than new data
do: under a right model p is uniform where summaries are more than the parameters can follow, and larger where they are
not, so that a false alarm is at most as frequent as the level says. Where the simulations at the posterior are too few,
the data are compared with simulations from the prior, with which they are exchangeable under the model.

It detects data that the model does not produce at any parameters that it finds likely. It does not detect a misfit
that parameters can absorb, one that the summaries do not show, nor a prior that the data contradict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.diagnostics.predictive_weights import PredictiveSample, Usable
from fbar.diagnostics.rank_p_values import RankPValues
from fbar.errors import InputError
from fbar.estimation.posterior import Posterior
from fbar.estimation.simulations import Simulations
from fbar.question.problem import Problem
from fbar.question.targets import OneModel

FALSE_ALARM = 0.01
"""The largest p-value that is warned of: how often a right model is, at most."""

LEAST = 2 / FALSE_ALARM
"""Effective simulations without which no p-value is given."""

MOST_NAMED = 3
"""Summaries that a sentence names, at most."""


@dataclass(frozen=True)
class UnreachableSummary:
    """A summary of the data that the model does not reach: the central 99% of its simulations, and the data's value.

    ``p_value`` allows for how many summaries there are.
    """

    name: str
    observed: float
    low: float
    high: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.name} is {self.observed:.4g}, simulations give {self.low:.4g} to {self.high:.4g}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "observed": self.observed,
            "low": self.low,
            "high": self.high,
            "p_value": self.p_value,
        }


RATHER_UNUSUAL = 0.05
"""A p-value below which data are not called like simulations, though nothing is wrong beyond doubt."""


@dataclass(frozen=True)
class ModelCheck:
    """Whether the data are like what the model simulates. Print it; ``p_value`` is None where that is not known.

    Attributes
    ----------
    p_value
        Of both comparisons together: the probability, under the model, of data as unusual as these. A correct model
        gives a p-value of at most 0.01 in at most 1% of cases.
    of_distance, of_summaries
        The p-values of the data's distance to their nearest simulations, and of the most unusual single summary.
    by_summary
        The p-value of each summary by name, allowing for how many there are.
    unreachable
        The summaries that the model does not reach, the most unusual first, where ``p_value`` is at most 0.01.
    compared_with
        Which simulations the data are compared with: those at the "posterior" or from the "prior".
    simulations
        How many of them, effectively.
    unknown
        Why there is no p-value.
    """

    p_value: float | None = None
    of_distance: float | None = None
    of_summaries: float | None = None
    by_summary: tuple[tuple[str, float], ...] = ()
    unreachable: tuple[UnreachableSummary, ...] = ()
    compared_with: str = ""
    simulations: float = 0.0
    unknown: str = ""

    @property
    def alarm(self) -> bool:
        """Whether the data are so unusual that the result warns of it."""
        return self.p_value is not None and self.p_value <= FALSE_ALARM

    @property
    def warning(self) -> str:
        """What is wrong, in one line; empty without an alarm."""
        if not self.alarm:
            return ""
        return (
            f"the model may be wrong: the data are unlike its simulations {self._where} ({self._p}; a correct model "
            f"causes this warning in at most {FALSE_ALARM:.0%} of cases): {self._what}"
        )

    def __str__(self) -> str:
        if self.p_value is None:
            return f"The model was not checked against the data: {self.unknown}."
        if self.alarm:
            return f"The data are unlike what the model simulates {self._where} ({self._p}): {self._what}."
        if self.p_value < RATHER_UNUSUAL:
            return f"The data are rather unusual among what the model simulates {self._where} ({self._p})."
        if self.compared_with == "prior":
            return (
                f"The data are within what the model simulates anywhere under its prior ({self._p}). That is a weak "
                "check: too few simulations are at the posterior for a stronger one."
            )
        return f"The data are like what the model simulates {self._where} ({self._p})."

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        if self.p_value is None:
            return {"p_value": None, "unknown": self.unknown}
        return {
            "p_value": self.p_value,
            "of_distance": self.of_distance,
            "of_summaries": self.of_summaries,
            "by_summary": dict(self.by_summary),
            "unreachable": [summary.as_dict() for summary in self.unreachable],
            "compared_with": self.compared_with,
            "simulations": self.simulations,
            "false_alarm": FALSE_ALARM,
        }

    @property
    def _where(self) -> str:
        return "at the posterior" if self.compared_with == "posterior" else "from the prior"

    @property
    def _p(self) -> str:
        return f"p = {self.p_value:.2g}"

    @property
    def _what(self) -> str:
        if not self.unreachable:
            return "no summary is out of reach by itself, but their combination is"
        named = "; ".join(str(summary) for summary in self.unreachable[:MOST_NAMED])
        more = len(self.unreachable) - MOST_NAMED
        return named if more <= 0 else f"{named}; and {more} more"


def check_model(
    problem: Problem, posterior: Posterior, simulations: Callable[[], Simulations], model: OneModel | None = None
) -> ModelCheck:
    """Compare the data with a run's simulations, or those of one ``model``; no simulation is run."""
    if problem.observed is None or not problem.compares_numbers:
        return ModelCheck(unknown="its simulations are not compared with the data by numbers")
    try:
        usable = Usable.of(simulations())
        usable = usable if model is None else usable.of_model(model)
    except InputError as error:
        return ModelCheck(unknown=str(error))
    observed = np.ravel(np.asarray(problem.observed, dtype=np.float64))
    compared_with, sample = "posterior", _at_posterior(problem, posterior, usable)
    if sample.effective_simulations < LEAST:
        compared_with, sample = "prior", usable.prior_predictive()
    if sample.effective_simulations < LEAST:
        effective = f"{sample.effective_simulations:.0f}"
        return ModelCheck(unknown=f"{effective} effective simulations are too few, at least {LEAST:.0f} are needed")
    return _checked(RankPValues.of(observed, sample.summaries, sample.weights), problem.summary_labels, compared_with)


def _at_posterior(problem: Problem, posterior: Posterior, usable: Usable) -> PredictiveSample:
    try:
        return usable.posterior_predictive(problem.prior, posterior)
    except InputError:  # a prior whose coordinates are not known
        return PredictiveSample(usable.summaries[:0], np.zeros(0))


def _checked(found: RankPValues, names: Sequence[str], compared_with: str) -> ModelCheck:
    by_summary = found.of_summaries
    unreachable: list[UnreachableSummary] = []
    if found.p_value <= FALSE_ALARM:
        low, high = found.ranges()
        order = np.argsort(-np.abs(found.deviations[-1]), kind="stable")
        unreachable = [
            UnreachableSummary(
                names[j], float(found.values[-1, j]), float(low[j]), float(high[j]), float(by_summary[j])
            )
            for j in order.tolist()
            if by_summary[j] <= FALSE_ALARM
        ]
    return ModelCheck(
        found.p_value,
        found.of_distance,
        found.of_largest_deviation,
        tuple(zip(names, by_summary.tolist(), strict=True)),
        tuple(unreachable),
        compared_with,
        found.effective_simulations,
    )
