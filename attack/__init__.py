"""The attack: recorded runs killed, damaged, starved of disk, forged and called wrongly, for as long as asked.

``python -m attack --minutes 10`` prints a table of what was tried and what failed; ``make attack`` does the same. It is
no part of the installed package.
"""
