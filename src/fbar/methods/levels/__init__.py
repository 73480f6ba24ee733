"""Methods that combine several levels of approximation, such as the tolerances of ABC.

Import `Multilevel` and `MultilevelRun`.
"""

from fbar.methods.levels.multilevel import Multilevel
from fbar.methods.levels.run import MultilevelRun

__all__ = ["Multilevel", "MultilevelRun"]
