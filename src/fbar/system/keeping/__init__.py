"""Processes that end with all that they have started, however they end themselves.

On Linux a *keeper* stands above what simulates. It adopts what its descendants leave behind (PR_SET_CHILD_SUBREAPER),
daemons in sessions of their own too, and ends all of it when the work is over or whoever asked for it is gone. No
process of the user's is ever the adopter: it would be given orphans that it does not know of.

Other systems have no adopters. There the process group of a program is ended, and a worker.
"""

from fbar.system.keeping.programs import Done, KeeperLost, close_idle, run_program
from fbar.system.keeping.workers import worker_context

__all__ = ["Done", "KeeperLost", "close_idle", "run_program", "worker_context"]
