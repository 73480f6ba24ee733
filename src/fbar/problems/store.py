"""Compute what ``data/`` keeps of the catalogue: ``python -m fbar.problems.store [NAMES]``.

With ``--at-tolerance`` only the truths of ABC at the stored tolerances that take brute force, of the first observation.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fbar.problems import stored
from fbar.problems.benchmark import OBSERVATIONS, Benchmark
from fbar.problems.catalogue import recipe, recipes
from fbar.problems.stored import Stored
from fbar.problems.truths import brute_force

DATA = Path(__file__).parent / "data"


def store(name: str) -> None:
    """Make a problem's observations, truths and tolerances, and write them."""
    made = recipe(name)
    found = {}
    for observation in range(1, OBSERVATIONS + 1):
        start = time.perf_counter()
        theta, drawn = made.draw(observation)
        data = np.array(rounded(drawn.tolist()), dtype=np.float64)  # the truth is of the data that are written
        problem = Benchmark(made, data)
        tolerances = problem.pilot_tolerances()
        truths = {tolerance: problem.truth_at(tolerance) for tolerance in tolerances.values()}
        parameters = {n: theta[n][0].item() for n in theta if theta.present(n)[0]}
        known = {tolerance: truth for tolerance, truth in truths.items() if truth is not None}
        found[observation] = Stored(parameters, data.tolist(), problem.reference.truth(), tolerances, known).as_dict()
        print(f"{name} {observation}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    _write(name, {"problem": name, "observations": rounded(found)})


def store_at_tolerance(name: str, observations: Sequence[int] = (1,)) -> None:
    """Add what brute force finds at the stored tolerances of a problem's observations; all else stays as it is."""
    tree = json.loads((DATA / f"{name}.json").read_text())
    for observation in observations:
        start = time.perf_counter()
        kept = stored.read(name)[observation]
        tolerances = [tolerance for tolerance in kept.tolerances.values() if tolerance > 0]
        problem, effort = Benchmark.of(recipe(name), observation), brute_force.EFFORTS[name]
        seed = 1000 * problem.recipe.seed + observation
        truths = brute_force.truths_at(problem, tolerances, effort, seed, lambda line: print(line, file=sys.stderr))
        added = replace(kept, truths_at=truths).as_dict()["truths_at"]
        tree["observations"][str(observation)]["truths_at"] = rounded(added)
        print(f"{name} {observation}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    _write(name, tree)


def _write(name: str, tree: Mapping[str, Any]) -> None:
    DATA.mkdir(exist_ok=True)
    (DATA / f"{name}.json").write_text(_written(tree) + "\n")


def rounded(value: Any) -> Any:
    """Floats to ten significant digits, anywhere in a tree; whole ones without a fraction."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        short = float(f"{value:.10g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    return value


def _written(tree: Any, indent: str = "") -> str:
    """JSON with a line for each entry of a mapping, and lists on one line."""
    if not isinstance(tree, dict) or not tree:
        return json.dumps(tree)
    inner = indent + " "
    lines = [f"{inner}{json.dumps(str(key))}: {_written(item, inner)}" for key, item in tree.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    names = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if "--at-tolerance" in sys.argv:
        for chosen in names or brute_force.EFFORTS:
            store_at_tolerance(chosen)
    else:
        for chosen in names or recipes():
            store(chosen)
