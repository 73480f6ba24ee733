"""The entry point of the command line: a missing extra is reported in one line."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from fbar.cli import main as command
    except ImportError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        print(f"fbar: {error.name} is not installed; install it with: pip install 'fbar[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    command()


if __name__ == "__main__":
    main()
