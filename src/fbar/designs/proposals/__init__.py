"""Proposals that learn: populations of particles in working coordinates, perturbed."""

from fbar.designs.proposals.kernels import (
    Degenerate,
    LocalNormalKernel,
    NormalKernel,
    OptimalLocalKernel,
    Perturbation,
    UniformKernel,
    as_perturbation,
)
from fbar.designs.proposals.learnt import Learnt
from fbar.designs.proposals.perturbed import FromPrior, Perturbed

__all__ = [
    "Degenerate",
    "FromPrior",
    "Learnt",
    "LocalNormalKernel",
    "NormalKernel",
    "OptimalLocalKernel",
    "Perturbation",
    "Perturbed",
    "UniformKernel",
    "as_perturbation",
]
