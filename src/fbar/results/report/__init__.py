"""Reports: one HTML file for a run or a study, for people.

Results import `report_run` and `report_study`; pictures come from `fbar.plot`.
"""

from fbar.results.report.run import report_run
from fbar.results.report.study import report_study

__all__ = ["report_run", "report_study"]
