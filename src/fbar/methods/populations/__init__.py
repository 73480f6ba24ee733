"""Population methods as they were published, to be compared with `fbar.SMC`, which has the particles of all rounds.

Import `PMC`, `AdaptiveWeights` and `ReplicaSMC`.
"""

from fbar.methods.populations.adaptive_weights import AdaptiveWeights
from fbar.methods.populations.pmc import PMC
from fbar.methods.populations.replica_smc import ReplicaSMC

__all__ = ["PMC", "AdaptiveWeights", "ReplicaSMC"]
