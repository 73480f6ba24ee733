"""Summary statistics that are learnt for the targets: the pilot, regressions, and the problem with learnt summaries."""

from fbar.methods.summaries.learnt import LearntProblem
from fbar.methods.summaries.pilot import Pilot

__all__ = ["LearntProblem", "Pilot"]
