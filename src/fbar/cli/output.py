"""What the commands about runs print: results as text or JSON, and nothing else on standard output."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from fbar.checks import counted
from fbar.cli.common import say
from fbar.results.account import Account
from fbar.results.result import Result
from fbar.results.summary_table import SummaryTable, summary_or_none

MOST_ROWS, MOST_WARNINGS = 15, 3
"""Rows of the table of all quantities that are printed, and warnings about them; JSON has all."""

NOT_RECORDED = "RUN"
"""Stands for the directory of a run that has none."""

COMMANDS = {
    "at": "show {run} --at {given}",
    "at_data": "show {run} --at-data",
    "adjusted": "show {run} --adjusted",
    "extrapolated": "show {run} --extrapolated",
    "explain": "explain {run} {given}",
    "predict": "predict {run}",
    "report": "report {run}",
    "sample": "export {run} --sample {given}",
}
"""What does on the command line what a method of a result does in Python, with what it is given."""

_METHOD = re.compile(rf"result\.({'|'.join(COMMANDS)})\(([^()]*)\)")


@contextmanager
def json_only(as_json: bool) -> Iterator[None]:
    """Keep standard output for the JSON: what a model, its simulator or its workers print goes to standard error."""
    if not as_json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def print_result(result: Result, as_json: bool) -> None:
    if as_json:
        print_json(result.as_dict(), result.directory)
        return
    account = Account.of(result)
    for line in account.heading:
        say(line)
    _print_summary(summary_or_none(result))
    for line in account.body():
        say(with_commands(line, result.directory))
    say(f"seed {result.seed}")


def _print_summary(summary: SummaryTable | None) -> None:
    """Print the table of all quantities, as far as it fits on a screen with what follows."""
    if summary is None or not summary.models:
        return
    for line in summary.lines(MOST_ROWS, asked=False):
        say(line)
    for text in summary.warnings[:MOST_WARNINGS]:
        say(f"warning: {text}")
    left = len(summary.warnings) - MOST_WARNINGS
    if left > 0:
        say(f"and {counted(left, 'more warning')}, see --json")
    say("")


def print_recorded(result: dict[str, Any], run: Path, *, last: bool = True) -> None:
    """Print how a recorded leg ended; the table of all quantities only of the last."""
    if last and "summary" in result:
        _print_summary(SummaryTable.recorded(result["summary"]))
    for line in Account.recorded(result).body():
        say(with_commands(line, run))


def print_json(tree: dict[str, Any], run: Path | None) -> None:
    print(json.dumps(_warnings_with_commands(tree, run)))


def with_commands(text: str, run: Path | None) -> str:
    """A text that names methods of Python, with the commands that do the same."""
    where = NOT_RECORDED if run is None else shlex.quote(str(run))

    def command(match: re.Match[str]) -> str:
        return f"fbar {COMMANDS[match[1]].format(run=where, given=match[2]).strip()}"

    found, changed = _METHOD.subn(command, text)
    if changed and run is None:
        found += f" (record the run with --run {NOT_RECORDED})"
    return found


def _warnings_with_commands(tree: Any, run: Path | None) -> Any:
    if isinstance(tree, list):
        return [_warnings_with_commands(item, run) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: [with_commands(text, run) for text in value]
        if key in ("warnings", "remarks")
        else _warnings_with_commands(value, run)
        for key, value in tree.items()
    }
