"""What pages store of their outputs and of the reference: it is left out of the site, compared and written again."""

from __future__ import annotations

import nbformat
import pytest

pytest.importorskip("sphinx")
pytest.importorskip("myst_nb")

import reference_text
import stored_outputs
from output_rule import differences

CODE = "```{code-cell} python\nprint(2)\n```\n"
STORED = "\n```output\n2 draws of 0.50(4) in 3.1 s\n```\n"
PAGE = f"{stored_outputs.NOTEBOOK}---\n\n# A page\n\n{CODE}{STORED}\nThe end, and\n\n```python\nx = 1\n```\n"


def notebook(*outputs):
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell("print(2)", outputs=list(outputs))]
    return nbformat.v4.new_notebook(cells=cells)


def printed(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def drawn():
    return nbformat.v4.new_output("display_data", data={"image/png": "AAAA", "text/plain": "<Figure>"})


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_outputs, "DOCS", tmp_path)
    monkeypatch.setattr(stored_outputs, "PICTURES", tmp_path / "_outputs")
    (tmp_path / "how-to").mkdir()
    file = tmp_path / "how-to" / "page.md"
    file.write_text(PAGE, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ("mean:a  1.829(16)", "mean:a 1.85(2)"),  # another way to an answer as good
        ("12,403 simulations, 5 accepted", "11,000 simulations, 9 accepted"),
        ("took 2.3 s", "took 230 s"),
        ("R² 0.03", "R² 0.01"),
        ("a       b\n──────", "a b\n────────────"),
        ("-0.006(19)", "0.012(21)"),
        ("1.2e-05", "1.3e-05"),
    ],
)
def test_outputs_that_are_as_good_agree(stored, now):
    assert not list(differences(stored, now))


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ("mean:a  1.829(16)", "mean:b  1.829(16)"),
        ("mean:a  1.829(16)", "mean:a  1.99(2)"),
        ("mean:a  1.829(16)", "mean:a  1.83(8)"),  # an error bar four times as wide
        ("mean:a  1.829(16)", "mean:a  1.829"),
        ("12,403 simulations", "8,000 simulations"),
        ("-0.5", "0.5"),
        ("took 2.3 s", "took 2.3 pages"),
        ("one line", "one line\nwarning: another"),
    ],
)
def test_outputs_that_say_something_else_do_not(stored, now):
    assert list(differences(stored, now))


def test_exactly_nothing_but_times_may_differ():
    assert not list(differences("1.5 after 2.3 s", "1.5 after 3.1 s", exact=True))
    assert list(differences("1.51", "1.52", exact=True))


def test_the_site_leaves_out_what_is_stored_line_by_line():
    shown = stored_outputs.without_outputs(PAGE)
    assert shown.splitlines() == [
        "" if number in (10, 11, 12) else line for number, line in enumerate(PAGE.splitlines())
    ]
    assert "x = 1" in shown


def test_a_page_that_is_true_stays_as_it_is(page):
    executed = notebook(printed("2 draws of 0.50(4)\nin 7.7 s\n"), printed("in 7.7 s\n"))  # as myst-nb merges pieces
    assert not list(stored_outputs.changes(page, executed))
    assert stored_outputs.refreshed(page, executed) == PAGE  # a time is no reason to write


def test_what_changed_is_named_with_its_line_and_written(page):
    executed = notebook(printed("3 draws of 0.99(4) in 3 s"))
    [(line, change)] = stored_outputs.changes(page, executed)
    assert PAGE.splitlines()[line - 1 - 2 : line] == CODE.splitlines()
    assert "0.50(4)" in change
    assert "0.99(4)" in change
    page.write_text(stored_outputs.refreshed(page, executed), encoding="utf-8")
    assert "```output\n3 draws of 0.99(4) in 3 s\n```\n\nThe end" in page.read_text(encoding="utf-8")
    assert not list(stored_outputs.changes(page, executed))


def test_pictures_are_files_beside(page):
    executed = notebook(printed("2 draws of 0.50(4) in 3.1 s"), drawn())
    assert [change for _, change in stored_outputs.changes(page, executed)] == ["a picture is not stored"]
    page.write_text(stored_outputs.refreshed(page, executed), encoding="utf-8")
    assert not list(stored_outputs.changes(page, executed))
    assert "(../_outputs/how-to-page.1.png)" in page.read_text(encoding="utf-8")
    picture = page.parents[1] / "_outputs" / "how-to-page.1.png"
    picture.unlink()
    assert list(stored_outputs.changes(page, executed))
    text = stored_outputs.refreshed(page, notebook(printed("2 draws of 0.50(4) in 3.1 s")))
    assert text == PAGE


def test_every_stored_picture_is_on_a_page():
    linked = {
        (page.parent / link).resolve()
        for page in stored_outputs.pages()
        for link in stored_outputs.LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert {picture.resolve() for picture in stored_outputs.PICTURES.iterdir()} <= linked


@pytest.mark.parametrize("page", sorted(reference_text.PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_the_reference_says_what_the_code_says(page):
    text = page.read_text(encoding="utf-8")
    assert reference_text.refreshed(text) == text, "`make outputs` writes it again"
    site = reference_text.with_directives(text)
    assert "<!-- reference" not in site
    assert site.count("\n") == text.count("\n")


def test_a_signature_and_its_docstring_are_written():
    text = "<!-- reference\n.. currentmodule:: fbar\n\n.. autofunction:: mean\n-->\nold\n<!-- end of reference -->\n"
    made = reference_text.refreshed(text)
    assert "### `fbar.mean`\n\n```python\nfbar.mean(" in made
    assert "old" not in made
    assert "\n.. autofunction:: mean\n" in reference_text.with_directives(made)


def test_a_new_block_of_the_reference_leaves_what_follows_it():
    """Its text is made although it has none yet, and another block after it keeps its own."""
    new = "## First\n\n<!-- reference\n.. currentmodule:: fbar\n\n.. autofunction:: mean\n-->\n\n## Second\n\n"
    old = "<!-- reference\n.. currentmodule:: fbar\n\n.. autofunction:: sd\n-->\nold text\n<!-- end of reference -->\n"
    made = reference_text.refreshed(new + old + "\nThe end.\n")
    assert [line for line in made.splitlines() if line.startswith("#")] == [
        *("## First", "### `fbar.mean`", "## Second", "### `fbar.sd`")
    ]
    assert "old text" not in made
    assert made.endswith("<!-- end of reference -->\n\nThe end.\n")
    assert reference_text.refreshed(made) == made
