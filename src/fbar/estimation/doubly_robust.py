"""The doubly robust estimator: a regression of acceptance removes the noise of the draw of θ from the weighted average.

θ_i are independent draws from q, w = p/q, K_i the acceptance weight, L(θ) = E[K|θ], and L̂ any function that does not
depend on draw i. Then

    S_i = ∫ p L̂ + w_i (K_i − L̂(θ_i)),        R_i = ∫ p f L̂ + w_i f_i (K_i − L̂(θ_i))

have the expectations ∫ p L = Z and ∫ p f L = Z f̄ *whatever L̂ is*, and f̂ = R̄/S̄ has, to first order, the variance

    var(R − f̂S) / (N S̄²)  →  (1/NZ²) { E_q[w² ψ² var(K|θ)] + var_q[w ψ (L − L̂)] },       ψ = f − f̄.

L̂ = 0 is the weighted average. With L̂ = L the first term is left, which is also what is left when θ is stratified
infinitely finely. The gain over the weighted average is at most 1/(1−r), r = E_q[w²ψ²L²]/E_q[w²ψ²K²], which is
at most the largest acceptance probability: with rare acceptance there is none.

L̂ is cross-fitted: draws are assigned to folds by their index, and the L̂ of a fold is learned from the other folds
only. It is a kernel regression (Nadaraya–Watson) with a ridge,

    L̂(θ) = Σ K_i k((θ−θ_i)/h) / (λ + Σ k((θ−θ_i)/h)),

in the prior's unit coordinates, so that p(θ)dθ = du; where no draw is near, L̂ = 0, and it is kept from extending to
regions with few draws of large weight (`fbar.estimation.smooth`).

R̄ and S̄ are integrals of f and of 1 over one signed measure, L̂ at the nodes of the quadrature and residuals at the
draws. Targets that are functions of expectations are evaluated on it as on any posterior, through the same ψ; others
(quantiles) are the weighted average's own value moved by one step along ψ.

Cross-fitting: Chernozhukov et al., Econometrics Journal 21 (2018) C1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.arrays import FloatArray, IntArray
from fbar.checks import positive_integer, positive_number, shown, store_number
from fbar.errors import InputError, NoPosterior
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED, ONE_CARRIES, carried
from fbar.estimation.draws import Draws, WeightedAverage
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.kernel_regression import find_jumps, require_continuous
from fbar.estimation.posterior import ErrorModel, Posterior
from fbar.estimation.quadrature import Nodes, panels, scrambles
from fbar.estimation.smooth import Smooth, fit_smooth
from fbar.question.points import Points
from fbar.question.problem import Problem
from fbar.question.targets import Target
from fbar.question.targets.expectations import Expectation
from fbar.question.targets.quantiles import Quantile

LEAST_A_FOLD = 10
EVIDENCE_UNSURE = 1 / 3
NODES_CARRY = 0.5
WEIGHTS_OFF, WEIGHTS_SLACK = 5.0, 0.05


@dataclass(frozen=True)
class DoublyRobust:
    """Weighted average combined with a regression of acceptance: correct with any regression, better with a good one.

    For independent draws of one to about four continuous parameters. It gains where acceptance is likely, like
    stratified draws, and does not need strata; unlike `KernelRegression` it has no smoothing bias. The formulas are in
    `fbar.estimation.doubly_robust`.

    Parameters
    ----------
    folds
        The number of parts into which the draws are split; L̂ for one is learned from the others.
    bandwidth
        Of the kernel, in unit coordinates of the prior. By default chosen in every fold by leave-one-out
        cross-validation, in coordinates whitened by the accepted draws.
    """

    folds: int = 5
    bandwidth: float | None = None

    needs_rejected = True

    def __post_init__(self) -> None:
        if positive_integer(self.folds, "folds") < 2:
            raise InputError("cross-fitting needs at least 2 folds; got 1")
        if self.bandwidth is not None and positive_number(self.bandwidth, "bandwidth") > 0.5:
            raise InputError(
                f"bandwidth is in the prior's unit coordinates, where 0.5 is half of the prior's range; got "
                f"{shown(self.bandwidth)}"
            )
        if self.bandwidth is not None:
            store_number(self, "bandwidth", float(self.bandwidth))

    @property
    def least(self) -> int:
        """The fewest draws it takes."""
        return LEAST_A_FOLD * self.folds

    def check(self, problem: Problem, scheme: str, budget: int | None) -> None:
        """Refuse, before any simulation runs, problems that the formulas do not cover."""
        require_continuous(problem, "the doubly robust estimator")
        self._require(scheme, budget)

    def _require(self, scheme: str, number: int | None) -> None:
        if scheme != "independent":
            raise InputError(
                f"the doubly robust estimator is for independent draws; with {scheme} ones use WeightedAverage()"
            )
        if number is not None and number < self.least:
            raise InputError(
                f"{self.folds} folds need at least {self.least} draws; got {number}: raise the budget or "
                "use WeightedAverage()"
            )

    def regression(self, unit: FloatArray, weight: FloatArray, w: FloatArray) -> Smooth:
        """L̂ from draws at unit coordinates (n, D) with acceptance weights K and importance weights w."""
        return fit_smooth(unit, weight, w, self.bandwidth)

    def __call__(self, draws: Draws) -> Posterior:
        self._require(draws.scheme, None)
        draws.require_acceptances()
        if draws.simulations < self.least:  # the first round of many: others follow
            raise NoPosterior(f"{self.folds} folds need at least {self.least} draws; there are {draws.simulations}")
        return RobustPosterior(self, draws)


@dataclass(frozen=True, eq=False)
class RobustErrors(ErrorModel):
    """The error of Σ ψ over the signed measure, whose points are the nodes and then the draws."""

    nodes: Nodes
    share: FloatArray
    """L̂ of every fold at the nodes (J, folds)."""
    fold: IntArray
    residual: FloatArray
    """w (K − L̂) of every draw."""
    evidence: float
    accepted: int
    doubts: tuple[tuple[bool, str], ...]

    def error_bars(self, influence: FloatArray) -> ErrorBars:
        n, number = self.residual.size, self.nodes.weight.size
        at_nodes, at_draws = influence[:number], influence[number:]
        integral = (self.nodes.weight[:, None] * self.share).T @ at_nodes
        z = (integral[self.fold] + self.residual[:, None] * at_draws) / (n * self.evidence)
        z = z - z.mean(axis=0)
        from_draws = n / (n - 1) * z.T @ z
        from_nodes = self._of_nodes(at_nodes)
        covariance = from_draws + from_nodes
        variance, square = np.diagonal(covariance), z**2
        most = max(1.0, self.accepted - 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = 2 * variance**2 / (z**4).sum(axis=0)
            one = square.max(axis=0) / square.sum(axis=0)
        df = np.clip(np.nan_to_num(df, nan=1.0, posinf=most), 1.0, most)
        coarse = np.diagonal(from_nodes) > NODES_CARRY * variance
        return ErrorBars(
            covariance,
            df,
            (
                (one > ONE_CARRIES, carried()),
                (coarse, f"more than {NODES_CARRY:.0%} of the variance comes from the numerical integral"),
                (~(variance > 0), "the simulations all give the same value of this target, so its error is unknown"),
                *((np.full(variance.shape, mask), text) for mask, text in self.doubts),
            ),
        )

    def _of_nodes(self, psi: FloatArray) -> FloatArray:
        """The error of the numerical integral itself, from the spread of its replicates."""
        share = np.bincount(self.fold, minlength=self.share.shape[1]) / self.fold.size
        part = (self.nodes.weight * (self.share @ share))[:, None] * psi / self.evidence
        m = self.nodes.replicates
        zeta = np.zeros((m, psi.shape[1]))
        np.add.at(zeta, self.nodes.replicate, m * part)
        zeta -= zeta.mean(axis=0)
        return np.asarray(zeta.T @ zeta / (m * (m - 1)))


class RobustPosterior(Posterior):
    """The doubly robust estimates of any target.

    Its ``points`` and ``weights`` are those of the weighted average, since the signed measure is no sample.
    """

    inverts = False

    def __init__(self, settings: DoublyRobust, draws: Draws) -> None:
        average = WeightedAverage()(draws)
        super().__init__(average.points, average.weights, None, draws.simulations, average.accepted)
        self._ess, self._problem, self._all = average.ess, draws.problem, draws
        prior = draws.problem.prior
        self._draws = Points({name: draws.points[name] for name in prior.names})
        self._weight, self._w = draws.weight, np.exp(draws.log_w)
        self._unit = prior.to_unit(draws.points)
        self._fold = np.arange(self._weight.size) % settings.folds
        self._fits: list[Smooth] = []
        self._share = np.zeros(self._weight.size)
        inside = self._w > 0  # what the prior cannot make has no weight and teaches nothing
        for fold in range(settings.folds):
            others, mine = (self._fold != fold) & inside, (self._fold == fold) & inside
            fit = settings.regression(self._unit[others], self._weight[others], self._w[others])
            self._fits.append(fit)
            self._share[mine] = self._w[mine] * fit(self._unit[mine], self._w[mine])
        self._residual = self._w * self._weight - self._share
        self._measures: dict[tuple[float, ...], tuple[Points, FloatArray, RobustErrors]] = {}

    @property
    def ess(self) -> float:
        """Of the weighted average."""
        return float(self._ess)

    @property
    def has_errors(self) -> bool:
        return True

    # ------------------------------------------------------------ the signed measure

    def _measure(self, targets: tuple[Target, ...]) -> tuple[Points, FloatArray, RobustErrors]:
        """Its points and normalised weights, with nodes that suit the targets, and its errors."""
        jumps: set[float] = set()
        if self._unit.shape[1] == 1:
            jumps.update(*(find_jumps(target, self._problem) for target in targets if target.binary))
        key = tuple(sorted(jumps))
        if key not in self._measures:
            self._measures[key] = self._integrate(*self._nodes(key))
        return self._measures[key]

    def _nodes(self, jumps: tuple[float, ...]) -> tuple[Nodes, Points]:
        if self._unit.shape[1] > 1:
            return scrambles(self._all)
        width = min(fit.width for fit in self._fits)
        nodes = panels(self._unit[self._weight > 0, 0], width, jumps)
        return nodes, self._problem.prior.from_unit(nodes.unit)

    def _integrate(self, nodes: Nodes, points: Points) -> tuple[Points, FloatArray, RobustErrors]:
        assert self._all.log_ratio is not None  # independent draws are from one q
        w = np.exp(self._all.log_ratio(points))
        share = np.stack([fit(nodes.unit, w) for fit in self._fits], axis=1)
        n = self._weight.size
        part = np.bincount(self._fold, minlength=len(self._fits)) / n
        signed = np.concatenate([nodes.weight * np.einsum("ja,a->j", share, part), self._residual / n])
        evidence = float(signed.sum())
        if not evidence > 0:
            raise NoPosterior(
                "the doubly robust estimate of the evidence is not positive; raise the budget or use WeightedAverage()"
            )
        points = Points.concatenate([points, self._draws])
        accepted = int(np.count_nonzero(self._weight))
        integral = (nodes.weight @ share)[self._fold]
        unsure = float((integral + self._residual).std(ddof=1)) / np.sqrt(n) > EVIDENCE_UNSURE * evidence
        # w L̂ has the expectation ∫ p L̂ if the weights are right; its tails are light where those of w are not.
        off = self._share - integral
        wrong = abs(off.mean()) > WEIGHTS_OFF * off.std() / np.sqrt(n) + WEIGHTS_SLACK * integral.mean()
        doubts = (
            (accepted < FEW_ACCEPTED, FEW_WERE_ACCEPTED),
            (bool(unsure), f"the evidence is not known to {EVIDENCE_UNSURE:.0%}"),
            (bool(wrong), "the weights p/q do not integrate the regression as the prior does: is q normalised?"),
            (self._unit.shape[1] > 4, "the regression is unreliable in more than four dimensions"),
        )
        errors = RobustErrors(nodes, share, self._fold, self._residual, evidence, accepted, doubts)
        return points.with_derived(self._problem.derived), signed / evidence, errors

    # ------------------------------------------------------------ answers

    def value(self, target: Target) -> FloatArray:
        stepped = self._stepped(target)
        points, weights, _ = self._measure((stepped,))
        stepped.check(points)
        return stepped.value(points, weights)

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        stepped = tuple(self._stepped(target) for target in targets)
        points, weights, errors = self._measure(stepped)
        for target in stepped:
            target.check(points)
        return Posterior(points, weights, errors, self.simulations, self.accepted)._error_bars(stepped)

    def _stepped(self, target: Target) -> Target:
        """A target that signed weights cannot answer: the expectation of T + ψ, both of the weighted average."""
        if target.smooth:
            return target
        start, psi = target.value(self.points, self.weights), target.psi(self.points, self.weights)

        def one_step(points: Points) -> Any:
            return start + psi(points)

        return Expectation(one_step, target.name, vector=not target.scalar, is_indicator=isinstance(target, Quantile))
