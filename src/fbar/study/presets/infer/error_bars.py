"""The claims on error bars: how often intervals hold, and whether runs warn where they do not."""

from __future__ import annotations

from collections.abc import Sequence

from fbar.study.coverage import Covered, clopper_pearson
from fbar.study.presets.base import Claim
from fbar.study.presets.infer.studies import METHOD

BAND = (0.92, 0.975)
"""Where the coverage of nominal 95% intervals is good enough."""
LOW_COVERAGE, MOST_WARN = 0.85, 0.9
"""In a cell with a lower coverage over all runs, at least this share of runs must warn."""
GOOD_COVERAGE, FEW_WARN = 0.92, 0.05
"""In a cell with at least this coverage over all runs, at most this share of runs may warn."""


def missed(cell: Covered) -> bool:
    """Whether the coverage of a cell's unflagged runs lies significantly outside the band."""
    return cell.high < BAND[0] or cell.low > BAND[1]


def warned_too_little(cell: Covered) -> bool:
    return cell.coverage < LOW_COVERAGE and cell.flagged < MOST_WARN


def warned_too_much(cell: Covered) -> bool:
    return cell.coverage >= GOOD_COVERAGE and cell.flagged > FEW_WARN


def coverage_claims(name: str, cells: Sequence[Covered]) -> list[Claim]:
    """The claims on the error bars of one study's cells, of our method's."""
    mine = [cell for cell in cells if cell.method == METHOD]
    if not mine:
        return []
    runs, held = sum(cell.unflagged for cell in mine), sum(cell.held_unflagged for cell in mine)
    judged = [cell for cell in mine if cell.unflagged]
    out = [cell for cell in judged if missed(cell)]
    text = f"{name}: 95% intervals of unflagged runs hold in {BAND[0]:.0%} to {BAND[1]:.1%}"
    bad, good = [c for c in mine if c.coverage < LOW_COVERAGE], [c for c in mine if c.coverage >= GOOD_COVERAGE]
    silent, noisy = [c for c in bad if warned_too_little(c)], [c for c in good if warned_too_much(c)]
    failed = sum(cell.failed for cell in mine)
    claims = [
        Claim(
            text,
            "each cell",
            f"{len(judged) - len(out)} of {len(judged)} cells{_worst(out, 'coverage_unflagged')}",
            not out,
        ),
        Claim(text, "pooled", _pooled(held, runs), runs > 0 and BAND[0] <= held / runs <= BAND[1]),
        Claim(
            f"{name}: where under {LOW_COVERAGE:.0%} of all runs hold, at least {MOST_WARN:.0%} of runs warn",
            "each cell",
            f"{len(bad) - len(silent)} of {len(bad)} such cells{_worst(silent, 'flagged')}",
            not silent,
        ),
        Claim(
            f"{name}: where at least {GOOD_COVERAGE:.0%} of all runs hold, at most {FEW_WARN:.0%} of runs warn",
            "each cell",
            f"{len(good) - len(noisy)} of {len(good)} such cells{_worst(noisy, 'flagged')}",
            not noisy,
        ),
    ]
    if failed:
        claims.append(Claim(f"{name}: no run fails", "each cell", f"{failed} estimates are of runs that failed", False))
    return claims


def _pooled(held: int, runs: int) -> str:
    if not runs:
        return "no run without a warning"
    low, high = clopper_pearson(held, runs, 0.95)
    return f"{held / runs:.3f} ({low:.3f} to {high:.3f}, were all runs and targets independent) of {runs:,} intervals"


def _worst(cells: Sequence[Covered], what: str) -> str:
    if not cells:
        return ""
    told = [f"{cell.problem} {cell.target} {getattr(cell, what):.2f}" for cell in cells]
    return "; not: " + ", ".join(told)


def verdict(cell: Covered) -> str:
    """What is wrong with a cell; "ok" if nothing."""
    wrong = [
        text
        for text, found in (
            ("coverage", missed(cell)),
            ("silent", warned_too_little(cell)),
            ("noisy", warned_too_much(cell)),
            ("failed", cell.failed > 0),
        )
        if found
    ]
    return " ".join(wrong) or "ok"
