"""What to type to have a run again, or to go on with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbar.errors import InputError
from fbar.methods import Method, stopping
from fbar.methods.registry import registered
from fbar.methods.restored import restored_method
from fbar.methods.smc.schedules import Tolerances
from fbar.methods.stopping import Both, Either, RelativeError, StandardError, StoppingRule

if TYPE_CHECKING:
    from fbar.results.result import Result


Settings = Mapping[str, Any]
"""What one leg of a run was asked, as it is recorded."""


def again(result: Result) -> str:
    """The commands, or the lines of Python, that give this result; an extended run's in another directory."""
    lines, legs = [], (*result.earlier, result.settings)
    if result.directory is not None and legs[-1].get("model"):
        lines.append(f"fbar resume {shlex.quote(str(result.directory))}  # this run, at once")
    if not legs[0]:
        lines.append("# not known: the run was driven step by step")
        return "\n".join(lines)
    first = _command if legs[0].get("model") else _python
    view = _view(result.how) if first is _command else ""
    name = "run" if result.directory is None else result.directory.resolve().name
    other = f"{name}-again" if view or len(legs) > 1 else ""
    lines.append(first(legs[0], result.seed, other))
    lines += [_extension(other, *pair) for pair in pairwise(legs)]
    if view:
        lines.append(f"fbar show {shlex.quote(other)} {view}")
    elif not result.own:
        lines.append(f"# then {result.how} of its result")
    return "\n".join(lines)


def going_on(directory: Path, legs: Sequence[Settings]) -> str:
    """The line of Python that goes on with the last leg of a run, which was made from Python."""
    if len(legs) > 1:
        return _extension(str(directory), *legs[-2:])
    return _python(legs[0], int(legs[0]["seed"]), str(directory))


def _command(asked: Settings, seed: int, run: str) -> str:
    model = asked["model"]
    words = [str(model["file"]) + ("" if model["name"] == "problem" else f":{model['name']}")]
    for target in asked["targets"]:
        words += ["--target", target]
    named, remark = _named(_method(asked))
    words += named
    until, also = _until(asked)
    words += until
    if asked.get("summaries"):
        words += ["--summaries", str(asked["summaries"]["regression"])]
    words += [] if asked["block_size"] is None else ["--block-size", str(asked["block_size"])]
    words += ["--seed", str(seed), *(["--run", run] if run else [])]
    return f"fbar infer {shlex.join(words)}{remark}{also}"


def _until(asked: Settings) -> tuple[list[str], str]:
    """Options for when a leg ends, and a remark about a rule that they cannot express."""
    stop, budget = _stop(asked), asked["budget"] or asked["limit"]
    words = [] if budget is None else ["--budget", str(budget)]
    if asked["stop"] is not None and stop is None:
        return words, "\n# until the custom rule holds, which can be given only in Python"
    wanted = _precisions(stop)
    for name, text in (wanted or {}).items():
        words += ["--precision", f"{name}={text}"]
    return words, "" if wanted is not None else f"\n# until {stop!r}, which can be given only in Python"


def _python(asked: Settings, seed: int, run: str) -> str:
    method = _method(asked)
    given = ["problem", "targets", "method=method" if method is None else f"method={_prefixed(method)}"]
    given += _python_until(asked, "block_size")
    given += [f"summaries={asked['summaries']['regression']!r}"] if asked.get("summaries") else []
    given += [f"seed={seed}", *([f"run={run!r}"] if run else [])]
    return f"fbar.infer({', '.join(given)})"


def _python_until(asked: Settings, *also: str) -> list[str]:
    stop, budget = _stop(asked), asked["budget"] or asked["limit"]
    given = [] if budget is None else [f"budget={budget!r}"]
    given += [f"{name}={asked[name]!r}" for name in also if asked[name] is not None]
    wanted = _precisions(stop)
    if wanted:
        precision = {name: text if text.endswith("%") else float(text) for name, text in wanted.items()}
        given.append(f"precision={precision}")
    elif asked["stop"] is not None:
        given.append("stop=stop" if stop is None else f"stop={_prefixed(stop)}")
    return given


def _extension(run: str, before: Settings, after: Settings) -> str:
    """What a leg added to the one before it; what is left out stays as it was."""
    first, second = _method(before), _method(after)
    tolerance = None if second is None else second.final_tolerance
    lower = tolerance is not None and first is not None and tolerance != first.final_tolerance
    targets = after["targets"] if after["targets"] != before["targets"] else []
    if not after.get("model"):
        given = [repr(run), "problem", *([f"targets={targets!r}"] if targets else [])]
        given += [f"tolerance={tolerance!r}"] if lower else []
        return f"fbar.extend({', '.join([*given, *_python_until(after)])})"
    words = [run]
    for target in targets:
        words += ["--target", target]
    words += ["--tolerance", repr(float(tolerance))] if lower and tolerance is not None else []
    until, also = _until(after)
    return f"fbar extend {shlex.join([*words, *until])}{also}"


def _view(how: str) -> str:
    """The options of ``fbar show`` for a call such as .at(0.1) or .adjusted(tolerance=0.1); none for another ratio."""
    name, _, given = how.strip(".)").partition("(")
    options = dict(part.split("=") for part in given.split(", ") if "=" in part)
    if name == "at":
        return f"--at {given}"
    if not name or options.pop("ratio", "2") not in ("2", "2.0"):
        return ""
    return f"--{name.replace('_', '-')}" + (f" --at {options['tolerance']}" if "tolerance" in options else "")


def _method(asked: Settings) -> Method | None:
    """The method; None for a custom one."""
    try:
        return restored_method(asked["method"])
    except InputError:
        return None


def _stop(asked: Settings) -> StoppingRule | None:
    """The stopping rule; None if there is none, or a custom one."""
    with suppress(InputError):
        return None if asked["stop"] is None else stopping.restored(asked["stop"])
    return None


def _named(method: Method | None) -> tuple[list[str], str]:
    """Options for a method that the command line can name; else a remark of what the model file must define."""
    if method is None:
        return [], "\n# with the custom method"
    tolerance = method.final_tolerance
    for name, entry in registered().items():
        try:
            plain = entry.make() if tolerance is None else entry.make().at_tolerance(tolerance)
        except InputError:
            continue
        if plain == method:
            return ["--method", name, *([] if tolerance is None else ["--tolerance", repr(float(tolerance))])], ""
    return [], f"\n# with method = {_prefixed(method)} in the model file"


def _precisions(stop: StoppingRule | None) -> dict[str, str] | None:
    """Wanted errors by target; None for a rule that they cannot express."""
    if stop is None:
        return {}
    if isinstance(stop, Both):
        first, second = _precisions(stop.first), _precisions(stop.second)
        return None if first is None or second is None else {**first, **second}
    if isinstance(stop, RelativeError):
        return {stop.target: f"{100 * stop.wanted:.10g}%"}
    return {stop.target: repr(float(stop.wanted))} if isinstance(stop, StandardError) else None


def _prefixed(part: Any) -> str:
    """How a method or rule is written, without its defaults."""
    if not is_dataclass(part) or isinstance(part, type):
        return repr(part)
    if isinstance(part, Tolerances):
        return repr(list(part.values))
    if isinstance(part, Either | Both):
        return f"({_prefixed(part.first)} {'|' if isinstance(part, Either) else '&'} {_prefixed(part.second)})"
    plain = {field.name: _default(field) for field in fields(part)}
    given = {name: getattr(part, name) for name in plain}
    changed = [f"{name}={_prefixed(value)}" for name, value in given.items() if value != plain[name]]
    kind = type(part)
    return f"{'fbar.' if kind.__module__.startswith('fbar.') else ''}{kind.__name__}({', '.join(changed)})"


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
