"""How far a run is, in terms of what it was asked: shown to people, and of no effect on the run.

On a terminal a block of some lines, or one where there is little room; elsewhere a plain line now and then.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from fbar.errors import FbarError
from fbar.estimation.counted import ACCEPTED, Counted
from fbar.estimation.estimate import Estimate, Estimates
from fbar.methods import Run
from fbar.methods.stopping import Both, Either, RelativeError, StandardError, StoppingRule
from fbar.system.terminal import PATIENCE, PAUSE, Screen, cells, clean, cut, is_terminal, padded, size

PLAIN_PATIENCE, PLAIN_PAUSE = 10.0, 30.0
"""Seconds before plain lines show anything, and between two of them; `fbar.system.terminal` has a terminal's."""

WINDOW = 20.0
"""Seconds over which the rate of simulations is measured, at least."""

LOOKS = 0.05
"""The share of the time that may go into estimates to be shown."""

LEAST_COLUMNS, LEAST_ROWS = 60, 10
"""The smallest terminal for a block."""


def duration(seconds: float) -> str:
    """In words.

    >>> duration(42), duration(200), duration(7200), duration(400_000)
    ('42 s', '3 min', '2.0 h', '4.6 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


@dataclass(frozen=True)
class State:
    """What is known of a run at a time."""

    simulations: int
    budget: int | None
    limit: int | None
    round: int
    rate: float | None
    """Simulations a second."""
    more: int | None
    """Simulations to come, as far as they are known."""
    accepted: float | None
    tolerance: float | None
    falling: bool
    """Whether the tolerance is still above the one that is wanted, so that estimates would be of something else."""
    final_tolerance: float | None
    estimates: Estimates | None
    title: str = ""
    estimating: bool = False
    counted_as: str = ACCEPTED.words

    @property
    def left(self) -> float | None:
        """Seconds to come."""
        return None if self.more is None or not self.rate else self.more / self.rate

    @property
    def done(self) -> str:
        if self.budget is not None:
            return f"{self.simulations:,} of {self.budget:,} simulations"
        return f"{self.simulations:,} simulations" + (f" (at most {self.limit:,})" if self.limit else "")

    @property
    def pace(self) -> list[str]:
        if self.estimating:
            return ["estimating…"]
        rate = [] if not self.rate else [f"{_rate(self.rate)}/s"]
        return rate + ([self.left_in_words] if self.left_in_words else [])

    @property
    def left_in_words(self) -> str:
        if self.left is None:
            return ""
        # A precision is looked at when a round ends, which may be a while after it was forecast to be there.
        return f"about {duration(self.left)} left" if self.more else "nearly there"

    @property
    def where(self) -> list[str]:
        found = [self.title] if self.title else []
        found.append(f"round {self.round + 1}")
        found += [self.tolerance_in_words] if self.tolerance_in_words else []
        return found + ([] if self.accepted is None else [Counted.named(self.counted_as).of(self.accepted)])

    @property
    def tolerance_in_words(self) -> str:
        at = "" if self.tolerance is None or math.isinf(self.tolerance) else f" {self.tolerance:.4g}"
        if not self.falling:
            return f"tolerance{at}" if at else ""
        to = "" if self.final_tolerance is None else f" to {self.final_tolerance:.4g}"
        return f"tolerance{at}, falling{to}" if at else f"tolerance falling{to}"

    @property
    def share(self) -> float | None:
        """The fraction of the work that is done."""
        if self.more is None:
            return None
        return min(self.simulations / max(self.simulations + self.more, 1), 0.99)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


class Pace:
    """Simulations a second over the last while; what came from a record was not simulated now."""

    def __init__(self) -> None:
        self._at: deque[tuple[float, int]] = deque()

    def note(self, now: float, run: Run) -> None:
        if run.simulations <= run.replayed:
            self._at.clear()
        self._at.append((now, run.simulations))
        while len(self._at) > 2 and now - self._at[1][0] >= WINDOW:
            self._at.popleft()

    @property
    def rate(self) -> float | None:
        (begun, first), (now, last) = self._at[0], self._at[-1]
        return (last - first) / (now - begun) if last > first and now > begun else None


class Looks:
    """The estimates of a run at work: those of its history, and looks in between that take little of the time."""

    def __init__(self, start: float, share: float = LOOKS) -> None:
        self._start, self._share = start, share
        self._spent = self._last = 0.0
        self._at = 0
        self.estimates: Estimates | None = None
        self.accepted: float | None = None

    def look(self, run: Run) -> None:
        if run.trials is not None or run.simulations <= self._at or (run.posterior_is_slow and not run.at_data):
            return
        if run.history and run.history[-1].simulations > self._at:
            moment = run.history[-1]
            self._at, self.estimates = moment.simulations, moment.estimates
            self.accepted = None if run.at_data else moment.accepted
        if run.posterior_is_slow:  # only what the run has estimated for itself
            return
        begun = time.monotonic()
        if self._spent + self._last > self._share * (begun - self._start) or run.simulations == self._at:
            return
        self._at = run.simulations
        try:
            posterior = run.peek()
            self.estimates, self.accepted = posterior.expect(list(run.targets)), float(posterior.accepted)
        except FbarError:  # nothing accepted yet; any other error comes again at the end of the run
            self.estimates = self.accepted = None
        self._last = time.monotonic() - begun
        self._spent += self._last


class Observer:
    """What is known of a run at work, for whoever shows it; ``share`` of the time may go into estimates.

    ``title`` names what the simulations are for if it is not an estimate.
    """

    def __init__(self, title: str = "", share: float = LOOKS) -> None:
        self._title = title
        self._pace, self._looks = Pace(), Looks(time.monotonic(), share)

    def note(self, run: Run) -> None:
        """Take note of the run after a block."""
        self._pace.note(time.monotonic(), run)

    def state(self, run: Run) -> State:
        falling = run.has_final_tolerance and not run.at_final_tolerance
        tolerance = run.present_tolerance
        state = State(
            run.simulations,
            run.budget,
            run.limit,
            run.round,
            self._pace.rate,
            to_come(run),
            None,
            tolerance if tolerance and math.isfinite(tolerance) else None,
            falling,
            run.final_tolerance,
            None,
            self._title,
            run.estimating,
            run.counted_as.words,
        )
        if falling or self._title:
            return state
        self._looks.look(run)
        return replace(state, accepted=self._looks.accepted, estimates=self._looks.estimates)


class LiveProgress:
    """Called with the run after every block; writes to standard error.

    ``stop`` is the rule that ends the run, ``plain`` asks for plain lines if there is no terminal. What it shows is
    what an ``observer`` sees, to which somebody else may look too.
    """

    def __init__(
        self, stop: StoppingRule | None = None, *, plain: bool = False, observer: Observer | None = None
    ) -> None:
        self._wanted = wanted_errors(stop)
        self._screen = Screen() if is_terminal() else None
        self._plain = plain
        self._next = time.monotonic() + (PATIENCE if self._screen else PLAIN_PATIENCE)
        self._observer = observer or Observer()

    def __call__(self, run: Run) -> None:
        self._observer.note(run)
        now = time.monotonic()
        if (now < self._next and not run.estimating) or (self._screen is None and not self._plain):
            return
        try:
            self._show(run)
        except (AttributeError, OSError, ValueError):  # nobody listens any more: standard error is gone or closed
            self._screen, self._plain = None, False

    def _show(self, run: Run) -> None:
        state = self._observer.state(run)
        if self._screen is None:
            sys.stderr.write(plain_line(state) + "\n")
            sys.stderr.flush()
        else:
            columns, rows = size()
            small = columns < LEAST_COLUMNS or rows < LEAST_ROWS
            lines = [short_line(state, columns - 1)] if small else block(state, self._wanted, columns - 1, rows)
            self._screen.draw(lines)
        self._next = time.monotonic() + (PAUSE if self._screen else PLAIN_PAUSE)

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._screen is not None:
            with suppress(AttributeError, OSError, ValueError):
                self._screen.wipe()


def to_come(run: Run) -> int | None:
    """Simulations to come: the rest of the budget, or the last forecast, within the limit."""
    if run.budget is not None:
        return max(run.budget - run.simulations, 0)
    if run.expected is None:
        return None
    more = max(run.expected.at + run.expected.more - run.simulations, 0)
    return more if run.limit is None else min(more, max(run.limit - run.simulations, 0))


def wanted_errors(stop: StoppingRule | None) -> dict[str, str]:
    """The errors that a rule waits for, by target."""
    if isinstance(stop, Either | Both):
        return {**wanted_errors(stop.first), **wanted_errors(stop.second)}
    if isinstance(stop, RelativeError):
        return {stop.target: f"{100 * stop.wanted:.4g}%"}
    return {stop.target: f"{stop.wanted:.4g}"} if isinstance(stop, StandardError) else {}


def label(name: str) -> str:
    """A target's name, the kind left out where it is the mean."""
    return clean(name.removeprefix("mean:"))


def block(state: State, wanted: dict[str, str], columns: int, rows: int) -> list[str]:
    """Some lines: the estimates, a bar, and how far it is."""
    lines = _table(list(state.estimates or ()), wanted, columns, rows - 6)
    if state.share is not None:
        lines.append(bar(state.share, min(columns, 72)))
    lines.append(", ".join([state.done, *state.pace]))
    lines.append(", ".join(state.where))
    return [cut(line, columns) for line in lines]


def _table(estimates: Sequence[Estimate], wanted: dict[str, str], columns: int, most: int) -> list[str]:
    shown = list(estimates[: most if len(estimates) <= most else most - 1])
    names = [cut(label(item.name), columns // 2) for item in shown]
    width = max((cells(name) for name in names), default=0)
    lines = []
    for name, item in zip(names, shown, strict=True):
        text = clean(str(item))
        if item.name in wanted:
            text += f"  wanted ±{wanted[item.name]}"
        lines.append(f"{padded(name, width)}  {text}")
    if len(shown) < len(estimates):
        lines.append(f"and {len(estimates) - len(shown)} more")
    return lines


def bar(share: float, columns: int) -> str:
    full, empty = ("━", "┄") if "utf" in (sys.stderr.encoding or "").lower() else ("#", "-")
    number = f"{share:4.0%}"
    length = columns - len(number) - 1
    done = int(share * length)
    return f"{full * done}{empty * (length - done)} {number}"


def short_line(state: State, columns: int) -> str:
    """One line: how far it is, before it as many estimates as there is room for, and behind it the simulations."""
    progress = [f"{state.share:.0%}"] if state.share is not None else [state.done]
    progress += [state.left_in_words.removeprefix("about ")] if state.left_in_words else []
    first = [state.tolerance_in_words] if state.falling else []
    for item in () if first else state.estimates or ():
        if first and cells(", ".join([*first, _brief(item), *progress])) > columns:
            break
        first.append(_brief(item))
    line = ", ".join([*first, *progress])
    return cut(line if state.done in progress else f"{line}, {state.done}", columns)


def plain_line(state: State) -> str:
    """One line of any length, for a log."""
    progress = ", ".join([state.done, *state.pace, *state.where])
    estimates = [f"{label(item.name)} {clean(str(item))}" for item in state.estimates or ()]
    return f"{progress}: {', '.join(estimates)}" if estimates else progress


def _brief(estimate: Estimate) -> str:
    mark = "" if np.all(estimate.trusted) else " unreliable"
    return f"{label(estimate.name)} {clean(str(replace(estimate, trusted=True)))}{mark}"
