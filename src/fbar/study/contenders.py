"""What a study compares: methods of ours, their names, or plain functions of other packages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fbar.checks import choice, shown
from fbar.errors import InputError
from fbar.ledger.settings import describe
from fbar.methods import Method, Run
from fbar.methods.finite.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.methods.finite.allocation import Allocation
from fbar.methods.finite.inverse_binomial import InverseBinomial, InverseBinomialRun
from fbar.methods.registry import at_tolerance
from fbar.methods.sampling import Importance, Rejection
from fbar.methods.smc import SMC, SMCRun
from fbar.methods.stopping import StandardError, StoppingRule
from fbar.methods.targeted import Targeted
from fbar.question.targets import Target
from fbar.running import drive
from fbar.scores import Approximation, as_approximation
from fbar.seeds import Purpose, Seeds
from fbar.study.posed import Posed

Algorithm = Callable[[Posed, int, np.random.Generator], Any]
MethodFor = Callable[[int], Method]
"""A method's settings for a budget."""


Watch = Callable[[Run, StoppingRule, dict[str, float]], None]


@dataclass(frozen=True)
class Contender:
    """One algorithm of a study, with the name it has in tables.

    With ``precision``, standard errors by target, a method's runs end when those among the study's targets are reached,
    and at the budget at the latest; a trial then tells ``stopped``, 1 or 0. ``watch(run, rule, told)`` is called after
    every block of such a run and may put numbers into ``told``, such as a forecast: they are kept with the trial.
    """

    name: str
    method: Method | None = None
    method_for: MethodFor | None = None
    algorithm: Algorithm | None = None
    title: str = ""
    precision: Mapping[str, float] | None = None
    watch: Watch | None = None

    def run(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Approximation:
        """One trial; may raise anything."""
        if self.algorithm is not None:
            rng = seeds.generator(Purpose.DESIGN, 0, 0)
            return as_approximation(self.algorithm(posed, posed.budget, rng), posed, posed.spent)
        method = self.method if self.method_for is None else self.method_for(posed.budget)
        assert method is not None
        if self.precision is None:
            return _run_method(method, posed, targets, seeds)
        return _run_to_precision(method, posed, targets, seeds, self.precision, self.watch)

    def described(self) -> Any:
        """What tells this contender from another of the same name."""
        if self.precision is not None:
            return {"method": replace(self, precision=None).described(), "precision": dict(self.precision)}
        if self.method is not None:
            return describe(self.method)
        if self.method_for is not None:
            return describe(self.method_for(1000))
        return describe(self.algorithm)


def _run_method(method: Method, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Approximation:
    run = _at_the_tolerance(method, posed).start(posed, list(targets), seeds, posed.budget)
    drive(run, history=False)
    return _found(run, posed)


def _run_to_precision(
    method: Method,
    posed: Posed,
    targets: Sequence[Target],
    seeds: Seeds,
    precision: Mapping[str, float],
    watch: Watch | None,
) -> Approximation:
    rules: list[StoppingRule] = [StandardError(t.name, precision[t.name]) for t in targets if t.name in precision]
    if not rules:
        raise InputError(f"precision must name targets of this study; it names {', '.join(precision)}")
    rule = functools.reduce(lambda a, b: a & b, rules)
    told: dict[str, float] = {}
    run = _at_the_tolerance(method, posed).start(posed, list(targets), seeds, limit=posed.budget)
    drive(run, rule, history=False, progress=None if watch is None else lambda run: watch(run, rule, told))
    told["stopped"] = float(rule.holds(run))
    return replace(_found(run, posed), told=told)


def _at_the_tolerance(method: Method, posed: Posed) -> Method:
    is_open = posed.tolerance > 0 or getattr(method, "tolerance", 0.0) is None
    return at_tolerance(method, posed.tolerance) if is_open and posed.has_summaries else method


def _found(run: Run, posed: Posed) -> Approximation:
    # At the study's tolerance, also where the rounds did not come down to it.
    at_tolerance_of_study = isinstance(run, SMCRun) and posed.has_summaries
    posterior = run.posterior_at(posed.tolerance) if at_tolerance_of_study else run.posterior()
    found = as_approximation(posterior, posed, run.simulations)
    if isinstance(run, InverseBinomialRun):  # its own estimates of log p(x*|θ_i) are unbiased
        found = replace(found, likelihood=np.asarray(run.log_likelihood().value))
    return found


def _smc(weights: str) -> MethodFor:
    """ABC-SMC whose rounds accept a twentieth of the budget, so that there are several at any budget."""
    return lambda budget: SMC(accepted=max(20, budget // 20), weights=weights)


CONTENDERS: dict[str, Contender] = {
    item.name: item
    for item in (
        Contender("targeted", Targeted(), title="draws where they lower the targets' error, learnt as it goes"),
        Contender("rejection", Rejection(), title="draws from the prior, the accepted ones kept"),
        Contender("smc", method_for=_smc("mixture"), title="ABC-SMC, the particles of all rounds, mixture weights"),
        Contender("smc-last", method_for=_smc("last"), title="ABC-SMC, only the last round, as is usual"),
        Contender("smc-ess", method_for=_smc("ess"), title="ABC-SMC, all rounds weighted by their ESS (the paper's)"),
        Contender("posterior", Importance("posterior"), title="draws from the true posterior (known acceptance)"),
        Contender("max-ess", Importance("max-ess"), title="draws from the design of largest ESS (known acceptance)"),
        Contender("optimal", Importance("targeted"), title="draws from the design of least MSE (known acceptance)"),
        Contender("stratified", Importance("stratified", scheme="stratified"), title="the best stratified design"),
        Contender("adaptive", AdaptiveAllocation(), title="simulations allocated by what is learnt (finite priors)"),
        Contender("adaptive-posterior", AdaptivePosterior(), title="allocated to the posterior (finite priors)"),
        Contender("allocation-prior", Allocation("prior"), title="simulations in proportion to the prior (finite)"),
        Contender("allocation-posterior", Allocation("posterior"), title="in proportion to the posterior (finite)"),
        Contender("allocation-max-ess", Allocation("max-ess"), title="the allocation of largest ESS (finite)"),
        Contender("allocation-optimal", Allocation("min-mse"), title="the best allocation, known beforehand (finite)"),
        Contender("inverse-binomial", InverseBinomial(), title="each value until it matches, in turn (finite)"),
    )
}
"""Contenders by name; those that need a known acceptance probability or a finite prior say so."""


def as_contender(given: Any, name: str | None = None) -> Contender:
    """A contender from its name, a method, or a function ``algorithm(problem, budget, rng)``."""
    if isinstance(given, Contender):
        return given if name is None else replace(given, name=name)
    if isinstance(given, str):
        found = CONTENDERS[choice(given, CONTENDERS, "method")]
        return found if name is None else replace(found, name=name)
    if isinstance(given, Method):
        return Contender(name or _label(given), given)
    if callable(given):
        called = getattr(given, "__name__", type(given).__name__)
        if name is None and called == "<lambda>":
            raise InputError("a function without a name needs one: give methods as {'name': function}")
        return Contender(name or called.replace("_", "-"), algorithm=given)
    raise InputError(
        "a method is its name, a method such as fbar.Rejection(), or a function algorithm(problem, budget, rng); "
        f"got {shown(given)}"
    )


def _label(method: Method) -> str:
    for name, known in CONTENDERS.items():
        if known.method == method:
            return name
    default = describe(type(method)()) if not isinstance(method, Allocation) else {}
    changed = {key: value for key, value in describe(method).items() if default.get(key) != value and key != "type"}
    settings = ", ".join(f"{key}={value}" for key, value in changed.items())
    return f"{type(method).__name__}({settings})"


def as_contenders(given: Any) -> tuple[Contender, ...]:
    """One or several, as a list or under names of one's own."""
    if isinstance(given, Mapping):
        found = [as_contender(item, str(name)) for name, item in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = [as_contender(item) for item in given]
    else:
        found = [as_contender(given)]
    if not found:
        raise InputError("give at least one method")
    names = [item.name for item in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"two methods are called {shown(twice[0])}; name them: methods={{'a': …, 'b': …}}")
    return tuple(found)
