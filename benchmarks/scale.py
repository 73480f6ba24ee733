"""Seconds and memory of long runs: 10⁷ simulations of three parameters and four summaries, and many blocks of one.

Every row is a process of its own, and its memory the largest that it ever had. Runs are recorded where it says so;
"read" loads the record of the row above, "export" writes all of its simulations. The last rows show that twice the
blocks take twice the time: a ratio of two times of one run of this script, side by side.

    python benchmarks/scale.py                    # ten minutes on two cores; writes scale.csv
    python benchmarks/scale.py --simulations 1e6
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = ("what", "simulations", "block_size", "seconds", "megabytes", "ratio")
MODEL = """
import numpy as np
import fbar
from scipy import stats

MIX = np.array([[1, 0.3, 0], [0, 1, 0.2], [0.1, 0, 1], [0.5, 0.5, 0.5]])

def simulate(theta, rng):
    return np.stack([theta[name] for name in "abc"], axis=1) @ MIX.T + 0.5 * rng.standard_normal((theta.rows, 4))

prior = fbar.Prior(a=stats.norm(0, 1), b=stats.norm(0, 1), c=stats.norm(0, 1))
problem = fbar.Problem(prior, simulate, observed=np.array([0.5, -0.3, 0.2, 0.4]))
targets = [fbar.mean("a"), fbar.mean("b"), fbar.probability("c > 0.5")]
"""


def command(*words: object) -> None:
    """A command of fbar's in this process; its memory is printed at the end."""
    from fbar.cli.commands import app

    begun = time.perf_counter()
    app([str(word) for word in words], exit_on_error=False, result_action="return_value")
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
    print(json.dumps([seconds, peak]))


def measured(where: Path, *words: object) -> tuple[float, float]:
    told = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--command", *map(str, words)],
        cwd=where,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    seconds, peak = json.loads(told.splitlines()[-1])
    return seconds, peak


def rows(where: Path, n: int, tolerance: float, blocks: int) -> list[tuple[object, ...]]:
    (where / "model.py").write_text(MODEL)
    found: list[tuple[object, ...]] = []

    def add(what: str, size: int, block: object, *words: object) -> float:
        seconds, peak = measured(where, *words)
        found.append((what, size, block, f"{seconds:.1f}", f"{peak:.0f}", ""))
        print(*found[-1], flush=True)
        return seconds

    common = ("--tolerance", tolerance, "--seed", 1, "-q")
    for method in ("rejection", "targeted"):
        asked = ("infer", "model.py", "--method", method, "--budget", n, *common)
        add(f"{method}, not recorded", n, "", *asked)
        add(f"{method}, recorded", n, "", *asked, "--run", method)
        add(f"{method}, read", n, "", "resume", method, "-q")
    add("targeted, export --all", n, "", "export", "targeted", "--all", "--out", "all.csv")
    add("targeted, export --all --format parquet", n, "", "export", "targeted", "--all", "--format", "parquet")
    for method in ("rejection", "targeted", "smc"):
        asked = ("infer", "model.py", "--method", method, "--block-size", 1, *common)
        times = [add(f"{method}, blocks of one", size, 1, *asked, "--budget", size) for size in (blocks, 2 * blocks)]
        found[-1] = (*found[-1][:-1], f"{times[1] / times[0]:.2f}")
        print(f"{method}: twice the blocks took {times[1] / times[0]:.2f} times as long", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=float, default=1e7)
    parser.add_argument("--tolerance", type=float, default=0.8)
    parser.add_argument("--blocks", type=int, default=20_000)
    parser.add_argument("--command", nargs=argparse.REMAINDER, help="used by the script itself")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    if given.command:
        command(*given.command)
        return
    with tempfile.TemporaryDirectory() as where:
        found = rows(Path(where), int(given.simulations), given.tolerance, given.blocks)
    with given.out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *found])


if __name__ == "__main__":
    main()
