"""Step 1 of likelihood-free inference: where to simulate."""
