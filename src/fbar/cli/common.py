"""What commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token

from fbar.errors import FbarError


def fail(error: FbarError) -> None:
    print(f"fbar: {error}", file=sys.stderr)
    raise SystemExit(2)


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
            raise ValueError(f"it must be a whole number; got {text!r}") from None
        return int(value)


Whole = Annotated[int, Parameter(converter=_whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=_whole)]
Flag = Annotated[bool, Parameter(negative="")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="")]
