"""A result as JSON values, as commands print it and records keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fbar.estimation.counted import ACCEPTED
from fbar.estimation.estimate import whole
from fbar.methods import Run
from fbar.results.summary_table import summary_or_none
from fbar.system.json_values import as_json, json_seed

if TYPE_CHECKING:
    from fbar.results.result import Result


def described(result: Result) -> dict[str, Any]:
    """The estimates and how the run went."""
    bias, summary = result.bias, summary_or_none(result)
    counted_as = result.posterior.counted_as.words
    return {
        **({} if result.own else {"what": result.what, "how": result.how[1:]}),
        "about": result.about,
        **({"at_data": True} if result.is_at_data else {}),
        **({} if result.tolerance is None else {"tolerance": as_json(result.tolerance)}),
        **({} if summary is None else {"summary": summary.as_dict()}),
        "estimates": {estimate.name: estimate.as_dict() for estimate in result.estimates},
        **({} if bias is None else {"bias": {item.name: item.as_dict(brief=True) for item in bias}}),
        "simulations": as_json(result.simulations),
        "accepted": whole(as_json(result.accepted)),
        **({} if counted_as == ACCEPTED.words else {"counted_as": counted_as}),
        **({"unused": result.unused} if result.unused else {}),
        **spent(result.run),
        "failures": {kind.name.lower(): count for kind, count in result.run.seen.counts.items()},
        "warnings": list(result.warnings),
        **({"remarks": list(result.all_remarks)} if result.all_remarks else {}),
        "model_check": result.model_check.as_dict(),
        "stopped_by": result.stopped_by,
        "missing": {name: forecast.as_dict() for name, forecast in result.missing.items()},
        "rounds": result.run.round,
        "seed": json_seed(result.seed),
    }


def spent(run: Run) -> dict[str, Any]:
    """What a run's simulations cost; None where it is not known."""
    return {"cost": run.spent_cost, "cost_unit": "s" if run.problem.measures_cost else None}
