"""Studies: algorithms on problems with known truth, over replicated trials, scored and ranked with uncertainty.

Users import `Study` and `StudyResult`; the command line adds presets.
"""

from fbar.study.contenders import Contender, as_contender
from fbar.study.posed import BudgetExceeded, Posed
from fbar.study.results import StudyResult
from fbar.study.study import Study

__all__ = ["BudgetExceeded", "Contender", "Posed", "Study", "StudyResult", "as_contender"]
