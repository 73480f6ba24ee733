"""Summary statistics that are learnt for the targets: `LearnedSummaries`, their pilot, and the problem with them."""

from fbar.methods.summaries.learn import LearnedSummaries
from fbar.methods.summaries.learnt import LearntProblem
from fbar.methods.summaries.pilot import Pilot

__all__ = ["LearnedSummaries", "LearntProblem", "Pilot"]
