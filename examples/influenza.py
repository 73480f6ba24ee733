"""Influenza in a boarding school: how infectious was it?

A stochastic SIR epidemic among 763 boys by chains of binomials, twelve steps a day: in each, every susceptible boy is
infected with probability 1 − exp(−beta I/763 dt) and every infected one recovers with probability 1 − exp(−gamma dt).
`first` is the number infected on the first day. R0 = beta/gamma, and a boy is infectious for 1/gamma days on average.
`peak` is when most boys were ill at once, in days, to a step: 6 is when the boys of the sixth day were counted. The
simulator records it beside its data, so it can be asked for like a parameter.

Data: the boys confined to bed on each of 14 days, from "Influenza in a boarding school", British Medical Journal
1:587, 4 March 1978. It gave them as a figure, so that the numbers differ by a few between sources that read it.

Known difficulties:

- The data are the boys in bed, the model counts the infectious. Boys were infectious before they went to bed, and
  hardly in bed; `two_epidemics.py` asks what another model makes of the same numbers.
- Chance rules the first days: from one boy an epidemic dies out with probability of about 1/R0, and one that does not
  may be days early or late. So even at the best parameters few simulations come near the data: at beta 1.7, gamma 0.46,
  first 3, the distance is below 73 for one in ten, and the nearest of 2000 simulations reads
  3, 10, 35, 108, 212, 305, 275, 227, 178, 121, 68, 42, 24, 12.
- The answer depends on the summary. The Euclidean distance of counts is all about the peak; square roots, whose
  variances are alike, listen to the first and last days too. With `summary=lambda x: 2 * np.sqrt(x)` at tolerance 8
  the median of gamma is 0.4948(8), not 0.4652(8). No error bar shows that: it is another posterior, not another
  estimate.
- R0 is so surely above 3 that few simulations speak against it, and the error of that probability rests on them. With
  100,000 simulations it is often marked as unreliable, by any method, with 200,000 for one seed in six.
- The tolerance matters most for the peak: at 80 it falls about two hours later than at 50, far more than the error bar.

    fbar infer examples/influenza.py --tolerance 80 --budget 400000 --seed 1 --run flu

printed within seconds

    mean:R0               3.8098(42) (biased)
    probability:R0 > 3    0.9956(16)
    mean:infectious       2.1577(17) (biased)
    mean:peak             6.3147(26) (biased)
    probability:peak > 6  0.8346(36) (biased)
    warning: the tolerance biases mean:R0, mean:infectious, mean:peak, probability:peak > 6 by more than the error bar;
    lower it, or see fbar show flu --at-data
    about ABC's posterior at tolerance 80; estimate minus posterior: mean:R0 -0.118(23), probability:R0 > 3
    -0.0183(76), mean:infectious 0.0983(62), mean:peak 0.322(16), probability:peak > 6 0.342(37)
    400,000 simulations, 17,422 accepted; budget spent

`boarding_school.py` compares methods on it.
"""

import numpy as np
from scipy import stats

import fbar

BOYS = 763
IN_BED = [3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4]
STEPS = 12  # in a day; with 24 the distances hardly change


def epidemic(theta, rng):
    """The number infected on each day and, to a step, the day of the peak, for every row of the batch."""
    infected = theta["first"].astype(np.int64)
    susceptible = BOYS - infected
    recovery = -np.expm1(-theta["gamma"] / STEPS)
    days, most, peak = [infected], infected, np.ones(theta.rows)
    for day in range(1, len(IN_BED)):
        for step in range(STEPS):
            new = rng.binomial(susceptible, -np.expm1(-theta["beta"] * infected / BOYS / STEPS))
            recovered = rng.binomial(infected, recovery)
            susceptible, infected = susceptible - new, infected + new - recovered
            peak[infected > most] = day + (step + 1) / STEPS
            most = np.maximum(most, infected)
        days.append(infected)
    return {"x": np.stack(days, axis=1), "peak": peak}


problem = fbar.Problem(
    fbar.Prior(beta=stats.uniform(0.5, 3.5), gamma=stats.uniform(0.1, 1.4), first=stats.randint(1, 11)),
    epidemic,
    observed=IN_BED,
    derived={"R0": lambda t: t["beta"] / t["gamma"], "infectious": lambda t: 1 / t["gamma"]},
    records=["peak"],
)
targets = [
    fbar.mean("R0"),
    fbar.probability("R0 > 3"),
    fbar.mean("infectious"),
    fbar.mean("peak"),
    fbar.probability("peak > 6"),
]
