"""``python -m attack``: attack recorded runs for as long as asked, and print the table of what failed."""

from __future__ import annotations

import os
import sys


def run() -> int:
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")  # before numpy is imported: children are forked
    from attack.campaign import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
