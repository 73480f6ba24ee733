"""Step 2 of likelihood-free inference: from simulations to a posterior with error bars."""
