"""The settings that all methods of draws with a worth share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from fbar.checks import choice, non_negative_number, positive_integer, shown
from fbar.errors import InputError
from fbar.methods.aiming.aim import check_importance
from fbar.methods.method import Method
from fbar.methods.start import Start
from fbar.methods.worth.pieces import Settings
from fbar.methods.worth.run import WorthRun
from fbar.methods.worth.valuation import Valuation


@dataclass(frozen=True, kw_only=True)
class WorthMethod(Method):
    """Draws of θ where they most reduce the error of the targets, each worth a number a with E[a|θ] ∝ p(x*|θ).

    Parameters
    ----------
    goal, importance, per, groups, defence
        As in `fbar.Targeted`: what several targets weigh, whether simulations or seconds are scarce, in how many groups
        proposals are learned from one another, and the share of draws that go on coming from the prior.
    """

    goal: str = "weighted"
    importance: Mapping[str, float] | None = None
    per: str = "simulation"
    groups: int = 4
    defence: float | None = None

    def __post_init__(self) -> None:
        choice(self.goal, ("weighted", "worst"), "goal")
        choice(self.per, ("simulation", "second"), "per")
        if positive_integer(self.groups, "groups") < 2:
            raise InputError("proposals learn from other groups, so there must be at least 2; got groups=1")
        if self.defence is not None and not 0 < non_negative_number(self.defence, "defence") < 1:
            raise InputError(f"defence must lie between 0 and 1; got {shown(self.defence)}")
        check_importance(self.importance)

    @property
    def final_tolerance(self) -> float | None:
        return None

    @abstractmethod
    def valuation(self, start: Start) -> Valuation:
        """What values a run's draws."""

    def begin(self, start: Start) -> WorthRun:
        name = type(self).__name__
        if start.trials is not None:
            raise InputError("trials= needs a finite parameter space; run one trial at a time")
        if not start.problem.has_summaries:
            raise InputError(f"{name} needs simulated data, but this problem only tells whether a simulation matches")
        if self.per == "second":
            start.problem.require_costs()
        settings = Settings(self.goal, self.importance, self.per, self.groups, self.defence)
        return WorthRun(start, self.valuation(start), settings)
