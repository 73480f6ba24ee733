"""From a question to its answer: the loop, what it is asked, and how it is recorded."""

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
