"""Summary statistics that are learnt for the targets (semi-automatic ABC, Fearnhead & Prangle 2012).

Simulations are compared with the data by few numbers, each as near as a regression gets to s(x) = E[f(θ)|x] for a
function f that the targets are made of. With s itself nothing is lost for f: at tolerance 0 the estimate would be
E[f|s(x*)] = E[E[f|x]|s(x*)] = s(x*), which is that given all the data; and the fewer the numbers, the smaller the
tolerance that a budget can pay for. Here f are the functions of the user's targets, not the parameters.

The regressions are fitted to a pilot of simulations from the prior. In K folds, each simulation of the pilot is
predicted by a regression that was fitted without it: R², the scale of the summaries and the tolerance that a share of
simulations meets are read from these predictions, so that no simulation judges itself. The simulations of the run are
new, and are judged by the regression that was fitted to the whole pilot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, choice, instance, positive_integer, shown
from fbar.engine import Engine, InProcess
from fbar.errors import InputError, NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.methods.base import Run, Start
from fbar.methods.summaries.regressions import REGRESSIONS, Fit
from fbar.question.outcomes import Batch, Failure, Outcomes, Seen, Simulated
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target, as_targets
from fbar.question.truth import Reference
from fbar.seeds import Purpose, Seeds

BLOCK_SIZE = 4096
LEAST = 50
"""Simulations of the pilot that must succeed."""

PILOT, EACH = 1000, 20
"""The pilot by default: this many simulations, or so many for each number of the data if that is more."""

PART = 5
"""At most this part of the budget."""

POOR = 0.02
"""An R² below this is told as a warning."""


@dataclass(frozen=True)
class LearnedSummaries:
    """Summaries for the targets, learnt by regression from a pilot of simulations; for every method.

    Parameters
    ----------
    regression
        ``"linear"``: ridge regression on the data and their squares, heavy tails tamed where that predicts better.
        ``"boosting"``: boosted trees, ``"network"``: a small neural network; both need scikit-learn. ``"auto"``: the
        one of the three that predicts best out of fold.
    simulations
        Of the pilot. By default 20 for each number of the data, at least 1000, at most a fifth of the budget; trees and
        networks gain from more.
    folds
        In how many parts the pilot is split to judge the regressions.

    Examples
    --------
    >>> import fbar
    >>> from scipy import stats
    >>> problem = fbar.Problem(
    ...     fbar.Prior(mu=stats.norm(0, 1)),
    ...     lambda t, rng: t["mu"][:, None] + rng.standard_normal((t.rows, 20)),
    ...     observed=[0.5] * 20,
    ... )
    >>> learnt = fbar.LearnedSummaries().learn(problem, fbar.mean("mu"), seed=1)
    >>> learnt.observed.shape, round(learnt.r_squared["mean:mu"], 1)
    ((1,), 1.0)
    """

    regression: str = "linear"
    simulations: int | None = None
    folds: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.regression, str):
            raise InputError(
                f"regression must be one of {', '.join((*REGRESSIONS, 'auto'))}; got {shown(self.regression)}"
            )
        choice(self.regression, (*REGRESSIONS, "auto"), "regression")
        if positive_integer(self.folds, "folds") < 2:
            raise InputError("folds must be at least 2, so that no simulation judges itself; got 1")
        object.__setattr__(self, "folds", int(self.folds))
        if self.simulations is not None:
            if positive_integer(self.simulations, "simulations") < LEAST:
                raise InputError(f"summaries are learnt from at least {LEAST} simulations; got {self.simulations}")
            object.__setattr__(self, "simulations", int(self.simulations))

    @classmethod
    def of(cls, given: LearnedSummaries | str) -> LearnedSummaries:
        """From a regression's name, or as it is."""
        if isinstance(given, str):
            choice(given, (*REGRESSIONS, "auto"), "summaries")
            return cls(given)
        if not isinstance(given, LearnedSummaries):
            raise InputError(
                f"summaries must be the name of a regression ({', '.join(REGRESSIONS)}, auto) or "
                f"fbar.LearnedSummaries(...); got {shown(given)}"
            )
        return given

    def check(self, problem: Problem) -> None:
        """Refuse a problem that has nothing to regress on."""
        instance(problem, Problem, "problem", "an fbar.Problem")
        if isinstance(problem, LearntProblem):
            raise InputError("this problem's summaries are learnt already; give the problem that they were learnt from")
        if problem.simulator.known is not None:
            raise InputError("this problem's simulations match or do not; there are no data to learn summaries from")
        if problem.arguments["accept"] is not None:
            raise InputError("with an acceptance rule of your own (accept=) summaries have no effect; leave one out")
        if problem.observed is None or problem.observed.dtype.kind not in "biuf":
            raise InputError("summaries are learnt from data that are numbers; this problem's are labels")

    def size(self, problem: Problem, budget: int | None = None) -> int:
        """The pilot's number of simulations."""
        if self.simulations is not None:
            if budget is not None and self.simulations >= budget:
                raise InputError(
                    f"the pilot's {self.simulations} simulations leave nothing of the budget {budget}; raise the budget"
                )
            return self.simulations
        assert problem.observed is not None
        wanted = max(PILOT, EACH * int(problem.observed.size))
        if budget is None:
            return wanted
        if budget // PART < LEAST:
            raise InputError(f"a budget of {budget} is too small to learn summaries; give at least {PART * LEAST}")
        return min(wanted, budget // PART)

    def pilot(
        self, problem: Problem, targets: Target | Sequence[Target], seed: Any = None, *, block_size: int | None = None
    ) -> Pilot:
        """The pilot as a run that is asked and told; `fit` takes it when it is finished."""
        self.check(problem)
        seeds = Seeds.of(seed).pilot()
        return Pilot(Start(problem, as_targets(targets), seeds, self.size(problem), None, None, block_size))

    def fit(self, pilot: Pilot) -> LearntProblem:
        """The problem with the summaries that a finished pilot teaches."""
        x, points = pilot.simulated()
        names, f = functions(pilot.targets, points)
        spread = f.std(axis=0)
        y = (f - f.mean(axis=0)) / spread
        kinds = list(REGRESSIONS) if self.regression == "auto" else [self.regression]
        seed = int(pilot.seeds.sequence(Purpose.PILOT, 0, 0).generate_state(1)[0])
        tried = {kind: out_of_fold(kind, x, y, self.folds, seed) for kind in kinds}
        left = {kind: ((y - predicted) ** 2).mean(axis=0) for kind, predicted in tried.items()}
        kind = min(kinds, key=lambda kind: float(left[kind].mean()))
        # A prediction that is exact would make an infinite scale of a tolerance; nobody can tell such a small one.
        scale = np.sqrt(np.maximum(left[kind], 1e-12))
        summary = LearntSummary(pilot.problem.summary, REGRESSIONS[kind](x, y, seed), scale, x[:100])
        learning = Learning(
            kind, dict(zip(names, (1 - left[kind]).tolist(), strict=True)), pilot.simulations, tried[kind] / scale
        )
        return LearntProblem(pilot.problem, summary, learning)

    def learn(
        self,
        problem: Problem,
        targets: Target | Sequence[Target],
        *,
        seed: Any = None,
        simulations: int | None = None,
        engine: Engine | None = None,
    ) -> LearntProblem:
        """Run the pilot and give the problem with learnt summaries, for any method."""
        chosen = self if simulations is None else LearnedSummaries(self.regression, simulations, self.folds)
        pilot = chosen.pilot(problem, targets, seed)
        with (engine or InProcess()).session(problem) as session:
            session.submit(pilot.ask())
            while answers := session.collect():
                pilot.tell(*answers)
        return chosen.fit(pilot)


class Pilot(Run):
    """Simulations from the prior that summaries are learnt from: one round, all of it kept."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        if not start.problem.records:  # a target of recorded outputs is known after a simulation only
            start.problem.check_targets(start.targets)
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._pieces: list[tuple[Points, npt.NDArray[Any]]] = []
        self._simulations = 0

    @property
    def finished(self) -> bool:
        return self.round > 0

    @property
    def simulations(self) -> int:
        return self._simulations

    def posterior(self) -> Posterior:
        raise NoPosterior("a pilot has no posterior; it teaches summaries, see LearnedSummaries.fit")

    def _blocks(self) -> int:
        assert self.budget is not None
        return -(-self.budget // self.block_size)

    def _block(self, block: int) -> Batch:
        assert self.budget is not None
        size = min(self.block_size, self.budget - block * self.block_size)
        points = self.problem.prior.sample(size, rng=self.seeds.generator(Purpose.DESIGN, 0, block))
        return Batch(0, block, points.with_derived(self.problem.derived), None, self.seeds)

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        assert isinstance(outcomes, Simulated)
        points = batch.points.with_columns(outcomes.columns)
        failure = np.zeros(outcomes.simulations) if outcomes.failure is None else outcomes.failure
        rows = np.flatnonzero(failure == Failure.NONE)
        self._pieces.append((points.take(rows), np.asarray(outcomes.summaries)[rows]))
        self._simulations += outcomes.simulations
        self.seen = self.seen + Seen.of(np.zeros(0), outcomes.failure, outcomes)

    def _all_failed(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        self._pieces = [(points.take(none), summaries[none]) for points, summaries in self._pieces]

    def _end_round(self) -> None:
        return

    def simulated(self) -> tuple[FloatArray, Points]:
        """The data (n, d) and parameters of the simulations that succeeded."""
        if not self.finished:
            raise InputError("the pilot is not finished; tell it the outcomes of all its blocks first")
        points = Points.concatenate([points for points, _ in self._pieces])
        if points.rows < LEAST:
            raise InputError(
                f"{points.rows} of the pilot's {self.simulations} simulations succeeded, too few to learn summaries "
                f"from ({self.seen.failed}); give LearnedSummaries more simulations="
            )
        x = np.concatenate([values.reshape(len(values), -1) for _, values in self._pieces])
        return x.astype(np.float64), points


def functions(targets: Sequence[Target], points: Points) -> tuple[list[str], FloatArray]:
    """The functions of θ that the targets depend on, with names, and their values (n, c).

    A target's components; for one that is conditional on its parameters' model, these within the model and the model's
    indicator; and the influence function under the prior, which for a (co)variance is the product. What does not vary
    and what another function tells already is left out.
    """
    names: list[str] = []
    kept: list[FloatArray] = []
    told: list[FloatArray] = []
    uniform = np.full(points.rows, 1 / points.rows)
    for target in targets:
        given = target.given(points)
        found = target.components(points)
        if given is not None:
            if not given.any():
                raise InputError(f"target {shown(target.name)} needs parameters that no simulation of the pilot has")
            centre = found[given].mean(axis=0)
            found = np.hstack([np.where(given[:, None], found - centre, 0.0), given[:, None].astype(np.float64)])
        if target.smooth:
            found = np.hstack([found, target.influence(points, uniform).reshape(points.rows, -1)])
        if not np.isfinite(found).all():
            raise InputError(f"target {shown(target.name)} is not finite at all parameters of the pilot")
        own = 0
        for column in found.T:
            spread = float(column.std())
            if not spread > 1e-12 * float(np.abs(column).max()):
                continue
            standard = (column - column.mean()) / spread
            if any(abs(float(standard @ other)) > (1 - 1e-9) * len(column) for other in told):
                continue
            own += 1
            names.append(target.name if own == 1 else f"{target.name} ({own})")
            kept.append(column)
            told.append(standard)
    if not kept:
        raise InputError("the targets do not vary among the pilot's simulations; there is nothing to learn for them")
    return names, np.stack(kept, axis=1)


def out_of_fold(kind: str, x: FloatArray, y: FloatArray, folds: int, seed: int) -> FloatArray:
    """Every row's prediction by a regression that was fitted without its fold.

    Draws are independent: each k-th row makes a fold.
    """
    predicted = np.empty_like(y)
    fold = np.arange(len(x)) % folds
    for k in range(folds):
        predicted[fold == k] = REGRESSIONS[kind](x[fold != k], y[fold != k], seed).predict(x[fold == k])
    return predicted


class LearntSummary:
    """The learnt summary as a function of a batch of outputs: the regression of the problem's own summaries.

    ``fingerprint`` is that of its values at some simulations, to know it again.
    """

    def __init__(self, own: Any, fit: Fit, scale: FloatArray, probe: FloatArray) -> None:
        self.own, self.fit, self.scale = own, fit, scale
        values = np.round(fit.predict(probe) / scale, 4) + 0.0
        self.fingerprint = hashlib.sha256(values.tobytes()).hexdigest()[:16]

    def __call__(self, x: npt.NDArray[Any]) -> FloatArray:
        given = np.asarray(x if self.own is None else self.own(x))
        values = given.reshape(len(given), -1).astype(np.float64)
        result = np.full((len(values), self.scale.size), np.nan)  # a simulation that failed has no summaries
        good = np.isfinite(values).all(axis=1)
        if good.any():
            result[good] = self.fit.predict(values[good]) / self.scale
        return result


@dataclass(frozen=True, eq=False)
class Learning:
    """What the pilot told: the regression, R² and summaries (of what succeeded) out of fold, all its simulations."""

    regression: str
    r_squared: Mapping[str, float]
    simulations: int
    summaries: FloatArray


class LearntProblem(Problem):
    """A problem whose summaries were learnt for some targets; made by `LearnedSummaries.learn`.

    Its summaries are estimates of E[f(θ)|x] over their residual standard deviation, which is the posterior's in a root
    mean square over the data that the prior makes, so a tolerance of 0.1 is about a tenth of a posterior standard
    deviation. The distance is Euclidean, whatever the problem's own was.

    Even at tolerance 0 the posterior given these summaries is not that given the data: where E[f(θ)|x] is well
    predicted its means of f are close, while other features, such as spread and shape, may be wider. ``truth`` is
    that of the problem with all its data, which is what one wants to know.

    Attributes
    ----------
    base
        The problem that the summaries were learnt from.
    regression
        Which one it is.
    r_squared
        By function, out of fold: the share of the prior variance of f that its summary explains.
    pilot_simulations
        How many simulations taught.
    """

    def __init__(self, base: Problem, summary: LearntSummary, learning: Learning) -> None:
        super().__init__(
            base.prior,
            base.simulate,
            base.raw,
            summary=summary,
            derived=base.derived,
            cost=base.arguments["cost"],
            records=base.records,
        )
        self.base = base
        self.learning = learning
        self._summary = summary

    @property
    def regression(self) -> str:
        return self.learning.regression

    @property
    def r_squared(self) -> dict[str, float]:
        return dict(self.learning.r_squared)

    @property
    def pilot_simulations(self) -> int:
        return self.learning.simulations

    @cached_property
    def pilot_distances(self) -> FloatArray:
        """Distances of the pilot's simulations to the data, from predictions out of fold; ∞ for those that failed."""
        assert self.observed is not None
        away = np.sqrt(((self.learning.summaries - self.observed) ** 2).sum(axis=1))
        return np.concatenate([away, np.full(self.learning.simulations - len(away), np.inf)])

    def tolerance_for(self, share: float) -> float:
        """The tolerance that this share of simulations from the prior meets, by the pilot."""
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
            raise InputError(f"share must be a number between 0 and 1, such as 0.01; got {shown(share)}")
        count = int(np.ceil(share * len(self.pilot_distances)))
        found = float(np.sort(self.pilot_distances)[count - 1])
        if not np.isfinite(found):
            raise InputError(f"too many of the pilot's simulations failed for a share of {share:g}")
        return found

    @property
    def remark(self) -> str:
        """What was learnt, in a line."""
        shown = ", ".join(f"{name} {value:.2f}" for name, value in list(self.r_squared.items())[:6])
        more = ", …" if len(self.r_squared) > 6 else ""
        return (
            f"{self.pilot_simulations:,} more simulations taught the summaries ({self.regression} regression, "
            f"R² out of fold: {shown}{more}); 1% of them came within {np.quantile(self.pilot_distances, 0.01):.3g}"
        )

    @property
    def warning(self) -> str:
        """Which targets the data say nothing of, as far as the regression can see; empty if there is none."""
        poor = [name for name, value in self.r_squared.items() if value < POOR]
        if not poor:
            return ""
        return (
            f"the summaries explain nothing of {', '.join(poor)} (R² out of fold below {POOR:g}): another regression "
            "or a larger pilot may; if not, the estimate is the prior's"
        )

    def replace(self, **changes: Any) -> Problem:
        """The same summaries of a problem that is changed; a plain problem where the comparison itself is changed."""
        if {"summary", "distance", "accept"} & changes.keys():
            return self.base.replace(**changes)
        return LearntProblem(self.base.replace(**changes), self._summary, self.learning)

    def with_observed(self, observed: Any) -> LearntProblem:
        """The same summaries of other data: nothing is learnt again."""
        return LearntProblem(self.base.with_observed(observed), self._summary, self.learning)

    @cached_property
    def reference(self) -> Reference:
        return self.base.reference

    def truth(self, target: Target | None = None) -> Any:
        """The truth given all the data, as far as the problem itself knows it."""
        return self.base.truth() if target is None else self.base.truth(target)

    def truth_error(self, target: Target) -> FloatArray:
        return self.base.truth_error(target)
