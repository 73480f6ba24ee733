"""What a run gave: `Result`, what is printed of it, reports, how to have it again, and the objects of other packages.

Import a module by its name: `result`, `account` (what is printed), `again`, `exports`, `notebook`, `report`.
"""
