"""The command line's door: a missing extra is said in one line."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from fbar.cli import main as command
    except ImportError as error:
        if getattr(error, "name", None) not in ("cyclopts", "rich"):
            raise
        print(f"fbar: {error.name} is not installed; install it with: pip install 'fbar[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    command()


if __name__ == "__main__":
    main()
