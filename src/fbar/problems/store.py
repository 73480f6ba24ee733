"""Compute what ``data/`` keeps of the catalogue: ``python -m fbar.problems.store [NAMES]``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fbar.problems.benchmark import OBSERVATIONS, Benchmark
from fbar.problems.catalogue import RECIPES, recipe
from fbar.problems.stored import Stored

DATA = Path(__file__).parent / "data"


def store(name: str) -> None:
    """Make a problem's observations, truths and tolerances, and write them."""
    made = recipe(name)
    found = {}
    for observation in range(1, OBSERVATIONS + 1):
        start = time.perf_counter()
        theta, data = made.draw(observation)
        problem = Benchmark(made, data)
        tolerances = problem.pilot_tolerances()
        truths = {tolerance: problem.truth_at(tolerance) for tolerance in tolerances.values()}
        parameters = {n: theta[n][0].item() for n in theta if theta.present(n)[0]}
        known = {tolerance: truth for tolerance, truth in truths.items() if truth is not None}
        found[observation] = Stored(parameters, data.tolist(), problem.reference.truth(), tolerances, known).as_dict()
        print(f"{name} {observation}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    DATA.mkdir(exist_ok=True)
    (DATA / f"{name}.json").write_text(_written({"problem": name, "observations": found}))


def _written(tree: object) -> str:
    return json.dumps(tree, indent=1) + "\n"


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RECIPES:
        store(chosen)
