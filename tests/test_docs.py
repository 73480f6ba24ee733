"""The examples in docstrings and in the README run as written."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fbar

ROOT = Path(__file__).parent.parent
MODULES = [m.name for m in pkgutil.walk_packages(fbar.__path__, "fbar.") if not m.name.startswith("fbar.__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder()
    examples = sum(len(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name)))
    assert examples > 15


def test_the_readme_python_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert blocks
    space = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)
