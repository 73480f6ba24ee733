"""Summary statistics that are learnt for the targets: the pilot, regressions, and the problem with learnt summaries."""

from fbar.methods.summaries.learned import LearnedProblem
from fbar.methods.summaries.pilot import Pilot

__all__ = ["LearnedProblem", "Pilot"]
