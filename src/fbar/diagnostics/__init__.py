"""What a finished run shows beyond its estimates: explanations, predictive checks, failures that depend on θ.

Everything here is data computed from a run; pictures are in `fbar.plot`, words in `fbar.results`.
"""
