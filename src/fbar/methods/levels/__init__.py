"""Methods that combine several levels of ABC's approximation: import `Multilevel` and `MultilevelRun`."""

from fbar.methods.levels.multilevel import Multilevel
from fbar.methods.levels.run import MultilevelRun

__all__ = ["Multilevel", "MultilevelRun"]
