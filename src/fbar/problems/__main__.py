"""Write the table of problems into the page about them: ``python -m fbar.problems docs/problems.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from fbar.problems.catalogue import markdown

BEGIN, END = "<!-- begin: problems -->", "<!-- end: problems -->"


def write(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    page.write_text(f"{text.partition(BEGIN)[0]}{BEGIN}\n{markdown()}\n{END}{text.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
