"""What inference claims: targeted simulations compared with the oracle, rejection and ABC-SMC, and valid error bars.

Every estimate is compared with the truth of ABC *at* the tolerance, which error bars are about.
"""

from __future__ import annotations

from collections.abc import Mapping

from fbar.study.coverage import Covered, coverage_cells
from fbar.study.presets.base import Claim, Comparisons
from fbar.study.presets.infer.error_bars import coverage_claims
from fbar.study.presets.infer.ratios import against_others, at_most
from fbar.study.presets.infer.stopped import stopping_claims
from fbar.study.presets.infer.studies import events, large, oracle, ring, small, stopping
from fbar.study.presets.infer.written import write
from fbar.study.results import StudyResult

__all__ = ["INFER"]


def _claims(results: Mapping[str, StudyResult]) -> list[Claim]:
    found: list[Claim] = []
    if "oracle" in results:
        text = "within 1.6 times the error of the best design, which knows the acceptance probability (aim: 1.25)"
        found += at_most(results["oracle"], "optimal", 1.6, text)
    if "ring" in results:
        found += at_most(results["ring"], "smc-last", 1 / 3, "a third of the error of ABC-SMC's last round, at most")
    for name in ("events", "catalogue-small", "catalogue-large"):
        if name in results:
            found += against_others(name, results[name])
    if "stopping" in results:
        found += stopping_claims(results["stopping"])
    everything: list[Covered] = []
    for name, result in results.items():
        cells = coverage_cells(name, result)
        everything += cells
        found += coverage_claims(name, cells)
    if len(results) > 1:
        found += [claim for claim in coverage_claims("all studies", everything) if claim.problem == "pooled"]
    return found


INFER = Comparisons(
    name="infer",
    title="targeted simulations compared with the best design, rejection and ABC-SMC, and how often error bars hold",
    trials=200,
    note="ratios by their 95% intervals, or by Holm's method over a study's problems at 5%; a cell's coverage is wrong "
    "where its 99.9% interval misses the band",
    ranks=True,
    studies={
        "oracle": oracle,
        "ring": ring,
        "events": events,
        "catalogue-small": small,
        "catalogue-large": large,
        "stopping": stopping,
    },
    claims=_claims,
    write=write,
)
