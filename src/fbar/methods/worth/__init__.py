"""Methods whose simulations give something other than yes or no: a number a with E[a|θ] ∝ p(x*|θ).

A method here is a `Valuation`, which says what the simulations at one θ are worth, and its settings; the run
(`WorthRun`), its proposals, error bars and records are the same for all.
"""
