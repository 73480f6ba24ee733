"""Runs of every kind to be recorded, and what is compared of them: to the last bit."""

import os
import shutil
import time
import zlib

import numpy as np
from scipy import stats

import fbar
import fbar.ledger

CALLS: list[float] = []
"""The first θ of every block that was simulated in this process."""

LOG: dict[str, str] = {}
"""Where simulators write that number, for other processes, and how long they sleep."""


def called(theta, name):
    first = float(theta[name][0])
    CALLS.append(first)
    if "file" in LOG:
        file = os.open(LOG["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{first.hex()}\n".encode())
        os.close(file)
        time.sleep(float(LOG.get("sleep", 0)))


def normal(theta, rng):
    called(theta, "mu")
    return rng.normal(theta["mu"], 1.0)


def normal_problem(observed=0.5, prior=None, simulate=normal, **options):
    return fbar.Problem(prior or fbar.Prior(mu=stats.uniform(-5, 10)), simulate, observed, **options)


def counted(theta, rng):
    called(theta, "rate")
    return rng.poisson(theta["rate"])


def recording(theta, rng):
    called(theta, "mu")
    x = rng.normal(theta["mu"][:, None], 1.0, (theta.rows, 3))
    return {"x": x, "peak": x.max(axis=1), "label": np.where(x[:, 0] > 0, "up", "down")}


def failing(theta, rng):
    called(theta, "mu")
    if (theta["mu"] > 3).any():
        raise ZeroDivisionError("above three, with a stray byte \udcff")
    return np.where(theta["mu"] < -3, np.nan, rng.normal(theta["mu"], 1.0))


@fbar.each
def failing_each(theta, rng):
    CALLS.append(theta["mu"])
    if theta["mu"] > 4:
        return None
    if theta["mu"] < -4:
        return rng.random(3)
    return rng.normal(theta["mu"])


def by_columns(theta, rng):
    """Summaries in Fortran order, wide enough that sums depend on the order."""
    called(theta, "mu")
    return np.asfortranarray(rng.normal(theta["mu"][:, None], 1.0, (theta.rows, 40)))


def in_place(summaries, observed):
    """A distance that writes into what it is given."""
    summaries -= observed
    return np.abs(summaries)


def line(theta, rng):
    called(theta, "a")
    return theta["a"] + rng.standard_normal(theta.rows)


def square(theta, rng):
    called(theta, "b")
    return theta["b"] ** 2 + theta["c"] + rng.standard_normal(theta.rows)


def nothing(theta, rng):
    CALLS.append(0.0)
    return rng.standard_normal(theta.rows)


MODELS = {
    "line": fbar.Model(line, fbar.Prior(a=stats.norm(0, 2))),
    "square": fbar.Model(square, fbar.Prior(b=stats.norm(), c=stats.uniform())),
    "nothing": fbar.Model(nothing),
}
MU = fbar.mean("mu")
FINITE = fbar.Finite(rate=[1.0, 2.0, 5.0, 9.0])


def smc(**options):
    return fbar.SMC(**{"schedule": [4, 1, 0.3], "accepted": 100, **options})


CASES = {
    "rejection": lambda: (normal_problem(), MU, {"method": fbar.Rejection(tolerance=0.5), "budget": 3000}),
    "stratified": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.Rejection("stratified", rounds=3, tolerance=0.5), "budget": 3000, "block_size": 300},
    ),
    "importance": lambda: (
        normal_problem(),
        [MU, fbar.variance("mu"), fbar.quantile("mu", 0.9)],
        {"method": fbar.Importance(fbar.Prior(mu=stats.norm(0.5, 3)), tolerance=0.5, kernel="gaussian")},
    ),
    "regression": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.Importance(estimator=fbar.KernelRegression(), tolerance=0.5), "budget": 1000},
    ),
    "smc": lambda: (normal_problem(), MU, {"method": smc(), "block_size": 50}),
    "smc, quantiles": lambda: (
        normal_problem(),
        MU,
        {"method": fbar.SMC(fbar.QuantileSchedule(tolerance=0.3), accepted=80), "budget": 3000, "block_size": 64},
    ),
    "smc, learned scales": lambda: (
        normal_problem(np.zeros(3), simulate=recording, records=["peak", "label"]),
        [MU, fbar.expectation(lambda t: t["peak"] * (t["label"] == "up"), name="top")],
        {"method": smc(schedule=fbar.QuantileSchedule(tolerance=2.0), distance=fbar.Scaled()), "budget": 2000},
    ),
    "smc of models": lambda: (
        fbar.Problem.models(MODELS, observed=1.0),
        [fbar.model_probability("line"), fbar.mean("b")],
        {"method": smc(), "block_size": 100},
    ),
    "models": lambda: (
        fbar.Problem.models(MODELS, observed=1.0, derived={"s": lambda t: t["b"] + t["c"]}),
        [fbar.model_probability("line"), fbar.mean("s"), fbar.probability("b > 0")],
        {"method": fbar.Rejection(tolerance=0.2), "budget": 3000},
    ),
    "finite models": lambda: (
        fbar.Problem.models(
            {"poisson": lambda t, r: r.poisson(3, t.rows), "two": lambda t, r: r.poisson(2, t.rows)}, 3
        ),
        fbar.model_probability("two"),
        {"budget": 3000},
    ),
    "at data": lambda: (normal_problem(), [MU, fbar.variance("mu")], {"budget": 600, "block_size": 50}),
    "at data, models": lambda: (
        fbar.Problem.models(MODELS, observed=1.0),
        [fbar.model_probability("line"), fbar.mean("b")],
        {"budget": 600, "block_size": 100},
    ),
    "at data, recorded": lambda: (
        normal_problem(np.zeros(3), simulate=recording, records=["peak", "label"]),
        [MU, fbar.mean("peak")],
        {"method": fbar.Rejection(), "budget": 600},
    ),
    "at data, smc": lambda: (normal_problem(), MU, {"method": fbar.SMC(accepted=100), "budget": 600}),
    "adaptive": lambda: (fbar.Problem(FINITE, counted, 2), fbar.mean("rate"), {"budget": 3000, "block_size": 70}),
    "adaptive posterior": lambda: (
        fbar.Problem(FINITE, counted, 2),
        fbar.mean("rate"),
        {"method": "adaptive-posterior", "budget": 500},
    ),
    "tabulated": lambda: (
        fbar.Problem.tabulated(FINITE, [0.2, 0.3, 0.05, 0.01]),
        [fbar.mean("rate"), fbar.probabilities(FINITE.points)],
        {"budget": 20_000},
    ),
    "bernoulli": lambda: (
        fbar.Problem.bernoulli(fbar.Prior(mu=stats.uniform()), lambda t: t["mu"] ** 2),
        MU,
        {"method": "rejection", "budget": 2000},
    ),
    "precision": lambda: (fbar.Problem(FINITE, counted, 2), fbar.mean("rate"), {"precision": {"mean:rate": 0.1}}),
    "recorded": lambda: (
        normal_problem(np.zeros(3), simulate=recording, records=["peak", "label"]),
        [MU, fbar.expectation(lambda t: t["peak"] ** 2, name="top")],
        {"method": fbar.Rejection(tolerance=2.0), "budget": 2000},
    ),
    "derived": lambda: (
        normal_problem(derived={"double": lambda t: 2 * t["mu"]}),
        fbar.mean("double"),
        {"method": fbar.Rejection(tolerance=0.5), "budget": 2000},
    ),
    "failing": lambda: (
        normal_problem(simulate=failing),
        MU,
        {"method": fbar.Rejection(tolerance=0.5), "budget": 600, "block_size": 20},
    ),
    "failing rows": lambda: (
        normal_problem(simulate=failing_each),
        MU,
        {"method": smc(), "budget": 1500, "block_size": 40},
    ),
    "fortran order": lambda: (
        normal_problem(np.full(40, 0.5), simulate=by_columns),
        MU,
        {"method": smc(schedule=fbar.QuantileSchedule(tolerance=7)), "block_size": 60},
    ),
    "in place": lambda: (
        normal_problem(distance=in_place),
        MU,
        {"method": fbar.Rejection(tolerance=0.5), "budget": 2000},
    ),
}
CASES["importance"] = (lambda make: lambda: (*make()[:2], {**make()[2], "budget": 2000}))(CASES["importance"])


def do(case, run=None, **changes):
    problem, targets, options = CASES[case]()
    return fbar.infer(problem, targets, **{"seed": 7, "run": run, "progress": False, **options, **changes})


def everything_of(result):
    """Everything a result says but for notes on its files and measured times, to the last bit."""
    found = {key: value for key, value in result.as_dict().items() if key not in ("warnings", "cost")}
    points, seen = result.posterior.points, result.run.seen
    columns = {
        name: [zlib.crc32(points[name].astype("U" if points[name].dtype == "O" else points[name].dtype).tobytes())]
        for name in points
    }
    return repr(
        (
            found,
            columns,
            np.asarray(result.posterior.weights).tolist(),
            result.estimates.covariance.tolist(),
            sorted(seen.counts.items()),
            sorted(seen.examples.items()),
            sorted(seen.details.items()),
            seen.closest,
            result.run.warnings,
        )
    )


def simulated(function, *arguments, **options):
    """What a call gave, and the blocks it simulated."""
    before = len(CALLS)
    result = function(*arguments, **options)
    return result, len(CALLS) - before


SMALL = {"accepted": 50, "schedule": [4, 1]}


def small(run=None, **options):
    """ABC-SMC in some forty blocks, each of which fits into a page of the file."""
    return fbar.infer(normal_problem(), MU, method=smc(**SMALL), block_size=10, seed=3, run=run, **options)


def damaged_copy(sound, name, damage):
    """A copy of a run after ``damage(bytes)`` to one of its files."""
    copy = sound.parent / f"copy-of-{sound.name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sound, copy)
    (copy / name).write_bytes(damage((copy / name).read_bytes()))
    return copy


def flip(place, bits=0xFF):
    def damage(data):
        changed = bytearray(data)
        changed[place] ^= bits
        return bytes(changed)

    return damage


class Enough(Exception):
    """Raised in the middle of a run, by its progress."""


def stop_at(simulations):
    def stop(run):
        if run.simulations >= simulations:
            raise Enough

    return stop
