"""Methods on a finite parameter space (sections 2 and S4 of the paper): simulations are allocated to its cells.

`CellRun` is what their runs derive from.
"""
