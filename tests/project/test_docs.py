"""The examples in docstrings, in the README and in the overview run as written."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fbar

pytestmark = pytest.mark.arithmetic

ROOT = Path(__file__).parents[2]
MODULES = [m.name for m in pkgutil.walk_packages(fbar.__path__, "fbar.") if not m.name.startswith("fbar.__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder()
    examples = sum(len(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name)))
    assert examples > 15


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


SMALLER = {"trials=50": "trials=2", "budgets=[1000, 10_000]": "budgets=[300]", '"sir"': '"ramp"'}
"""What is changed in a page's code so that it takes seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/reference/overview.md", "docs/problems.md", "docs/studies.md"])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """Pages that are not executed when the site is built, but for the README."""
    monkeypatch.chdir(tmp_path)
    found = blocks(page, "python")
    assert found
    space = {}
    for block in found:
        for large, small in SMALLER.items():
            block = block.replace(large, small)
        exec(compile(block, page, "exec"), space)


def test_the_readme_runs_and_shows_what_is_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {}
    for block, shown in zip(blocks("README.md", "python"), blocks("README.md", "text"), strict=True):
        exec(compile(block, "README.md", "exec"), space)
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", ["README.md", "examples/README.md", "CONTRIBUTING.md"])
def test_what_a_page_links_to_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in link:
            assert (ROOT / page).parent.joinpath(link).exists(), link
