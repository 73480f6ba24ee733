"""Summary statistics that are learned for the targets (semi-automatic ABC, Fearnhead & Prangle 2012).

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import choice, instance, positive_integer, shown
from fbar.engine import Engine
from fbar.errors import InputError
from fbar.methods.start import Start
from fbar.methods.summaries.functions import functions, out_of_fold
from fbar.methods.summaries.learned import LearnedProblem, LearnedSummary, Learning
from fbar.methods.summaries.pilot import LEAST, Pilot
from fbar.methods.summaries.regressions import REGRESSIONS
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.running.loop import drive
from fbar.seeds import Purpose, Seeds

PILOT, EACH = 1000, 20
"""The pilot by default: this many simulations, or this many for each number of the data if that is more."""

PART = 5
"""At most this part of the budget."""


@dataclass(frozen=True)
class LearnedSummaries:
    """Summaries for the targets, learned by regression from a pilot of simulations; for every method.

    Parameters
    ----------
    regression
        ``"linear"``: ridge regression on the data and their squares, with heavy tails reduced where that predicts
        better. ``"boosting"``: boosted trees, ``"network"``: a small neural network; both need scikit-learn.
        ``"auto"``: the best of the three, by out-of-fold prediction.
    simulations
        Number of simulations of the pilot. By default 20 for each number of the data, at least 1000, at most a fifth of
        the budget; trees and networks benefit from more.
    folds
        The number of parts into which the pilot is split to assess the regressions.

    Examples
    --------
    >>> import fbar
    >>> from scipy import stats
    >>> problem = fbar.Problem(
    ...     fbar.Prior(mu=stats.norm(0, 1)),
    ...     lambda t, rng: t["mu"][:, None] + rng.standard_normal((t.rows, 20)),
    ...     observed=[0.5] * 20,
    ... )
    >>> learned = fbar.LearnedSummaries().learn(problem, fbar.mean("mu"), seed=1)
    >>> learned.observed.shape, round(learned.r_squared["mean:mu"], 1)
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
                raise InputError(f"summaries are learned from at least {LEAST} simulations; got {self.simulations}")
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
        if isinstance(problem, LearnedProblem):
            raise InputError("this problem's summaries are already learned; give the problem they were learned from")
        if problem.simulator.known is not None:
            raise InputError(
                "this problem's simulations only match or do not; there are no data to learn summaries from"
            )
        if problem.arguments["accept"] is not None:
            raise InputError("with a custom acceptance rule (accept=) summaries have no effect; leave out one of them")
        if problem.observed is None or problem.observed.dtype.kind not in "biuf":
            raise InputError("summaries are learned from data that are numbers; this problem's are labels")

    def size(self, problem: Problem, budget: int | None = None) -> int:
        """The pilot's number of simulations."""
        if self.simulations is not None:
            if budget is not None and self.simulations >= budget:
                raise InputError(
                    f"the pilot's {self.simulations} simulations use up the budget of {budget}; raise the budget"
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
        self,
        problem: Problem,
        targets: Target | str | Sequence[Target | str],
        seed: Any = None,
        *,
        block_size: int | None = None,
    ) -> Pilot:
        """The pilot as a run that is asked and told; `fit` takes it when it is finished."""
        self.check(problem)
        seeds = Seeds.of(seed).pilot()
        return Pilot(Start(problem, problem.posed(targets), seeds, self.size(problem), None, None, block_size))

    def fit(self, pilot: Pilot) -> LearnedProblem:
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
        # A prediction that is exact would make an infinite scale of a tolerance; no such small one is ever given.
        scale = np.sqrt(np.maximum(left[kind], 1e-12))
        summary = LearnedSummary(pilot.problem.summary, REGRESSIONS[kind](x, y, seed), scale, x[:100])
        learning = Learning(
            kind, dict(zip(names, (1 - left[kind]).tolist(), strict=True)), pilot.simulations, tried[kind] / scale
        )
        return LearnedProblem(pilot.problem, summary, learning)

    def learn(
        self,
        problem: Problem,
        targets: Target | str | Sequence[Target | str],
        *,
        seed: Any = None,
        simulations: int | None = None,
        engine: Engine | None = None,
    ) -> LearnedProblem:
        """Run the pilot and return the problem with learned summaries, for any method."""
        chosen = self if simulations is None else LearnedSummaries(self.regression, simulations, self.folds)
        pilot = chosen.pilot(problem, targets, seed)
        drive(pilot, engine=engine, history=False)
        return chosen.fit(pilot)
