"""A run at work, seen from its directory alone: watch."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fbar.checks import counted, positive_number
from fbar.cli.asked import end_in_words, method_in_words, rule_of
from fbar.cli.common import Flag, JsonFlag, MaybeNumber, say
from fbar.cli.output import print_recorded
from fbar.errors import LedgerError
from fbar.estimation.estimate import Estimate
from fbar.methods.forecasts import brief
from fbar.question.outcomes import Failure
from fbar.results.again import going_on
from fbar.running.progress import State, bar, duration, label, plain_line, wanted_errors
from fbar.running.progress_file import RecordedMoment, RecordedProgress
from fbar.running.watched import Status, WatchedRun, look_at
from fbar.system.signals import interrupted
from fbar.system.terminal import Screen, cells, clean, cut, is_terminal, padded, size

PAUSE, PLAIN_PAUSE = 1.0, 10.0
"""Seconds between updates on a terminal, and elsewhere."""

SILENCE = 60.0
"""Seconds without a word from the driver from which on that is mentioned."""

WIDTH, MOST_ROWS = 140, 40
"""Columns and rows where there is no terminal."""

STILL_GOING = "stopped watching; this does not affect the run"


def watch(run: Path, /, *, once: Flag = False, every: MaybeNumber = None, json_: JsonFlag = False) -> None:
    """Watch a recorded run from its directory: the estimates as their errors fall, its rate, failures, what is left.

    It only reads two small files that the run keeps up to date, about once a second: it does not slow the run, lock it
    or open its record, and it needs no model file. So it also works on a read-only mount, and for a run that another
    machine is making. It ends when the run ends; Ctrl-C ends only the view.

    On a terminal the view is redrawn in place; elsewhere each change is one line.

    Examples: "fbar watch my-run", "fbar watch /mnt/cluster/my-run --once", "fbar watch my-run --every 60 >> log",
    "fbar watch my-run --once --json".

    Parameters
    ----------
    run
        The run's directory.
    once
        Show the run as it is now, and end.
    every
        Seconds between updates: 1 by default on a terminal, 10 elsewhere.
    json_
        Print one JSON object on a line, and again whenever something has changed: status (not started, in progress,
        perhaps in progress on another machine, stopped before its end, finished), progress and result.
    """
    pause = None if every is None else positive_number(every, "--every")
    view: View
    if json_:
        view = JsonView()
    elif once:
        view = OneView()
    elif is_terminal(sys.stdout):
        view = TerminalView()
    else:
        view = LinesView()
    seen: WatchedRun | None = None
    try:
        while True:
            seen = _look(run, seen)
            view.show(seen)
            if once or seen.over:
                break
            time.sleep(view.pause if pause is None else pause)
        view.end(seen)
    except KeyboardInterrupt as error:
        if seen is not None:
            view.end(seen)
        raise interrupted(error, STILL_GOING) from None


def _look(run: Path, before: WatchedRun | None) -> WatchedRun:
    """The run now; what was seen before where its files are just being replaced or its disk is away for a moment."""
    try:
        return look_at(run)
    except (OSError, LedgerError):
        if before is None:
            raise
        return before


# ---------------------------------------------------------------- ways to show it


class View:
    """Shows a run each time it was looked at."""

    pause = PLAIN_PAUSE

    def show(self, seen: WatchedRun) -> None:
        """Show the run as it is."""

    def end(self, seen: WatchedRun) -> None:
        """The view ends, with the run or before it."""


class OneView(View):
    """As it is, once."""

    def show(self, seen: WatchedRun) -> None:
        _print(seen, WIDTH)


class TerminalView(View):
    """Drawn over again and again; what was seen last stays."""

    pause = PAUSE

    def __init__(self) -> None:
        self._screen = Screen(sys.stdout)

    def show(self, seen: WatchedRun) -> None:
        if not seen.over:
            columns, rows = size(sys.stdout)
            self._screen.draw(lines(seen, columns - 1, rows - 1))

    def end(self, seen: WatchedRun) -> None:
        self._screen.wipe()
        _print(seen, size(sys.stdout)[0] - 1)


class LinesView(View):
    """A line for each change, for a log."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, seen: WatchedRun) -> None:
        line = _line(seen)
        if line and line != self._last:
            if not self._last:
                say(title(seen))
            say(line)
            sys.stdout.flush()
            self._last = line

    def end(self, seen: WatchedRun) -> None:
        if seen.over:
            if not self._last:
                say(title(seen))
            _print_ending(seen)


class JsonView(View):
    """A JSON object for each change."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, seen: WatchedRun) -> None:
        text = json.dumps(as_tree(seen))
        if text != self._last:
            print(text, flush=True)
            self._last = text


def as_tree(seen: WatchedRun) -> dict[str, Any]:
    """What is seen of a run, as JSON values."""
    return {
        "run": str(seen.directory),
        "status": seen.status.value,
        "machine": seen.machine,
        "progress": None if seen.progress is None else dict(seen.progress.tree),
        "result": seen.legs[-1].result if seen.legs else None,
    }


# ---------------------------------------------------------------- in words


def title(seen: WatchedRun) -> str:
    """What is watched."""
    if not seen.legs:
        return f"{seen.directory}: nothing has been started yet, or run.json cannot be read"
    about = " at the data" if seen.settings.get("at_data") else ""
    return f"{seen.directory}: {method_in_words(seen.settings)}{about}; {end_in_words(seen.settings)}"


def status(seen: WatchedRun) -> str:
    """Where it is, and since when."""
    where = f" on {seen.machine}" if seen.machine and seen.status is Status.RUNNING else ""
    words = [f"{seen.status.value}{where}"]
    if seen.seconds is not None and not seen.over:
        words.append(f"for {duration(seen.seconds)}")
    found = " ".join(words)
    if seen.age is not None and seen.age > SILENCE and not seen.over:
        found += f"; its last block was {duration(seen.age)} ago"
    if seen.progress is None and seen.legs and not seen.over:
        found += "; nothing is known of its progress yet (fbar show counts what is recorded)"
    return found


def _print(seen: WatchedRun, columns: int) -> None:
    """The run as it is: how it ended, or the view."""
    if seen.over:
        say(title(seen))
        _print_ending(seen)
        return
    for line in lines(seen, columns, MOST_ROWS):
        say(line)


def lines(seen: WatchedRun, columns: int, rows: int) -> list[str]:
    """The view as a block: the estimates as they came about, a bar, how far it is."""
    progress = seen.progress
    if not seen.legs or progress is None:
        return _cut([title(seen), status(seen)], columns)
    state = progress.state
    below = [bar(state.share, min(columns, 72))] if state.share is not None else []
    below += [", ".join([state.done, *state.pace]), ", ".join(state.where), *_failures(progress)]
    below += _wanted(seen, state)
    table = moments_table(progress, columns, rows - len(below) - 3)
    return _cut([title(seen), status(seen), *table, *below], columns)


def _cut(found: Sequence[str], columns: int) -> list[str]:
    return [cut(clean(line), columns) for line in found]


def moments_table(progress: RecordedProgress, columns: int, rows: int) -> list[str]:
    """The last moments, a row each, with a column for each target for which there is room."""
    moments = list(progress.moments)
    now = progress.state
    if now.estimates and (not moments or now.simulations > moments[-1].simulations):
        moments.append(RecordedMoment(now.simulations, now.estimates))
    if not moments or rows < 2:
        return []
    shown = moments[-(rows - 1) :]
    names = [estimate.name for estimate in moments[-1].estimates]
    table = [["simulations", *(f"{moment.simulations:,}" for moment in shown)]]
    table[0] = [text.rjust(max(map(len, table[0]))) for text in table[0]]
    used = cells(table[0][0])
    for name in names:
        column = [label(name), *(_cell(moment.estimate(name)) for moment in shown)]
        width = max(map(cells, column))
        if used + 2 + width > columns and len(table) > 1:
            break
        used += 2 + width
        table.append([padded(text, width) for text in column])
    left = len(names) - (len(table) - 1) + progress.unshown
    found = ["  ".join(row).rstrip() for row in zip(*table, strict=True)]
    return [*found, f"({counted(left, 'more target')})"] if left else found


def _cell(estimate: Estimate | None) -> str:
    return "–" if estimate is None else clean(str(estimate))


def _failures(progress: RecordedProgress) -> list[str]:
    total = sum(progress.failures.values())
    if not total:
        return []
    known = {kind.name.lower(): kind.words for kind in Failure}
    listed = ", ".join(f"{count:,} {known.get(name, name)}" for name, count in progress.failures.items())
    share = total / max(progress.state.simulations, 1)
    return [f"{counted(total, 'failure')} ({share:.2g} of all): {listed}"]


def _wanted(seen: WatchedRun, state: State) -> list[str]:
    """The precision that ends the run, how far it is from there, and what that is forecast to take."""
    wanted = wanted_errors(rule_of(seen.settings))
    found = []
    for name, error in wanted.items():
        now = _now(name, error, state)
        found.append(f"{label(name)} ±{error}" + (f", now ±{now}" if now else ""))
    if not found:
        return []
    more = f"; about {brief(state.more)} more simulations" if state.more and state.budget is None else ""
    return [f"wanted: {'; '.join(found)}{more}"]


def _now(name: str, error: str, state: State) -> str:
    """The present error of a target in the same terms as the wanted one; that of a vector's worst number."""
    estimate = next((item for item in state.estimates or () if item.name == name), None)
    if estimate is None:
        return ""
    errors, values = np.ravel(estimate.standard_error), np.abs(np.ravel(estimate.value))
    if not error.endswith("%"):
        return f"{errors.max():.2g}"
    return f"{100 * (errors / values).max():.2g}%" if (values > 0).all() else ""


def _line(seen: WatchedRun) -> str:
    """One line: how far it is, and the estimates."""
    if seen.over:
        return ""
    if seen.progress is None:
        return status(seen)
    failures = "".join(f"; {line}" for line in _failures(seen.progress))
    return f"{plain_line(seen.progress.state)}{failures}"


def _print_ending(seen: WatchedRun) -> None:
    """How a run ended that is over."""
    result = seen.legs[-1].result
    if result is not None:
        print_recorded(result, seen.directory)
        return
    progress = seen.progress
    if progress is not None:
        say(plain_line(replace(progress.state, rate=None, estimating=False)))
        for line in _failures(progress):
            say(line)
    why = f" ({progress.stopped})" if progress is not None and progress.stopped else ""
    settings = [leg.settings for leg in seen.legs]
    command = (
        f"fbar resume {shlex.quote(str(seen.directory))}"
        if settings[0].get("model")
        else going_on(seen.directory, settings)
    )
    say(f"{seen.status.value}{why}; resume it with: {command}")
