"""The last part of a run's report: the model against the data, failures, settings and how to run it again."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from fbar.diagnostics.model_check import ModelCheck
from fbar.diagnostics.predictions import Predictions
from fbar.results.again import again
from fbar.results.markup import element, join, paragraph
from fbar.results.report.page import Section, details, figures, notes, table
from fbar.results.report.svg import panel

if TYPE_CHECKING:
    from fbar.plot import Predictive as PredictiveRecord
    from fbar.results.result import Result

PACKAGES = ("fbar", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")


def predictive(found: Predictions, check: ModelCheck, names: Sequence[str]) -> Section:
    """The check of the model, and new simulations from the posterior beside the data; ``names`` are the summaries'."""
    from fbar import plot

    intro = paragraph(
        "New simulations at parameters drawn from the posterior. Data that lie outside most of them say that the model "
        "does not make such data at the parameters that it finds likely; no error bar shows that."
    )
    checked = paragraph(str(check), class_="warning") if check.alarm else paragraph(str(check))
    body: list[object] = [checked, intro]
    numbers, observed = found.numbers, found.observed_summaries
    if numbers is not None and observed is not None:
        record = plot.Predictive.of(np.ravel(observed).astype(np.float64), numbers, names or None)
        size = (6.4, 3.0) if numbers.shape[1] > 1 else (3.5, 2.6)
        made = panel(record.draw, "new simulations beside the data", size)
        body.append(figures([made], f"{len(numbers)} new simulations; the data are the marks.", "whole"))
        body.append(paragraph(_outside(record)))
    elif len(found.summaries):
        rows = found.summaries.reshape(len(found.summaries), -1)
        same = float(np.mean((rows == np.ravel(np.asarray(observed))).all(axis=1)))
        body.append(paragraph(f"{100 * same:.3g}% of {len(found.summaries)} new simulations are like the data."))
    if found.failed:
        body.append(paragraph(f"{found.failed} of them failed.", class_="warning"))
    if found.missing:
        body.append(paragraph(found.missing))
    return Section("predictive", "The model against the data", join(body))


def _outside(record: PredictiveRecord) -> str:
    """How many of the data lie in the outer 5% of the new simulations, of which 1 in 20 would by chance."""
    far = int(np.sum(record.tails < 0.05))
    extreme = int(np.argmin(record.tails))
    name = record.names[extreme]
    return (
        f"{far} of {record.tails.size} numbers lie outside the central 95% of the new simulations, where by chance 1 "
        f"in 20 would; the furthest out is {f'number {name}' if name.isdigit() else name}, with a two-sided tail "
        f"probability {record.tail_in_words(extreme)}."
    )


def failures(result: Result) -> Section:
    """By kind, and where in the parameters."""
    seen = result.run.seen
    if not seen.failures:
        return Section("failures", "Failures", paragraph(f"None of {result.run.simulations:,} simulations failed."))
    kinds = [(kind.words, f"{count:,}", seen.examples.get(kind, "")) for kind, count in seen.counts.items()]
    rows = [
        (
            place.parameter,
            place.words,
            f"{place.failed:,} of {place.simulations:,}",
            _share(place.failed, place.simulations),
        )
        for place in result.failed
    ]
    body = [
        paragraph(f"{seen.failures:,} of {result.run.simulations:,} simulations failed and were rejected."),
        table(["kind", "how many", "for example"], [(k, n, element("code", text)) for k, n, text in kinds], left=3),
        table(
            ["parameter", "where", "failed", "share"],
            rows,
            left=2,
            caption="Where they failed, of those that were watched",
        )
        if rows
        else "",
    ]
    return Section("failures", "Failures", join(body))


def settings(result: Result) -> Section:
    """Settings, seed, versions, and what to type to have it all again."""
    asked = dict(result.settings)
    told = {key: value for key, value in asked.items() if key != "machine"}
    rows = [
        (key, _said(asked[key])) for key in ("targets", "budget", "limit", "block_size") if asked.get(key) is not None
    ]
    rows += [(f"method.{key}", _said(value)) for key, value in asked.get("method", {}).items() if value is not None]
    rows += [("until", _said(asked["stop"]))] if asked.get("stop") else []
    rows += [("seed", str(result.seed)), ("simulations", f"{int(np.sum(result.simulations)):,}")]
    rows += [("run", str(result.directory))] if result.directory is not None else []
    body = [
        table(["setting", "value"], rows, left=2),
        element("h3", "Run it again"),
        element("pre", again(result), class_="wrapped"),
        element("h3", "Versions"),
        table(["package", "version"], _versions(), left=2),
        details("Everything that decides the result", element("pre", json.dumps(told, indent=2, ensure_ascii=False)))
        if asked
        else "",
        notes(["The same seed and settings give the same numbers, on any number of workers."]),
    ]
    return Section("settings", "Settings", join(body))


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        own = ", ".join(f"{key}={_said(item)}" for key, item in value.items() if key != "type" and item is not None)
        return f"{value['type']}({own})" if "type" in value else own
    if isinstance(value, list):
        return ", ".join(_said(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.3g}%"


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
