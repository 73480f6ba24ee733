"""What a run gave, as users see it: the result, its tables, exports and reports, and how to repeat it.

Runs and studies import `Result` and `report_run`; nothing numerical imports from here.
"""
