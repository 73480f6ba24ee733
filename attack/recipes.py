"""The runs that are attacked: models of every kind, and how each is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = '''
import os, sys, time
import numpy as np
from scipy import stats
import fbar

def finished(theta):
    """Write down that simulations are done, in a file that is no part of the run."""
    log = os.environ.get("ATTACK_SIMULATED")
    if log:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{time.monotonic():.6f} {float(theta)!r}\\n".encode())
        os.close(file)

PAUSE = float(os.environ.get("ATTACK_PAUSE", "0"))
'''

BATCH = """
def simulate(theta, rng):
    time.sleep(PAUSE)
    x = theta["mu"] + rng.normal(0, 1, theta.rows)
    finished(theta["mu"][0])
    return x

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=0.5)
targets = [fbar.mean("mu"), fbar.probability("mu > 0.5")]
"""

ONE_BY_ONE = """
@fbar.each
def simulate(theta, rng):
    time.sleep(PAUSE)
    x = theta["mu"] + rng.normal(0, 1)
    finished(theta["mu"])
    return x

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=0.5)
targets = [fbar.mean("mu")]
"""

FINITE = """
def simulate(theta, rng):
    time.sleep(PAUSE)
    finished(theta["k"][0])
    return rng.binomial(20, theta["k"] / 10)

problem = fbar.Problem(fbar.Finite(k=[1, 2, 3, 4, 5, 6, 7, 8]), simulate, observed=9)
targets = [fbar.mean("k")]
"""

CHOICE = """
def simulate(theta, rng):
    time.sleep(PAUSE)
    finished(0)
    scale = np.where(theta["model"] == "one", np.nan_to_num(theta["a"]), np.nan_to_num(theta["b"]))
    return scale + rng.normal(0, 1, theta.rows)

problem = fbar.Problem(
    fbar.ModelChoice({"one": fbar.Prior(a=stats.uniform(0, 4)), "two": fbar.Prior(b=stats.uniform(0, 8))}),
    simulate,
    observed=1.5,
)
targets = [fbar.model_probability("one")]
"""

TWO_SUMMARIES = """
def simulate(theta, rng):
    time.sleep(PAUSE)
    finished(theta["mu"][0])
    return theta["mu"][:, None] + rng.normal(0, 1, (theta.rows, 3))

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=[0.5, 0.1, 0.9])
targets = [fbar.mean("mu")]
"""

PROGRAM = """
walk = fbar.program(
    ["awk", "-v", "mu={mu}", "-v", "seed={seed}", "BEGIN { srand(seed); print mu + 2 * rand() - 1 }"], parse=float
)
problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), walk, observed=0.5)
targets = [fbar.mean("mu")]
"""

PARENT = """
import subprocess

@fbar.each
def simulate(theta, rng):
    if rng.uniform() < 0.1:
        subprocess.Popen(["sleep", "300"])
    time.sleep(PAUSE)
    x = theta["mu"] + rng.normal(0, 1)
    finished(theta["mu"])
    return x

problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), simulate, observed=0.5)
targets = [fbar.mean("mu")]
"""

SHELL = """
walk = fbar.program(
    ["sh", "-c", "sleep 300 >/dev/null 2>&1 & sleep 0.02; echo $1", "sh", "{mu}", "{seed}"], parse=float
)
problem = fbar.Problem(fbar.Prior(mu=stats.uniform(-2, 4)), walk, observed=0.5)
targets = [fbar.mean("mu")]
"""


@dataclass(frozen=True)
class Recipe:
    """A run that is attacked: its model, how it is asked for, and how it is extended."""

    name: str
    model: str
    asked: tuple[str, ...]
    more: tuple[str, ...] = ()
    workers: tuple[int, ...] = (0,)
    pause: float = 0.0
    from_python: bool = False

    @property
    def one_in_a_block(self) -> bool:
        return self.asked[-1] == "1" and self.asked[-2] == "--block-size"

    def write_model(self, path: Path) -> Path:
        path.write_text(HEAD + self.model, encoding="utf-8")
        return path


def _recipe(name: str, model: str, asked: str, more: str = "", **other: Any) -> Recipe:
    return Recipe(name, model, tuple(asked.split()), tuple(more.split()), **other)


RECIPES = (
    _recipe(
        "targeted",
        BATCH,
        "--budget 3000 --tolerance 0.5 --block-size 100",
        "--budget 4000",
        workers=(0, 2),
        pause=0.04,
    ),
    _recipe(
        "one-by-one",
        ONE_BY_ONE,
        "--method rejection --budget 120 --tolerance 1 --block-size 1",
        "--budget 160",
        workers=(2, 4),
        pause=0.03,
    ),
    _recipe(
        "slow",
        ONE_BY_ONE,
        "--method targeted --budget 24 --tolerance 2 --block-size 1",
        workers=(4, 2),
        pause=1.2,
    ),
    _recipe(
        "smc",
        BATCH,
        "--method smc --budget 3000 --tolerance 0.5 --block-size 100",
        workers=(0, 2),
        pause=0.03,
    ),
    _recipe(
        "rejection-large-blocks",
        BATCH,
        "--method rejection --budget 60000 --tolerance 0.2 --block-size 20000",
        "--budget 80000",
        workers=(0, 2),
        pause=0.3,
    ),
    _recipe(
        "importance",
        BATCH,
        "--method importance --budget 2000 --tolerance 0.5 --block-size 50",
        "--budget 2500",
        workers=(2, 4),
        pause=0.03,
    ),
    _recipe(
        "finite",
        FINITE,
        "--method adaptive --budget 4000 --block-size 200",
        "--budget 5000",
        workers=(0, 2),
        pause=0.03,
    ),
    _recipe(
        "learned-summaries",
        TWO_SUMMARIES,
        "--summaries linear --budget 3000 --tolerance 0.5 --block-size 100",
        "--budget 3500",
        workers=(0, 2),
        pause=0.03,
    ),
    _recipe(
        "model-choice",
        CHOICE,
        "--method rejection --budget 3000 --tolerance 0.5 --block-size 100",
        "--budget 4000",
        workers=(0, 4),
        pause=0.04,
    ),
    _recipe(
        "program",
        PROGRAM,
        "--method rejection --budget 150 --tolerance 0.5 --block-size 5",
        "--budget 200",
        workers=(0, 2, 4),
    ),
    _recipe(
        "from-python",
        BATCH,
        "--budget 3000 --tolerance 0.5 --block-size 100",
        "--budget 4000",
        workers=(0, 2),
        pause=0.04,
        from_python=True,
    ),
    _recipe(
        "starts-processes",
        PARENT,
        "--method rejection --budget 60 --tolerance 1 --block-size 2",
        workers=(2, 4),
        pause=0.04,
    ),
    _recipe(
        "program-starts-processes",
        SHELL,
        "--method rejection --budget 40 --tolerance 1 --block-size 2",
        workers=(2,),
    ),
)
