"""Draws aimed at what is asked: the size of f's error at each θ, proposals learned for it, and the plan of a round.

Methods that learn their proposals, targeted draws and those that estimate likelihoods, import `aim`, `learning` and
`plan` from here; nothing here imports a method.
"""
