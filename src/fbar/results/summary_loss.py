"""What the summary function of a problem loses, as it is reported with an answer at the data.

A parameter or target counts as lost if the raw data predict it better than the summaries do
(`fbar.estimation.at_data.loss_from_raw_data`). The answer about the posterior given the summaries is then about √λ
posterior deviations from that given the data; where this is more than half of its 95% interval, it is biased.

The raw numbers of a sample of the simulations are kept, in memory and in records
(`fbar.question.raw_numbers`). Where they are missing or not numbers, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fbar.arrays import BoolArray, FloatArray
from fbar.errors import InputError, NoPosterior
from fbar.estimation.at_data.loss_from_raw_data import Losses, RawSample
from fbar.estimation.at_data.prepared import Prepared, prepare
from fbar.estimation.estimate import Comparison, Estimate
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.methods.summaries.learned import LearnedSummary
from fbar.question.points import Points
from fbar.question.priors import structure
from fbar.question.targets import Target

MOST_SUMMARIES_CHECKED = 12
"""Summaries, at most, that a loss is sought for. A regression on more is not flexible enough: its lack of fit could be
taken for a loss."""

MOST_NAMED = 4
"""Parameters that the remark names, at most."""


@dataclass(frozen=True, eq=False)
class SummaryLoss:
    """What the raw data of a sample of a run's simulations show; ``points`` are their θ, ``columns`` the parameters."""

    sample: RawSample
    points: Points
    names: tuple[str, ...]
    columns: FloatArray
    learned: bool
    """Whether the summary function was learned in a pilot, not given by the user."""

    @classmethod
    def of(cls, run: Run) -> SummaryLoss | None:
        """None where the problem has no summary function, or too few raw numbers were kept."""
        problem = run.problem
        kept, values = run.raw_numbers.rows, run.raw_numbers.values
        finite = np.isfinite(values).all(axis=1)
        kept, values = kept[finite], values[finite]
        observed = problem.observed
        if observed is None or observed.size > MOST_SUMMARIES_CHECKED or not (problem.compares_numbers and kept.size):
            return None
        try:
            portion = run.all_simulations().take(kept)
            prepared = prepare(portion, most=len(portion))
        except (InputError, NoPosterior):
            return None
        assert portion.summaries is not None
        place = np.searchsorted(kept, prepared.rows)
        raw, centre = (np.ravel(np.asarray(given, dtype=np.float64)) for given in (problem.raw, observed))
        sample = RawSample(values[place], raw, portion.summaries[place], centre)
        if not sample.large_enough:
            return None
        names, columns = _parameters(prepared)
        return cls(sample, prepared.points, names, columns, isinstance(problem.summary, LearnedSummary))

    @cached_property
    def losses(self) -> dict[str, float]:
        """λ̂ of the parameters that the summaries lose, the largest first."""
        if not self.names:
            return {}
        losses = self.sample.losses(self.columns)
        found: dict[str, float] = {}
        for k in np.argsort(-losses.value, kind="stable").tolist():
            if losses.found[k]:
                found.setdefault(self.names[k], float(losses.value[k]))
        return found

    @property
    def remark(self) -> str:
        """What is lost, in a line; nothing where no loss was found."""
        if not self.losses:
            return ""
        shares = [f"{name} {share:.0%}" for name, share in self.losses.items()]
        some = ", ".join(shares[:MOST_NAMED]) + (", …" if len(shares) > MOST_NAMED else "")
        lost = f"lose information: the raw data predict more out of fold (of the remaining variance: {some})"
        if self.learned:
            return f"the learned summaries {lost}; leave summaries= out, or give the numbers that matter by summary="
        return f"the summaries {lost}; leave summary= out to have summaries learned, or add to it"


@dataclass(frozen=True, eq=False)
class LossOfTargets:
    """The same for the answers about some targets from a posterior."""

    loss: SummaryLoss
    posterior: Posterior
    targets: tuple[Target, ...]

    @cached_property
    def _shifts(self) -> list[FloatArray]:
        """For each target, by how much its numbers may be shifted; 0 where no loss was found."""
        points, weights = self.posterior.pictured.points, self.posterior.pictured.weights
        deviations, columns = [], []
        for target in self.targets:
            psi = target.psi(points, weights)
            here = np.atleast_2d(psi(points))
            deviations.append(np.sqrt(np.maximum(weights @ (here - weights @ here) ** 2, 0.0)))
            with np.errstate(all="ignore"):
                columns.append(np.atleast_2d(psi(self.loss.points)))
        losses = self.loss.sample.losses(np.concatenate(columns, axis=1))
        return _split(_shares(losses), deviations)

    def of(self, place: int) -> Comparison:
        return _Lost(self, place)

    def shift(self, place: int) -> FloatArray:
        return self._shifts[place]


@dataclass(frozen=True, eq=False)
class _Lost(Comparison):
    """What is known of the answer at one place: the size of its difference from the posterior, and not its sign."""

    whole: LossOfTargets
    place: int

    def difference(self, estimate: Estimate) -> None:
        return None

    def biased(self, estimate: Estimate) -> BoolArray:
        low, high = estimate.interval()
        half = (np.asarray(high) - np.asarray(low)) / 2
        return np.asarray(self.whole.shift(self.place).reshape(np.shape(half)) > half)


def _shares(losses: Losses) -> FloatArray:
    return np.where(losses.found, np.sqrt(np.maximum(losses.value, 0.0)), 0.0)


def _split(shares: FloatArray, deviations: Sequence[FloatArray]) -> list[FloatArray]:
    ends = np.cumsum([each.size for each in deviations])[:-1]
    return [share * each for share, each in zip(np.split(shares, ends), deviations, strict=True)]


def _parameters(prepared: Prepared) -> tuple[tuple[str, ...], FloatArray]:
    """The parameters by name: normal scores v of continuous ones, numbers as they are, indicators of labels."""
    prior, points = prepared.problem.prior, prepared.points
    known = structure(prior)
    scores = list(known.coordinates) if known.models is None else []
    names: list[str] = []
    columns: list[FloatArray] = []
    for place, k in enumerate(prepared.moving):
        if k < len(scores):
            names.append(scores[k])
            columns.append(prepared.v[:, place])
    for name in prior.names:
        if name in names:
            continue
        values = points[name]
        if values.dtype.kind in "biuf":
            names.append(name)
            columns.append(np.where(points.present(name), np.asarray(values, dtype=np.float64), np.nan))
        else:
            for label in np.unique(values)[1:]:
                names.append(name)
                columns.append(np.asarray(values == label, dtype=np.float64))
    return tuple(names), np.stack(columns, axis=1) if columns else np.zeros((len(prepared), 0))
