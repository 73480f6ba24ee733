"""Values as JSON values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EXACT_BELOW = 2**53
"""Whole numbers below this are read exactly by every reader of JSON; many round larger ones."""


def as_json(value: Any) -> Any:
    """Without arrays, and with None for what is not a finite number.

    >>> as_json({"value": np.array([1.5, np.nan]), "trusted": np.True_})
    {'value': [1.5, None], 'trusted': True}
    """
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return as_json(value.item())
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_seed(seed: int) -> int | str:
    """A seed: a number where all readers take it for the same one, and text from there on."""
    return seed if seed < EXACT_BELOW else str(seed)
