"""How close is each answer to the posterior of the boarding school's influenza, and what would ABC need to be as close?

The model, the data and the targets are those of `influenza.py`. This program runs rejection and ABC-SMC with as many
simulations as fbar's own answer took, and compares all of them with an answer that uses the likelihood:

    fbar infer examples/influenza.py --budget 100000 --seed 1 --json > flu.json
    python examples/boarding_school.py flu.json

or, where it makes fbar's answer too,

    python examples/boarding_school.py

**The reference.** The counts of every day are seen without noise, so that a particle filter can estimate the
likelihood: particles that come within 2 boys of a day's count go on to the next day. Weighted by it, 1000 values of
beta and gamma give the posterior means in `REFERENCE`. `--reference` computes it again, which takes some minutes. ABC
and fbar's answer know nothing of it.

**How many simulations would ABC need?** At tolerance ε the answer has a bias b(ε) and, after N simulations, a variance
v(ε)/N. Runs measure both at a tolerance ε₁, the last of ABC-SMC: b₁ is its answer less the reference, v₁ the square of
a method's error bar times N. Toward 0, b falls as ε² and v grows as ε^-k, with k the slope of log(simulations for one
acceptance) against log ε, which a run shows too. The N at which b² + v/N = δ² is least for
(ε/ε₁)⁴ = k δ²/((k + 4) b₁²), and then is

    N = (v₁/δ²) (k + 4)/4 · ((k + 4) b₁²/(k δ²))^(k/4),        δ the error that is wanted.

Here δ is the standard error of fbar's answer, which includes the bias that may remain. Bias falls more slowly than ε²
at large tolerances, and k grows toward the number of data, 13, as ε falls: N is at least that. The number in brackets
is what it would be if |b₁| were two of its standard errors smaller.

Known difficulties:

- One run of each method: `--seed 2` gives other numbers. What is sure of N is its order of magnitude at most.
- The error bars of ABC-SMC's rounds are those of fbar. The last round is what pyABC reports.
- ABC compares all 13 counts. Fewer, well-chosen summaries need fewer simulations, and lose information. fbar's answer
  learns some from its simulations.
"""

import argparse
import importlib.util
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import fbar
from fbar.estimation.estimate import shorthand

TARGETS = {"mean:R0": "mean of R0", "mean:peak": "mean day of the peak"}
REFERENCE = {"mean:R0": (3.771, 0.020), "mean:peak": (6.046, 0.0065)}
"""Posterior means by the particle filter, with their standard errors."""

ROUNDS = 3
"""Of ABC-SMC, the last ones, whose acceptances show k."""

PARTICLES = 500
"""Of a round of ABC-SMC, and the nearest simulations that rejection accepts."""


def model():
    """`influenza.py`, wherever this is run from."""
    spec = importlib.util.spec_from_file_location("influenza", Path(__file__).with_name("influenza.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Answer:
    """What a method gives: (value, standard error) by target, its tolerance, and k."""

    name: str
    found: dict[str, tuple[float, float]]
    simulations: int
    tolerance: float | None = None
    slope: float | None = None


# ---------------------------------------------------------------- the answers


def by_fbar(path, simulations, seed):
    """fbar's own answer: from what `fbar infer --json` printed, or made here."""
    if path is None:
        flu = model()
        tree = fbar.infer(flu.problem, flu.targets, budget=simulations, seed=seed).as_dict()
    else:
        tree = json.loads(path.read_text(encoding="utf-8"))
    return answer_of(tree)


def answer_of(tree):
    """From a result in JSON's terms."""
    estimates = tree["estimates"]
    found = {name: (estimates[name]["value"], estimates[name]["standard_error"]) for name in TARGETS}
    return Answer("fbar, about the posterior itself", found, tree["simulations"])


def by_rejection(simulations, seed):
    """The nearest simulations from the prior."""
    flu = model()
    all_of_them = fbar.Rejection(tolerance=1e9)
    drawn = fbar.infer(flu.problem, _targets(flu), method=all_of_them, budget=simulations, seed=seed, progress=False)
    nearest = np.sort(drawn.all_simulations().take().distance)
    tolerance = float(nearest[PARTICLES - 1])
    found = _pairs(drawn.at(tolerance).estimates)
    few = PARTICLES // 10  # k from how many lie within two distances
    slope = math.log(PARTICLES / few) / math.log(tolerance / nearest[few - 1])
    return Answer("rejection", found, simulations, tolerance, slope)


def by_smc(simulations, seed):
    """ABC-SMC whose tolerance falls for as long as the simulations last: with the particles of all rounds, of the last.

    The last round that is complete is the one that other packages would report.
    """
    flu = model()
    targets = _targets(flu)
    run = fbar.SMC(fbar.QuantileSchedule(0.5), accepted=PARTICLES).start(
        flu.problem, targets, seed=seed, budget=simulations, block_size=500, at_data=False
    )
    fbar.drive(run, history=False)
    whole = [stage for stage in run.stages() if stage.accepted >= PARTICLES]
    last = [stage for stage in whole if math.isfinite(stage.tolerance)][-ROUNDS:]
    costs = [math.log(stage.simulations / stage.accepted) for stage in last]
    slope = -float(np.polyfit([math.log(stage.tolerance) for stage in last], costs, 1)[0])
    ways = {"ABC-SMC, all rounds": run.reweighted("mixture"), "ABC-SMC, last round (pyABC)": run.reweighted("last")}
    return [
        Answer(name, _pairs(posterior.expect(targets)), simulations, run.tolerance, slope)
        for name, posterior in ways.items()
    ]


def _targets(flu):
    return [target for target in flu.targets if target.name in TARGETS]


def _pairs(estimates):
    return {item.name: (float(item.value), float(item.standard_error)) for item in estimates}


# ---------------------------------------------------------------- what ABC would need


def simulations_needed(variance, slope, bias, wanted):
    """N of the first lines of this file, with v₁, k, b₁ and δ; at ε₁ itself where no smaller tolerance is needed."""
    fourth_power = slope * wanted**2 / ((slope + 4) * bias**2) if bias else math.inf
    if fourth_power >= 1:
        return variance / (wanted**2 - bias**2)
    return variance / wanted**2 * (slope + 4) / 4 * fourth_power ** (-slope / 4)


def needed(answer, near, target, wanted):
    """The simulations that an ABC method needs, and how few the uncertainty of the bias leaves.

    The bias is that of the answer ``near``, at the smallest tolerance: it is ABC's, whatever the method.
    """
    _, error = answer.found[target]
    variance = answer.simulations * error**2 * (answer.tolerance / near.tolerance) ** answer.slope
    bias, unsure = off_by(near, target)
    least = max(abs(bias) - 2 * unsure, 0.0)
    return [simulations_needed(variance, answer.slope, size, wanted) for size in (abs(bias), least)]


def off_by(answer, target):
    """An answer less the reference, and its standard error."""
    (value, error), (exact, uncertain) = answer.found[target], REFERENCE[target]
    return value - exact, math.hypot(error, uncertain)


def power_of_ten(number):
    """In one digit.

    >>> power_of_ten(34_567), power_of_ten(2.3e9)
    ('30,000', '2·10^9')
    """
    if number < 1e6:
        return f"{float(f'{number:.0e}'):,.0f}"
    digit, _, power = f"{number:.0e}".partition("e+")
    return f"{digit}·10^{int(power)}"


def row(answer, near, target, wanted):
    """An answer, how far it is from the reference, and the simulations that would bring it as near as ``wanted``."""
    cells = [_name(answer), shorthand(*answer.found[target]), shorthand(*off_by(answer, target))]
    if answer.slope is None:
        return [*cells, f"{answer.simulations:,}"]
    likely, least = needed(answer, near, target, wanted)
    return [*cells, f"{power_of_ten(likely)} ({power_of_ten(least)})"]


def print_all(answers, seconds):
    ours = answers[0]
    near = min(answers[1:], key=lambda answer: answer.tolerance)
    print(
        f"Influenza in a boarding school: {model().BOYS} boys, 13 daily counts, a stochastic epidemic model. With\n"
        f"{ours.simulations:,} simulations each, how close are the answers to the posterior mean?\n"
    )
    for target, words in TARGETS.items():
        wanted = ours.found[target][1]
        head = [words, "answer", "off by", f"to be within {wanted:.2g}"]
        lines = [row(answer, near, target, wanted) for answer in answers]
        value, error = REFERENCE[target]
        lines.append(["reference, from the likelihood", shorthand(value, error), "", ""])
        table(head, lines)
        print()
    print(
        "In brackets: standard errors; fbar's include the bias that may remain. Last column: how many simulations\n"
        "ABC would need at least, estimated from its bias and acceptance rate (see the docstring of this program);\n"
        f"in brackets, if its bias were two standard errors smaller. Rejection and ABC-SMC took {seconds:.0f} s."
    )


def _name(answer):
    return answer.name if answer.tolerance is None else f"{answer.name}, tolerance {answer.tolerance:.2g}"


def table(head, lines):
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    for line in (head, *lines):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


# ---------------------------------------------------------------- the reference


def filtered(beta, gamma, counts, boys, steps, particles, rng, near=2):
    """(log-likelihoods, mean days of the peak) by particle filters, one for each pair of parameters.

    The first count is known. A particle goes on to the next day if it is within ``near`` of the day's count.
    """
    shape = (beta.size, particles)
    infected = np.full(shape, counts[0])
    susceptible = boys - infected
    recovery = np.broadcast_to(-np.expm1(-gamma[:, None] / steps), shape)
    most, peak, total = infected, np.ones(shape), np.zeros(beta.size)
    for day in range(1, len(counts)):
        for step in range(steps):
            new = rng.binomial(susceptible, -np.expm1(-beta[:, None] * infected / boys / steps))
            recovered = rng.binomial(infected, recovery)
            susceptible, infected = susceptible - new, infected + new - recovered
            peak = np.where(infected > most, day + (step + 1) / steps, peak)
            most = np.maximum(most, infected)
        hits = np.abs(infected - counts[day]) <= near
        number = hits.sum(axis=1)
        with np.errstate(divide="ignore"):
            total += np.log(number / particles)
        order = np.argsort(~hits, axis=1, kind="stable")  # the hits first
        chosen = np.take_along_axis(order, np.arange(particles) * np.maximum(number, 1)[:, None] // particles, axis=1)
        susceptible, infected, most, peak = (
            np.take_along_axis(of, chosen, axis=1) for of in (susceptible, infected, most, peak)
        )
    return total, peak.mean(axis=1)


def reference(number, particles, seed):
    """Posterior means and their standard errors, by importance sampling of beta and gamma."""
    flu, rng = model(), np.random.default_rng(seed)
    proposal = stats.multivariate_t(np.log([3.8, 0.49]), np.diag([0.06**2, 0.03**2]), df=5)  # of log R0 and log gamma
    drawn = proposal.rvs(number, random_state=rng)
    r0, gamma = np.exp(drawn.T)
    beta, counts = r0 * gamma, np.array(flu.IN_BED)
    parts = [
        filtered(b, g, counts, flu.BOYS, flu.STEPS, particles, rng)
        for b, g in zip(np.array_split(beta, number // 10), np.array_split(gamma, number // 10), strict=True)
    ]
    likelihood, peak = (np.concatenate(part) for part in zip(*parts, strict=True))
    inside = (np.abs(beta - 2.25) < 1.75) & (np.abs(gamma - 0.8) < 0.7)  # where the prior is, uniform
    log_w = np.where(inside, likelihood + np.log(beta * gamma) - proposal.logpdf(drawn), -np.inf)
    weights = np.exp(log_w - log_w.max())
    weights /= weights.sum()
    found = {}
    for name, values in (("mean:R0", r0), ("mean:peak", peak)):
        mean = float(weights @ values)
        found[name] = mean, float(np.sqrt(np.sum((weights * (values - mean)) ** 2)))
    return found


def main():
    parser = argparse.ArgumentParser(description="How near each answer is to the boarding school's posterior.")
    parser.add_argument("answer", type=Path, nargs="?", help="what fbar infer --json printed; made here without it")
    parser.add_argument("--simulations", type=int, default=100_000, help="of each method")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reference", action="store_true", help="compute the reference again")
    given = parser.parse_args()
    if given.reference:
        for name, (value, error) in reference(1000, 4000, given.seed).items():
            print(name, shorthand(value, error))
        return
    ours = by_fbar(given.answer, given.simulations, given.seed)
    start = time.monotonic()
    others = [*by_smc(ours.simulations, given.seed), by_rejection(ours.simulations, given.seed)]
    print_all([ours, *others], time.monotonic() - start)


if __name__ == "__main__":
    main()
