"""What a study compares: methods of ours, their names, or plain functions of other packages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any

import numpy as np

from fbar.checks import shown
from fbar.errors import InputError
from fbar.estimation.posterior import Posterior
from fbar.ledger.settings import describe
from fbar.methods import Importance, Method, Rejection, Run
from fbar.methods.registry import Registered, find, registered
from fbar.methods.stopping import StandardError, StoppingRule
from fbar.question.targets import Target
from fbar.running import drive
from fbar.scores import Approximation, as_approximation
from fbar.seeds import Purpose, Seeds
from fbar.study.posed import Posed

Algorithm = Callable[[Posed, int, np.random.Generator], Any]
MethodFor = Callable[[int], Method]
"""A method's settings for a budget."""

Question = Callable[[Posed, Sequence[Target], Seeds], Any]
"""An algorithm that is told the study's targets too, such as `fbar.infer` itself."""

COST = "cost"
"""What a trial's simulations cost, among what it told."""

Watch = Callable[[Run, StoppingRule, dict[str, float]], None]


@dataclass(frozen=True)
class Contender:
    """One algorithm of a study, with the name it has in tables.

    One of ``method``, ``method_for``, ``algorithm`` and ``question`` is given.
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
    question: Question | None = None

    def run(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Approximation:
        """One trial; may raise anything. Where costs were given with the problem, it tells the ``cost``."""
        found = self._run(posed, targets, seeds)
        cost = posed.spent_cost
        return found if cost is None else replace(found, told={**found.told, COST: cost})

    def _run(self, posed: Posed, targets: Sequence[Target], seeds: Seeds) -> Approximation:
        if self.algorithm is not None:
            rng = seeds.generator(Purpose.DESIGN, 0, 0)
            return as_approximation(self.algorithm(posed, posed.budget, rng), posed, posed.spent)
        if self.question is not None:
            return as_approximation(self.question(posed, targets, seeds), posed, posed.spent)
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
            return describe(_with_former_tolerance(self.method))
        if self.method_for is not None:
            return describe(self.method_for(1000))
        return describe(self.algorithm if self.question is None else self.question)


def _with_former_tolerance(method: Method) -> Method:
    """Draws without a tolerance as the same at 0: a study gives both its own, and its earlier trials recorded a 0."""
    return (
        method.at_tolerance(0.0) if isinstance(method, Importance | Rejection) and method.tolerance is None else method
    )


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
    is_open = method.has_tolerance and (posed.tolerance > 0 or method.chooses_tolerance)
    return method.at_tolerance(posed.tolerance) if is_open and posed.has_summaries else method


def _found(run: Run, posed: Posed) -> Approximation:
    found = as_approximation(_posterior(run, posed), posed, run.simulations)
    likelihood = run.log_likelihood()
    return found if likelihood is None else replace(found, likelihood=np.asarray(likelihood.value))


def _posterior(run: Run, posed: Posed) -> Posterior:
    """At the study's tolerance, also where the rounds did not come down to it; otherwise what the run answers."""
    if not posed.has_summaries or (run.at_final_tolerance and not run.at_data):
        return run.posterior()
    try:
        return run.posterior_at(posed.tolerance)
    except InputError:  # it has a posterior only at the tolerances that it came to
        return run.posterior()


def _known(entry: Registered) -> Contender:
    """The contender that a registered method is."""
    if entry.for_budget is not None:
        return Contender(entry.name, method_for=entry.for_budget, title=entry.title)
    return Contender(entry.name, entry.make(), title=entry.title)


def as_contender(given: Any, name: str | None = None) -> Contender:
    """A contender from its name, a method, or a function ``algorithm(problem, budget, rng)``."""
    if isinstance(given, Contender):
        return given if name is None else replace(given, name=name)
    if isinstance(given, str):
        found = _known(find(given))
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
    for name, entry in registered().items():
        if entry.for_budget is None and entry.make() == method:
            return name
    given = {field: describe(getattr(method, field.name)) for field in fields(method)}
    settings = ", ".join(f"{f.name}={value}" for f, value in given.items() if value != describe(_default(f)))
    return f"{type(method).__name__}({settings})"


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


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
