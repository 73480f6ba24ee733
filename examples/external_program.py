"""A simulator in another language: a random walk with drift, written in awk (`random_walk.awk`).

A walk takes 100 steps, each up with probability (1 + drift)/2 and else down; it ended at 20. `fbar.program` calls the
program once for every simulation: `{drift}` in its command becomes the parameter's value, `{seed}` a 64-bit seed, and
`parse` makes the result of what it printed (here one number, so `float` does).

Truth: the number of steps up is binomial. With a uniform prior every end is equally probable beforehand, so that the
posterior within a tolerance is an equal mixture of Beta distributions for (1 + drift)/2. For ends from 10 to 30 the
mean of drift is 10/51 = 0.1961 and the probability of drift > 0.25 is 0.3268.

Known difficulties:

- Starting and watching a process takes milliseconds, more than many simulations. Let the program do the whole of a
  simulation in one call, and give the run several workers (`--workers 4`).
- The program must use the seed it is given, all of it, and no other source of chance; otherwise a run cannot be
  repeated or resumed, and seeds that differ little may give walks that are alike. See the script for how.
- A program that fails must end with an exit status other than 0: such a simulation is rejected and counted.

    fbar infer examples/external_program.py --method rejection --tolerance 10 --budget 4000 --seed 1 --run walk

printed

    mean:drift                0.2023(55)
    probability:drift > 0.25  0.369(23)
    4,000 simulations, 452 accepted; budget spent
"""

from pathlib import Path

from scipy import stats

import fbar

SCRIPT = Path(__file__).resolve().with_name("random_walk.awk")

problem = fbar.Problem(
    fbar.Prior(drift=stats.uniform(-1, 2)),
    fbar.program(["awk", "-v", "drift={drift}", "-v", "seed={seed}", "-f", str(SCRIPT)], parse=float),
    observed=20,
)
targets = [fbar.mean("drift"), fbar.probability("drift > 0.25")]
