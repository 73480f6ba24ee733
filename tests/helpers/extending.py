"""The examples of CONTRIBUTING.md, which tests write into files and run: a page that drifts fails."""

from __future__ import annotations

import re
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example(title: str) -> str:
    """The first block of Python under the heading ``## title``."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise AssertionError(f"CONTRIBUTING.md has no heading '## {title}'")
    block = re.search(r"^```python\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    if block is None:
        raise AssertionError(f"CONTRIBUTING.md shows no Python under '## {title}'")
    return block[1]
