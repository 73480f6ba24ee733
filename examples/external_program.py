"""A simulator in another language: a random walk with drift, written in awk (`random_walk.awk`).

A walk takes 100 steps, each up with probability (1 + drift)/2 and else down; it ended at 20. `fbar.program` calls the
program once for every simulation: `{drift}` in its command becomes the parameter's value, `{seed}` a 64-bit seed, and
`parse` makes the result of what it printed (here one number, so `float` does).

Truth: the number of steps up is binomial. With a uniform prior every end has the same prior probability, so that the
posterior within any tolerance is an equal mixture of Beta distributions for (1 + drift)/2; between 10 and 30 or between
18 and 22, the mean of drift is 10/51 = 0.19608.

Known difficulties:

- Starting a process costs about a millisecond, more than most simulations. Use workers for it, and let the program
  do a simulation's whole work in one call.
- The program must use the seed it is given, all of it, and no other source of chance; otherwise a run cannot be
  repeated or resumed, and seeds that differ little may give walks that are alike. See the script for how.
- A program that fails must end with an exit status other than 0: such a simulation is rejected and counted.

    fbar infer examples/external_program.py --method rejection --tolerance 10 --budget 4000 --run walk

or in Python `fbar.infer(problem, targets, method="rejection", tolerance=10, budget=4000, seed=1)`, which printed

@OUT@
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
