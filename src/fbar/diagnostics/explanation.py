"""An estimate explained: where the simulations went and why, which of them carry it, what other ways would have given.

To first order the error of f̂ is Σ z over simulations, z = w a ψ / Σ w a, and its variance Σ z². So z² says where the
error comes from, in θ and simulation by simulation.

The same draws say what *another* proposal q′ would have given. N times its variance is ∫ ψ² p² m₂/q′ dθ / Z² with
m₂ = E[a²|θ] (section S5.1 of the paper); for rejection, where q′ is the prior, that is ∫ ψ² p m₂ dθ / Z². Under the q
that made the draws E[w a² ψ²] is this integral and E[w a] is Z, the rejected draws counting with a = 0, so that

    V_rejection = Σ w a² ψ² / (Σ w a)²

for as many simulations as there were draws. It takes w = p/q itself, not only up to a constant. On a finite space the
parts V̂_i of the cells stand for α_i/n_i, and any other allocation n_i′ has Σ α_i/n_i′, the best one (Σ √α_i)²/N
(section S3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, choice
from fbar.errors import InputError
from fbar.estimation.cells import CellErrors, Cells, ExpectedCounts
from fbar.estimation.draws import DrawErrors, Draws
from fbar.estimation.estimate import Estimate, shorthand, whole, worth
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.draws import DrawRun
from fbar.methods.finite.cells import CellRun
from fbar.methods.forecasts import Forecast
from fbar.methods.run import Stage
from fbar.question.points import Points
from fbar.question.targets import Target, parse, whole_name
from fbar.system.terminal import clean

PLACES = 5000
"""θ that stand for where the simulations went, and for the prior, at most."""

PARTS = 5
"""Regions of equal posterior mass."""

SINGLE = "accepted simulations"
"""What carries an estimate, where it is not values of θ."""

CENTRAL = 0.1, 0.9
MOST_STAGES, MOST_PARAMETERS, MOST_VALUES = 4, 4, 6
"""Rows of each kind that are printed; all are among the numbers, except that of many values the rest is one row."""


@dataclass(frozen=True)
class Range:
    """The central 80% of a parameter in the prior, among the simulations and in the posterior."""

    parameter: str
    prior: tuple[float, float]
    simulations: tuple[float, float] | None
    posterior: tuple[float, float]


@dataclass(frozen=True)
class Region:
    """A part of the space: its probability, and its shares of the simulations, of the accepted ones and of Σz²."""

    words: str
    posterior: float
    simulations: float | None
    accepted: float
    variance: float


@dataclass(frozen=True)
class Carriers:
    """How many of ``number`` (accepted simulations, or values of θ) make up half of the variance; the largest share."""

    what: str
    number: int
    half: int
    largest: float
    theta: dict[str, Any]


@dataclass(frozen=True)
class Alternative:
    """What another way would have given from as many simulations.

    ``times`` as many simulations would have given the error that the run has, with ``times_error`` its standard error;
    below 1 the other way is the better one.
    """

    words: str
    standard_error: float
    times: float
    times_error: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Print it for the words. ``unknown`` says what cannot be said of this run."""

    estimate: Estimate
    ess: float | None
    stages: tuple[Stage, ...]
    ranges: tuple[Range, ...]
    parameter: str | None
    regions: tuple[Region, ...]
    carriers: Carriers | None
    halving: Forecast | None
    alternatives: tuple[Alternative, ...]
    unknown: tuple[str, ...] = ()
    what: str = ""
    """What the estimate is where it is not the run's own, such as one at another tolerance."""

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, in JSON's terms."""
        estimate = self.estimate
        return {
            "target": estimate.name,
            **({"what": self.what} if self.what else {}),
            "value": as_json(estimate.value),
            "standard_error": as_json(estimate.standard_error),
            "trusted": as_json(estimate.trusted),
            "warnings": list(estimate.warnings),
            "simulations": as_json(estimate.simulations),
            "accepted": whole(as_json(estimate.accepted)),
            "ess": as_json(self.ess),
            "stages": [as_json(asdict(stage)) for stage in self.stages],
            "ranges": [as_json(asdict(part)) for part in self.ranges],
            "parameter": self.parameter,
            "regions": [as_json(asdict(region)) for region in self.regions],
            "carriers": None if self.carriers is None else as_json(asdict(self.carriers)),
            "halving": None if self.halving is None else self.halving.as_dict(),
            "alternatives": [as_json(asdict(other)) for other in self.alternatives],
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        lines = [
            *self._title(),
            *self._where(),
            *self._why(),
            *self._what_carries(),
            *self._what_next(),
            *(f"Not known: {text}" for text in self.unknown),
        ]
        return "\n".join(map(clean, lines))

    __repr__ = __str__

    def _title(self) -> list[str]:
        estimate = self.estimate
        ess = "" if self.ess is None else f", effective sample size {worth(self.ess)}"
        return [
            f"{estimate.name} = {estimate}" + (f", {self.what}" if self.what else ""),
            *(() if np.all(estimate.trusted) else (f"warning: {text}" for text in estimate.warnings)),
            f"{estimate.simulations:,} simulations, {estimate.accepted:,.6g} accepted{ess}",
        ]

    def _where(self) -> list[str]:
        lines = ["Where the simulations went"]
        shown: list[Stage | None] = list(self.stages)
        if len(shown) > MOST_STAGES:
            shown = [shown[0], None, *shown[-MOST_STAGES + 2 :]]
        for stage in shown:
            if stage is None:
                lines.append(f"  … {len(self.stages) - MOST_STAGES + 1} stages between …")
                continue
            rate = (
                "" if stage.accepted is None else f": {100 * stage.accepted / max(stage.simulations, 1):.3g}% accepted"
            )
            within = "" if stage.tolerance in (None, 0) else f" at tolerance {stage.tolerance:.4g}"
            lines.append(f"  {stage.simulations:,} {stage.words}{rate}{within}")
        if self.ranges:
            rows: list[tuple[str, ...]] = [("central 80%", "prior", "simulations", "posterior")]
            rows += [
                (r.parameter, *(_interval(part) for part in (r.prior, r.simulations, r.posterior)))
                for r in self.ranges[:MOST_PARAMETERS]
            ]
            lines += _table(rows)
        return lines

    def _why(self) -> list[str]:
        if not self.regions:
            return []
        by = "each value of θ" if self.parameter is None else f"each region of {self.parameter}"
        rows: list[tuple[str, ...]] = [("", "posterior", "simulations", "acceptances", "variance")]
        rows += [
            (r.words, *(_percent(share) for share in (r.posterior, r.simulations, r.accepted, r.variance)))
            for r in self.regions
        ]
        return [f"Why: the share of the error's variance that {by} carries", *_table(rows)]

    def _what_carries(self) -> list[str]:
        found = self.carriers
        if found is None:
            return []
        theta = ", ".join(f"{name}={_short(value)}" for name, value in found.theta.items())
        return [
            f"What carries the estimate: {found.half:,} of {found.number:,} {found.what} make up half of the variance;",
            f"  the largest share is {_percent(found.largest)}, at {theta}",
        ]

    def _what_next(self) -> list[str]:
        lines = [] if self.halving is None else [f"Halving the error takes {self.halving}"]
        if self.alternatives:
            lines.append("What as many simulations would have given in other ways")
        for other in self.alternatives:
            times = shorthand(other.times, other.times_error)
            lines.append(f"  {other.words}: standard error {other.standard_error:.3g} (needs {times} times as many)")
        return lines


def explain(run: Run, posterior: Posterior, target: str | Target | None = None) -> Explanation:
    """Explain a posterior's estimate of a target, one of the run's by name or any other."""
    if np.ndim(posterior.simulations):
        raise InputError("a run of many trials has no one explanation; run it without trials=")
    asked = asked_of(run, target)
    estimate = posterior.expect(asked)
    unknown: list[str] = []
    prior, places = prior_of(run, posterior), places_of(run, posterior)
    if isinstance(posterior.errors, CellErrors):
        regions, carriers, alternatives = _of_cells(posterior, posterior.errors, asked, run)
        parameter = None
    else:
        simulated = None if places is None else places[0]
        if simulated is None:
            unknown.append("where the rejected simulations were")
        parameter, regions, carriers, alternatives = _of_draws(run, posterior, asked, simulated, unknown)
    to_halve = halving(run, posterior, asked, estimate)
    if to_halve is None:
        unknown.append("what halving the error would cost")
    return Explanation(
        estimate,
        None if posterior.ess is None else float(posterior.ess),
        tuple(run.stages()),
        _ranges(run, prior, places, (posterior.points, posterior.weights)),
        parameter,
        regions,
        carriers,
        to_halve,
        alternatives,
        tuple(unknown),
    )


def prior_of(run: Run, posterior: Posterior, most: int = PLACES) -> tuple[Points, FloatArray]:
    """Weighted points that stand for the prior: the values of a finite one, otherwise draws, always the same."""
    if isinstance(posterior.errors, CellErrors):
        return posterior.points, posterior.errors.cells.prior
    drawn = run.problem.prior.sample(most, rng=np.random.default_rng(0)).with_derived(run.problem.derived)
    return drawn, np.full(drawn.rows, 1 / drawn.rows)


def places_of(run: Run, posterior: Posterior, most: int = PLACES) -> tuple[Points, FloatArray] | None:
    """Weighted points that stand for the simulations; None where nothing is kept of them."""
    if isinstance(posterior.errors, CellErrors):
        counts = _spent(posterior.errors.cells)
        return posterior.points, counts / counts.sum()
    simulated = run.places(most)
    return None if simulated is None else (simulated, np.full(simulated.rows, 1 / simulated.rows))


def asked_of(run: Run, target: str | Target | None) -> Target:
    if isinstance(target, Target):
        return target
    names = [known.name for known in run.targets]
    if target is None:
        if len(names) > 1:
            raise InputError(f"name the target to explain; known: {', '.join(names)}")
        return run.targets[0]
    name = whole_name(target, names, "an explanation of")
    if name not in names and ":" in name:
        return parse(name)
    return run.targets[names.index(choice(name, names, "target"))]


def halving(run: Run, posterior: Posterior, target: Target, estimate: Estimate) -> Forecast | None:
    """How many simulations more halve the error of an estimate; None where that is not known."""
    error = np.atleast_1d(estimate.standard_error)
    if not (np.isfinite(error).all() and (error > 0).any()):
        return None
    # A component that has no error needs nothing.
    return run.forecast(target, np.where(error > 0, error / 2, 1.0), posterior)


# ---------------------------------------------------------------- weighted draws


def _of_draws(
    run: Run, posterior: Posterior, target: Target, simulated: Points | None, unknown: list[str]
) -> tuple[str | None, tuple[Region, ...], Carriers | None, tuple[Alternative, ...]]:
    errors = posterior.errors
    if isinstance(errors, DrawErrors):
        draws, weights = errors.draws, errors.weights
    elif isinstance(run, DrawRun):  # an estimator of another kind, of the same draws
        draws = run.draws().accepted()
        w = draws.weight * np.exp(draws.log_w - draws.log_w.max())
        weights = w / w.sum()
    else:
        unknown.append("which simulations carry the estimate, and what other ways would have given")
        return None, (), None, ()
    z = posterior.contributions(target)
    if z is None:
        unknown.append("which simulations carry an estimate that is not a weighted average of accepted ones")
        # The weighted average's ψ says what its variance would be elsewhere.
        influence = target.influence(draws.points, weights)
        return None, (), None, _rejection(posterior, target, draws, influence, None, run, unknown)
    if draws.cluster is not None:
        unknown.append("the parts of single draws in an error that is one of evenly spread sets: shares are of Σz²")
    square = (z**2).sum(axis=1)
    parameter, regions = _regions(run, draws, weights, target, square, simulated)
    carriers = _carriers(SINGLE, square, draws.points, run.problem.prior.names)
    influence = z / weights[:, None]
    return (
        parameter,
        regions,
        carriers,
        _rejection(posterior, target, draws, influence, square, run, unknown),
    )


def _rejection(
    posterior: Posterior,
    target: Target,
    draws: Draws,
    influence: FloatArray,
    square: FloatArray | None,
    run: Run,
    unknown: list[str],
) -> tuple[Alternative, ...]:
    """Draws from the prior, see the module's text; with the standard error of the ratio of variances."""
    if draws.relative:
        unknown.append("what rejection would have given: the weights are relative within each round")
        return ()
    independent = draws.scheme == "independent"
    if draws.design is run.problem.prior and independent and square is not None:
        return ()  # that is what it was
    a, w = draws.weight, np.exp(draws.log_w)
    top, bottom = w * a**2 * (influence**2).sum(axis=1), w * a
    if not top.sum() > 0:
        return ()
    # Draws outside the support are in the sizes of strata; of clusters these are the numbers.
    number = float(draws.simulations if draws.cluster is not None else draws.stratum_sizes.sum())
    variance = float(number / posterior.simulations * top.sum() / bottom.sum() ** 2)
    known = getattr(posterior.errors, "known_share", None)
    estimate = posterior.expect(target)
    if estimate.inverted is not None and posterior.errors is not None:
        if not math.isfinite(estimate.variance):
            unknown.append("what rejection would have given: there is no error to compare with")
            return ()
        # A quantile's error is in the slope dQ/dF of its own interval, for either way of simulating.
        variance *= estimate.variance / float(posterior.errors.error_bars(influence).covariance[0, 0])
    parts = np.atleast_1d(estimate.variance) * (1.0 if known is None else known(influence))
    own = float(np.sum(parts))  # what was added for simulations that were not seen is no part of a comparison
    # The relative errors of A/B² and of the ratio to Σz², as sums over independent draws.
    part = top / top.sum() - (2 * bottom / bottom.sum() if square is None else square / square.sum())
    return (_alternative("rejection (draws from the prior)", variance, own, math.sqrt((part**2).sum())),)


def _alternative(words: str, variance: float, own: float, relative: float) -> Alternative:
    times = variance / own if own > 0 else math.nan
    return Alternative(words, math.sqrt(variance), times, times * relative)


def _regions(
    run: Run, draws: Draws, weights: FloatArray, target: Target, square: FloatArray, simulated: Points | None
) -> tuple[str | None, tuple[Region, ...]]:
    """Regions of the parameter that explains most of ψ: of the variance between their means of ψ.

    A parameter that some models lack has a region for these, and counts only where ψ is nothing there.
    """
    points = draws.points
    influence = target.influence(points, weights)
    matters = (influence != 0).any(axis=1)
    best, parameter, chosen = -1.0, None, None
    for name in dict.fromkeys((*run.problem.prior.names, *run.problem.derived)):
        has = points.present(name)
        binning = None if (matters & ~has).any() else _binning(name, points[name][has], weights[has])
        if binning is None:
            continue
        where, size = binning.of(points), len(binning.words)
        mass = np.bincount(where, weights, size)
        sums = np.stack([np.bincount(where, weights * column, size) for column in influence.T])
        between = float((sums**2 / np.where(mass > 0, mass, 1.0)).sum())
        if between > best * (1 + 1e-9):
            best, parameter, chosen = between, name, binning
    if chosen is None or not square.sum() > 0:
        return None, ()
    where, size = chosen.of(points), len(chosen.words)
    spent = None if simulated is None else np.bincount(chosen.of(simulated), minlength=size) / simulated.rows
    shares = [np.bincount(where, part, size) / part.sum() for part in (weights, draws.weight, square)]
    found = []
    for i, words in enumerate(chosen.words):
        probability, accepted, variance = (float(part[i]) for part in shares)
        share = None if spent is None else float(spent[i])
        if probability or accepted or variance or share:
            found.append(Region(words, probability, share, accepted, variance))
    return parameter, tuple(found)


@dataclass(frozen=True, eq=False)
class _Binning:
    """Intervals between ``edges``, or the ``values`` and a bin for all others; the last bin lacks the parameter."""

    name: str
    words: tuple[str, ...]
    edges: FloatArray | None = None
    values: tuple[Any, ...] = ()

    def of(self, points: Points) -> IntArray:
        column, has = points[self.name], points.present(self.name)
        found = np.full(points.rows, len(self.words) - 1, dtype=np.int64)
        if self.edges is not None:
            found[has] = np.searchsorted(self.edges, column[has].astype(np.float64), side="right")
            return found
        found[has] = len(self.values)
        for number, value in enumerate(self.values):
            found[has & (column == value)] = number
        return found


def _binning(name: str, column: npt.NDArray[Any], weights: FloatArray) -> _Binning | None:
    """Intervals of equal mass, or the likeliest values where there are few; None for a parameter that is the same."""
    if column.dtype == object:
        values = np.array(sorted(set(column.tolist()), key=str), dtype=object)
    else:
        values = np.unique(column)
    if values.size < 2:
        return None
    without = f"without {name}"
    if column.dtype.kind not in "iuf" or (column.dtype.kind != "f" and values.size <= PARTS):
        mass = np.array([weights[column == value].sum() for value in values])
        kept = values[np.sort(np.argsort(-mass, kind="stable")[:PARTS])]
        return _Binning(name, (*(str(value) for value in kept), "others", without), values=tuple(kept.tolist()))
    edges = np.unique(quantiles(column, weights, np.arange(1, PARTS) / PARTS))
    words = [_short(edge) for edge in edges.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return _Binning(name, (f"below {words[0]}", *between, f"from {words[-1]} on", without), edges)


def _carriers(what: str, square: FloatArray, points: Points, names: Sequence[str]) -> Carriers | None:
    total = square.sum()
    if not total > 0:
        return None
    falling = np.sort(square)[::-1]
    half = int(np.searchsorted(np.cumsum(falling), total / 2)) + 1
    row = int(np.argmax(square))
    theta = {name: points[name][row : row + 1].tolist()[0] for name in names if points.present(name)[row]}
    return Carriers(what, square.size, half, float(square[row] / total), theta)


# ---------------------------------------------------------------- cells


def _of_cells(
    posterior: Posterior, errors: CellErrors, target: Target, run: Run
) -> tuple[tuple[Region, ...], Carriers | None, tuple[Alternative, ...]]:
    cells = errors.cells
    parts, spreads, _ = errors.parts(target.influence(posterior.points, posterior.weights))
    square = parts.sum(axis=-1)
    if not (np.isfinite(square).all() and square.sum() > 0):
        return (), None, ()
    counts = _spent(cells)
    columns = [posterior.weights, counts / counts.sum(), cells.hits / cells.hits.sum(), square / square.sum()]
    order = np.argsort(-square, kind="stable")
    shown = np.sort(order[:MOST_VALUES])
    rows = [(cells.points.label(i), [float(column[i]) for column in columns]) for i in shown.tolist()]
    rest = order[MOST_VALUES:]
    if rest.size:
        rows.append((f"{rest.size} other values", [float(column[rest].sum()) for column in columns]))
    regions = tuple(Region(words, *shares) for words, shares in rows)
    carriers = _carriers("values of θ", square, cells.points, run.problem.prior.names)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(square > 0, (spreads * parts**2).sum(axis=-1) / square**2, 0.0)
    return regions, carriers, _other_allocations(posterior, cells, square, spread, target, run)


def _spent(cells: Cells) -> FloatArray:
    return np.asarray(cells.counts if cells.spent is None else cells.spent, dtype=np.float64)


def _other_allocations(
    posterior: Posterior, cells: Cells, part: FloatArray, spread: FloatArray, target: Target, run: Run
) -> tuple[Alternative, ...]:
    """Σ α_i/n_i′ for other n_i′, with α_i = n_i V̂_i; ``spread`` are the relative variances of the V̂_i."""
    n, total, prior = cells.counts, float(cells.simulations), cells.prior
    p = np.where(cells.few_hits_or_misses, cells.jeffreys, cells.hits / np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.where(cells.hits > 0, cells.squares / np.where(cells.hits > 0, cells.hits, 1.0), 1.0) * p
    single = np.maximum(second - p**2, 1e-12) / second  # 1 − p for an indicator: var(a)/E[a²]
    estimator = run.estimator if isinstance(run, CellRun) else None
    expected = n.sum() * estimator.q * single if isinstance(estimator, ExpectedCounts) else np.maximum(n, 1)
    alpha = part * expected
    own = float(np.sum(posterior.expect(target).variance))
    ways: list[tuple[str, FloatArray]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        if not (isinstance(estimator, ExpectedCounts) and np.allclose(estimator.q, prior)):
            ways.append(("rejection (draws from the prior)", alpha / single / prior))
        ways.append(("simulations in the posterior's proportions", alpha / posterior.weights))
        root = np.sqrt(alpha)
        ways.append(("the best allocation for this target", root * root.sum()))
    found = []
    for words, terms in ways:
        each = np.where(alpha > 0, terms, 0.0) / total
        variance = float(each.sum())
        if not math.isfinite(variance):
            continue  # values that matter would get no simulation
        share = each / variance - part / part.sum()
        found.append(_alternative(words, variance, own, math.sqrt(float((spread * share**2).sum()))))
    return tuple(found)


# ---------------------------------------------------------------- ranges and words


def _ranges(
    run: Run,
    prior: tuple[Points, FloatArray],
    places: tuple[Points, FloatArray] | None,
    posterior: tuple[Points, FloatArray],
) -> tuple[Range, ...]:
    found = []
    for name in dict.fromkeys((*run.problem.prior.names, *run.problem.derived)):
        if prior[0][name].dtype.kind not in "iuf":
            continue
        first, middle, last = (None if part is None else _central(name, *part) for part in (prior, places, posterior))
        if first is not None and last is not None:
            found.append(Range(name, first, middle, last))
    return tuple(found)


def _central(name: str, points: Points, weights: FloatArray) -> tuple[float, float] | None:
    """The 10% and 90% quantiles among the points that have the parameter."""
    column, has = points[name], points.present(name) & (weights > 0)
    if not has.any():
        return None
    low, high = quantiles(column[has], weights[has], np.array(CENTRAL))
    return float(low), float(high)


def quantiles(column: npt.NDArray[Any], weights: FloatArray, levels: FloatArray) -> FloatArray:
    """The least values that at least so much of the weight does not exceed."""
    values = column.astype(np.float64)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    rows = np.searchsorted(below, levels * below[-1])
    return np.asarray(values[order][np.minimum(rows, values.size - 1)])


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _interval(part: tuple[float, float] | None) -> str:
    return "?" if part is None else f"{_short(part[0])} to {_short(part[1])}"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def as_json(value: Any) -> Any:
    """In JSON's terms: no arrays, and None for what is not a finite number."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
