"""Step 2 of likelihood-free inference: from simulations to a posterior with error bars."""

from fbar.estimators.doubly_robust import DoublyRobust
from fbar.estimators.draws import WeightedAverage
from fbar.estimators.kernel_regression import KernelRegression

__all__ = ["DoublyRobust", "KernelRegression", "WeightedAverage"]
