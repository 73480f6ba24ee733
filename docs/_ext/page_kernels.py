"""The kernels that execute the code of pages, for the build and for ``make outputs`` alike.

Examples can be imported, ``fbar`` is on the path, pictures are SVG, nothing is kept after the kernel has ended.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT = 120
"""Seconds that a cell may take."""

SETTINGS = """
c.InlineBackend.figure_formats = {'svg'}
c.HistoryManager.enabled = False
c.IPKernelApp.log_level = 'ERROR'
"""

BASH = """
import subprocess


def bash(line, cell):
    done = subprocess.run(["bash", "-e"], input=cell, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    print(done.stdout)


get_ipython().register_magic_function(bash, "cell")
"""
"""What commands print comes in one piece, without progress: IPython's own %%bash gives pieces that end anywhere."""


def prepare() -> None:
    """Set the environment that kernels started from this process inherit."""
    profile = Path(tempfile.mkdtemp(prefix="fbar-docs-"))
    atexit.register(shutil.rmtree, profile, ignore_errors=True)
    (profile / "profile_default").mkdir()
    (profile / "profile_default" / "ipython_kernel_config.py").write_text(SETTINGS, encoding="utf-8")
    (profile / "profile_default" / "startup").mkdir()
    (profile / "profile_default" / "startup" / "bash.py").write_text(BASH, encoding="utf-8")
    (profile / "matplotlibrc").write_text("svg.hashsalt: fbar\n", encoding="utf-8")  # the same picture, the same file
    os.environ["MATPLOTLIBRC"] = str(profile / "matplotlibrc")
    os.environ["IPYTHONDIR"] = str(profile)
    os.environ["FBAR_STATE_DIR"] = str(profile / "state")
    _first("PYTHONPATH", str(ROOT / "examples"))
    _first("PATH", str(Path(sys.executable).parent))
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # pages are executed side by side
    os.environ["COLUMNS"] = "100"  # of what commands print
    os.environ["NO_COLOR"] = "1"


def _first(variable: str, directory: str) -> None:
    os.environ[variable] = os.pathsep.join(filter(None, [directory, os.environ.get(variable)]))
