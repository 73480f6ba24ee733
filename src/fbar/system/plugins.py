"""Packages that add to fbar: what they register when they are imported can be used by name everywhere.

A package declares the modules to import as entry points of the group ``fbar.plugins``, in its ``pyproject.toml``::

    [project.entry-points."fbar.plugins"]
    my-package = "my_package"

They are imported when a name is not one of fbar's own, or when all names are listed; never by ``import fbar``.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

GROUP = "fbar.plugins"


@lru_cache(maxsize=1)
def load_plugins() -> None:
    """Import the installed plugins, once. One that cannot be imported is skipped with a warning."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            warnings.warn(f"the plugin {point.name} ({point.value}) cannot be loaded: {error}", stacklevel=2)
