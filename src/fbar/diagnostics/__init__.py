"""What can be said of a finished run beyond its estimates: explanations, predictive checks, failures that depend on θ.

Everything here is data computed from a run. Pictures are in `fbar.plot`, words for people in `fbar.results`.
"""
