"""What commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from cyclopts import Parameter, Token
from rich.console import Console
from rich.table import Table

from fbar.checks import escaped, shown
from fbar.errors import FbarError
from fbar.ledger import Ledger

MOST_SAID = 900
"""Characters of a message."""


def say(text: str) -> None:
    """One line on standard error, of a length that can be read; what a terminal would act upon is escaped."""
    words = " ".join(text.split())
    words = words if len(words) <= MOST_SAID else f"{words[: MOST_SAID // 2]} … {words[-MOST_SAID // 2 :]}"
    print(f"fbar: {escaped(words)}", file=sys.stderr)


def fail(error: FbarError) -> None:
    say(str(error))
    raise SystemExit(2)


def warn(text: str) -> None:
    """A warning on standard error; nothing for an empty text."""
    if text:
        say(f"warning: {text}")


def lacking(ledger: Ledger) -> str:
    """What is damaged or missing of a run, in words; nothing if all of it is there."""
    ended, sound = ledger.legs[-1].result if ledger.legs else None, ledger.simulations()
    wanted = 0 if ended is None else int(np.max(ended["simulations"]))
    gone = f"{wanted - sound:,} of the run's {wanted:,} simulations are missing" if wanted > sound else ""
    return "; ".join(text for text in (ledger.damage(), gone) if text)


def open_console() -> Console:
    """Where tables are printed: as wide as the terminal, or wide enough to be read from a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def plain_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """A whole number, and nothing that only rounds to one; 1e5 is whole."""
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
QuietFlag = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")]
