"""Independent draws of θ: rejection sampling from the prior, importance sampling from any q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, choice, distribution
from fbar.errors import InputError
from fbar.estimators.cells import ActualCounts, Cells, ExpectedCounts
from fbar.methods.allocation import oracle_shares
from fbar.methods.base import ROUNDS, Method
from fbar.methods.cells import CellRun
from fbar.posterior import Posterior
from fbar.problem import Acceptance, Problem
from fbar.seeds import Purpose
from fbar.targets import Target, as_targets


@dataclass(frozen=True)
class Importance(Method):
    """Draw θ independently from q and weigh the accepted draws by π/q (section S5.1 of the paper).

    Parameters
    ----------
    q
        The sampling distribution: probabilities of the parameter values, or the name of a rule of table 3
        where the acceptance probabilities are known.
    weighting
        ``"expected"`` weighs by the expected number of draws, N q_i, as importance sampling does;
        ``"actual"`` by the number n_i that θ_i really got, which has lower variance (section S5.1).
    pseudo_count
        See `ActualCounts`; the paper's figures S3 and S4 use 0.01.
    rounds, tolerance, kernel
        As for `Allocation`.
    """

    q: str | Sequence[float] | npt.NDArray[np.float64] = "prior"
    weighting: str = "expected"
    pseudo_count: float = 0.0
    rounds: int = ROUNDS
    tolerance: float = 0.0
    kernel: str = "uniform"

    def distribution(self, problem: Problem, targets: Sequence[Target]) -> FloatArray:
        given = oracle_shares(self.q, problem, targets) if isinstance(self.q, str) else self.q
        q = distribution(given, problem.finite.size, "q")
        lost = (q == 0) & (problem.finite.probabilities > 0)
        if lost.any():
            mass = float(problem.finite.probabilities[lost].sum())
            raise InputError(
                f"q never draws {problem.points.label(int(np.argmax(lost)))}, where the prior has mass "
                f"({mass:.3g} in all); give q a positive probability there"
            )
        return q

    def start(
        self,
        problem: Problem,
        targets: Target | Sequence[Target],
        seed: Any = None,
        budget: int | None = None,
        *,
        limit: int | None = None,
        trials: int | None = None,
        block_size: int | None = None,
    ) -> SamplingRun:
        choice(self.weighting, ("expected", "actual"), "weighting")
        q = self.distribution(problem, as_targets(targets))
        estimator: Callable[[Cells], Posterior] = (
            ExpectedCounts(q) if self.weighting == "expected" else ActualCounts(self.pseudo_count)
        )
        return SamplingRun(
            q,
            problem,
            targets,
            seed,
            budget,
            limit=limit,
            trials=trials,
            block_size=block_size,
            acceptance=Acceptance(self.tolerance, self.kernel),
            estimator=estimator,
            rounds=self.rounds,
        )


@dataclass(frozen=True)
class Rejection(Method):
    """ABC rejection sampling (algorithm 1 of the paper): draw θ from the prior, keep what matches the data."""

    rounds: int = ROUNDS
    tolerance: float = 0.0
    kernel: str = "uniform"

    def start(
        self,
        problem: Problem,
        targets: Target | Sequence[Target],
        seed: Any = None,
        budget: int | None = None,
        *,
        limit: int | None = None,
        trials: int | None = None,
        block_size: int | None = None,
    ) -> SamplingRun:
        method = Importance("prior", rounds=self.rounds, tolerance=self.tolerance, kernel=self.kernel)
        return method.start(problem, targets, seed, budget, limit=limit, trials=trials, block_size=block_size)


class SamplingRun(CellRun):
    def __init__(self, q: FloatArray, *arguments: Any, **options: Any) -> None:
        self.q = q
        super().__init__(*arguments, **options)

    def _round_counts(self, size: int) -> IntArray:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 0)
        return rng.multinomial(size, self.q, size=self.counts.shape[:-1])
