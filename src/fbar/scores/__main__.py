"""Write the table of scores into the page about them: ``python -m fbar.scores docs/scores.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from fbar.pages import write_between
from fbar.scores import markdown

if __name__ == "__main__":
    write_between(Path(sys.argv[1]), "scores", markdown())
