"""From a question to its answer: the loop, what it is asked, and how it is recorded."""

from fbar.running.api import extend, infer, load
from fbar.running.loop import drive
from fbar.running.recorded import continue_task, engine_of, extend_run, run_task
from fbar.running.task import Task, make_task

__all__ = [
    "Task",
    "continue_task",
    "drive",
    "engine_of",
    "extend",
    "extend_run",
    "infer",
    "load",
    "make_task",
    "run_task",
]
