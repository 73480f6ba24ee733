"""Write the table of problems into the page about them: ``python -m fbar.problems docs/problems.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from fbar.pages import write_between
from fbar.problems.catalogue import markdown

if __name__ == "__main__":
    write_between(Path(sys.argv[1]), "problems", markdown())
