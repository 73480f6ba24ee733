"""The map of the rooms in CONTRIBUTING is drawn from the imports as they are, and every room says what it is."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

import fbar

ROOT = Path(__file__).parent.parent
SOURCE = Path(fbar.__file__).parent
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "_ext" / "house.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_the_map_is_up_to_date(house):
    stored = (ROOT / "docs" / "house.svg").read_text(encoding="utf-8")
    assert house.svg() == stored, "draw it again: make map"


def test_shortcuts_are_left_out(house):
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert house.without_shortcuts(edges) == [("a", "b"), ("b", "c")]


def test_there_are_few_rooms_in_few_layers(house):
    layers = house.layers()
    assert len(layers) <= 10
    rooms = [name for row in layers for name in row if (SOURCE / name).is_dir()]
    assert sorted(rooms) == sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    assert len(rooms) <= 17
    assert len(list(SOURCE.glob("*.py"))) <= 11  # errors, checks and the like, which every room uses


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_package_says_what_it_holds_and_what_may_be_imported(package):
    words = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    assert words is not None
    assert len(words.split("\n\n")) >= 2, "a sentence on what lives there, and one on what may be imported from it"


def test_files_are_short():
    long = {
        str(path.relative_to(SOURCE)): count
        for path in SOURCE.rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 420
    }
    assert not long, "split them: one idea, one file"
