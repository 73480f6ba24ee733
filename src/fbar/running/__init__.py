"""From a question to its answer: what users call, the loop of ask and tell, stopping, recording, resuming, progress.

Users and the command line import `infer`, `load`, `extend` and `drive`; studies and figures replicate runs from here.
"""

from fbar.running.api import extend, infer, load
from fbar.running.loop import drive
from fbar.running.recorded import engine_for, extend_run, resume_run, run_task
from fbar.running.task import Task, make_task

__all__ = [
    "Task",
    "drive",
    "engine_for",
    "extend",
    "extend_run",
    "infer",
    "load",
    "make_task",
    "resume_run",
    "run_task",
]
