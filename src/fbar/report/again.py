"""What to type to have a run again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from fbar import stopping
from fbar.errors import InputError
from fbar.methods import Method
from fbar.methods.named import METHODS, as_method, at_tolerance, restored
from fbar.methods.schedules import Tolerances
from fbar.stopping import Both, Either, RelativeError, StandardError, StoppingRule

if TYPE_CHECKING:
    from fbar.result import Result


def again(result: Result) -> str:
    """The commands, or the line of Python, that give this result."""
    asked, lines = result.settings, []
    if result.directory is not None and asked.get("model"):
        lines.append(f"fbar resume {shlex.quote(str(result.directory))}  # this run, at once")
    if result.run.extended:
        lines.append("# it was extended: the steps are in the run's record, fbar show RUN")
    elif not asked:
        lines.append("# not known: the run was driven by hand")
    elif asked.get("model"):
        lines.append(_command(asked, result.seed))
    else:
        lines.append(_python(asked, result.seed))
    if not result.own:
        lines.append(f"# then {result.how} of what it gives")
    return "\n".join(lines)


def _command(asked: Mapping[str, Any], seed: int) -> str:
    model, method, stop = asked["model"], _method(asked), _stop(asked)
    words = [str(model["file"]) + ("" if model["name"] == "problem" else f":{model['name']}")]
    for target in asked["targets"]:
        words += ["--target", target]
    named, remark = _named(method)
    words += named
    budget = asked["budget"] or asked["limit"]
    words += [] if budget is None else ["--budget", str(budget)]
    wanted = _precisions(stop)
    for name, text in (wanted or {}).items():
        words += ["--precision", f"{name}={text}"]
    if asked.get("summaries"):
        words += ["--summaries", str(asked["summaries"]["regression"])]
    words += [] if asked["block_size"] is None else ["--block-size", str(asked["block_size"])]
    line = " ".join(["fbar", "infer", *(shlex.quote(word) for word in words), "--seed", str(seed)])
    return f"{line}{remark}" + ("" if wanted is not None else f"\n# until {stop!r}, which Python alone can say")


def _python(asked: Mapping[str, Any], seed: int) -> str:
    method, stop = _method(asked), _stop(asked)
    given = ["problem", "targets"]
    given += [] if method is None else [f"method={_prefixed(method)}"]
    budget = asked["budget"] or asked["limit"]
    given += [] if budget is None else [f"budget={budget!r}"]
    given += [] if asked["block_size"] is None else [f"block_size={asked['block_size']!r}"]
    wanted = _precisions(stop)
    if wanted:
        given.append(
            f"precision={ {name: text if text.endswith('%') else float(text) for name, text in wanted.items()} }"
        )
    elif stop is not None:
        given.append(f"stop={_prefixed(stop)}")
    given += [f"summaries={asked['summaries']['regression']!r}"] if asked.get("summaries") else []
    return f"fbar.infer({', '.join([*given, f'seed={seed}'])})"


def _method(asked: Mapping[str, Any]) -> Method | None:
    """The method; None for one of the user's own."""
    try:
        method: Method = restored(asked["method"])
    except (InputError, TypeError):
        return None
    return method


def _stop(asked: Mapping[str, Any]) -> StoppingRule | None:
    return None if asked["stop"] is None else stopping.restored(asked["stop"])


def _named(method: Method | None) -> tuple[list[str], str]:
    """Options for a method that the command line can name; else a remark of what the model file must define."""
    if method is None:
        return [], "\n# with the method of your own"
    tolerance = method.final_tolerance
    for name in METHODS:
        try:
            plain = as_method(name) if tolerance is None else at_tolerance(as_method(name), tolerance)
        except InputError:
            continue
        if plain == method:
            return ["--method", name, *([] if tolerance is None else ["--tolerance", repr(float(tolerance))])], ""
    return [], f"\n# with method = {_prefixed(method)} in the model file"


def _precisions(stop: StoppingRule | None) -> dict[str, str] | None:
    """Wanted errors by target; None for a rule that they cannot say."""
    if stop is None:
        return {}
    if isinstance(stop, Both):
        first, second = _precisions(stop.first), _precisions(stop.second)
        return None if first is None or second is None else {**first, **second}
    if isinstance(stop, RelativeError):
        return {stop.target: f"{100 * stop.wanted:.10g}%"}
    return {stop.target: repr(float(stop.wanted))} if isinstance(stop, StandardError) else None


def _prefixed(part: Any) -> str:
    """How a method or rule is written, without what is so by default."""
    if not is_dataclass(part) or isinstance(part, type):
        return repr(part)
    if isinstance(part, Tolerances):
        return repr(list(part.values))
    if isinstance(part, Either | Both):
        return f"({_prefixed(part.first)} {'|' if isinstance(part, Either) else '&'} {_prefixed(part.second)})"
    plain = {field.name: _default(field) for field in fields(part)}
    given = {name: getattr(part, name) for name in plain}
    own = [f"{name}={_prefixed(value)}" for name, value in given.items() if value != plain[name]]
    return f"fbar.{type(part).__name__}({', '.join(own)})"


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
