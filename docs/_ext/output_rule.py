"""When two outputs of the same code are the same, though another processor rounded otherwise.

Another processor rounds otherwise, so a run that learns where to simulate may take another way there, to an answer that
is as good: numbers then differ as those of another seed would. Words must be the same, in the same order. Numbers

- with an error in brackets, ``1.829(16)``, may differ by `ERRORS` combined standard errors, the errors by a factor
  of `FACTOR`;
- without one may differ by a fraction `PART` of the larger, by two units of the last digit, or, if whole, by `ERRORS`
  roots of the larger, as counts do;
- that are times, with a unit behind them, may be any.

White space does not count: columns of tables move with the width of their numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

ERRORS, FACTOR, PART = 5, 3, 1 / 3

NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[-−+]?)(?P<value>\d[\d,_]*(?:\.\d+)?|\.\d+)(?:\((?P<error>\d+(?:\.\d+)?)\))?(?P<power>e[-+]?\d+)?"
    r"(?P<time> ?(?:ns|µs|ms|s|seconds?|minutes?|min|hours?|h)\b)?"
)


def differences(stored: str, now: str, *, exact: bool = False) -> Iterator[str]:
    """What two texts differ in by the rule; exactly, in anything but times and white space."""
    if _words(stored) != _words(now):
        yield f"stored:\n{stored}\nnow:\n{now}"
        return
    for before, after in zip(NUMBER.finditer(stored), NUMBER.finditer(now), strict=True):
        if not (_same(before, after) if exact else _near(before, after)):
            yield f"stored: {before[0]}, now: {after[0]}, in {_line(stored, before.start())!r}"


def _words(text: str) -> str:
    """The text without white space and with every number as #, of which it shows whether it has an error or a unit."""
    return re.sub(
        r"[\s─-]+", "", NUMBER.sub(lambda found: f"#{'e' * bool(found['error'])}{'t' * bool(found['time'])}", text)
    )


def _line(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].split("\n")[0]


def _same(a: re.Match[str], b: re.Match[str]) -> bool:
    return bool(a["time"]) or a[0] == b[0]


def _near(a: re.Match[str], b: re.Match[str]) -> bool:
    if a["time"]:
        return True
    x, y = _value(a), _value(b)
    if a["error"] and b["error"]:
        s, t = _error(a), _error(b)
        return abs(x - y) <= ERRORS * math.hypot(s, t) and max(s, t) <= FACTOR * min(s, t)
    larger = max(abs(x), abs(y))
    counted = ERRORS * math.sqrt(larger) if x.is_integer() and y.is_integer() else 0.0
    return abs(x - y) <= max(PART * larger, counted, 2 * _unit(a), 2 * _unit(b))


def _power(found: re.Match[str]) -> float:
    return 10.0 ** int(found["power"][1:]) if found["power"] else 1.0


def _value(found: re.Match[str]) -> float:
    size = float(found["value"].replace(",", "").replace("_", "")) * _power(found)
    return -size if found["sign"] in ("-", "−") and found["sign"] else size


def _unit(found: re.Match[str]) -> float:
    """One unit of the last digit."""
    return 10.0 ** -len(found["value"].partition(".")[2]) * _power(found)


def _error(found: re.Match[str]) -> float:
    """The standard error: of ``1.829(16)`` 0.016, of ``12(1.5)`` 1.5."""
    return float(found["error"]) * (_power(found) if "." in found["error"] else _unit(found))
