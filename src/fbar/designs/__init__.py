"""Step 1 of likelihood-free inference, where to simulate: the optimal designs of section 3, and schemes of drawing.

Methods and the paper's figures import the designs by name; proposals that learn are in `fbar.designs.proposals`.
"""

from fbar.designs.optimal import defensive, max_ess, posterior, stratified, targeted

__all__ = ["defensive", "max_ess", "posterior", "stratified", "targeted"]
