"""What commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter, Token
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fbar.checks import shown
from fbar.errors import FbarError
from fbar.ledger import LedgerReader
from fbar.question.targets import KINDS
from fbar.running import model_file
from fbar.system.schema import check_legs
from fbar.system.terminal import clean, clean_lines


def say(text: object) -> None:
    """A line on standard output; names and messages of a run cannot control the terminal."""
    print(clean(str(text)))


MOST_CHARACTERS = 900
"""Characters of a message, at most."""


def complain(text: object) -> None:
    """A line on standard error, of a length that can be read."""
    words = " ".join(str(text).split())
    words = (
        words
        if len(words) <= MOST_CHARACTERS
        else f"{words[: MOST_CHARACTERS // 2]} … {words[-MOST_CHARACTERS // 2 :]}"
    )
    print(clean(f"fbar: {words}"), file=sys.stderr)


def fail(error: FbarError) -> None:
    complain(error)
    raise SystemExit(2)


def warn(text: str) -> None:
    """A warning on standard error; nothing for an empty text."""
    if text:
        complain(f"warning: {text}")


def lacking(ledger: LedgerReader, sound: int) -> str:
    """What is damaged or missing of a run, in words; nothing if all of it is there.

    ``sound`` is the number of simulations that could be read.
    """
    ended = ledger.legs[-1].result if ledger.legs else None
    wanted = 0 if ended is None else int(np.max(ended["simulations"]))
    gone = f"{wanted - sound:,} of the run's {wanted:,} simulations are missing" if wanted > sound else ""
    return "; ".join(text for text in (ledger.damage(), gone) if text)


def keep_trust(run: Path, trust: bool) -> bool:
    """Remember the model file that a run executes, if the user trusts it; returns whether it still needs to be trusted.

    What is remembered is this very content: a file that replaces it is not trusted.
    """
    if trust:
        with suppress(FbarError), LedgerReader(run) as ledger:  # whoever executes it reports the rest
            check_legs(ledger.legs, run)
            about = ledger.legs[0].settings.get("model") if ledger.legs else None
            if about is not None:
                warning = model_file.remember_of_run(run, about)
                warn(warning)
                return bool(warning)
    return trust


class PlainConsole(Console):
    """Prints texts without control characters."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(clean_lines(item) if isinstance(item, str) else item for item in objects), **options)


class PlainTable(Table):
    """Its cells are plain texts, without markup and control characters."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(Text(clean(cell)) if isinstance(cell, str) else cell for cell in cells), **options)


def open_console() -> Console:
    """Where tables are printed: as wide as the terminal, or wide enough to be read from a file."""
    return PlainConsole(highlight=False, width=None if sys.stdout.isatty() else 140)


def plain_table(*columns: str) -> Table:
    table = PlainTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(clean(column)), overflow="fold")
    return table


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """A whole number, not one that only rounds to it; 1e5 is whole."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value != int(value):
            raise ValueError(f"it must be a whole number; got {shown(text)}") from None
        return int(value)


def _number(_: object, tokens: Sequence[Token]) -> float:
    try:
        return float(tokens[0].value)
    except ValueError:
        raise ValueError(f"it must be a number; got {shown(tokens[0].value)}") from None


Number = Annotated[float, Parameter(converter=_number)]
MaybeNumber = Annotated[float | None, Parameter(converter=_number)]
Whole = Annotated[int, Parameter(converter=_whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=_whole)]
Flag = Annotated[bool, Parameter(negative="")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="")]
_FORMS = ", ".join(KINDS[name].text for name in sorted(KINDS))
Targets = Annotated[
    list[str] | None,
    Parameter(
        name=["--target", "-t"],
        consume_multiple=True,
        negative="",
        help=f"What to estimate, instead of the targets of the file or run: {_FORMS}.",
    ),
]
TrustFlag = Annotated[bool, Parameter(name="--trust", negative="")]
QuietFlag = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")]
