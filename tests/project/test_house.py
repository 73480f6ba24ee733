"""The map of the rooms in CONTRIBUTING is drawn from the imports as they are, and every room says what it is."""

import ast
import importlib
import importlib.util
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import fbar

ROOT = Path(__file__).parents[2]
SOURCE = Path(fbar.__file__).parent
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)

LABELS = (
    "e:ABC_SMC_heuristic_keep_weights",
    "e:ABC_SMC_keep_proposal",
    "e:ESS",
    "e:IPM",
    "e:MSE_alpha_i",
    "e:MSE_discrepancy",
    "e:bayes",
    "e:delta_method_appendix",
    "e:delta_method_reorganized",
    "e:delta_method_variance",
    "e:discrete_asymptotic_variance",
    "e:discrete_optimal_n",
    "e:generic_score",
    "e:importance_sampling_expectation",
    "e:independent_sampling_optimal_n",
    "e:independent_sampling_optimal_n_appendix",
    "e:independent_sampling_variance",
    "e:phi_divergence",
    "e:phi_divergence_approximation",
    "e:posterior_sampling_variance",
    "e:prior_sampling_variance",
    "e:rejection_sampling_expectation",
    "e:stratified_optimal_n",
    "e:stratified_sampling_simplified_variance",
    "e:stratified_sampling_variance",
    "e:sum_of_reciprocals",
    "e:sum_of_reciprocals_argmin",
    "e:unnormalized_variance",
)
"""The labelled equations of the paper."""


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
    assert len(layers) <= 11
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


def test_every_labelled_equation_of_the_paper_is_found_by_its_label():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    missing = [label for label in LABELS if not re.search(rf"{label}\b", text)]
    assert not missing


def test_no_name_hides_a_module():
    """``import fbar.plot.look as m`` gives the module, for every module of every package."""
    hidden = []
    for found in pkgutil.walk_packages(fbar.__path__, "fbar."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            parent, _, leaf = found.name.rpartition(".")
            hidden += [found.name] if getattr(sys.modules[parent], leaf) is not module else []
    assert not hidden
