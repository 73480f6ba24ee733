"""What a run gave, as users see it: the result, its tables in notebooks, its report, and the command that repeats it.

Import `Result` from `fbar.results.result` and `write_report` from `fbar.results.report`.
"""
