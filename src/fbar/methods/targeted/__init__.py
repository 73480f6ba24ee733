"""Simulations where they reduce the error of the targets (section 2 of the paper, for p* that is not known).

Import `Targeted` and `TargetedRun`; the rest is their inside.
"""

from fbar.methods.targeted.method import Targeted
from fbar.methods.targeted.run import TargetedRun

__all__ = ["Targeted", "TargetedRun"]
