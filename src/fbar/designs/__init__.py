"""Step 1 of likelihood-free inference: where to simulate."""

from fbar.designs.optimal import defensive, max_ess, posterior, stratified, targeted

__all__ = ["defensive", "max_ess", "posterior", "stratified", "targeted"]
