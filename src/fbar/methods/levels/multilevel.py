"""Multilevel ABC (Warne, Baker & Simpson 2018): its settings.

The mathematics, with what the coupling of the levels does to estimates and their errors, is in
`fbar.estimation.telescope`; the ladder of tolerances and the numbers of simulations are in `fbar.methods.levels.plans`.

Warne, Baker & Simpson, Multilevel rejection sampling for approximate Bayesian computation, Comput. Statist. Data Anal.
124 (2018) 71.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from fbar.checks import choice, non_negative_number, number, positive_integer, shown, store_number
from fbar.errors import InputError
from fbar.estimation.telescope import ERROR_BARS
from fbar.methods.levels.plans import falling
from fbar.methods.levels.run import WEIGHTS, MultilevelRun
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.start import Start

if TYPE_CHECKING:
    from fbar.question.problem import Problem


@register(
    "multilevel",
    "a telescoping sum over falling tolerances, each level coupled to the one above it",
    needs="data that are numbers",
)
@dataclass(frozen=True)
class Multilevel(Method):
    """Multilevel ABC: E_L = E₀ + Σ (E_l − E_{l−1}) over falling tolerances, as published.

    A pilot finds the tolerances, the variance and the cost of each level; simulations are then shared out so that the
    published variance is smallest for the budget. Each level draws from the prior within the box that holds the
    accepted draws of the level above. The coupling of the levels is biased for targets of several parameters, and gains
    nothing for those of one parameter: see ``docs/methods/multilevel.md``.

    Parameters
    ----------
    tolerance
        The tolerance of the last level. Without it, the pilot goes as low as a third of the budget allows.
    tolerances
        In place of it: the tolerances of all levels, falling.
    ratio
        Each tolerance over the next one, where they are not given. The first is such that about half of the simulations
        from the prior are accepted.
    trials
        Accepted simulations of each level in the pilot; fewer with budgets below 20,000. They are not used again.
    weights
        ``"telescope"``: the published sum, whose weights are signed. ``"mixture"``: all simulations within the last
        tolerance, those of the pilot included, weighted by the prior over the mixture of the boxes they were drawn
        from; the same draws, and no bias.
    error_bars
        Of the telescoping sum: ``"jackknife"`` includes the error of the coupling, ``"published"`` is Σ v_l/N_l, which
        does not.
    least_rate
        A level of the pilot whose acceptance rate is significantly lower than this ends the ladder above it.
    """

    tolerance: float | None = None
    tolerances: Sequence[float] | None = None
    ratio: float = 2.0
    trials: int = 100
    weights: str = "telescope"
    error_bars: str = "jackknife"
    least_rate: float = 1e-4

    def __post_init__(self) -> None:
        if self.tolerance is not None and self.tolerances is not None:
            raise InputError("give tolerance=, that of the last level, or tolerances= of all levels, not both")
        if self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
            if self.tolerance == 0:
                raise InputError(
                    "no geometric ladder of tolerances ends at 0; give all of them, such as tolerances=[4, 2, 1, 0]"
                )
        if self.tolerances is not None:
            object.__setattr__(self, "tolerances", falling(self.tolerances))
        if not number(self.ratio, "ratio") > 1:
            raise InputError(f"ratio, of each tolerance to the next one, must be above 1; got {shown(self.ratio)}")
        store_number(self, "ratio", float(self.ratio))
        if positive_integer(self.trials, "trials") < 10:
            raise InputError(f"trials must be at least 10 accepted simulations of each level; got {self.trials}")
        choice(self.weights, WEIGHTS, "weights")
        choice(self.error_bars, ERROR_BARS, "error_bars")
        store_number(self, "least_rate", non_negative_number(self.least_rate, "least_rate"))

    @property
    def final_tolerance(self) -> float | None:
        return self.tolerance if self.tolerances is None else float(self.tolerances[-1])

    @property
    def chooses_tolerance(self) -> bool:
        return self.final_tolerance is None

    @property
    def may_stop_short(self) -> bool:
        return True

    def answers_at_data(self, problem: Problem) -> bool:
        return False

    def at_tolerance(self, tolerance: float) -> Self:
        if self.tolerances is None:
            return replace(self, tolerance=tolerance)
        above = [each for each in self.tolerances if each > tolerance]
        return replace(self, tolerances=(*above, tolerance))

    def begin(self, start: Start) -> MultilevelRun:
        return MultilevelRun(self, start)
