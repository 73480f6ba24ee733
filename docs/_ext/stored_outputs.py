"""What the code of a page prints, stored in the page below the code, so that it can be read in the repository.

A block of ``output`` follows the cell that printed it; a picture is a file of ``docs/_outputs``. ``make outputs``
executes the pages and writes what they print. The site leaves the stored blocks out and shows its own outputs. The
build compares these with what is stored: that a picture is there, and text by the rule of `output_rule`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
import page_kernels
from output_rule import differences
from sphinx.application import Sphinx
from sphinx.util import logging

from fbar.system.files import write_text

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "_outputs"
PICTURE_MARK = "<!-- output -->"
NOTEBOOK = "---\nfile_format: mystnb\n"
CELL = re.compile(r"(`{3,})\{code-cell\}")
OUTPUT = re.compile(r"(`{3,})output$")
LINK = re.compile(r"!\[.*\]\((.*)\)$", re.M)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
DATE = re.compile(r"\n *<dc:date>.*?</dc:date>")
DIRECTORY = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w{8}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Text:
    """What a cell printed, or the text of its value."""

    text: str


@dataclass(frozen=True)
class Picture:
    """The bytes of a picture's file, and how its name ends."""

    content: bytes
    ending: str


Output = Text | Picture


@dataclass(frozen=True)
class Cell:
    """A cell of a page: the number of its last line, and what is stored below it up to a line."""

    last: int
    stored: tuple[Output, ...]
    end: int


def cells(lines: Sequence[str], page: Path) -> Iterator[Cell]:
    """The cells of a page with what is stored of each."""
    at = 0
    while at < len(lines):
        opened = CELL.match(lines[at])
        if opened:
            at = lines.index(opened[1], at)
            stored, end = _stored(lines, at + 1, page)
            yield Cell(at, stored, end)
            at = end - 1
        at += 1


def _stored(lines: Sequence[str], start: int, page: Path) -> tuple[tuple[Output, ...], int]:
    """The outputs that begin at a line, and the line after them."""
    found: list[Output] = []
    end = at = start
    while at < len(lines):
        opened = OUTPUT.match(lines[at])
        if opened:
            close = lines.index(opened[1], at)
            found.append(Text("\n".join(lines[at + 1 : close])))
            end = close + 1
        elif lines[at] == PICTURE_MARK:
            link = LINK.match(lines[at + 1])
            if link and (page.parent / link[1]).exists():
                file = page.parent / link[1]
                found.append(Picture(file.read_bytes(), file.suffix))
            end = at + 2
        elif lines[at]:
            break
        at = max(end, at + 1)
    return tuple(found), end


def without_outputs(text: str) -> str:
    """A page with blank lines in place of what is stored, so that warnings name the right lines."""
    lines = text.split("\n")
    for cell in cells(lines, DOCS):
        lines[cell.last + 1 : cell.end] = [""] * (cell.end - cell.last - 1)
    return "\n".join(lines)


def outputs(cell: Any) -> tuple[Output, ...]:
    """What an executed cell gave, its streams merged: what was printed, and of values their picture or else their text.

    myst-nb merges a stream into its first piece, and leaves the other pieces in the notebook that it writes.
    """
    found: list[str | Picture] = []
    merged: set[str] = set()
    for item in cell.outputs:
        data = item.get("data", {})
        if "image/svg+xml" in data:
            found.append(Picture(DATE.sub("", data["image/svg+xml"]).encode(), ".svg"))
        elif "image/png" in data:
            found.append(Picture(b64decode(data["image/png"]), ".png"))
        elif item.get("name") not in merged:
            before = found.pop() if found and isinstance(found[-1], str) else ""
            found.append(f"{before}\n{item.get('text', data.get('text/plain', ''))}")
        if item.output_type == "stream":
            merged.add(item.name)
    cleaned = [item if isinstance(item, Picture) else Text(_clean(item)) for item in found]
    return tuple(item for item in cleaned if item != Text(""))


def _clean(text: str) -> str:
    """Text without colours, without white space at its ends, and with the kernel's directory as /tmp/…"""
    text = DIRECTORY.sub("/tmp/…", ESCAPES.sub("", text))
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).strip("\n")


def executed(page: Path) -> Any:
    """The notebook of a page after its code has run."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_nb.core.utils import coalesce_streams
    from nbclient import NotebookClient

    notebook = read_myst_markdown_notebook(without_outputs(page.read_text(encoding="utf-8")), path=page)
    with tempfile.TemporaryDirectory() as directory:
        NotebookClient(notebook, timeout=page_kernels.TIMEOUT, resources={"metadata": {"path": directory}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = coalesce_streams(cell.outputs)
    return notebook


def refreshed(page: Path, notebook: Any) -> str:
    """The text of a page with what its notebook gave; pictures are written beside.

    What differs from the stored text in nothing but times stays as it is.
    """
    lines = page.read_text(encoding="utf-8").split("\n")
    name = "-".join(page.relative_to(DOCS).with_suffix("").parts)
    matched = list(_matched(page, notebook))  # reads the pictures that are removed next
    for old in PICTURES.glob(f"{name}.[0-9]*.*"):
        old.unlink()
    made: list[str] = []
    done = drawn = 0
    for cell, given in matched:
        made += lines[done : cell.last + 1]
        for stored, now in zip_longest(cell.stored, given):
            if isinstance(now, Picture):
                drawn += 1
                PICTURES.mkdir(exist_ok=True)
                file = PICTURES / f"{name}.{drawn}{now.ending}"
                file.write_bytes(now.content)
                up = "../" * (len(page.relative_to(DOCS).parts) - 1)
                made += ["", PICTURE_MARK, f"![The picture that this code draws]({up}{PICTURES.name}/{file.name})"]
            elif isinstance(now, Text):
                keep = isinstance(stored, Text) and not any(differences(stored.text, now.text, exact=True))
                text = stored.text if isinstance(stored, Text) and keep else now.text
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
                made += ["", f"{fence}output", text, fence]
        done = cell.end
    return "\n".join(made + lines[done:])


def changes(page: Path, notebook: Any) -> Iterator[tuple[int, str]]:
    """Lines of a page below which something else is stored than its notebook gave, and what."""
    for cell, given in _matched(page, notebook):
        for stored, now in zip_longest(cell.stored, given):
            match stored, now:
                case Text(), Text():
                    yield from ((cell.last + 1, change) for change in differences(stored.text, now.text))
                case Picture(), Picture():
                    pass  # that there is one is all that is compared
                case Text() | Picture(), None:
                    yield cell.last + 1, "the code prints or draws less than is stored"
                case _, Text():
                    yield cell.last + 1, f"this is not stored:\n{now.text}"
                case _:
                    yield cell.last + 1, "a picture is not stored"


def _matched(page: Path, notebook: Any) -> Iterator[tuple[Cell, tuple[Output, ...]]]:
    """Every cell of a page with what it gave."""
    lines = page.read_text(encoding="utf-8").split("\n")
    given = [outputs(cell) for cell in notebook.cells if cell.cell_type == "code"]
    return zip(cells(lines, page), given, strict=True)


def pages() -> list[Path]:
    """Every page with code that is executed."""
    found = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
    return [page for page in found if page.read_text(encoding="utf-8").startswith(NOTEBOOK)]


# ---------------------------------------------------------------- the build


def leave_out(app: Sphinx, docname: str, content: list[str]) -> None:
    if content[0].startswith(NOTEBOOK):
        content[0] = without_outputs(content[0])


def check(app: Sphinx, env: Any) -> None:
    if app.config.nb_execution_mode == "off":
        return  # a look at the pages without their outputs
    for page in pages():
        name = page.relative_to(DOCS).with_suffix("")
        notebook = nbformat.read(Path(env.mystnb_config.output_folder) / f"{name}.ipynb", as_version=4)
        for line, change in changes(page, notebook):
            log.warning(
                "the code prints something else than is stored below it; `make outputs PAGES=%s` writes it again\n%s",
                page.relative_to(DOCS.parent),
                change,
                location=(str(name), line),
            )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", leave_out)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(names: Sequence[str]) -> None:
    """Execute pages, all or those named, and store what they print."""
    page_kernels.prepare()
    chosen = [Path(name).resolve() for name in names] or pages()
    with ThreadPoolExecutor(2) as pool:
        for page, notebook in zip(chosen, pool.map(executed, chosen), strict=True):
            write_text(page, refreshed(page, notebook))
            print(page.relative_to(DOCS.parent), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
