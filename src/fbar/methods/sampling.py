"""Draws of θ from the prior (rejection sampling) or from any q (importance sampling)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, distribution
from fbar.checks import choice, finite_number, non_negative_number, positive_integer, shown, store_number
from fbar.designs.optimal import NAMED, lost_mass, named
from fbar.designs.schemes import SCHEMES, Independent, Scheme, Sobol, Stratified
from fbar.errors import InputError
from fbar.estimation.cells import ActualCounts, ExpectedCounts
from fbar.estimation.doubly_robust import DoublyRobust
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.kernel_regression import KernelRegression
from fbar.methods.draws import DrawRun
from fbar.methods.finite.allocation import oracle_shares
from fbar.methods.finite.cells import CellRun
from fbar.methods.finite.sampling import SamplingRun
from fbar.methods.method import Method
from fbar.methods.registry import Needs, register
from fbar.methods.run import ROUNDS
from fbar.methods.start import Start
from fbar.question.acceptance import Acceptance
from fbar.question.priors import Distribution
from fbar.question.problem import Problem
from fbar.question.targets import Target


@register(
    "importance",
    "draws from a distribution q of your choice, weighted by p/q; from the prior by default",
    parts=(Independent, Sobol, Stratified, WeightedAverage, KernelRegression, DoublyRobust),
)
@dataclass(frozen=True)
class Importance(Method):
    """Draw θ from q and weight the accepted draws by p/q (section S5 of the paper).

    Parameters
    ----------
    q
        Where to simulate. On a finite space: probabilities of the values, or the name of a rule of table 3. On any
        other: a distribution with the prior's parameters, or the name of a design of `fbar.designs.optimal`:
        ``"prior"``, ``"posterior"``, ``"max-ess"``, ``"targeted"``, ``"stratified"``. Names other than
        ``"prior"`` need a known acceptance probability.
    scheme
        ``"independent"``, ``"stratified"`` or ``"sobol"`` draws, or a `Scheme` such as ``Stratified(2)``; stratified
        and Sobol draws help where acceptance is likely, see ``docs/reference/overview.md``. For spaces that are not
        finite.
    estimator
        ``WeightedAverage()``, a `KernelRegression` or `DoublyRobust()`; for spaces that are not finite.
    weighting
        On a finite space: ``"expected"`` weights by the expected number of draws, N q_i, as importance sampling does;
        ``"actual"`` by the actual number n_i at θ_i, which has lower variance (section S5.1).
    pseudo_count
        On a finite space, see `fbar.estimation.cells`; the paper's figures S3 and S4 use 0.01.
    rounds
        The number of parts in which the budget is spent; stopping rules are checked in between. By default 16 for
        independent draws and 1 for others, since draws are stratified within their round.
    tolerance, kernel
        When a simulation is accepted, see `Acceptance`. Without a tolerance, the answer is about the posterior, by
        regression at the data, see `fbar.estimation.at_data`; if the data are not numbers, on a finite space, with
        another estimator, or if acceptance probabilities are known, by exact matching (tolerance 0).
    """

    q: str | Sequence[float] | npt.NDArray[np.float64] | Distribution = "prior"
    scheme: str | Scheme = "independent"
    estimator: WeightedAverage | KernelRegression | DoublyRobust = field(default_factory=WeightedAverage)
    weighting: str = "expected"
    pseudo_count: float = 0.0
    rounds: int | None = None
    tolerance: float | None = None
    kernel: str = "uniform"

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            store_number(self, "tolerance", non_negative_number(self.tolerance, "tolerance"))
        Acceptance(self.tolerance or 1.0, self.kernel)  # a kernel may be given its tolerance later
        choice(self.weighting, ("expected", "actual"), "weighting")
        store_number(
            self, "pseudo_count", finite_number(non_negative_number(self.pseudo_count, "pseudo_count"), "pseudo_count")
        )
        if self.rounds is not None:
            positive_integer(self.rounds, "rounds")

    @property
    def chooses_tolerance(self) -> bool:
        return self.tolerance is None

    def answers_at_data(self, problem: Problem) -> bool:
        """Without a tolerance, where data are numbers; a known acceptance probability is that of exact matching."""
        if self.tolerance is not None or problem.is_finite or not problem.compares_numbers or problem.knows_acceptance:
            return False
        return isinstance(self.estimator, WeightedAverage) and (not isinstance(self.q, str) or self.q == "prior")

    def for_problem(self, problem: Problem) -> Self:
        """Without a tolerance, what does not answer at the data matches exactly."""
        exact = self.tolerance is None and not self.answers_at_data(problem)
        return self.at_tolerance(0.0) if exact else self

    @property
    def _matching(self) -> float:
        """The tolerance of what is accepted; 0 where none is given."""
        return 0.0 if self.tolerance is None else self.tolerance

    def distribution(self, problem: Problem, targets: Sequence[Target]) -> FloatArray:
        """q on a finite space."""
        if isinstance(self.q, Distribution):
            raise InputError(
                f"q must be probabilities of the {problem.finite.size} parameter values; got {shown(self.q)}"
            )
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

    def design(self, problem: Problem, targets: Sequence[Target]) -> Distribution:
        """q on any other space."""
        if isinstance(self.q, str):
            return named(choice(self.q, NAMED, "design"), problem, tuple(targets), self._matching)
        if not isinstance(self.q, Distribution):
            raise InputError(f"q must be a distribution of {', '.join(problem.prior.names)}; got {shown(self.q)}")
        if set(self.q.names) != set(problem.prior.names):
            raise InputError(
                f"q has the parameters {', '.join(self.q.names)}, the prior {', '.join(problem.prior.names)}; "
                "they must be the same"
            )
        q: Any = self.q
        lost = lost_mass(problem, q, self._matching)
        if lost > 0:
            whose = "posterior" if problem.knows_acceptance else "prior"
            raise InputError(
                f"q has no density where about {lost:.2g} of the {whose}'s mass is, so the answer would miss it; "
                "mix q with the prior: fbar.designs.defensive(q, prior)"
            )
        return self.q

    def begin(self, start: Start) -> CellRun | DrawRun:
        return self._on_cells(start) if start.problem.is_finite else self._by_draws(start)

    def _on_cells(self, start: Start) -> CellRun:
        """Numbers of draws of each value of a finite space."""
        plain = isinstance(self.scheme, str) and self.scheme == "independent"
        if not plain or not isinstance(self.estimator, WeightedAverage):
            raise InputError(
                "scheme= and estimator= are for parameter spaces that are not finite; on a finite space "
                "fbar.Allocation stratifies completely"
            )
        q = self.distribution(start.problem, start.targets)
        return SamplingRun(
            q,
            start,
            acceptance=Acceptance(self._matching, self.kernel),
            estimator=ExpectedCounts(q) if self.weighting == "expected" else ActualCounts(self.pseudo_count),
            rounds=ROUNDS if self.rounds is None else self.rounds,
        )

    def _by_draws(self, start: Start) -> DrawRun:
        """One draw a simulation, on any other space."""
        problem = start.problem
        acceptance = Acceptance(math.inf if start.at_data else self._matching, self.kernel)
        if start.trials is not None:
            raise InputError("trials= needs a finite parameter space; run one trial at a time")
        problem.check_acceptance_probability(self._matching)
        if isinstance(self.estimator, KernelRegression):
            self.estimator.check(problem)
        scheme = self._drawing_scheme()
        if not isinstance(self.estimator, WeightedAverage | KernelRegression | DoublyRobust):
            raise InputError(
                "estimator must be WeightedAverage(), KernelRegression() or DoublyRobust(); got "
                f"{shown(self.estimator)}"
            )
        if isinstance(self.estimator, DoublyRobust):
            self.estimator.check(problem, scheme.name, start.budget if start.limit is None else start.limit)
        rounds = self.rounds
        if rounds is None:
            rounds = ROUNDS if isinstance(scheme, Independent) else 1
        return DrawRun(
            start,
            design=self.design(problem, start.targets),
            scheme=scheme,
            acceptance=acceptance,
            estimator=self.estimator,
            rounds=rounds,
        )

    def _drawing_scheme(self) -> Scheme:
        scheme = SCHEMES[choice(self.scheme, SCHEMES, "scheme")] if isinstance(self.scheme, str) else self.scheme
        if not isinstance(scheme, Scheme):
            raise InputError(
                f"scheme must be one of {', '.join(SCHEMES)}, or a Scheme such as Stratified(2); got {shown(scheme)}"
            )
        return scheme


@register("rejection", "draws from the prior, keeping those that are accepted")
@dataclass(frozen=True)
class Rejection(Method):
    """ABC rejection sampling (algorithm 1 of the paper): draw θ from the prior, keep those that match the data.

    ``scheme`` places the draws as in `Importance`, and ``tolerance`` has the same meaning as there.
    """

    scheme: str | Scheme = "independent"
    rounds: int | None = None
    tolerance: float | None = None
    kernel: str = "uniform"

    def __post_init__(self) -> None:
        tolerance = self._as_importance().tolerance
        if tolerance is not None:
            store_number(self, "tolerance", tolerance)

    def _as_importance(self) -> Importance:
        return Importance("prior", self.scheme, rounds=self.rounds, tolerance=self.tolerance, kernel=self.kernel)

    @property
    def chooses_tolerance(self) -> bool:
        return self._as_importance().chooses_tolerance

    def for_problem(self, problem: Problem) -> Self:
        return replace(self, tolerance=self._as_importance().for_problem(problem).tolerance)

    def answers_at_data(self, problem: Problem) -> bool:
        return self._as_importance().answers_at_data(problem)

    def begin(self, start: Start) -> CellRun | DrawRun:
        return self._as_importance().begin(start)


_KNOWN: Needs = "a known acceptance probability"

register("posterior", "draws from the true posterior", needs=_KNOWN)(partial(Importance, "posterior"))
register("max-ess", "draws from the design with the largest effective sample size", needs=_KNOWN)(
    partial(Importance, "max-ess")
)
register("optimal", "draws from the design with the smallest mean squared error", needs=_KNOWN)(
    partial(Importance, "targeted")
)
register("stratified", "draws from the best stratified design", needs=_KNOWN)(
    partial(Importance, "stratified", scheme="stratified")
)
