"""Gaussian-process surrogates of the distance, for simulators that can be run 50 to 1,000 times.

Import `BOLFI` and `SurrogateRun`; the rest is their inside.
"""

from fbar.methods.surrogates.method import BOLFI
from fbar.methods.surrogates.run import SurrogateRun

__all__ = ["BOLFI", "SurrogateRun"]
