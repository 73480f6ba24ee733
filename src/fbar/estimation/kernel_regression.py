"""Numerical integration of a kernel regression of the acceptance probability (section S6 of the paper).

p̂(x*|θ) = Σ a_i K_h(θ−θ_i) / Σ K_h(θ−θ_i) (Nadaraya–Watson) from all simulations, accepted or not, and
E[f|x*] ≈ ∫ f p̂ p / ∫ p̂ p. It does not need the density that the θ_i were drawn from. θ is measured in the
prior's unit coordinates, so that p(θ)dθ = du and one bandwidth fits all parameters; for a uniform prior on
[0, 1] these are θ itself.

The error bar is the noise of the a_i carried through the (linear) regression, plus the square of an estimate of the
smoothing bias, the change of f̂ when the bandwidth is doubled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from fbar.arrays import FloatArray
from fbar.checks import choice, finite_number, flag, positive_integer, positive_number, shown, store_number
from fbar.errors import InputError
from fbar.estimation.doubts import FEW_ACCEPTED, FEW_WERE_ACCEPTED
from fbar.estimation.draws import Draws
from fbar.estimation.estimate import ErrorBars
from fbar.estimation.posterior import Posterior
from fbar.question.points import Points
from fbar.question.priors import structure
from fbar.question.problem import Problem
from fbar.question.targets import Target

MANY_NODES = 2**12
"""Quasi-random nodes where there are two dimensions or more."""

ROWS_AT_ONCE = 2**22
RESIDUAL_FITS = 2000

# The 21-point Gauss–Kronrod rule on [−1, 1] (Piessens et al., QUADPACK, 1983): positive nodes and their weights.
_KRONROD = np.array(
    [
        (0.995657163025808080735527280689003, 0.011694638867371874278064396062192),
        (0.973906528517171720077964012084452, 0.032558162307964727478818972459390),
        (0.930157491355708226001207180059508, 0.054755896574351996031381300244580),
        (0.865063366688984510732096688423493, 0.075039674810919952767043140916190),
        (0.780817726586416897063717578345042, 0.093125454583697605535065465083366),
        (0.679409568299024406234327365114874, 0.109387158802297641899210590325805),
        (0.562757134668604683339000099272694, 0.123491976262065851077958109585166),
        (0.433395394129247190799265943165784, 0.134709217311473325928054001771707),
        (0.294392862701460198131126603103866, 0.142775938577060080797094273138717),
        (0.148874338981631210884826001129720, 0.147739104901338491374841515972068),
    ]
)
_MIDDLE = 0.149445554002916905664936468389821


@lru_cache(maxsize=64)
def gauss_kronrod(edges: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the 21-point rule on every panel between the edges."""
    x = np.concatenate([-_KRONROD[:, 0], [0.0], _KRONROD[::-1, 0]])
    w = np.concatenate([_KRONROD[:, 1], [_MIDDLE], _KRONROD[::-1, 1]])
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    half = (high - low) / 2
    return ((low + high) / 2 + half * x[:, None]).T.ravel(), (half * w[:, None]).T.ravel()


@lru_cache(maxsize=64)
def gauss_legendre(edges: tuple[float, ...], order: int) -> tuple[FloatArray, FloatArray]:
    x, w = np.polynomial.legendre.leggauss(order)
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    half = (high - low) / 2
    return ((low + high) / 2 + half * x[:, None]).T.ravel(), (half * w[:, None]).T.ravel()


def require_continuous(problem: Problem, who: str) -> None:
    """Refuse parameters that cannot be smoothed over."""
    prior = problem.prior
    if not structure(prior).continuous:
        raise InputError(f"{who} smooths over continuous parameters; {shown(prior)} has others, use WeightedAverage()")


@dataclass(frozen=True)
class KernelRegression:
    """Integrate a kernel regression of the acceptance probability; for up to about four dimensions.

    Parameters
    ----------
    bandwidth
        In unit coordinates of the prior: a number; ``"paper"`` for N^(−1/2); ``"cv"`` for leave-one-out
        cross-validation. By default the paper's in one dimension and cross-validation in more.
    rule
        One dimension: ``"gauss-kronrod"`` (21 points per panel), or ``"gauss-legendre"`` with 20 points, which the
        paper's figure used.
    panels
        One dimension: panels between the jumps of an indicator target, which are found and split at. By default as many
        as the bandwidth requires.
    split
        Whether to split at jumps.
    scale
        The kernel is exp(−u²/(scale·h²)): 2 for the Gaussian of the paper's text, 1 for that of its figure.
    """

    bandwidth: float | str | None = None
    rule: str = "gauss-kronrod"
    panels: int | None = None
    split: bool = True
    scale: float = 2.0

    needs_rejected = True

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            choice(self.bandwidth, ("paper", "cv"), "bandwidth")
        elif self.bandwidth is not None and positive_number(self.bandwidth, "bandwidth") > 0.5:
            raise InputError(
                f"bandwidth is in the prior's unit coordinates, where 0.5 is half of the prior's range; got "
                f"{shown(self.bandwidth)}"
            )
        if self.bandwidth is not None and not isinstance(self.bandwidth, str):
            store_number(self, "bandwidth", float(self.bandwidth))
        store_number(self, "scale", finite_number(positive_number(self.scale, "scale"), "scale"))
        flag(self.split, "split")
        choice(self.rule, ("gauss-kronrod", "gauss-legendre"), "quadrature rule")
        if self.panels is not None:
            positive_integer(self.panels, "panels")

    def check(self, problem: Problem) -> None:
        """Refuse parameters that cannot be smoothed over."""
        require_continuous(problem, "kernel regression")

    def __call__(self, draws: Draws) -> Posterior:
        draws.require_acceptances()
        return KernelPosterior(self, draws)


class KernelPosterior(Posterior):
    """p̂(θ|x*) at quadrature nodes that are chosen for each target."""

    def __init__(self, settings: KernelRegression, draws: Draws) -> None:
        self._settings, self._problem = settings, draws.problem
        inside = np.isfinite(draws.log_w)  # a draw that the prior cannot make says nothing of acceptance
        self._unit, self._a = draws.problem.prior.to_unit(draws.points)[inside], draws.weight[inside]
        self._h = self._bandwidth()
        self.errors = None
        self.simulations, self.accepted = draws.simulations, float(draws.weight.sum())

    @cached_property
    def _general(self) -> tuple[Points, FloatArray]:
        return self._fit(self._nodes(None), self._h)[:2]

    @property
    def has_errors(self) -> bool:
        return True

    @property
    def ess(self) -> float:
        """The accepted simulations; kernel regression gives them no weights."""
        return float(np.count_nonzero(self._a))

    @property
    def points(self) -> Points:
        """Nodes that serve any smooth target."""
        return self._general[0]

    @property
    def weights(self) -> FloatArray:
        return self._general[1]

    # ------------------------------------------------------------ regression

    def _kernel(self, at: FloatArray, h: float, draws: FloatArray | None = None) -> FloatArray:
        """K((u − u_i)/h), each row divided by its largest value so that no row is all zero: shape (J, N)."""
        draws = self._unit if draws is None else draws
        square = np.zeros((len(at), len(draws)))
        for j in range(at.shape[1]):
            square += (at[:, j, None] - draws[None, :, j]) ** 2
        square -= square.min(axis=1, keepdims=True)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of a kernel without width
            u = square / (self._settings.scale * h**2)
        return np.asarray(np.exp(-np.where(square > 0, u, 0.0)))

    def _bandwidth(self) -> float:
        given, n, d = self._settings.bandwidth, *self._unit.shape
        if isinstance(given, float | int):
            return float(given)
        if given == "paper" or (given is None and d == 1):
            return float(n**-0.5)
        base = 0.25 * n ** (-1 / (4 + d))
        rows = np.arange(n) if n <= 1000 else np.random.default_rng(0).choice(n, 1000, replace=False)
        best, least = float(base), float("inf")
        for factor in (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0):
            kernel = self._kernel(self._unit[rows], base * factor)
            kernel[np.arange(rows.size), rows] = 0.0  # leave the draw itself out
            total = kernel.sum(axis=1)
            fit = np.where(total > 0, kernel @ self._a / np.where(total > 0, total, 1.0), self._a.mean())
            loss = float(((self._a[rows] - fit) ** 2).mean())
            if loss < least:
                best, least = float(base * factor), loss
        return best

    def _nodes(self, target: Target | None) -> tuple[FloatArray, FloatArray]:
        """Quadrature nodes in the unit cube (J, D) and their weights."""
        d = self._unit.shape[1]
        if d > 1:
            return _quasi_random_nodes(d)
        settings = self._settings
        edges = (0.0, *self._jumps(target), 1.0)
        if settings.rule == "gauss-legendre":
            x, w = gauss_legendre(edges, 20)
            return x[:, None], w
        panels = settings.panels or int(np.clip(np.ceil(0.1 / self._h), 1, 64))
        fine = np.concatenate([np.linspace(a, b, panels + 1)[:-1] for a, b in pairwise(edges)])
        x, w = gauss_kronrod((*fine.tolist(), 1.0))
        return x[:, None], w

    def _jumps(self, target: Target | None) -> tuple[float, ...]:
        """Where an indicator changes, found on a grid and narrowed by bisection."""
        if target is None or not target.binary or not self._settings.split:
            return ()
        return find_jumps(target, self._problem)

    def _fit(self, nodes: tuple[FloatArray, FloatArray], h: float) -> tuple[Points, FloatArray, FloatArray, FloatArray]:
        """Points and posterior weights at the nodes; p̂ and the normaliser of the regression there."""
        at, quadrature = nodes
        p_hat, total = np.empty(len(at)), np.empty(len(at))
        step = max(1, ROWS_AT_ONCE // max(1, len(self._unit)))
        for start in range(0, len(at), step):
            kernel = self._kernel(at[start : start + step], h)
            total[start : start + step] = kernel.sum(axis=1)
            p_hat[start : start + step] = np.einsum("jn,n->j", kernel, self._a)
        p_hat /= total
        weights = quadrature * p_hat
        points = self._problem.prior.from_unit(at).with_derived(self._problem.derived)
        return points, weights / weights.sum(), p_hat, total

    # ------------------------------------------------------------ answers

    def value(self, target: Target) -> FloatArray:
        points, weights = self._fit(self._nodes(target), self._h)[:2]
        return target.value(points, weights)

    def _error_bars(self, targets: tuple[Target, ...]) -> ErrorBars:
        columns, biases = [], []
        sigma = self._noise()
        for target in targets:
            nodes = self._nodes(target)
            points, weights, p_hat, total = self._fit(nodes, self._h)
            psi = target.influence(points, weights)
            # dψ̂/da_i = Σ_j quadrature_j ψ_j K_ji / (total_j ∫p̂p)
            share = nodes[1] / (total * (nodes[1] @ p_hat))
            c = np.zeros((len(self._a), psi.shape[1]))
            step = max(1, ROWS_AT_ONCE // max(1, len(self._unit)))
            for start in range(0, len(share), step):
                rows = slice(start, start + step)
                c += self._kernel(nodes[0][rows], self._h).T @ (share[rows, None] * psi[rows])
            columns.append(c * sigma[:, None])
            wide = self._fit(nodes, 2 * self._h)
            biases.append(target.value(wide[0], wide[1]) - target.value(points, weights))
        z = np.concatenate(columns, axis=1)
        bias = np.concatenate(biases)
        covariance = z.T @ z + np.diag(bias**2)
        few = np.full(bias.shape, np.count_nonzero(self._a) < FEW_ACCEPTED)
        high = np.full(bias.shape, self._unit.shape[1] > 4)
        doubts = (
            (few, FEW_WERE_ACCEPTED),
            (high, "kernel regression is unreliable in more than four dimensions"),
        )
        df = np.full(bias.shape, max(1.0, np.count_nonzero(self._a) - 1.0))
        return ErrorBars(covariance, df, doubts)

    def _noise(self) -> FloatArray:
        """|a_i − p̂(θ_i)|, the residuals; each draw is left out of its own fit.

        With many draws, p̂ for this purpose is fitted to some thousands of them.
        """
        n = len(self._a)
        chosen = (
            np.arange(n) if n <= RESIDUAL_FITS else np.sort(np.random.default_rng(0).choice(n, RESIDUAL_FITS, False))
        )
        place = np.full(n, -1)
        place[chosen] = np.arange(chosen.size)
        fit = np.empty(n)
        step = max(1, ROWS_AT_ONCE // chosen.size)
        for start in range(0, n, step):
            rows = np.arange(start, min(start + step, n))
            kernel = self._kernel(self._unit[rows], self._h, self._unit[chosen])
            own = np.flatnonzero(place[rows] >= 0)
            kernel[own, place[rows[own]]] = 0.0
            total = kernel.sum(axis=1)
            share = np.einsum("jn,n->j", kernel, self._a[chosen])
            fit[rows] = np.where(total > 0, share / np.where(total > 0, total, 1.0), self._a.mean())
        return np.abs(self._a - fit)


@lru_cache(maxsize=8)
def _quasi_random_nodes(dimension: int) -> tuple[FloatArray, FloatArray]:
    from scipy.stats import qmc

    nodes = qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(MANY_NODES)
    return nodes, np.full(MANY_NODES, 1 / MANY_NODES)


@lru_cache(maxsize=64)
def find_jumps(target: Target, problem: Problem) -> tuple[float, ...]:
    """Unit coordinates at which an indicator of one parameter changes, to the last digit."""

    def indicator(u: FloatArray) -> FloatArray:
        return target.components(problem.prior.from_unit(u[:, None]).with_derived(problem.derived))[:, 0]

    grid = np.linspace(0, 1, 4097)
    values = indicator(grid)
    change = np.flatnonzero(np.diff(values) != 0)
    low, high, left = grid[change], grid[change + 1], values[change]
    for _ in range(50 if change.size else 0):
        middle = (low + high) / 2
        same = indicator(middle) == left
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return tuple(((low + high) / 2).tolist())
