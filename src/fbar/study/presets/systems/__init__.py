"""The algorithms that the paper names, scored by the error of E[f] against the true posterior.

The command line imports `SYSTEMS`; `table` has a row for each cell, which pages and figures are made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fbar.study.presets.base import Claim, Comparisons
from fbar.study.presets.paper_claims import misleads
from fbar.study.presets.systems.cells import table
from fbar.study.presets.systems.studies import STUDIES
from fbar.study.results import StudyResult
from fbar.study.tables import write_csv

__all__ = ["SYSTEMS", "table"]


def _claims(results: Mapping[str, StudyResult]) -> list[Claim]:
    """The paper's point: a ranking by ESS or by acceptance rate is not one by error."""
    return [
        claim
        for result in results.values()
        for score in ("acceptance-rate", "ess")
        for claim in misleads(result, score)
    ]


def _write(results: Mapping[str, StudyResult], out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "systems.csv", table(results))
    return [out / "systems.csv"]


SYSTEMS = Comparisons(
    name="systems",
    title="the algorithms that the paper names: error against the true posterior, simulations and seconds",
    trials=20,
    note="methods without a tolerance answer about the posterior, the others about ABC's at theirs; all are scored "
    "against the true posterior",
    ranks=True,
    studies=STUDIES,
    claims=_claims,
    write=_write,
)
