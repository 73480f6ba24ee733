"""What targeting gains in the boarding school: three methods, the same number of simulations, the same tolerance.

The model, the data and the targets are those of `influenza.py`. Each method is run several times with other seeds:

    python examples/boarding_school.py

It prints the estimates and, for each target, how many times more simulations than `Targeted` another method would need
for the same error: the ratio of squared errors, as these fall with the number of simulations. It is told twice, from
the error bars that the runs state and from the spread of the estimates over the runs, which no error bar has a hand
in. Both have 95% intervals, the second by the F distribution and so a wide one.

Of what it printed:

    Times as many simulations as targeted that the same error would take, by their error bars (95% interval):

                          rejection      ABC-SMC, all rounds  ABC-SMC, last round
    mean:R0               17 (12 to 23)  0.8 (0.6 to 1.1)     not known
    probability:R0 > 3    not known      not known            not known
    mean:infectious       21 (17 to 25)  0.89 (0.75 to 1.1)   not known
    mean:peak             34 (29 to 40)  0.96 (0.91 to 1)     1.7 (1.5 to 1.9)
    probability:peak > 6  32 (26 to 40)  0.96 (0.9 to 1)      1.6 (1.4 to 1.9)

    Of 15 comparisons targeted is better in 6, worse in 0; 4 cannot be told apart, 5 are not known.

So targeting is far better than rejection here, better than a last round, and no better than all rounds of ABC-SMC: five
targets together leave it little to choose, and proposals that were made for wider tolerances suit them as well.

Known difficulties:

- A ratio is not known where the error bar of a run is unreliable.
- Ten runs tell variances apart that differ by a factor of four or so. `--runs 50` tells more.
- Every comparison is at a 5% risk of its own: of fifteen, one may be wrong.
- ABC-SMC's last round is what other packages report. Here it goes on, at the wanted tolerance, with all simulations
  that are left; how many these are depends on how many particles its rounds before had, 500 here.
- Simulations are compared, not seconds, of which the table has the numbers too: this simulator takes some 20
  microseconds, most simulators more.
"""

import argparse
import csv
import importlib.util
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.estimation.estimate import shorthand
from fbar.study.paired import compare

OURS = "targeted"
ALL, LAST = "ABC-SMC, all rounds", "ABC-SMC, last round"
METHODS = (OURS, "rejection", ALL, LAST)
COLUMNS = ("method", "seed", "target", "value", "standard_error", "trusted", "accepted", "tolerance", "seconds")


def model():
    """`influenza.py`, wherever this is run from."""
    spec = importlib.util.spec_from_file_location("influenza", Path(__file__).with_name("influenza.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(method, seed, simulations, tolerance):
    """Rows of one run: one for each target. A run of ABC-SMC gives them for both ways of weighting its rounds."""
    flu = model()
    chosen = {
        OURS: fbar.Targeted(tolerance=tolerance),
        "rejection": fbar.Rejection(tolerance=tolerance),
        ALL: fbar.SMC(fbar.QuantileSchedule(0.5, tolerance=tolerance), accepted=500),
    }[method]
    start = time.perf_counter()
    block_size = 500 if method == ALL else None  # ABC-SMC's own are small, which a vectorised simulator dislikes
    result = fbar.infer(
        flu.problem, flu.targets, method=chosen, budget=simulations, seed=seed, block_size=block_size, progress=False
    )
    posteriors = {method: result.posterior}
    if method == ALL:
        posteriors[LAST] = result.run.reweighted("last")
    seconds = time.perf_counter() - start
    return [
        {
            "method": name,
            "seed": seed,
            "target": estimate.name,
            "value": estimate.value,
            "standard_error": estimate.standard_error,
            "trusted": bool(estimate.trusted),
            "accepted": float(posterior.accepted),
            "tolerance": result.run.reported_tolerance,
            "seconds": seconds,
        }
        for name, posterior in posteriors.items()
        for estimate in posterior.expect(flu.targets)
    ]


def progress(done, jobs, seconds):
    """One line on a terminal, a plain line now and then elsewhere."""
    text = f"{done} of {jobs} runs, {seconds:.0f} s"
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text if done < jobs else ''}", end="", file=sys.stderr, flush=True)
    elif done % 6 == 0:
        print(text, file=sys.stderr, flush=True)


def run_all(runs, simulations, tolerance, workers):
    """The rows of all runs; a line of progress on the standard error."""
    rows, start = [], time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(run, method, seed, simulations, tolerance)
            for seed in range(1, runs + 1)
            for method in (ALL, OURS, "rejection")
        ]
        for done, job in enumerate(as_completed(jobs), 1):
            rows += job.result()
            progress(done, len(jobs), time.monotonic() - start)
    return sorted(rows, key=lambda row: (METHODS.index(row["method"]), row["seed"]))


class Runs:
    """Rows by method and target, in the order of the seeds."""

    def __init__(self, rows):
        self.rows = rows
        self.targets = list(dict.fromkeys(row["target"] for row in rows))

    def column(self, name, method, target):
        return np.array([row[name] for row in self.rows if (row["method"], row["target"]) == (method, target)])

    def by_error_bars(self, other, target):
        """(ratio, low, high) of mean squared standard errors; None where a run's error bar is unreliable."""
        if not all(self.column("trusted", method, target).all() for method in (OURS, other)):
            return None
        found = compare(*(self.column("standard_error", method, target) ** 2 for method in (other, OURS)))
        return found.ratio, *found.interval()

    def by_spread(self, other, target):
        """(ratio, low, high) of variances over the runs, by the F distribution; None where runs do not differ."""
        theirs, ours = (self.column("value", method, target) for method in (other, OURS))
        if not (np.ptp(theirs) > 0 and np.ptp(ours) > 0):
            return None
        ratio = theirs.var(ddof=1) / ours.var(ddof=1)
        half = stats.f(len(theirs) - 1, len(ours) - 1).ppf(0.975)
        return ratio, ratio / half, ratio * half


def told(found):
    if found is None:
        return "not known"
    ratio, low, high = (f"{number:.2g}" if number < 99.5 else f"{number:.0f}" for number in found)
    return f"{ratio} ({low} to {high})"


def table(head, lines):
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    for line in (head, *lines):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def print_all(runs, simulations):
    seeds = len({row["seed"] for row in runs.rows})
    print(
        f"{seeds} runs of each method, {simulations:,} simulations each; mean over the runs with its error from them\n"
    )
    lines = []
    for target in runs.targets:
        values = [runs.column("value", method, target) for method in METHODS]
        lines.append([target, *(shorthand(v.mean(), v.std(ddof=1) / np.sqrt(seeds)) for v in values)])
    for name in ("accepted", "tolerance", "seconds"):
        of_each = [runs.column(name, method, runs.targets[0]).mean() for method in METHODS]
        shown = (f"{number:,.3g}" if number < 1000 else f"{number:,.0f}" for number in of_each)
        lines.append([f"{name} (a run)", *shown])
    table(["", *METHODS], lines)
    for title, ratio in (("their error bars", runs.by_error_bars), ("the spread of the runs", runs.by_spread)):
        print(f"\nTimes as many simulations as {OURS} that the same error would take, by {title} (95% interval):\n")
        found = {(target, other): ratio(other, target) for target in runs.targets for other in METHODS[1:]}
        table(
            ["", *METHODS[1:]],
            [[target, *(told(found[target, other]) for other in METHODS[1:])] for target in runs.targets],
        )
        print(f"\n{verdict(found)}")
    print(
        "\nNot known: an error bar of one of the runs is unreliable. The spread is what was seen, but ten "
        "runs\ntell it roughly; error bars tell finely, as far as they are right."
    )


def verdict(found):
    """Which comparisons went for, against and neither way, in words."""
    known = {key: interval for key, interval in found.items() if interval is not None}
    against = [key for key, (_, _, high) in known.items() if high < 1]
    better = sum(low > 1 for _, low, _ in known.values())
    text = f"Of {len(found)} comparisons {OURS} is better in {better}, worse in {len(against)}"
    text += f"; {len(known) - better - len(against)} cannot be told apart"
    text += f", {len(found) - len(known)} are not known." if len(found) > len(known) else "."
    listed = "; ".join(f"{target} than {other}" for target, other in against)
    return f"{text} Worse for {listed}." if against else text


def main():
    parser = argparse.ArgumentParser(description="Three methods on the boarding school's influenza.")
    parser.add_argument("--runs", type=int, default=10, help="of each method, each with a seed of its own")
    parser.add_argument("--simulations", type=int, default=100_000, help="of a run")
    parser.add_argument("--tolerance", type=float, default=80.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a CSV file for the estimates of every run")
    given = parser.parse_args()
    if given.runs < 2:
        parser.error(f"--runs must be at least 2, for a spread; got {given.runs}")
    rows = run_all(given.runs, given.simulations, given.tolerance, given.workers)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    print_all(Runs(rows), given.simulations)


if __name__ == "__main__":
    main()
