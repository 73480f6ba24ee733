"""How a simulation fails: what a simulator may raise, and what stands in its output for a row that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from fbar.errors import FbarError, InputError
from fbar.question.outcomes import Failure

MOST_MESSAGE = 300
MOST_DETAIL = 4000
"""Characters kept of a traceback or of standard error, from its end."""


class TimedOut(BaseException):
    """A time limit passed. Not an Exception, so that a simulator's own `except Exception` lets it through."""


class EndsRun(FbarError):
    """Raised by one of fbar's own simulators to end its caller; whatever a user's simulator raises is a failure."""


class SimulationError(Exception):
    """A failed simulation that brings its own ``kind`` and ``detail``, such as a program's standard error."""

    def __init__(self, message: str, detail: str, kind: Failure = Failure.EXCEPTION) -> None:
        super().__init__(message)
        self.detail, self.kind = detail, kind


class Unusable(InputError):
    """An output that cannot be used: an error where the whole call is at fault, a failure where some rows are."""

    def __init__(self, message: str, kind: Failure = Failure.UNUSABLE) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[Unusable], tuple[str, Failure]]:
        return type(self), (str(self), self.kind)


class Nonsense(Unusable):
    """What no function of a user may return, such as a distance below 0: a mistake if the first block has it."""


PASSES = (KeyboardInterrupt, TimedOut, EndsRun)
"""What is not a failure when a simulator raises it. All else is, SystemExit too: a model that calls exit() fails."""


@dataclass(frozen=True)
class RowFailed:
    """Stands in the output of a simulator for a row that failed."""

    message: str
    detail: str = ""
    kind: Failure = Failure.EXCEPTION
    advice: str = ""
    """What to do about it, where it is known; the end of the message."""

    @classmethod
    def of(cls, error: BaseException, hint: Callable[[str], str] | None = None) -> RowFailed:
        """An exception in one line, with its traceback; ``hint`` is a function of the message, what to do about it."""
        if isinstance(error, Unusable):
            return cls(_line(str(error)), kind=error.kind)
        try:
            text = str(error)
        except BaseException:
            text = "(its message cannot be read)"
        kind = Failure.REFUSED if isinstance(error, FbarError) else Failure.EXCEPTION
        detail = ""
        if isinstance(error, SimulationError):
            kind, detail = error.kind, error.detail
        if not detail:
            try:
                detail = "".join(traceback.format_exception(error))
            except BaseException:  # it formats the user's exception
                detail = ""
        line = _line(text) if kind == Failure.REFUSED else f"{type(error).__name__}: {_line(text)}"
        advice = hint(text) if hint is not None and kind == Failure.EXCEPTION else ""
        return cls(line, _writable(detail[-MOST_DETAIL:]), kind).advised(advice)

    def advised(self, advice: str) -> RowFailed:
        """The same with what to do about it, if anything."""
        return replace(self, message=f"{self.message} ({advice})", advice=advice) if advice else self


def _line(text: str) -> str:
    """A message in one line of some length."""
    text = " ".join(text[: 10 * MOST_MESSAGE].split())
    return _writable(text if len(text) <= MOST_MESSAGE else text[: MOST_MESSAGE - 1] + "…")


def _writable(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates, as in file names that are not text, are escaped."""
    return text.encode(errors="backslashreplace").decode()
