"""The kinds of targets: expectations, covariances, densities at a point; quantiles are in `fbar.question.targets.quantiles`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fbar.checks import BoolArray, FloatArray, in_words, shown, without_mask
from fbar.errors import InputError
from fbar.question.points import Points
from fbar.question.targets.base import Target, column_of, continuous_column, mean_of, present, restricted

Function = Callable[[Points], npt.ArrayLike]


@dataclass(frozen=True, repr=False)
class Expectation(Target):
    """f̄ = E[f(θ)|x*] for a function f with values in ℝ or ℝᵐ; ψ = f − f̄.

    With ``conditional_on`` parameters that some models lack, it is E[f(θ)|x*, they exist]; ψ = 1(f − f̄)/P.
    """

    function: Function
    name: str
    vector: bool = False
    is_indicator: bool = False
    component_labels: tuple[str, ...] | None = field(default=None)
    conditional_on: tuple[str, ...] = ()
    requires_each: Callable[[int, Points], str] | None = field(default=None, compare=False)
    """What to say when a component is zero on the whole space, for targets that name values of it."""

    def components(self, points: Points) -> FloatArray:
        try:
            raw = without_mask(self.function(points), f"what target {shown(self.name)} gives")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"target {shown(self.name)} failed on the parameters: {in_words(error)}") from error
        if raw.dtype.kind not in "biuf":
            raise InputError(f"target {shown(self.name)} must give numbers; it gives {raw.dtype} values")
        values = raw.astype(np.float64)
        if values.ndim == 0:
            values = np.broadcast_to(values, (points.rows,))
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[0] != points.rows or (values.shape[1] != 1 and not self.vector):
            raise InputError(
                f"target {shown(self.name)} must give one value for each of {points.rows} points"
                f"{' (or a row of values)' if self.vector else ''}; it gives shape {raw.shape}"
            )
        return values

    def given(self, points: Points) -> BoolArray | None:
        return present(points, self.conditional_on)

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return mean_of(self.components(points), weights, self.given(points))[0]

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, share = mean_of(self.components(points), weights, self.given(points))
        return lambda at: restricted(self.components(at) - centre[..., None, :], self.given(at), share)

    def check_space(self, points: Points) -> None:
        self.check(points)
        if self.requires_each:
            values = self.components(points)
            missing = np.flatnonzero(~values.any(axis=0))
            if missing.size:
                raise InputError(f"target {shown(self.name)}: {self.requires_each(int(missing[0]), points)}")

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.component_labels

    @property
    def scalar(self) -> bool:
        return not self.vector

    @property
    def binary(self) -> bool:
        return self.is_indicator


@dataclass(frozen=True, repr=False)
class Covariance(Target):
    """cov(a, b | x*); ψ = (a − ā)(b − b̄) − C. The variance is the covariance of a with itself."""

    first: str
    second: str
    name: str

    def components(self, points: Points) -> FloatArray:
        return np.stack([column_of(points, name, self.name) for name in (self.first, self.second)], axis=1)

    def given(self, points: Points) -> BoolArray | None:
        return present(points, (self.first, self.second))

    def _product(self, points: Points, centre: FloatArray) -> FloatArray:
        centred = self.components(points) - centre[..., None, :]
        return np.asarray(centred[..., 0] * centred[..., 1])

    def _fit(self, points: Points, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The means, the covariance and the probability of the points it is conditional on."""
        given = self.given(points)
        centre, share = mean_of(self.components(points), weights, given)
        product = self._product(points, centre)
        if given is not None:
            product = np.where(given, product, 0.0)
        return centre, (weights * product).sum(axis=-1) / share, share

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray(self._fit(points, weights)[1][..., None])

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        centre, covariance, share = self._fit(points, weights)

        def at(where: Points) -> FloatArray:
            psi = self._product(where, centre) - covariance[..., None]
            return restricted(psi[..., None], self.given(where), share)

        return at

    def inner(self, points: Points, weights: FloatArray) -> FloatArray | None:
        """ĉov − cov = Σψ − δā δb̄ exactly, so that the errors of the two means make up the rest."""
        values, given = self.components(points), self.given(points)
        centre, share = mean_of(values, weights, given)
        return restricted(values - centre[..., None, :], given, share)


@dataclass(frozen=True, repr=False)
class DensityAt(Target):
    """The posterior density of a continuous parameter at a point, smoothed by a Gaussian kernel.

    Without a bandwidth, Silverman's 1.06 σ n_eff^(−1/5) is taken. The error bar is that of the smoothed density.
    """

    parameter: str
    x: float
    name: str
    bandwidth: float | None = None
    note: str = "the bias of smoothing the density is not part of the error bar"

    def components(self, points: Points) -> FloatArray:
        return continuous_column(points, self.parameter, self.name)[:, None]

    @property
    def smooth(self) -> bool:
        return False

    def _kernel(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        x = self.components(points)[:, 0]
        if self.bandwidth is None:
            mean = weights @ x
            sd = np.sqrt((weights * (x - mean[..., None]) ** 2).sum(axis=-1))
            h = (1.06 * sd * ((weights**2).sum(axis=-1)) ** 0.2)[..., None]
        else:
            h = np.broadcast_to(self.bandwidth, (*weights.shape[:-1], 1))

        def at(where: Points) -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # one point alone has no bandwidth
                u = (self.components(where)[:, 0] - self.x) / h
                return np.asarray(np.exp(-0.5 * u**2) / (h * np.sqrt(2 * np.pi)))

        return at

    def value(self, points: Points, weights: FloatArray) -> FloatArray:
        return np.asarray((weights * self._kernel(points, weights)(points)).sum(axis=-1, keepdims=True))

    def psi(self, points: Points, weights: FloatArray) -> Callable[[Points], FloatArray]:
        kernel, value = self._kernel(points, weights), self.value(points, weights)
        return lambda where: np.asarray((kernel(where) - value)[..., None])
