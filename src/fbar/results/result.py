"""What a run gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fbar.checks import non_negative_number, number
from fbar.diagnostics.explanation import Explanation, explain, target_of
from fbar.diagnostics.model_check import ModelCheck, check_model
from fbar.diagnostics.predictions import Predictions
from fbar.engine import Engine, as_before
from fbar.estimation.at_data import PosteriorAtData
from fbar.estimation.estimate import Estimate, Estimates, brief
from fbar.estimation.posterior import Posterior
from fbar.estimation.sequential import PosteriorAsPrior
from fbar.estimation.simulations import Simulations
from fbar.methods import Run
from fbar.methods.forecasts import Forecast
from fbar.methods.history import Moment
from fbar.methods.stopping import StoppingRule, as_rule
from fbar.question.outcomes import FailedPlace
from fbar.question.points import Points
from fbar.question.simulators import SimulatorFunction
from fbar.question.targets import SeveralTargets, Target
from fbar.results.about import about, remaining_bias
from fbar.results.account import Account
from fbar.results.comparison import Reference
from fbar.results.described import described
from fbar.results.everything import all_simulations
from fbar.results.exports import to_arviz, to_pandas
from fbar.results.markup import paragraph
from fbar.results.models import WithinModel, of_model
from fbar.results.notebook import joined
from fbar.results.notebook import warnings as warned
from fbar.results.other_looks import compared_with, from_tolerance, given_or_own
from fbar.results.predicted import predicted
from fbar.results.sample import draw
from fbar.results.summary_loss import SummaryLoss
from fbar.results.summary_table import SummaryTable, summarised
from fbar.results.warned import doubt_damaged, warnings_of
from fbar.seeds import Seeds

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run. Print it; ask further questions with `expect`, without new simulations."""

    run: Run
    posterior: Posterior
    estimates: Estimates
    stopped_by: str
    notes: tuple[str, ...] = ()
    missing: Mapping[str, Forecast] = field(default_factory=dict)
    """For each target whose requested precision was not reached: how many more simulations it needs."""
    remarks: tuple[str, ...] = ()
    """What was done before the run, such as learning summaries."""
    own: bool = True
    """Whether it is the run's own posterior, not one at another tolerance, adjusted or extrapolated."""
    how: str = ""
    """If it is not, the call that gave this result from the run's simulations."""
    what: str = ""
    """The same in words, with its tolerance."""
    looked_at: float | None = None
    """The tolerance that was used instead of the run's own."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What was asked, as JSON values: everything that determines the result."""
    earlier: tuple[Mapping[str, Any], ...] = ()
    """The same for the earlier legs, if the run was extended."""
    directory: Path | None = None
    """Where the run is recorded."""
    failed: tuple[FailedPlace, ...] = ()
    """Where simulations failed."""
    damage: str = ""
    """What is damaged in the record, if the result uses only the simulations before the damage."""
    asked: tuple[Target, ...] = ()
    """What was asked instead of the run's own targets, see `fbar.load`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimates", self._compared(self.targets, self.estimates))

    @property
    def is_at_data(self) -> bool:
        """Whether the answer is about the posterior itself, by regression at the data."""
        return isinstance(self.posterior, PosteriorAtData)

    @property
    def tolerance(self) -> float | None:
        """The tolerance of ABC's answer; None for an answer about the posterior itself."""
        if self.is_at_data:
            return None
        return self.run.reported_tolerance if self.looked_at is None else self.looked_at

    @property
    def about(self) -> str:
        """What was estimated, and what is known about its bias, in one line."""
        return about(self)

    @property
    def targets(self) -> tuple[Target, ...]:
        """What the estimates are of."""
        return self.asked or self.run.targets

    @property
    def simulations(self) -> Any:
        return self.posterior.simulations

    @property
    def unused(self) -> int:
        """Simulations that workers ran ahead and that came after the end of a round; not in ``simulations``.

        Always 0 with a budget or a limit, which applies to all simulations that are run.
        """
        return self.run.unused

    @property
    def accepted(self) -> Any:
        return self.posterior.accepted

    @property
    def seed(self) -> int:
        return self.run.seeds.entropy

    @property
    def history(self) -> tuple[Moment, ...]:
        """The run's own estimates at earlier stages; from one to the next, simulations grew by at least half.

        The last one is the end of the run. Empty if nothing could be estimated earlier, and for many trials.
        """
        return tuple(self.run.history)

    @overload
    def expect(self, targets: Target | str) -> Estimate: ...
    @overload
    def expect(self, targets: SeveralTargets) -> Estimates: ...
    def expect(self, targets: Target | str | Sequence[Target | str]) -> Estimate | Estimates:
        """The `Estimate` of any target, or the `Estimates` of several."""
        listed = self.run.problem.posed(targets)
        found = self._compared(listed, self.posterior.expect(list(listed)))
        return found[0] if isinstance(targets, Target | str) else found

    @property
    def all_remarks(self) -> tuple[str, ...]:
        """What was done before the run, and what the summary function loses, as far as that can be detected."""
        lost = "" if self.summary_loss is None else self.summary_loss.remark
        return tuple(text for text in (*self.remarks, lost) if text)

    @cached_property
    def summary_loss(self) -> SummaryLoss | None:
        """What the raw data show about a loss by the summary function; None if that is unknown, or not at the data."""
        return SummaryLoss.of(self.run) if self.is_at_data and not np.ndim(self.simulations) else None

    @cached_property
    def model_check(self) -> ModelCheck:
        """Whether the data are like what the model simulates, judged from the existing simulations."""
        if np.ndim(self.simulations):
            return ModelCheck(unknown="it is a run of many trials")
        return check_model(self.run.problem, self.posterior, self.all_simulations)

    def _compared(self, targets: tuple[Target, ...], estimates: Estimates) -> Estimates:
        """Estimates with what knows how far they are from the posterior: at a tolerance, or by lossy summaries."""
        compared = compared_with(self, self._reference, targets, estimates.numbers)
        return estimates if compared is None else estimates.compared(compared.of)

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.run)

    def at(self, tolerance: float) -> Result:
        """ABC's answer at a tolerance, from the same simulations.

        Any tolerance after `Targeted`, `SMC` and runs that answer at the data, which keep every simulation; a smaller
        one after others.
        """
        at = non_negative_number(tolerance, "tolerance")
        posterior = self.run.posterior_at(at)
        return self._of(posterior, f".at({at!r})", f"at tolerance {at:.4g}, from the same simulations", at)

    def at_data(self) -> Result:
        """The answer about the posterior itself, by regression at the data on all simulations of the run.

        See `fbar.estimation.at_data`. It is what a run gives that was started without a tolerance.
        """
        if self.is_at_data:
            return self
        everything, run = self.all_simulations(), self.run
        found = run.posterior_at_data() if everything.in_memory else run.estimator_at_data.posterior(everything)
        return self._of(found, ".at_data()", "at the data, from the same simulations", None)

    def curve(
        self, targets: Target | str | Sequence[Target | str] | None = None, tolerances: Sequence[float] | None = None
    ) -> list[tuple[float, Any]]:
        """The estimates against the tolerance, from the same simulations: pairs (tolerance, `Estimates`).

        Of an answer at the data, where no ``tolerances`` are given: against the bandwidth, see
        ``PosteriorAtData.curve``.
        """
        targets = self.targets if targets is None else targets
        if tolerances is None and isinstance(self.posterior, PosteriorAtData):
            return self.posterior.curve(self.run.problem.posed(targets))
        return self.run.curve(targets, tolerances)

    @cached_property
    def bias(self) -> Estimates | None:
        """The bias of each estimate, as estimate minus posterior; None if there is none or it cannot be estimated.

        At a tolerance: f̂_ε minus its Richardson extrapolation, see `fbar.estimation.extrapolation` for what that
        assumes; the ``difference`` of an estimate is minus the answer at the data. At the data: 0 with the standard
        deviation of the bias that may remain, of either sign, which the standard errors of the estimates include.
        """
        if self.is_at_data:
            return remaining_bias(self.estimates)
        found = self.run.bias() if self.own and not np.ndim(self.simulations) else None
        return None if found is None else found.expect(list(self.targets))

    def extrapolated(self, ratio: float = 2, tolerance: float | None = None) -> Result:
        """Richardson extrapolation to tolerance 0: (c² f̂_{ε/c} − f̂_ε)/(c² − 1) with c = ``ratio``.

        From the same simulations, with an error bar that allows for that. ``tolerance`` is ε, the larger of the two,
        the run's by default (after `at`, that one); after SMC, twice the last tolerance has more simulations. The bias
        falls from O(ε²) to O(ε⁴) where the summaries' density is smooth at the data, see
        `fbar.estimation.extrapolation`. Some weights are negative.
        """
        tolerance = from_tolerance(self, tolerance)
        c = number(ratio, "ratio")
        ratio = ratio if type(ratio) is int else c
        posterior, at = self.run.extrapolated(ratio, tolerance), given_or_own(self, tolerance)
        given = f"ratio={ratio!r}" + ("" if tolerance is None else f", tolerance={at!r}")
        what = f"extrapolated to tolerance 0, from tolerances {at:.4g} and {at / ratio:.4g}"
        return self._of(posterior, f".extrapolated({given})", what, tolerance)

    def adjusted(self, tolerance: float | None = None) -> Result:
        """Every accepted θ moved to the data, θ* = θ − (s − s*)β̂, by regression on the summaries.

        Beaumont, Zhang & Balding (2002), in coordinates that keep θ* in the prior's support; the error bar includes
        that of β̂, see `fbar.estimation.adjustment`. Removes the bias of a mean that is linear in the summaries; how
        the spread of θ depends on them remains. ``tolerance`` is the run's by default (after `at`, that one).
        """
        tolerance = from_tolerance(self, tolerance)
        posterior, at = self.run.adjusted(tolerance), given_or_own(self, tolerance)
        given = "" if tolerance is None else f"tolerance={at!r}"
        what = f"adjusted by regression on the summaries, at tolerance {at:.4g}"
        return self._of(posterior, f".adjusted({given})", what, tolerance)

    def as_prior(self) -> PosteriorAsPrior:
        """The posterior as the prior of a problem with further data that are independent of these given θ.

        Answers to that problem include the error of this one, see `PosteriorAsPrior`. Parameters must be continuous.
        """
        return PosteriorAsPrior(self.posterior, self.run.problem.prior)

    def forecast(self, precision: StoppingRule | Mapping[str, float | str]) -> Forecast | None:
        """How many more simulations would give the requested errors, as in ``precision=``; None if that is unknown.

        At a tolerance it follows from the variance of the run's estimates, see `fbar.methods.forecasts`. At the data it
        follows from how the total error has fallen, see `fbar.methods.total_error`, and it is None while an estimate
        is unreliable.
        """
        return as_rule(precision, self.run.targets).forecast(self.run)

    def all_simulations(self) -> Simulations:
        """Every simulation, accepted or not, with its weight: for estimators that learn from all of them.

        Those that are not in memory are read from the run's record, see ``Simulations.portions``.
        """
        return all_simulations(self.run, self.directory)

    def explain(self, target: str | Target | None = None) -> Explanation:
        """Where the simulations went and why, which of them are most influential, and what alternatives would give.

        ``target`` is one of the run's by name (R0 for mean:R0 if that is unambiguous), the only one by default, or any
        other. Nothing is simulated. Print what is returned; its numbers are in `Explanation.as_dict`.
        """
        asked = target_of(self.run, target)
        found = explain(self.run, self.posterior, asked)
        comparison = self._compared((asked,), Estimates([found.estimate], np.zeros((1, 1)), [slice(0, 1)]))[
            0
        ].comparison
        return replace(found, what=self.what, estimate=replace(found.estimate, comparison=comparison))

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        predictive: int | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> Path:
        """Write one self-contained HTML file: the answer, then model, posterior, fit to the data, precision, evidence.

        It opens from disk and loads nothing else. ``predictive`` is the number of new simulations from the posterior to
        compare with the data: by default up to 200, as many as can be run in 20 seconds; 0 for none. They are simulated
        as in `predict`.
        """
        from fbar.results.report import report_run

        return report_run(self, path, title=title, predictive=predictive, engine=self.engine(workers, timeout))

    def engine(self, workers: int | None = None, timeout: float | None = None) -> Engine:
        """Where new simulations run: like the run's own, except for what is given."""
        machine = self.settings.get("machine")
        return as_before(machine if isinstance(machine, Mapping) else {}, None, workers, timeout)

    def _of(self, posterior: Posterior, how: str, what: str, tolerance: float | None) -> Result:
        if self.damage:
            doubt_damaged(posterior, self.run)
        estimates = posterior.expect(list(self.targets))
        return replace(
            self,
            posterior=posterior,
            estimates=estimates,
            missing={},
            own=False,
            how=how,
            what=what,
            looked_at=tolerance,
        )

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the run as a whole; those of single estimates are theirs."""
        return warnings_of(self)

    def __str__(self) -> str:
        return "\n".join(Account.of(self).lines())

    def __repr__(self) -> str:
        title = f"{self.what}; " if self.what else ""
        return f"Result({title}{brief(self.estimates)}; {np.sum(self.simulations):,} simulations, {self.stopped_by})"

    def _repr_html_(self) -> str:
        account = Account.of(self)
        lines = [*account.how_it_went(), f"seed {self.seed}"]
        title = [paragraph(f"{self.what}:")] if self.what else []
        return joined(*title, self.estimates._repr_html_(), warned(account.further_warnings), *map(paragraph, lines))

    def predict(
        self,
        n: int | None = None,
        *,
        simulator: SimulatorFunction | None = None,
        seed: int | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> Predictions:
        """New simulations at θ drawn from the posterior: predictions with error bars, to compare with the data or not.

        With the problem's own simulator, or another ``simulator`` with the same parameters: a forecast, another
        scenario. ``n`` is the number of simulations, by default up to 200, as many as can be run in 20 seconds. They
        use the same number of local processes and the same time limit as the run, unless ``workers`` or ``timeout``
        (inf for none) are given; one process if the run was on a cluster or executor. One that crashes or hangs is
        counted as failed. The same ``seed`` gives the same numbers; by default it is the run's.
        """
        return predicted(self, n, simulator, seed, self.engine(workers, timeout))

    def as_dict(self) -> dict[str, Any]:
        """The estimates and how the run went, as JSON values."""
        return described(self)

    def summary(self, level: float = 0.95, *, kind: str = "equal-tailed") -> SummaryTable:
        """A table with a row for each parameter and derived quantity, like ArviZ's.

        Posterior mean, standard deviation and credible interval with probability ``level``, equal-tailed or
        ``kind="hdi"`` (of highest density); then the Monte Carlo error and the total error of the mean, and whether
        these are reliable. For a model choice: the models, and the quantities within each.
        """
        return summarised(self, level, kind)

    def of_model(self, model: Any) -> WithinModel:
        """The posterior within one model of a model choice: its estimates, a sample, a summary."""
        return of_model(self, model)

    def sample(self, size: int | None = None, *, seed: int | None = None) -> Points:
        """Equally weighted draws from the posterior, by systematic resampling of its weighted points.

        ``sample["R0"]`` is an array; derived parameters are included. The number of draws is the effective sample size,
        unless ``size`` is given; a warning says if they consist of few distinct points. The draws are always the same,
        and different with another ``seed``. Numbers computed from them have no error bars: use `expect`.
        """
        return draw(self.posterior, self.run.seeds if seed is None else Seeds.of(seed), size)

    # ------------------------------------------------------------ for other packages

    def to_pandas(self) -> pandas.DataFrame:
        """The weighted points of the posterior: a column for each parameter and derived parameter, and ``weight``.

        If a parameter has that name, the weights are ``weight_of_point``.
        """
        return to_pandas(self.posterior)

    def to_arviz(self, *, draws: int | None = None, weighted: bool = False) -> Any:
        """The posterior for ArviZ: its InferenceData, or a DataTree from version 1 on.

        ArviZ does not support weights, so it gets equally weighted draws, in one chain: points drawn from the posterior
        by systematic resampling, which preserves expectations up to the resampling error. Their number is the effective
        sample size, so that ArviZ does not overstate their precision, and they are always the same.

        Parameters
        ----------
        draws
            How many draws, instead of that number.
        weighted
            Every point once, with its weight in ``sample_stats.weight``. ArviZ's own functions do not use the weights:
            what they compute from these points is not about the posterior.
        """
        return to_arviz(self.run, self.posterior, draws=draws, weighted=weighted)
