"""What a finished run shows beyond its estimates: explanations, predictions, whether the model is wrong, failures by θ.

Everything here is data computed from a run; pictures are in `fbar.plot`, words in `fbar.results`.
"""
