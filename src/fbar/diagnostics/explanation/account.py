"""An estimate explained: where the simulations went and why, the most influential ones, and alternatives.

To first order the error of f̂ is Σ z over simulations, z = w a ψ / Σ w a, and its variance Σ z². So z² shows where the
error comes from, in θ and simulation by simulation. The same simulations show what another design would have given: see
`fbar.diagnostics.explanation.of_draws` and `fbar.diagnostics.explanation.of_cells`; for estimates at the data
`fbar.diagnostics.explanation.of_at_data`.
"""

from __future__ import annotations

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import choice
from fbar.diagnostics.explanation.data import Explanation
from fbar.diagnostics.explanation.of_at_data import of_at_data, regression_of
from fbar.diagnostics.explanation.of_cells import of_cells, simulations_in
from fbar.diagnostics.explanation.of_draws import of_draws
from fbar.diagnostics.explanation.ranges import ranges_of
from fbar.errors import InputError
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Estimate
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.forecasts import Forecast
from fbar.question.points import Points
from fbar.question.targets import Target, parse, whole_name

MOST_POINTS = 5000
"""θ that stand for where the simulations went, and for the prior, at most."""


def explain(run: Run, posterior: Posterior, target: str | Target | None = None) -> Explanation:
    """Explain a posterior's estimate of a target, one of the run's by name or any other."""
    if np.ndim(posterior.simulations):
        raise InputError("a run of many trials has no single explanation; run it without trials=")
    asked = target_of(run, target)
    estimate = posterior.expect(asked)
    prior, simulated = prior_of(run, posterior), simulated_of(run, posterior)
    if posterior.cells is not None:
        shares = of_cells(posterior, posterior.cells, asked, run)
    elif isinstance(posterior, PosteriorAtData):
        shares = of_at_data(run, posterior, asked, None if simulated is None else simulated[0])
    else:
        shares = of_draws(run, posterior, asked, None if simulated is None else simulated[0])
    to_halve = halving(run, posterior, asked, estimate)
    unknown = shares.unknown if to_halve is not None else (*shares.unknown, "what halving the error would cost")
    return Explanation(
        estimate,
        None if posterior.ess is None else float(posterior.ess),
        tuple(run.stages()),
        ranges_of(run, prior, simulated, (posterior.pictured.points, posterior.pictured.weights)),
        shares.parameter,
        shares.regions,
        shares.carriers,
        to_halve,
        shares.alternatives,
        unknown,
        regression=regression_of(posterior, estimate) if isinstance(posterior, PosteriorAtData) else None,
        counted_as=posterior.counted_as,
    )


def prior_of(run: Run, posterior: Posterior, most: int = MOST_POINTS) -> tuple[Points, FloatArray]:
    """Weighted points that stand for the prior: the values of a finite one, otherwise draws, always the same."""
    if posterior.cells is not None:
        return posterior.points, posterior.cells.prior
    drawn = run.problem.prior.sample(most, rng=np.random.default_rng(0)).with_derived(run.problem.derived)
    return drawn, np.full(drawn.rows, 1 / drawn.rows)


def simulated_of(run: Run, posterior: Posterior, most: int = MOST_POINTS) -> tuple[Points, FloatArray] | None:
    """Weighted points that stand for the simulations; None where nothing is kept of them."""
    if posterior.cells is not None:
        counts = simulations_in(posterior.cells)
        return posterior.points, counts / counts.sum()
    simulated = run.simulated_points(most)
    return None if simulated is None else (simulated, np.full(simulated.rows, 1 / simulated.rows))


def target_of(run: Run, target: str | Target | None) -> Target:
    if isinstance(target, Target):
        return run.problem.posed(target)[0]
    names = [known.name for known in run.targets]
    if target is None:
        if len(names) > 1:
            raise InputError(f"name the target to explain: {', '.join(names)}")
        return run.targets[0]
    name = whole_name(target, names, "an explanation of")
    if name not in names and ":" in name:
        return run.problem.posed(parse(name))[0]
    return run.targets[names.index(choice(name, names, "target"))]


def halving(run: Run, posterior: Posterior, target: Target, estimate: Estimate) -> Forecast | None:
    """How many simulations more halve the error of an estimate; None where that is not known."""
    error = np.atleast_1d(estimate.standard_error)
    if not (np.isfinite(error).all() and (error > 0).any()):
        return None
    # A component that has no error needs nothing.
    return run.forecast(target, np.where(error > 0, error / 2, 1.0), posterior)
