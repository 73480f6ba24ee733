"""The pages: every public name is in the reference, every page is in a table of contents, and citing is right."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import fbar

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
DIRECTIVES = re.compile(r"^\.\. (auto\w+|currentmodule|module):: (\S+)", re.M)


def documented():
    """Full names of what the reference documents, by its directives."""
    names = set()
    for page in (DOCS / "reference").glob("*.md"):
        module = ""
        for directive, name in DIRECTIVES.findall(page.read_text(encoding="utf-8")):
            if directive == "currentmodule":
                module = f"{name}."
            elif directive in ("module", "automodule"):
                names.add(name)
            elif directive != "autosummary":
                names.add(name if name.startswith("fbar.") else module + name)
    return names


@pytest.fixture
def public_names(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    monkeypatch.delitem(sys.modules, "public_names", raising=False)
    import public_names

    return public_names.public_names


def test_every_public_name_is_in_the_reference(public_names):
    missing = set(public_names()) - documented()
    assert not missing


def test_a_new_public_name_would_be_missed(public_names, monkeypatch):
    monkeypatch.setattr(fbar, "__all__", [*fbar.__all__, "brand_new"])
    assert "fbar.brand_new" in set(public_names()) - documented()


def in_contents(page):
    """The pages that a page's tables of contents name."""
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        for line in block.splitlines():
            if not line.strip() or line.startswith(":"):
                continue
            name = re.sub(r".*<(.*)>", r"\1", line.strip())
            yield from (page.parent.glob(f"{name}.md") if ":glob:" in block else [page.parent / f"{name}.md"])


def test_every_page_is_in_a_table_of_contents():
    listed = {named.resolve() for page in PAGES for named in in_contents(page)}
    assert all(named.exists() for named in listed)
    assert {page.resolve() for page in PAGES} - listed == {(DOCS / "index.md").resolve()}


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_pages_with_code_cells_are_notebooks():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert ("{code-cell}" in text) == text.startswith("---\nfile_format: mystnb\n"), page


def test_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["message"]
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert citation["version"] == project["version"] == fbar.__version__
    assert citation["authors"] == [{"name": author["name"]} for author in project["authors"]]
    allowed = {
        *("abstract", "authors", "cff-version", "keywords", "license", "message", "references", "title", "type"),
        "version",
    }
    assert set(citation) <= allowed
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all("name" in author or "family-names" in author for author in reference["authors"])
