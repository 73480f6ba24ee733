"""Which model files this user has run himself: those of his recorded runs may be run again without a word.

A run's directory names a Python file and holds a copy of it. Who got the directory from somebody else must not run
either by only looking at the run. So `fbar infer --run` remembers what it was given, in the user's state directory: the
file's place and a digest of its content, one small file for each pair. That such a pair is there is all that is ever
read, so that nothing can be half written and any number of runs may begin at once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from pathlib import Path

from fbar.files import write_text

VARIABLE = "FBAR_STATE_DIR"
"""Names another state directory."""


def state_directory() -> Path | None:
    """Where fbar keeps what it knows of this user; None where there is no home either."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "fbar"
        state = os.environ.get("XDG_STATE_HOME", "")
        return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "fbar"
    except RuntimeError:
        return None


def digest(content: bytes) -> str:
    """What a file's content is known by."""
    return hashlib.sha256(content).hexdigest()


def remember(path: Path, content: bytes) -> str:
    """Keep that this user ran this content at this place; returns a warning if that cannot be kept."""
    if was_run(path, digest(content)):
        return ""
    directory = state_directory()
    try:
        if directory is None:
            raise OSError("there is no home directory")
        if _others(directory):
            raise OSError(f"{directory} belongs to another user")
        entry = _entry(directory, path, digest(content))
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(entry, f"{path}\n")
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return (
            f"cannot remember that {path} is yours ({why}): its run will take --trust (in Python trust=True); "
            f"{VARIABLE} names another place to remember it in"
        )
    return ""


def was_run(path: Path, content_digest: str) -> bool:
    """Whether this user ran this content at this place."""
    directory = state_directory()
    return directory is not None and not _others(directory) and _is_there(_entry(directory, path, content_digest))


def was_run_anywhere(content_digest: str) -> bool:
    """Whether this user ran this content, wherever it was."""
    directory = state_directory()
    if directory is None or _others(directory):
        return False
    try:
        return any(map(_is_there, _place(directory, content_digest).iterdir()))
    except OSError:
        return False


def is_own(path: Path) -> bool:
    """Whether a file belongs to this user and not everybody may write to it."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def _place(directory: Path, content_digest: str) -> Path:
    return directory / "models" / content_digest


def _entry(directory: Path, path: Path, content_digest: str) -> Path:
    return _place(directory, content_digest) / digest(str(path).encode("utf-8", "surrogatepass"))[:32]


def _others(directory: Path) -> bool:
    """Whether a directory is somebody else's: under sudo, say, the home is still that of the user who called it."""
    try:
        return directory.stat().st_uid != os.geteuid()
    except OSError:
        return False  # there is none yet, or it cannot be read: then nothing is found in it


def _is_there(entry: Path) -> bool:
    try:
        return stat.S_ISREG(entry.lstat().st_mode)
    except OSError:
        return False
