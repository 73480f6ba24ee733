"""Figures, each drawn from a record of its data.

``fbar.plot.marginals(result)`` is ``Marginals.of(result).draw()``. The record has the numbers (``as_dict``); ``ax=``
takes your own matplotlib axes. Colours are those of `fbar.plot.look`; a method has the same colour in all figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fbar.checks import flag
from fbar.plot.figures.error import Error
from fbar.plot.figures.influence import Influence
from fbar.plot.figures.marginals import Marginals
from fbar.plot.figures.pairs import Pairs
from fbar.plot.figures.places import Places, PlacesPair
from fbar.plot.figures.predictive import Predictive
from fbar.plot.figures.rounds import Rounds
from fbar.plot.figures.study import Curves, Ranking, Versus, write_figures
from fbar.plot.figures.tolerance import Tolerance
from fbar.question.targets import Target

if TYPE_CHECKING:
    from fbar.results.result import Result
    from fbar.study import StudyResult

__all__ = [
    "Curves",
    "Error",
    "Influence",
    "Marginals",
    "Pairs",
    "Places",
    "PlacesPair",
    "Predictive",
    "Ranking",
    "Rounds",
    "Tolerance",
    "Versus",
    "curves",
    "error",
    "influence",
    "marginals",
    "pairs",
    "places",
    "predictive",
    "ranking",
    "rounds",
    "tolerance",
    "versus",
    "write_figures",
]


def marginals(result: Result, names: str | Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """The posterior density of each parameter over its prior, with its mean and 95% interval.

    ``names`` are the prior's and the derived parameters by default. Discrete parameters are drawn as bars.
    """
    return Marginals.of(result, names).draw(ax)


def pairs(result: Result, names: Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """The posterior of every pair of parameters: regions of highest density that contain 20, 50, 80 and 95%.

    At most six parameters unless ``names`` are given. Only models that have both parameters are used.
    """
    return Pairs.of(result, names).draw(ax)


def places(result: Result, names: str | Sequence[str] | None = None, *, pairs: bool = False, ax: Any = None) -> Any:
    """Where the simulations were: the densities of prior, simulations and posterior for each parameter.

    With ``pairs`` the simulated values of two parameters, as points under the posterior's regions.
    """
    if flag(pairs, "pairs"):
        return PlacesPair.of(result, [names] if isinstance(names, str) else names).draw(ax)
    return Places.of(result, names).draw(ax)


def error(result: Result, *, relative: str = "posterior", ax: Any = None) -> Any:
    """Standard errors against the number of simulations, with the line of 1/√N and the points where they are halved.

    ``relative`` is what they are relative to: ``"posterior"`` (its standard deviation), ``"estimate"`` or ``"none"``.
    """
    return Error.of(result, relative).draw(ax)


def tolerance(result: Result, *, ax: Any = None) -> Any:
    """Each estimate against the tolerance with its 95% band, and its extrapolation to 0, from the same simulations."""
    return Tolerance.of(result).draw(ax)


def influence(result: Result, target: str | Target | None = None, *, ax: Any = None) -> Any:
    """How much of an estimate's variance comes from its most influential simulations."""
    return Influence.of(result, target).draw(ax)


def rounds(result: Result, *, ax: Any = None) -> Any:
    """Tolerance, acceptance rate and effective sample size against the number of simulations."""
    return Rounds.of(result).draw(ax)


def predictive(
    observed: npt.ArrayLike, simulated: npt.ArrayLike, names: Sequence[str] | None = None, *, ax: Any = None
) -> Any:
    """Data simulated at parameters from the posterior (one per row), compared with the observed data."""
    return Predictive.of(observed, simulated, names).draw(ax)


def ranking(study: StudyResult, score: str = "mse", *, target: str | None = None, ax: Any = None) -> Any:
    """Every method's mean score with its error, and in brackets the range of places that it may have."""
    return Ranking.of(study, score, target).draw(ax)


def curves(study: StudyResult, score: str = "mse", *, target: str | None = None, ax: Any = None) -> Any:
    """A score against the number of simulations, a panel for each problem, with the fitted rates."""
    return Curves.of(study, score, target).draw(ax)


def versus(study: StudyResult, scores: str | Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """Other scores against the error, one panel each: where they fall to the right they mislead."""
    return Versus.of(study, scores).draw(ax)


def __dir__() -> list[str]:
    """What is public."""
    return list(__all__)
