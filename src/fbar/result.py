"""What a run gave."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.errors import MissingExtra
from fbar.estimate import Estimates
from fbar.methods import Run
from fbar.posterior import Posterior
from fbar.targets import Target

if TYPE_CHECKING:
    import arviz
    import pandas


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave. Print it; ask it further questions with `expect`, at no new simulation."""

    run: Run
    posterior: Posterior
    estimates: Estimates
    stopped_by: str
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def simulations(self) -> Any:
        return self.posterior.simulations

    @property
    def accepted(self) -> Any:
        return self.posterior.accepted

    @property
    def seed(self) -> int:
        return self.run.seeds.entropy

    def expect(self, targets: Target | Sequence[Target]) -> Any:
        """The `Estimate` of any target, or the `Estimates` of several."""
        return self.posterior.expect(targets)

    def at(self, tolerance: float) -> Result:
        """The result at another tolerance, from the same simulations.

        Any tolerance after ABC-SMC, which keeps every simulation; a smaller one than the run's after others.
        """
        return self._of(self.run.posterior_at(tolerance))

    def curve(
        self, targets: Target | Sequence[Target] | None = None, tolerances: Sequence[float] | None = None
    ) -> list[tuple[float, Any]]:
        """The estimates against the tolerance, from the same simulations: pairs (tolerance, `Estimates`)."""
        return self.run.curve(targets, tolerances)

    def extrapolated(self, ratio: float = 2, tolerance: float | None = None) -> Result:
        """Richardson extrapolation to tolerance 0: (c² f̂_{ε/c} − f̂_ε)/(c² − 1) with c = ``ratio``.

        From the same simulations, with an error bar that knows it. ``tolerance`` is ε, the larger of the two, the run's
        by default; after SMC twice the last tolerance has more simulations. The bias falls from O(ε²) to O(ε⁴) where
        the summaries' density is smooth at the data, see `fbar.estimators.extrapolation`. Some weights are negative.
        """
        return self._of(self.run.extrapolated(ratio, tolerance))

    def adjusted(self, tolerance: float | None = None) -> Result:
        """Every accepted θ moved to the data, θ* = θ − (s − s*)β̂, by regression on the summaries.

        Beaumont, Zhang & Balding (2002), in coordinates that keep θ* in the prior's support; the error bar includes
        that of β̂, see `fbar.estimators.adjustment`. Removes the bias of a mean that is linear in the summaries; what
        the spread of θ does with them stays.
        """
        return self._of(self.run.adjusted(tolerance))

    def _of(self, posterior: Posterior) -> Result:
        return replace(self, posterior=posterior, estimates=posterior.expect(list(self.run.targets)))

    def __getitem__(self, name: str) -> Any:
        return self.estimates[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the run has to say beside the warnings of single estimates."""
        seen = self.run.seen
        failed = f"{seen.failures} simulations failed and were rejected: {seen.failed}" if seen.failures else ""
        return tuple(text for text in (*self.run.warnings, failed, *self.notes) if text)

    def __str__(self) -> str:
        accepted = np.sum(self.accepted)
        lines = [str(self.estimates), *(f"warning: {text}" for text in self.warnings)]
        lines.append(f"{np.sum(self.simulations):,} simulations, {accepted:,.6g} accepted; {self.stopped_by}")
        return "\n".join([*lines, *self.remarks])

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """The estimates and how the run went, in JSON's terms."""

        def plain(value: Any) -> Any:
            array = np.asarray(value)
            if array.dtype.kind != "f":
                return array.tolist()
            return _finite(array.item()) if array.ndim == 0 else [plain(item) for item in array]

        estimates = {
            estimate.name: {
                "value": plain(estimate.value),
                "standard_error": plain(estimate.standard_error),
                "df": plain(estimate.df),
                "trusted": plain(estimate.trusted),
                "warnings": list(estimate.warnings),
                **({"labels": list(estimate.labels)} if estimate.labels else {}),
            }
            for estimate in self.estimates
        }
        return {
            "estimates": estimates,
            "simulations": plain(self.simulations),
            "accepted": plain(self.accepted),
            "failures": {kind.name.lower(): count for kind, count in self.run.seen.counts.items()},
            "warnings": list(self.warnings),
            **({"remarks": list(self.remarks)} if self.remarks else {}),
            "stopped_by": self.stopped_by,
            "rounds": self.run.round,
            "seed": str(self.seed),
        }

    # ------------------------------------------------------------ for other packages

    def to_pandas(self) -> pandas.DataFrame:
        """The weighted points of the posterior: a column for each parameter, derived ones too, and ``weight``."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "table") from error
        points = self.posterior.points
        columns = {name: points[name] for name in (*points, *points.derived)}
        return pandas.DataFrame({**columns, "weight": self.posterior.weights})

    def to_arviz(self) -> arviz.InferenceData:
        """The posterior as ArviZ's InferenceData: one chain; the weights are ``sample_stats.weight``."""
        try:
            with warnings.catch_warnings():  # it announces its own future at import
                warnings.simplefilter("ignore", FutureWarning)
                import arviz
        except ImportError as error:
            raise MissingExtra("arviz", "arviz") from error
        points = self.posterior.points
        columns = {name: np.asarray(points[name])[None] for name in (*points, *points.derived)}
        observed = self.run.problem.observed
        data = None if observed is None else {"summaries": np.atleast_1d(observed)}
        stats = {"weight": self.posterior.weights[None]}
        made: arviz.InferenceData = arviz.from_dict(posterior=columns, sample_stats=stats, observed_data=data)
        return made


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
