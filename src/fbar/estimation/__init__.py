"""Step 2 of likelihood-free inference: from simulations to a posterior with error bars."""

from fbar.estimation.doubly_robust import DoublyRobust
from fbar.estimation.draws import WeightedAverage
from fbar.estimation.kernel_regression import KernelRegression

__all__ = ["DoublyRobust", "KernelRegression", "WeightedAverage"]
