"""Estimates at the data: E[f | s*] by regression on all simulations of a run, with the bias included in the error bar.

Methods, results and studies import `AtData` and `PosteriorAtData`; the rest is their inside.
"""

from fbar.estimation.at_data.estimator import AtData
from fbar.estimation.at_data.posterior import PosteriorAtData

__all__ = ["AtData", "PosteriorAtData"]
