"""Estimates at the data: E[f|s*] by regression on all simulations of a run."""
