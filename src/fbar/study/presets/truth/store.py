"""Compute true values beforehand: ``python -m fbar.study.presets.truth.store DIRECTORY [PROBLEM | PROBLEM/fresh …]``.

A study computes what is missing by itself; this computes only the truths, problem by problem, and resumes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fbar.study.presets.truth.studies import fresh, named
from fbar.study.presets.truth.truths import Truths


def store(directory: Path, problems: Sequence[str] | None = None) -> None:
    """Write the truths that are missing to ``directory``."""
    truths = Truths(directory)
    asked = [*named(problems), *fresh(problems)]
    for done, item in enumerate(asked, 1):
        if not truths.known(item):
            kept = truths.kept(item)
            what = kept.why or f"{len(kept.known)} values"
            print(f"{done} of {len(asked)}: {item.name}, {kept.seconds:.1f} s, {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give the directory, and the names of problems unless all are wanted")
    store(Path(sys.argv[1]), sys.argv[2:] or None)
