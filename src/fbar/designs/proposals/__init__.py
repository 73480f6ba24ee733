"""Proposals that learn: populations of particles in working coordinates, perturbed (section S7 of the paper).

Methods import `Perturbed`, `Learned`, `Space` and the kernels from here.
"""

from fbar.designs.proposals.kernels import (
    Degenerate,
    LocalNormalKernel,
    NormalKernel,
    OptimalLocalKernel,
    Perturbation,
    UniformKernel,
    as_perturbation,
)
from fbar.designs.proposals.learned import Learned
from fbar.designs.proposals.perturbed import FromPrior, Perturbed

__all__ = [
    "Degenerate",
    "FromPrior",
    "Learned",
    "LocalNormalKernel",
    "NormalKernel",
    "OptimalLocalKernel",
    "Perturbation",
    "Perturbed",
    "UniformKernel",
    "as_perturbation",
]
