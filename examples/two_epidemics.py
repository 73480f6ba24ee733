"""Two models of one epidemic: were the boys ill at once (SIR), or did they incubate first (SEIR)?

The data are those of `influenza.py` (British Medical Journal 1:587, 4 March 1978). Both models start from the three
boys in bed on the first day; the other 13 days are fitted. In SIR an infected boy is infectious, and in bed, at once.
In SEIR he incubates first, for `latent` days on average, and so do `incubating` boys on the first day. Both are chains
of binomials, twelve steps a day, with equal priors for what they share.

Known difficulties:

- The probability of a model is an average over its prior. A wider prior for `latent` or `incubating` makes SEIR less
  probable though it fits as well: state the priors with the result, and try others.
- Within a tolerance it is the probability given summaries that came near, and summaries that are sufficient within
  each model need not be so for the choice between them (Robert, Cornuet, Marin & Pillai 2011, PNAS 108:15112). Here
  all counts are compared, not summaries of them, and what is lost is due to the tolerance alone. Look at several:
  `result.at(tolerance)`, or `result.run.curve()`.
- The models agree on the data and not on R0, and in SEIR the prior of `latent` matters: the posterior reaches its end.
- SEIR has four parameters. With ABC-SMC's default, local, kernel the particles weigh themselves: SIR got the
  probability 0.1289(60), marked as unreliable. The file's own `method` has a wider kernel, which costs more
  simulations and can be trusted:

    fbar infer examples/two_epidemics.py --tolerance 80 --seed 1 --run two

  printed

    model_probability:SIR   0.1203(55)
    model_probability:SEIR  0.8797(55)
    mean:R0_SIR             3.855(17)
    mean:R0_SEIR            11.64(10)
    mean:latent             1.313(10)
    73,119 simulations, 2,548 accepted; tolerance 80 reached
"""

import numpy as np
from scipy import stats

import fbar

BOYS = 763
IN_BED = [3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4]
STEPS = 12  # in a day


def sir(theta, rng):
    """The number in bed on each day but the first, for every row of the batch."""
    ill = np.full(theta.rows, IN_BED[0])
    susceptible = BOYS - ill
    recovery = -np.expm1(-theta["gamma"] / STEPS)
    days = []
    for _ in IN_BED[1:]:
        for _ in range(STEPS):
            infected = rng.binomial(susceptible, -np.expm1(-theta["beta"] * ill / BOYS / STEPS))
            recovered = rng.binomial(ill, recovery)
            susceptible, ill = susceptible - infected, ill + infected - recovered
        days.append(ill)
    return np.stack(days, axis=1)


def seir(theta, rng):
    """The same, with boys who incubate: infected, not yet infectious, not yet in bed."""
    ill, incubating = np.full(theta.rows, IN_BED[0]), theta["incubating"].astype(np.int64)
    susceptible = BOYS - ill - incubating
    outbreak = -np.expm1(-1 / (theta["latent"] * STEPS))
    recovery = -np.expm1(-theta["gamma"] / STEPS)
    days = []
    for _ in IN_BED[1:]:
        for _ in range(STEPS):
            infected = rng.binomial(susceptible, -np.expm1(-theta["beta"] * ill / BOYS / STEPS))
            fallen_ill = rng.binomial(incubating, outbreak)
            recovered = rng.binomial(ill, recovery)
            susceptible, incubating = susceptible - infected, incubating + infected - fallen_ill
            ill = ill + fallen_ill - recovered
        days.append(ill)
    return np.stack(days, axis=1)


def r0_in(model):
    """R0 in one model and no number in the other, so that targets of it are conditional on the model."""
    return lambda t: np.where(t["model"] == model, t["beta"] / t["gamma"], np.nan)


shared = {"beta": stats.uniform(0.5, 11.5), "gamma": stats.uniform(0.1, 1.4)}
own = {"latent": stats.uniform(0.1, 1.9), "incubating": stats.randint(0, 21)}

problem = fbar.Problem.models(
    {"SIR": fbar.Model(sir, fbar.Prior(**shared)), "SEIR": fbar.Model(seir, fbar.Prior(**shared, **own))},
    observed=IN_BED[1:],
    derived={"R0_SIR": r0_in("SIR"), "R0_SEIR": r0_in("SEIR")},
)
targets = [
    fbar.model_probability("SIR"),
    fbar.model_probability("SEIR"),
    fbar.mean("R0_SIR"),
    fbar.mean("R0_SEIR"),
    fbar.mean("latent"),
]

method = fbar.SMC(perturbation="normal")
