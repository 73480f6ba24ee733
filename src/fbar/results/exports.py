"""A posterior for other packages: pandas and ArviZ."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.checks import flag, positive_integer
from fbar.errors import InputError, MissingExtra
from fbar.estimation.posterior import Posterior
from fbar.methods import Run
from fbar.results.sample import draw

if TYPE_CHECKING:
    import pandas


def to_pandas(posterior: Posterior) -> pandas.DataFrame:
    """The weighted points, see `Result.to_pandas`."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table") from error
    points = posterior.points
    columns = {name: points[name] for name in (*points, *points.derived)}
    weight = "weight_of_point" if "weight" in columns else "weight"
    return pandas.DataFrame({**columns, weight: posterior.weights})


def to_arviz(run: Run, posterior: Posterior, *, draws: int | None = None, weighted: bool = False) -> Any:
    """Equally weighted draws, or every point with its weight, see `Result.to_arviz`."""
    if flag(weighted, "weighted") and draws is not None:
        raise InputError("draws= is the number of equally weighted draws; it cannot be combined with weighted=True")
    try:
        with warnings.catch_warnings():  # it announces its own future at import
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise MissingExtra("arviz", "arviz") from error
    points, weights = posterior.points, posterior.weights
    groups: dict[str, Any] = {"sample_stats": {"weight": weights[None]}} if weighted else {}
    if not weighted:
        if (posterior.pictured.weights < 0).any():
            raise InputError("some weights are negative, so nothing can be drawn from them; use weighted=True")
        points = draw(posterior, run.seeds, None if draws is None else positive_integer(draws, "draws"), stacklevel=4)
    groups["posterior"] = {name: np.asarray(points[name])[None] for name in (*points, *points.derived)}
    if run.problem.observed is not None:
        groups["observed_data"] = _named(run.problem.observed, run.problem.summary_names)
    if int(arviz.__version__.partition(".")[0]) >= 1:
        return arviz.from_dict(groups)
    return arviz.from_dict(**groups)


def _named(observed: npt.NDArray[Any], names: Mapping[str, int]) -> dict[str, Any]:
    """The summaries of the data, by their names where they have any."""
    if not names:
        return {"summaries": np.atleast_1d(observed)}
    return dict(zip(names, np.split(np.ravel(observed), np.cumsum(list(names.values()))[:-1]), strict=True))
