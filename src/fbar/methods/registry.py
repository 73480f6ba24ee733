"""Methods by name, at a tolerance, and from their description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

from fbar.checks import choice, shown
from fbar.designs.proposals import LocalNormalKernel, NormalKernel, OptimalLocalKernel, UniformKernel
from fbar.designs.schemes import Independent, Sobol, Stratified
from fbar.errors import InputError
from fbar.estimation.doubly_robust import DoublyRobust
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.kernel_regression import KernelRegression
from fbar.methods.base import Method
from fbar.methods.finite.adaptive import AdaptiveAllocation, AdaptivePosterior
from fbar.methods.finite.allocation import Allocation
from fbar.methods.finite.inverse_binomial import InverseBinomial
from fbar.methods.sampling import Importance, Rejection
from fbar.methods.smc import SMC
from fbar.methods.smc.schedules import AcceptanceRateSchedule, QuantileSchedule, Tolerances
from fbar.methods.targeted import Targeted
from fbar.question.distances import Scaled
from fbar.system.schema import fits

MOST_COUNT = 10**9
"""The largest whole number in a recorded method."""

METHODS: dict[str, Callable[[], Method]] = {
    "targeted": Targeted,
    "rejection": Rejection,
    "importance": Importance,
    "smc": SMC,
    "adaptive": AdaptiveAllocation,
    "adaptive-posterior": AdaptivePosterior,
}

PARTS: dict[str, type[Any]] = {
    part.__name__: part
    for part in (
        AdaptiveAllocation,
        AdaptivePosterior,
        Allocation,
        Importance,
        InverseBinomial,
        Rejection,
        SMC,
        Targeted,
        AcceptanceRateSchedule,
        QuantileSchedule,
        Tolerances,
        Scaled,
        LocalNormalKernel,
        NormalKernel,
        OptimalLocalKernel,
        UniformKernel,
        Independent,
        Sobol,
        Stratified,
        WeightedAverage,
        KernelRegression,
        DoublyRobust,
    )
}
"""What a method may be made of, by the name of its type."""


def as_method(given: Method | str) -> Method:
    if isinstance(given, str):
        return METHODS[choice(given, METHODS, "method")]()
    if not isinstance(given, Method):
        raise InputError(f"method must be a method such as fbar.Rejection(), or its name; got {shown(given)}")
    return given


def at_tolerance(method: Method, tolerance: float) -> Method:
    """The method with another tolerance; for ABC-SMC the one it ends at."""
    if isinstance(method, SMC):
        schedule: Any = method.schedule
        if isinstance(schedule, Tolerances):
            if tolerance == schedule.last:
                return method
            return replace(method, schedule=schedule.down_to(tolerance))
        return replace(method, schedule=replace(schedule, tolerance=tolerance))
    if "tolerance" not in {field.name for field in fields(method)}:  # type: ignore[arg-type]
        raise InputError(f"{type(method).__name__} has no tolerance")
    return replace(method, tolerance=tolerance)  # type: ignore[type-var]


def restored_method(described: Any) -> Method:
    """A method from its description as JSON."""
    found = restored(described)
    if not isinstance(found, Method):
        raise InputError(f"the run's method is recorded as {described!r:.60}, which is no method")
    return found


def _made(part: type[Any], given: Mapping[str, Any]) -> Any:
    """A part from recorded values, which may be anything."""
    hints = get_type_hints(part)
    known = {field.name for field in fields(part)}
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"the run's method has a setting {name!r:.60} that {part.__name__} does not know; update fbar"
            )
        if not fits(value, hints[name]):
            raise InputError(f"the run's method has {part.__name__}({name}={value!r:.60}), which is not what it takes")
        if isinstance(value, int) and abs(value) > MOST_COUNT:
            raise InputError(f"the run's method has {part.__name__}({name}={value!r:.60}): at most {MOST_COUNT:,}")
    try:
        return part(**given)
    except TypeError:
        raise InputError(f"the run's method has a {part.__name__} without all that it takes") from None


def restored(described: Any) -> Any:
    """A method, or a part of one, from its description as JSON."""
    if isinstance(described, Mapping):
        if "type" not in described:
            return {key: restored(value) for key, value in described.items()}
        if not isinstance(described["type"], str) or described["type"] not in PARTS:
            raise InputError(
                f"the run's method has a part of your own ({described.get('type')}); give infer its own command again"
            )
        inner = {str(key): restored(value) for key, value in described.items() if key != "type"}
        return _made(PARTS[described["type"]], inner)
    if isinstance(described, list):
        return tuple(restored(item) for item in described)
    return described
