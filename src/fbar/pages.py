"""Tables in the documentation that are written from the code, between two marks, so that they cannot drift."""

from __future__ import annotations

from pathlib import Path

from fbar.system.files import write_text


def marks(name: str) -> tuple[str, str]:
    return f"<!-- begin: {name} -->", f"<!-- end: {name} -->"


def write_between(page: Path, name: str, text: str) -> None:
    begin, end = marks(name)
    before = page.read_text(encoding="utf-8")
    write_text(page, f"{before.partition(begin)[0]}{begin}\n{text}\n{end}{before.partition(end)[2]}")
