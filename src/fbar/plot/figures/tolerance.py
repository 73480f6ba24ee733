"""Estimates against the tolerance and where they go as it vanishes; at the data, against the bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Estimate, Estimates
from fbar.plot.base import Panels, legend, one_run
from fbar.plot.look import GREEN, POSTERIOR, PRIOR, decimal_ticks, plain, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fbar.results.result import Result

MOST = 24
"""Estimates that are shown, the first ones."""

TOLERANCE, BANDWIDTH = "tolerance", "share of the simulations within the bandwidth"
"""What estimates are drawn against."""


@dataclass(frozen=True, eq=False)
class Band:
    """One number's estimates at ``tolerances``, rising, with 95% intervals; the last three are of the one at 0.

    Where ``trusted`` is False the interval is unreliable, and none is drawn.
    """

    name: str
    tolerances: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    trusted: BoolArray
    extrapolated: float | None
    extrapolated_low: float | None
    extrapolated_high: float | None


@dataclass(frozen=True, eq=False)
class Tolerance(Panels):
    """``own`` is the run's tolerance; at 0 is the estimate minus its bias, `fbar.Result.bias`.

    ``against`` is what they are drawn against: for an answer at the data, the share of the simulations within the
    bandwidth, and ``own`` is the chosen one.
    """

    bands: tuple[Band, ...]
    own: float | None
    message: str = ""
    against: str = TOLERANCE

    @classmethod
    def of(cls, result: Result) -> Tolerance:
        one_run(result)
        at_data = result.posterior if isinstance(result.posterior, PosteriorAtData) else None
        own = result.run.reported_tolerance if at_data is None else at_data.bandwidth
        against = TOLERANCE if at_data is None else BANDWIDTH
        if own is None:
            return cls((), None, "this run has no tolerance above 0")
        try:
            curve = sorted(result.curve(), key=lambda pair: pair[0])
        except (InputError, NoPosterior) as error:
            return cls((), own, str(error), against)
        limits = _limits(result) if at_data is None else None
        bands = []
        for i, target in enumerate(result.targets):
            names = _names(curve[0][1][i])
            for k, name in enumerate(names):
                rows = [(at, *_numbers(estimates[i], k)) for at, estimates in curve]
                x, value, low, high = np.array(rows).T
                sure = np.array([_trusted(estimates[i], k) for _, estimates in curve])
                limit = (None,) * 3 if limits is None else _numbers(limits[target.name], k)
                bands.append(Band(name, x, value, low, high, sure, *limit))
        left = [band.name for band in bands[MOST:]]
        said = [f"not shown: {', '.join(left)}"] if left else []
        if at_data is None and limits is None:
            said.append("too few simulations are near enough for an extrapolation to 0")
        return cls(tuple(bands[:MOST]), own, "; ".join(said), against)

    @property
    def parts(self) -> Sequence[Band]:
        return self.bands

    def render(self, axes: Sequence[Any], figure: Figure | None) -> None:
        chosen = "the run's tolerance" if self.against == TOLERANCE else "as chosen"
        for ax, band in zip(axes, self.bands, strict=True):
            sure = band.trusted & np.isfinite(band.low) & np.isfinite(band.high)
            x = band.tolerances
            ax.fill_between(x, band.low, band.high, where=sure, color=POSTERIOR, alpha=0.2, linewidth=0)
            bars = [(band.values - band.low)[sure], (band.high - band.values)[sure]]
            ax.plot(x, band.values, color=POSTERIOR)
            if sure.any():
                mark: dict[str, Any] = {"color": POSTERIOR, "marker": "o", "capsize": 2, "linestyle": "none"}
                ax.errorbar(x[sure], band.values[sure], bars, label="estimate, 95% interval", **mark)
            if not sure.all():
                hollow: dict[str, Any] = {"color": POSTERIOR, "marker": "o", "fillstyle": "none", "linestyle": "none"}
                ax.plot(x[~sure], band.values[~sure], label="unreliable", **hollow)
            if self.own is not None:
                ax.axvline(self.own, color=PRIOR, linewidth=1, linestyle=(0, (4, 3)), label=chosen)
            if band.extrapolated is not None and math.isfinite(band.extrapolated):
                assert band.extrapolated_low is not None
                assert band.extrapolated_high is not None
                ends = [[band.extrapolated - band.extrapolated_low], [band.extrapolated_high - band.extrapolated]]
                bar = np.nan_to_num(ends, posinf=0.0)
                ax.errorbar(
                    [0], [band.extrapolated], bar, color=GREEN, marker="D", capsize=3, label="extrapolated to 0"
                )
            if self.against == TOLERANCE:
                ax.set_xlim(-0.06 * float(x.max()), 1.06 * float(x.max()))
                ax.locator_params(axis="x", nbins=5)
            else:
                ax.set_xscale("log")
                decimal_ticks(ax.xaxis)
            ax.set_title(short(band.name), loc="left")
            ax.set_xlabel(self.against)
            ax.grid(axis="y")
        legend(axes, figure)
        if figure is not None and self.message:
            figure.supxlabel(plain(self.message), fontsize=8)


def _limits(result: Result) -> Estimates | None:
    """The estimates less what `Result.bias` says of them; None where it is not known or unreliable."""
    found = result.run.without_bias() if result.own else None
    if found is None:
        return None
    limits: Estimates = found.expect(list(result.targets))
    return limits if all(np.all(estimate.trusted) for estimate in limits) else None


def _names(estimate: Estimate) -> list[str]:
    size = np.size(estimate.value)
    if np.ndim(estimate.value) == 0:
        return [estimate.name]
    labels = estimate.labels or tuple(str(i + 1) for i in range(size))
    return [f"{estimate.name} {label}" for label in labels]


def _trusted(estimate: Estimate, k: int) -> bool:
    return bool(np.broadcast_to(estimate.trusted, np.size(estimate.value))[k])


def _numbers(estimate: Estimate, k: int) -> tuple[float, float, float]:
    low, high = estimate.interval()
    found = [float(np.ravel(part)[k]) for part in (estimate.value, low, high)]
    return found[0], found[1], found[2]
