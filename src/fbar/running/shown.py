"""What a user sees of a run at work: its progress, and what is recorded when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from fbar.checks import counted
from fbar.checks import function as check_function
from fbar.errors import FbarError
from fbar.ledger import LedgerReader
from fbar.ledger.ledger import Ledger
from fbar.methods.stopping import StoppingRule
from fbar.running.loop import Progress
from fbar.running.progress import LiveProgress
from fbar.system.signals import interrupted
from fbar.system.terminal import is_terminal

ProgressOption: TypeAlias = Progress | bool | None
"""What ``progress=`` takes, see `fbar.infer`."""


@contextmanager
def progress_shown(
    asked: ProgressOption, stop: StoppingRule | None = None, title: str = ""
) -> Iterator[Progress | None]:
    """What the loop is to call after every block; a terminal is left as it was.

    ``title`` names what the simulations are for if it is not an estimate.
    """
    if asked is not None and not isinstance(asked, bool):
        check_function(asked, "progress")
        yield asked
        return
    if asked is False or (asked is None and not is_terminal()):
        yield None
        return
    live = LiveProgress(stop, plain=asked is True, title=title)
    try:
        yield live
    finally:
        live.end()


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
