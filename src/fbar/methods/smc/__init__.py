"""ABC-SMC (section 1.2 and supplement S7 of the paper): its settings, its runs, how its tolerance falls.

Import `SMC` and `SMCRun`; the schedules are in `fbar.methods.smc.schedules`.
"""

from fbar.methods.smc.method import SMC
from fbar.methods.smc.run import SMCRun

__all__ = ["SMC", "SMCRun"]
