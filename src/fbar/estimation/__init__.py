"""Step 2 of likelihood-free inference, from simulations to a posterior with error bars (sections 1.2, S5, S7).

Import `Estimate`, `Posterior` and the store of simulations from their modules; users choose among the estimators here.
"""

from fbar.estimation.doubly_robust import DoublyRobust
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.kernel_regression import KernelRegression

__all__ = ["DoublyRobust", "KernelRegression", "WeightedAverage"]
