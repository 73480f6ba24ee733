"""What inference claims: targeted simulations beside the oracle, rejection and ABC-SMC, and error bars that hold.

Every estimate is compared with the truth of ABC *at* the tolerance, which error bars speak of. At share p of the prior
and N simulations rejection accepts N p: 10⁴ at 10⁻² and 10⁵ at 10⁻³, a hundred acceptances each, few enough that where
to simulate matters and enough that error bars can be right.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fbar.errors import FbarError
from fbar.methods import Run
from fbar.methods.smc import SMC
from fbar.methods.stopping import StoppingRule
from fbar.problems import Benchmark, load
from fbar.problems.catalogue import recipes
from fbar.question.problem import Problem
from fbar.scores import Scene
from fbar.study.contenders import Contender, as_contender
from fbar.study.coverage import Covered, clopper_pearson, coverage_cells
from fbar.study.paired import Comparison, compare, holm, two_sided
from fbar.study.presets.base import Claim, Preset, loaded
from fbar.study.ranking import ERROR
from fbar.study.results import StudyResult
from fbar.study.study import Study
from fbar.study.tables import write_csv
from fbar.system.csv_cells import cell as csv_cell
from fbar.system.files import write_text, written_beside

METHOD = "targeted"
BAND = (0.92, 0.975)
"""Where the coverage of nominal 95% intervals is good enough."""
BAD, MOSTLY = 0.85, 0.9
"""In a cell with a lower coverage over all runs, at least this share of runs must warn."""
GOOD, SELDOM = 0.92, 0.05
"""In a cell with at least this coverage over all runs, at most this share of runs may warn."""
SCORES = ("mse", "coverage")

ORACLE = {"two-sided-exponential": "mean:theta", "nested-models": "model_probability:1"}
EVENTS = {
    "two-sided-exponential": ("mean:theta", "second_moment:theta"),
    "ramp": ("mean:theta", "probability:theta < 0.5"),
    "nested-models": ("model_probability:1", "mean:theta1"),
}
PRECISIONS = {
    "two-sided-exponential": ("mean:theta", 0.042),
    "nested-models": ("model_probability:1", 0.0032),
    "gaussian-mixture": ("mean:theta1", 0.019),
    "filippi": ("mean:theta2", 0.034),
}
"""Standard errors that the oracle's design reaches with 8,000 simulations."""
FORECAST_AT = 4000
ASKED = {
    "slcp": ("theta1", "theta3"),
    "slcp-distractors": ("theta1", "theta3"),
    "g-and-k": ("B", "k"),
    "poisson-or-geometric": ("rate",),
}
"""Parameters whose moments are asked for where these are not the first two: theta3 has two signs, B and k are hard."""


# ---------------------------------------------------------------- the studies


def _smc_last() -> Contender:
    """The last round alone, as is usual: of a thousand particles at most, since it is their number that costs time."""
    return Contender(
        "smc-last",
        method_for=lambda budget: SMC(accepted=max(20, min(1000, budget // 20)), weights="last", centres=1000),
    )


def _oracle(trials: int, seed: int) -> Study:
    # Three times as many: a ratio of mean squares from n trials is known to about 2/√n.
    return Study(list(ORACLE), [METHOD, "optimal"], 2**15, 3 * trials, SCORES, seed, targets=ORACLE, truth="tolerance")


def _ring(trials: int, seed: int) -> Study:
    return Study(
        loaded(["filippi"]),
        [METHOD, _smc_last()],
        34_000,
        trials,
        SCORES,
        seed,
        targets=["mean:theta1", "mean:theta2"],
        tolerance={"filippi": 1.0},
        truth="tolerance",
    )


def _events(trials: int, seed: int) -> Study:
    return Study(list(EVENTS), [METHOD, "rejection"], 10_000, trials, SCORES, seed, targets=EVENTS, truth="tolerance")


def _catalogue(budget: int, level: float, trials: int, seed: int) -> Study:
    """Every problem with data and a truth at the tolerance, as it is stored; the events have a study of their own."""
    problems = {name: load(name) for name in recipes()}
    problems = {name: problem for name, problem in problems.items() if _has_truth(problem, level)}
    targets = {}
    for name, problem in problems.items():
        chosen = ASKED.get(name, problem.prior.names[:2])
        targets[name] = [f"{kind}:{parameter}" for parameter in chosen for kind in ("mean", "second_moment")]
        if name == "poisson-or-geometric":
            targets[name].insert(0, "model_probability:poisson")
    methods = [METHOD, "rejection", _smc_last()]
    return Study(problems, methods, budget, trials, SCORES, seed, targets=targets, tolerance=level, truth="tolerance")


def _has_truth(problem: Problem, level: float) -> bool:
    return isinstance(problem, Benchmark) and problem.truth_at(problem.tolerances[level]) is not None


def _small(trials: int, seed: int) -> Study:
    return _catalogue(10_000, 1e-2, trials, seed)


def _large(trials: int, seed: int) -> Study:
    return _catalogue(100_000, 1e-3, trials, seed)


def _stopping(trials: int, seed: int) -> Study:
    """Runs that end when the error bar is small enough; far over twice what they need at the latest."""
    wanted = dict(PRECISIONS.values())
    methods = [replace(as_contender(METHOD), precision=wanted, watch=forecast_once)]
    targets = {name: target for name, (target, _) in PRECISIONS.items()}
    return Study(loaded(PRECISIONS), methods, 100_000, trials, SCORES, seed, targets=targets, truth="tolerance")


def forecast_once(run: Run, rule: StoppingRule, told: dict[str, float]) -> None:
    """The first forecast after half of what the oracle needs: of all simulations, with its 80% interval."""
    if "forecast" in told or run.simulations < FORECAST_AT or run.learning:
        return
    found = rule.forecast(run)
    if found is not None:
        told |= {
            "forecast": float(found.at + found.more),
            "forecast_low": float(found.at + found.low),
            "forecast_high": float(found.at + found.high),
        }


# ---------------------------------------------------------------- claims on the error


@dataclass(frozen=True)
class Against:
    """The ratio of b² of two methods on one problem, over the trials that both finished.

    ``truth`` is the largest part of either b² that the truth's own squared error makes up. That error t is one for all
    trials: what is left of it after its expectation was taken off, t² (χ² − 1), shifts both means, and adds
    √2 |t²/b²₁ − t²/b²₂| to the error of the log ratio.
    """

    problem: str
    comparison: Comparison
    truth: float
    more_failures: bool


def against(result: StudyResult, first: str, second: str) -> list[Against]:
    """b² of ``first`` over that of ``second``, on each problem."""
    found = []
    for problem in result.arenas:
        for budget in dict.fromkeys(cell.budget for cell in result.cells if cell.problem == problem):
            a, b = (result.values(ERROR, problem, name, budget) for name in (first, second))
            failed = [result.statuses(problem, name, budget).count("failed") for name in (first, second)]
            plain = compare(a, b)
            own = _truth_part(result, problem)
            shares = [own / float(np.nanmean(x)) if np.isfinite(x).any() else math.nan for x in (a, b)]
            error = math.hypot(plain.log_error, math.sqrt(2) * abs(shares[0] - shares[1]))
            p = plain.p
            if own > 0 and plain.ratio > 0:
                p = max(p, two_sided(math.log(plain.ratio), error, plain.trials))
            comparison = replace(plain, log_error=error, p=p)
            found.append(Against(problem, comparison, max(shares), failed[0] > failed[1]))
    return found


def _truth_part(result: StudyResult, problem: str) -> float:
    """The truth's squared error in units of b², averaged over the targets as b² is."""
    arena = result.arenas[problem]
    scene = Scene(arena.scored, arena.targets)
    parts = [
        (float(scene.problem.truth_error(target)[0]) / result.deviation(problem, target.name)) ** 2
        for target in arena.targets
    ]
    return float(np.mean(parts))


def _ratio(item: Against) -> str:
    low, high = item.comparison.interval()
    return f"{item.comparison.ratio:.2f} ({low:.2f} to {high:.2f})"


def _rough(item: Against) -> str:
    return f" (the truth's own squared error is {item.truth:.0%} of the smaller)" if item.truth > 0.01 else ""


def _at_most(result: StudyResult, other: str, bound: float, text: str) -> list[Claim]:
    claims = []
    for item in against(result, METHOD, other):
        found = f"b² is {_ratio(item)} times that of {other}{_rough(item)}"
        holds = item.comparison.interval()[1] <= bound and not item.more_failures
        claims.append(Claim(text, item.problem, found, holds))
    return claims


def _beside(name: str, result: StudyResult) -> list[Claim]:
    """Never worse than rejection beyond doubt; better than the last round of ABC-SMC on two problems of three."""
    claims = []
    methods = result.contenders()
    if "rejection" in methods:
        items = against(result, METHOD, "rejection")
        real = holm([item.comparison.p for item in items], 0.05)
        for item, called in zip(items, real, strict=True):
            worse = (called and item.comparison.ratio > 1) or math.isnan(item.comparison.ratio)
            found = f"b² is {_ratio(item)} times that of rejection{_rough(item)}"
            text = f"{name}: not worse than rejection beyond doubt"
            claims.append(Claim(text, item.problem, found, not worse and not item.more_failures))
    if "smc-last" in methods:
        items = against(result, METHOD, "smc-last")
        real = holm([item.comparison.p for item in items], 0.05)
        won = [
            i.problem
            for i, sure in zip(items, real, strict=True)
            if sure and i.comparison.ratio < 1 and not i.more_failures
        ]
        lower = sum(item.comparison.ratio < 1 for item in items)
        not_won = "; open or worse: " + ", ".join(
            f"{item.problem} {item.comparison.ratio:.2f}" for item in items if item.problem not in won
        )
        found = (
            f"better beyond doubt on {len(won)} of {len(items)}, smaller b² on {lower}"
            f"{not_won if len(won) < len(items) else ''}"
        )
        text = f"{name}: better than the last round of ABC-SMC on two problems of three"
        claims.append(Claim(text, "all", found, 3 * len(won) >= 2 * len(items)))
    return claims


# ---------------------------------------------------------------- claims on error bars


def missed(cell: Covered) -> bool:
    """Whether the coverage of a cell's unflagged runs lies outside the band beyond doubt."""
    return cell.high < BAND[0] or cell.low > BAND[1]


def warned_too_little(cell: Covered) -> bool:
    return cell.coverage < BAD and cell.flagged < MOSTLY


def warned_too_much(cell: Covered) -> bool:
    return cell.coverage >= GOOD and cell.flagged > SELDOM


def coverage_claims(name: str, cells: Sequence[Covered]) -> list[Claim]:
    """The claims on the error bars of one study's cells, of our method's."""
    mine = [cell for cell in cells if cell.method == METHOD]
    if not mine:
        return []
    runs, held = sum(cell.unflagged for cell in mine), sum(cell.held_unflagged for cell in mine)
    judged = [cell for cell in mine if cell.unflagged]
    out = [cell for cell in judged if missed(cell)]
    text = f"{name}: 95% intervals of unflagged runs hold in {BAND[0]:.0%} to {BAND[1]:.1%}"
    bad, good = [c for c in mine if c.coverage < BAD], [c for c in mine if c.coverage >= GOOD]
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
            f"{name}: where under {BAD:.0%} of all runs hold, at least {MOSTLY:.0%} of runs warn",
            "each cell",
            f"{len(bad) - len(silent)} of {len(bad)} such cells{_worst(silent, 'flagged')}",
            not silent,
        ),
        Claim(
            f"{name}: where at least {GOOD:.0%} of all runs hold, at most {SELDOM:.0%} of runs warn",
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


def _stopped(result: StudyResult) -> list[Claim]:
    claims = []
    for cell in result.cells:
        records = [r for _, r in result.records(*cell.key) if r.status == "ok"]
        stopped = [r for r in records if r.told.get("stopped") == 1.0]
        spent = np.array([r.simulations for r in stopped]) if stopped else np.array([math.nan])
        low, middle, high = np.quantile(spent, [0.05, 0.5, 0.95])
        found = f"{len(stopped)} of {len(records)} after {middle:,.0f} simulations (mostly {low:,.0f} to {high:,.0f})"
        forecast = [r for r in stopped if "forecast" in r.told]
        if forecast:
            ends = np.quantile([r.simulations / r.told["forecast"] for r in forecast], [0.05, 0.5, 0.95])
            inside = sum(r.told["forecast_low"] <= r.simulations <= r.told["forecast_high"] for r in forecast)
            found += (
                f"; {ends[1]:.2f} ({ends[0]:.2f} to {ends[2]:.2f}) times the forecast after {FORECAST_AT:,}, inside "
                f"its 80% interval in {inside} of {len(forecast)}"
            )
        text = "stopping: a run towards a precision ends before its limit, nearly always"
        claims.append(Claim(text, cell.problem, found, bool(records) and len(stopped) >= 0.95 * len(records)))
    return claims


def _claims(results: Mapping[str, StudyResult]) -> list[Claim]:
    found: list[Claim] = []
    if "oracle" in results:
        text = "within 1.6 times the error of the best design, which knows the acceptance probability (aim: 1.25)"
        found += _at_most(results["oracle"], "optimal", 1.6, text)
    if "ring" in results:
        found += _at_most(results["ring"], "smc-last", 1 / 3, "a third of the error of ABC-SMC's last round, at most")
    for name in ("events", "catalogue-small", "catalogue-large"):
        if name in results:
            found += _beside(name, results[name])
    if "stopping" in results:
        found += _stopped(results["stopping"])
    everything: list[Covered] = []
    for name, result in results.items():
        cells = coverage_cells(name, result)
        everything += cells
        found += coverage_claims(name, cells)
    if len(results) > 1:
        found += [claim for claim in coverage_claims("all studies", everything) if claim.problem == "pooled"]
    return found


# ---------------------------------------------------------------- what is kept


def _write(results: Mapping[str, StudyResult], out: Path) -> list[Path]:
    """``cells.csv``, a row a cell, ``cells.md``, the same to read, and ``trials.csv.gz``, a row for each estimate."""
    cells = [cell for name, result in results.items() for cell in coverage_cells(name, result)]
    paths = [out / "cells.csv", out / "cells.md", out / "trials.csv.gz"]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_csv(paths[0], [{**cell.as_row(), "verdict": verdict(cell)} for cell in cells])
        write_text(paths[1], markdown(cells))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(TRIAL_COLUMNS)
        for name, result in results.items():
            writer.writerows(map(csv_cell, row) for row in _trial_rows(name, result))
        with (
            written_beside(paths[2]) as new,
            open(new, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        ):
            packed.write(text.getvalue().encode())
    except OSError as error:
        raise FbarError(f"cannot write to {out}: {error.strerror or error}") from None
    return paths


TRIAL_COLUMNS = (
    "study", "problem", "method", "budget", "trial", "target", "status", "simulations", "estimate", "standard_error",
    "df", "trusted",
)  # fmt: skip


def _trial_rows(name: str, result: StudyResult) -> Iterable[list[Any]]:
    for (cell, trial), record in result.trials.items():
        head = [name, cell.problem, cell.method, cell.budget, trial]
        for target, (value, error, df, trusted) in record.estimates.items():
            numbers = [f"{value:.7g}", f"{error:.4g}", f"{df:.4g}"]
            yield [*head, target, record.status, record.simulations, *numbers, int(trusted)]
        if not record.estimates:
            yield [*head, "", record.status, record.simulations, "", "", "", ""]


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


def markdown(cells: Sequence[Covered]) -> str:
    """Every cell in a table, the bad ones too."""
    lines = [
        "| study | problem | target | method | b² | held, all | held, unflagged | 99.9% | flagged | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {cell.study} | {cell.problem} | {cell.target} | {cell.method} | {cell.b2:.3g} | {cell.coverage:.3f} | "
        f"{cell.coverage_unflagged:.3f} | {cell.low:.3f}–{cell.high:.3f} | {cell.flagged:.3f} | {verdict(cell)} |"
        for cell in cells
    ]
    return "\n".join(lines) + "\n"


INFER = Preset(
    "infer",
    "targeted simulations beside the best design, rejection and ABC-SMC, and how often error bars hold",
    200,
    {
        "oracle": _oracle,
        "ring": _ring,
        "events": _events,
        "catalogue-small": _small,
        "catalogue-large": _large,
        "stopping": _stopping,
    },
    _claims,
    _write,
    note="ratios by their 95% intervals, or by Holm's method over a study's problems at 5%; a cell's coverage is wrong "
    "where its 99.9% interval misses the band",
)
