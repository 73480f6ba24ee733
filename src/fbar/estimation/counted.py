"""What the number of accepted simulations is called where nothing is accepted: draws of θ, states of chains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counted:
    """The words for what a posterior counts as ``accepted``.

    ``words`` follow the number and ``one`` follows 1. ``share`` heads a column of shares of it, and ``from_prior`` is
    the alternative that draws from the prior would be.

    >>> ACCEPTED.of(512.0), DRAWS.of(1.0), DRAWS.of(4000.0)
    ('512 accepted', '1 draw of θ', '4,000 draws of θ')
    """

    words: str = "accepted"
    one: str = "accepted"
    share: str = "acceptances"
    from_prior: str = "rejection (draws from the prior)"

    def of(self, number: float) -> str:
        return f"{number:,.6g} {self.one if number == 1 else self.words}"

    @staticmethod
    def named(words: str) -> Counted:
        """The one that a record names; earlier records name none."""
        return next((known for known in (DRAWS, STATES, WITHIN) if known.words == words), ACCEPTED)


ACCEPTED = Counted()

CORRECTED = Counted(from_prior="draws from the prior")
"""Acceptances that were corrected, so that rejection is something else."""

DRAWS = Counted("draws of θ", "draw of θ", "sum of likelihoods", "draws from the prior")
"""Draws whose likelihood was estimated."""

STATES = Counted("distinct states", "distinct state", "distinct states")
"""Of Markov chains."""

WITHIN = Counted("within the tolerance", "within the tolerance")
"""Simulations that a surrogate was fitted to, whatever their distance."""
