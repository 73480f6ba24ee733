"""The covariance of a sum over simulations that depend on one another: between clusters within strata.

Σ_s c_s/(c_s − 1) Σ_{c∈s} (ζ_c − ζ̄_s)(ζ_c − ζ̄_s)ᵀ, ζ_c the sum of z over cluster c and c_s the number of clusters of
stratum s. Clusters without a simulation in the sum have ζ = 0 and count in c_s; see `fbar.designs.schemes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Clustered:
    """``zeta`` (clusters, m) and ``where``, the place of a cluster's stratum among those that are ``used``.

    ``size`` are the c_s of these strata, and ``sums`` their Σ ζ.
    """

    zeta: FloatArray
    where: IntArray
    size: FloatArray
    sums: FloatArray

    @staticmethod
    def of(z: FloatArray, stratum: IntArray, cluster: IntArray | None, stratum_sizes: IntArray) -> Clustered:
        """From z (n, m) of simulations, their strata and clusters; None where every simulation is a cluster."""
        zeta = z
        if cluster is not None:
            _, first, inverse = np.unique(cluster, return_index=True, return_inverse=True)
            zeta = np.zeros((first.size, z.shape[1]))
            np.add.at(zeta, inverse, z)
            stratum = stratum[first]
        used, where = np.unique(stratum, return_inverse=True)
        sums = np.zeros((used.size, z.shape[1]))
        np.add.at(sums, where, zeta)
        return Clustered(zeta, where, stratum_sizes[used].astype(np.float64), sums)

    @property
    def factor(self) -> FloatArray:
        """c/(c − 1)."""
        return self.size / np.maximum(self.size - 1, 1)

    @property
    def covariance(self) -> FloatArray:
        """Of Σ z, shape (m, m)."""
        f = self.factor
        return np.asarray(
            (f[self.where, None] * self.zeta).T @ self.zeta - (self.sums * (f / self.size)[:, None]).T @ self.sums
        )

    @property
    def within(self) -> FloatArray:
        """The strata's parts of the variances, shape (strata, m)."""
        square = np.zeros(self.sums.shape)
        np.add.at(square, self.where, self.zeta**2)
        return np.asarray(self.factor[:, None] * (square - self.sums**2 / self.size[:, None]))
