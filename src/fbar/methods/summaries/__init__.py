"""Summary statistics that are learned for the targets: the pilot, regressions, and the problem with learned summaries.

`fbar.running` imports the pilot and the learned problem from here, and simulates the pilot.
"""

from fbar.methods.summaries.learned import LearnedProblem
from fbar.methods.summaries.pilot import Pilot

__all__ = ["LearnedProblem", "Pilot"]
