"""Summary statistics that are learnt for the targets."""

from fbar.methods.summaries.learn import LearnedSummaries, LearntProblem, Pilot

__all__ = ["LearnedSummaries", "LearntProblem", "Pilot"]
