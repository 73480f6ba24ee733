"""What a user sees of a run at work: its progress, and what is recorded when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from fbar.checks import counted
from fbar.checks import function as check_function
from fbar.errors import FbarError
from fbar.ledger import LedgerReader
from fbar.ledger.ledger import Ledger
from fbar.methods import Run
from fbar.methods.stopping import StoppingRule
from fbar.running.loop import Progress
from fbar.running.progress import LOOKS, LiveProgress, Observer
from fbar.running.progress_file import UNSEEN_LOOKS, ProgressFile
from fbar.system.signals import interrupted
from fbar.system.terminal import is_terminal

ProgressOption: TypeAlias = Progress | bool | None
"""What ``progress=`` takes, see `fbar.infer`."""


@contextmanager
def progress_shown(
    asked: ProgressOption, stop: StoppingRule | None = None, title: str = "", record: Ledger | None = None
) -> Iterator[Progress | None]:
    """What the loop is to call after every block; a terminal is left as it was.

    ``title`` names what the simulations are for if it is not an estimate. With the ``record`` of a run that is being
    driven, its progress is written there too, for `fbar watch`.
    """
    custom = None if asked is None or isinstance(asked, bool) else asked
    if custom is not None:
        check_function(custom, "progress")
    with ExitStack() as stack:
        shows = asked is True or (asked is None and is_terminal())
        observer = Observer(title, LOOKS if shows else UNSEEN_LOOKS)
        calls: list[Progress] = [] if custom is None else [custom]
        if shows:
            live = LiveProgress(stop, plain=asked is True, observer=observer)
            stack.callback(live.end)
            calls.append(live)
        if record is not None:
            calls.append(stack.enter_context(ProgressFile(record.directory, len(record.legs) - 1, observer)))
        yield _one_call(calls)


def _one_call(calls: Sequence[Progress]) -> Progress | None:
    if len(calls) < 2:
        return calls[0] if calls else None

    def call(run: Run) -> None:
        for each in calls:
            each(run)

    return call


@contextmanager
def interruption_explained(ledger: LedgerReader | None) -> Iterator[None]:
    """Whoever stops a recorded run learns how much of it is recorded, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        if ledger is None:
            raise
        try:
            if isinstance(ledger, Ledger):
                ledger.flush()
            with LedgerReader(ledger.path.parent) as recorded:
                # Including those that are not used yet because blocks before them are missing.
                done = counted(recorded.simulations(), "simulation")
            message = f"stopped after {done}, all recorded in {ledger.directory}; rerun the command to resume"
        except FbarError as other:
            message = f"stopped; {other}"
        raise interrupted(error, message) from None
