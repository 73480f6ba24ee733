"""Known acceptance probabilities p*(θ) = p(x*|θ) that stand in for a simulator: a simulation matches the data or not.

The examples of section 2 of the paper are of this kind, and so is every problem whose truth has to be exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray, FloatArray, floats, probabilities
from fbar.checks import arguments as check_arguments
from fbar.checks import function as check_function
from fbar.checks import in_words, instance, shown
from fbar.errors import InputError
from fbar.question.outcomes import Batch, Tally
from fbar.question.points import Points
from fbar.question.priors import Distribution, Finite
from fbar.question.simulators.base import Simulator
from fbar.question.simulators.calls import called


class KnownAcceptance(Simulator):
    """A "simulator" of a known acceptance probability: x = x* with probability p*(θ)."""

    @property
    def known(self) -> KnownAcceptance | None:
        return self

    @property
    def by_value(self) -> FloatArray | None:
        """p*(θ_i) at each value of a finite prior, where that is how it is given."""
        return None

    @property
    def factors(self) -> Mapping[str, Callable[[FloatArray], FloatArray]] | None:
        """The factors of p*(θ) by parameter, where it is a product of functions of single parameters."""
        return None

    @abstractmethod
    def check_prior(self, prior: Distribution) -> None:
        """Refuse a prior on which the acceptance probability is not defined."""

    @abstractmethod
    def acceptance_probability(self, theta: Points) -> FloatArray:
        """p*(θ) of every row."""

    @abstractmethod
    def tally(self, batch: Batch, rng: np.random.Generator) -> Tally:
        """How many of each row's repeats match the data."""

    def matches(self, theta: Points, rng: np.random.Generator) -> BoolArray:
        """Whether a simulation at each θ matches the data."""
        return np.asarray(rng.random(theta.rows) < self.acceptance_probability(theta))

    def output(self, theta: Points, rng: np.random.Generator) -> FloatArray:
        """1 where a simulation matches the data, 0 elsewhere."""
        return self.matches(theta, rng).astype(np.float64)


def _hits(repeats: npt.NDArray[np.int64], p: FloatArray, rng: np.random.Generator) -> Tally:
    """Each row's repeats as one binomial number, for all trials at once: 10⁸ simulations cost as much as one."""
    # Rows first, trials last: numpy sets a binomial up once for a run of equal (n, p).
    n = np.moveaxis(repeats, -1, 0)
    hits = np.moveaxis(rng.binomial(n, p.reshape(-1, *([1] * (n.ndim - 1)))), 0, -1).astype(np.float64)
    return Tally(hits, hits)


class Tabulated(KnownAcceptance):
    """Acceptance probabilities p*(θ_i) of the values of a finite prior."""

    def __init__(self, prior: Finite, p_star: npt.ArrayLike) -> None:
        self._prior: Finite = instance(prior, Finite, "prior", "an fbar.Finite")
        self.p_star = probabilities(p_star, "acceptance probabilities")
        self.p_star.flags.writeable = False
        if self.p_star.shape != (prior.size,):
            raise InputError(
                f"acceptance probabilities must be {prior.size} numbers, one for each parameter value; "
                f"got shape {self.p_star.shape}"
            )

    @property
    def by_value(self) -> FloatArray:
        return self.p_star

    def check_prior(self, prior: Distribution) -> None:
        same = (
            isinstance(prior, Finite)
            and prior.names == self._prior.names
            and np.array_equal(prior.index(self._prior.points), np.arange(prior.size))
        )
        if not same:
            raise InputError(f"the acceptance probabilities are those of the prior {self._prior}; got {shown(prior)}")

    def acceptance_probability(self, theta: Points) -> FloatArray:
        cell = self._prior.index(theta)
        if (cell < 0).any():
            raise InputError(f"{theta.label(int(np.argmin(cell)))} is not a value of the parameter space")
        return self.p_star[cell]

    def tally(self, batch: Batch, rng: np.random.Generator) -> Tally:
        assert batch.cells is not None
        assert batch.repeats is not None
        return _hits(batch.repeats, self.p_star[batch.cells], rng)


class Bernoulli(KnownAcceptance):
    """An acceptance probability p*(θ) that is a known function, on any parameter space."""

    def __init__(self, p_star: Callable[[Points], FloatArray]) -> None:
        check_function(p_star, "p_star")
        self.p_star = p_star

    @property
    def factors(self) -> Mapping[str, Callable[[FloatArray], FloatArray]] | None:
        return self.p_star.parts if isinstance(self.p_star, Separable) else None

    def check_prior(self, prior: Distribution) -> None:
        """A function of θ is defined on every prior that has its parameters, as is found when it is called."""

    def acceptance_probability(self, theta: Points) -> FloatArray:
        try:
            given = self.p_star(theta)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the acceptance probability p_star failed: {in_words(error)}") from error
        return _one_for_each_row(floats(given, "acceptance probabilities p_star(theta)"), theta)

    def tally(self, batch: Batch, rng: np.random.Generator) -> Tally:
        if batch.repeats is not None:
            return _hits(batch.repeats, self.acceptance_probability(batch.points), rng)
        matched = self.output(batch.points, rng)
        return Tally(matched, matched)


class Separable:
    """p*(θ) = Π h(θ_j), a product of functions of single parameters; the factor of a parameter that a model lacks is 1.

    Designs built on it are products too, drawn and weighted without approximation in any dimension.
    """

    def __init__(self, **parts: Callable[[FloatArray], FloatArray]) -> None:
        for name, part in parts.items():
            check_function(part, f"the factor of {shown(name)}")
        self.parts = parts

    def __call__(self, points: Points) -> FloatArray:
        result: FloatArray | float = 1.0
        for name, part in self.parts.items():
            if name not in points:
                continue
            values = part(points[name])
            result = result * (values if points.complete else np.where(points.present(name), values, 1.0))
        return np.broadcast_to(np.asarray(result), (points.rows,))


class AcceptanceProbability:
    """p(x*|θ) of a problem, where it is known: by ``p_star(theta, tolerance)`` or by what stands in for simulations."""

    def __init__(
        self, function: Callable[[Points, float], npt.ArrayLike] | None, simulator: KnownAcceptance | None
    ) -> None:
        if function is not None:
            check_function(function, "p_star")
            check_arguments(function, ("theta", "tolerance"), "p_star")
        self.function, self._simulator = function, simulator
        self._tried: set[float] = set()

    @property
    def is_known(self) -> bool:
        return self.function is not None or self._simulator is not None

    @property
    def by_value(self) -> FloatArray | None:
        """p(x*|θ_i) at each value of a finite prior, where that is how it is given."""
        return None if self._simulator is None else self._simulator.by_value

    def at(self, theta: Points, tolerance: float) -> FloatArray:
        """The probability that a simulation at each θ comes within the tolerance."""
        if self.function is not None:
            given = called("p_star", self.function, theta, tolerance)
            return _one_for_each_row(floats(given, "the output of p_star"), theta)
        if self._simulator is None:
            raise InputError("the acceptance probability of this problem is not known")
        return self._simulator.acceptance_probability(theta)

    def check(self, tolerance: float, probe: Points) -> None:
        """Refuse a function that gives no probabilities; tried once for each tolerance."""
        if not self.is_known or tolerance in self._tried:
            return
        p = self.at(probe, tolerance)
        bad = ~((p >= 0) & (p <= 1 + 1e-12))
        if bad.any():
            what = f"{p[bad][0]:g} at {probe.label(int(np.argmax(bad)))}"
            raise InputError(f"the acceptance probability p_star must lie in [0, 1] for every θ; it returns {what}")
        self._tried.add(tolerance)


def _one_for_each_row(p: FloatArray, theta: Points) -> FloatArray:
    if p.shape not in ((), (theta.rows,)):
        raise InputError(f"p_star must return one number for each of {theta.rows} rows; it returns shape {p.shape}")
    return np.broadcast_to(p, (theta.rows,))
