"""The settings of targeted runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fbar.checks import choice, non_negative_number, positive_integer, shown, store_number
from fbar.errors import InputError
from fbar.methods.aiming.aim import Aim, check_importance
from fbar.methods.finite.adaptive import AdaptiveAllocation
from fbar.methods.method import Method
from fbar.methods.registry import register
from fbar.methods.run import Run
from fbar.methods.start import Start
from fbar.methods.targeted.at_data import TargetedAtDataRun
from fbar.methods.targeted.run import TargetedRun
from fbar.question.acceptance import Acceptance
from fbar.question.problem import Problem

CHOSEN = "chosen"
"""A tolerance that is chosen from the budget."""

MOST_GROUPS = 1_000
"""Groups whose proposals learn from one another."""


@register("targeted", "draws where they most reduce the error of the targets, learned in rounds")
@dataclass(frozen=True)
class Targeted(Method):
    """Learn where simulations reduce the error of the targets most, and simulate there.

    On a finite space it is `AdaptiveAllocation`.

    Parameters
    ----------
    tolerance
        None: the answer is about the posterior, by regression at the data, see `fbar.estimation.at_data`; on a finite
        space, exact matching. A number: ABC's posterior at that tolerance. ``"chosen"``: ABC's posterior at a tolerance
        that is chosen from the budget (or the limit), such that the apparent bias is at most about the error bar.
    kernel
        The acceptance kernel, see `Acceptance`.
    goal
        With several targets: ``"weighted"`` reduces the sum of their squared errors, each relative to its posterior
        variance and times its ``importance``; ``"worst"`` the largest of them.
    importance
        Weights of the targets' relative squared errors, by name; 1 for those left out.
    per
        Minimise the error per ``"simulation"``, or per ``"second"`` of simulator time, where the costs of single
        simulations are known (see ``cost`` of `Problem`). Measured times differ from run to run, and with them the
        places where it simulates: the same seed then gives the same result only if costs are returned or given.
    groups
        Number of cross-fitting groups: the proposals of one are learned from the others.
    defence
        The share of simulations that still come from the prior, in case the proposals have missed something: 0.1 in one
        and two dimensions, 0.2 in three and four and 0.3 above by default.
    """

    tolerance: float | str | None = None
    kernel: str = "uniform"
    goal: str = "weighted"
    importance: Mapping[str, float] | None = None
    per: str = "simulation"
    groups: int = 4
    defence: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tolerance, str):
            choice(self.tolerance, (CHOSEN,), "tolerance")
        elif self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
        Acceptance(1.0 if self.named_tolerance is None else self.named_tolerance, self.kernel)
        choice(self.goal, ("weighted", "worst"), "goal")
        choice(self.per, ("simulation", "second"), "per")
        if positive_integer(self.groups, "groups") < 2:
            raise InputError("proposals learn from other groups, so there must be at least 2; got groups=1")
        if self.groups > MOST_GROUPS:
            raise InputError(f"there can be at most {MOST_GROUPS:,} groups; got {shown(self.groups)}")
        if self.defence is not None and not 0 < non_negative_number(self.defence, "defence") < 1:
            raise InputError(f"defence must lie between 0 and 1; got {shown(self.defence)}")
        check_importance(self.importance)

    @property
    def named_tolerance(self) -> float | None:
        """The tolerance as a number, where it is one."""
        return None if isinstance(self.tolerance, str) else self.tolerance

    @property
    def final_tolerance(self) -> float | None:
        return self.named_tolerance

    @property
    def chooses_tolerance(self) -> bool:
        return self.named_tolerance is None

    def answers_at_data(self, problem: Problem) -> bool:
        return self.tolerance is None and not problem.is_finite and problem.compares_numbers

    def begin(self, start: Start) -> Run:
        aim = Aim.of(start.targets, self.goal, self.importance)
        if start.problem.is_finite:
            if self.goal != "weighted" or self.importance:
                raise InputError("on a finite space all targets count equally; leave out goal= and importance=")
            finite = AdaptiveAllocation(tolerance=self.named_tolerance or 0.0, kernel=self.kernel, per=self.per)
            return finite.begin(start)
        if start.trials is not None:
            raise InputError("trials= needs a finite parameter space; run one trial at a time")
        if self.per == "second":
            start.problem.require_costs()
        return (TargetedAtDataRun if start.at_data else TargetedRun)(self, start, aim)
