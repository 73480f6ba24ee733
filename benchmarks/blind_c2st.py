"""An error of half a posterior standard deviation in one mean of ten: which scores see it.

The posterior of gaussian-linear is a normal in ten dimensions. The approximation is that posterior with its first mean
moved by half a standard deviation, and, for comparison, that posterior itself; each as a sample of 1000 or 10 000
independent points. Every trial has points of its own; the truth is the same 10 000 draws.

    nice python benchmarks/blind_c2st.py                # writes blind_c2st.csv beside it, and docs/scores.md's table

The network of C2ST takes nearly all of the time (about 20 s a trial at 1000 points, 4 minutes at 10 000; some ten
minutes in all); ``--quick`` leaves it out. No classifier of equally many points of each can be right more often than
Φ(1/4) = 0.599.
"""

from __future__ import annotations

import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import argparse
import csv
import math
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from fbar import mean, problems, second_moment
from fbar.estimation.estimate import shorthand
from fbar.question.points import Points
from fbar.scores import Approximation, Scene, as_score, posterior_deviation, summarise, trial_errors

HERE = Path(__file__).parent
CSV = HERE / "blind_c2st.csv"
DOCS = HERE.parent / "docs" / "scores.md"
BEGIN, END = "<!-- begin: blind_c2st -->", "<!-- end: blind_c2st -->"
COLUMNS = ("points", "score", "component", "approximation", "trials", "value", "standard_error")
SHIFT = 0.5
TRIALS = {1000: 20, 10_000: 10}
NETWORK_TRIALS = {(1000, SHIFT): 4, (1000, 0.0): 3, (10_000, SHIFT): 2}
"""Trials of the network, which at 10 000 points is trained on the shifted samples alone."""

CHEAP = ("c2st-logistic", "mmd", "sliced-wasserstein", "ks-test", "kolmogorov")
PARAMETERS = ("theta1", "theta2")


def approximation(scene: Scene, size: int, shift: float, trial: int) -> Approximation:
    """Independent points of the true posterior, the first parameter moved by ``shift`` standard deviations."""
    draws = scene.problem.reference.sample(size, np.random.default_rng([71, size, trial]))
    moved = {name: draws[name] for name in draws}
    moved["theta1"] = moved["theta1"] + shift * posterior_deviation(mean("theta1"), scene)
    return Approximation(Points(moved), np.full(size, 1 / size), size)


def rows_of(scene: Scene, size: int, shift: float, quick: bool) -> list[dict[str, object]]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    errors: dict[str, list[float]] = defaultdict(list)
    network = 0 if quick else NETWORK_TRIALS.get((size, shift), 0)
    for trial in range(TRIALS[size]):
        given = approximation(scene, size, shift, trial)
        for name in (*CHEAP, "c2st") if trial < network else CHEAP:
            for component, value in as_score(name).compute(given, scene).items():
                if component in ("", *PARAMETERS):
                    found[name, component].append(float(value < 0.05) if name == "ks-test" else value)
        for name, item in trial_errors(given, scene).items():
            errors[name].append(item.error)
    label = f"shifted {shift:g}" if shift else "exact"

    def row(score: str, component: str, trials: int, value: float, error: float) -> dict[str, object]:
        return dict(zip(COLUMNS, (size, score, component, label, trials, value, error), strict=True))

    rows = [
        row(score, component, len(v), float(np.mean(v)), float(np.std(v, ddof=1)) / math.sqrt(len(v)))
        for (score, component), v in found.items()
    ]
    for target in scene.targets:
        s = summarise(errors[target.name], deviation=posterior_deviation(target, scene))
        rows.append(row("mse", target.name, s.trials, s.mse, s.mse_error))
        rows.append(row("b2", target.name, s.trials, s.b2, s.b2_error))
        rows.append(row("draws", target.name, s.trials, s.draws, s.draws_error))
    return rows


def markdown(rows: list[dict[str, str]]) -> str:
    """The stored numbers as a table: what each score says of the shifted and of the exact samples."""
    names = {
        "c2st": "`c2st` (½ is the best, 0.599 the most)",
        "c2st-logistic": "`c2st-logistic`",
        "mmd": "`mmd` (squared)",
        "sliced-wasserstein": "`sliced-wasserstein`",
        "ks-test": "`ks-test`, share of trials with p < 0.05",
        "kolmogorov": "`kolmogorov`",
        "mse": "`mse`",
        "b2": "b² = mse / posterior variance",
        "draws": "1/b², independent draws it is worth",
    }
    found = {(r["points"], r["score"], r["component"], r["approximation"]): r for r in rows}

    def cell(*key: str) -> str:
        r = found.get(key)
        return "–" if r is None else f"{shorthand(float(r['value']), float(r['standard_error']))} ({r['trials']})"

    lines = [
        "| score | of | 1000 points, shifted | 1000, exact | 10 000 points, shifted | 10 000, exact |",
        "|---|---|---|---|---|---|",
    ]
    for score, title in names.items():
        for component in dict.fromkeys(r["component"] for r in rows if r["score"] == score):
            cells = [cell(n, score, component, a) for n in ("1000", "10000") for a in (f"shifted {SHIFT:g}", "exact")]
            lines.append(f"| {title} | {component or 'all'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def read() -> list[dict[str, str]]:
    with CSV.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the network; prints, and stores nothing")
    quick = parser.parse_args().quick
    problem = problems.load("gaussian-linear")
    targets = tuple(kind(name) for name in PARAMETERS for kind in (mean, second_moment))
    scene, rows, start = Scene(problem, targets), [], time.perf_counter()
    for size in (1000, 10_000):
        for shift in (SHIFT, 0.0):
            rows += rows_of(scene, size, shift, quick)
            print(f"{size} points, shift {shift:g}: {time.perf_counter() - start:.0f} s", flush=True)
    stored = [{key: f"{v:.6g}" if isinstance(v, float) else str(v) for key, v in r.items()} for r in rows]
    print(markdown(stored))
    if quick:
        return
    with CSV.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(stored)
    text = DOCS.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    DOCS.write_text(f"{before}{BEGIN}\n{markdown(read())}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
