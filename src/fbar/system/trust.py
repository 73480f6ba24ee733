"""Which model files this user has run himself: those of his recorded runs may be run again without a word.

A run's directory names a Python file and holds a copy of it. Who got the directory from somebody else must not run
either by only looking at the run. So `fbar infer --run` remembers what it was given, in the user's state directory: the
file's place and a digest of its content, one small file for each pair. It is written whole and never changed, so that
any number of runs may begin at once.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from fbar.system.files import write_text

VARIABLE = "FBAR_STATE_DIR"
"""Names another state directory."""
NAMED, TRUSTED = "models", "trusted"
"""What the user ran: a model file that he named to `fbar infer`, or one of a recorded run that he said he trusts."""


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


def remember(path: Path, content: bytes, how: str = NAMED) -> str:
    """Keep that this user ran this content at this place; returns a warning if that cannot be kept."""
    if was_run(path, digest(content), how):
        return ""
    directory = state_directory()
    try:
        if directory is None:
            raise OSError("there is no home directory")
        if _others(directory):
            raise OSError(f"{directory} belongs to another user")
        entry = _entry(directory / how, path, digest(content))
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(entry, f"{path}\n")
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return (
            f"cannot remember that {path} is yours ({why}): its run will need --trust (in Python trust=True); "
            f"set {VARIABLE} to another directory to remember it in"
        )
    return ""


def was_run(path: Path, content_digest: str, *how: str) -> bool:
    """Whether this user ran this content at this place, in one of these ways or in any."""
    return any(_is_there(_entry(kept, path, content_digest)) for kept in _kept(*how))


def place_of(content_digest: str) -> Path | None:
    """A place where this user ran this content; None if he never did."""
    for kept in _kept():
        with suppress(OSError):
            for entry in sorted((kept / content_digest).iterdir()):
                if _is_there(entry):
                    path = Path(entry.read_text(encoding="utf-8", errors="replace").removesuffix("\n"))
                    if entry == _entry(kept, path, content_digest):
                        return path
    return None


def why_not_own(path: Path) -> str:
    """Why somebody else may have written a file, in words; nothing if only this user can."""
    try:
        found = path.stat()
    except OSError as error:
        return f"cannot be examined ({error.strerror or error})"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "may be written to by everybody" if found.st_mode & stat.S_IWOTH else ""


def _kept(*how: str) -> list[Path]:
    """The directories of what is remembered."""
    directory = state_directory()
    return [] if directory is None or _others(directory) else [directory / name for name in how or (NAMED, TRUSTED)]


def _entry(kept: Path, path: Path, content_digest: str) -> Path:
    return kept / content_digest / digest(str(path).encode("utf-8", "surrogatepass"))[:32]


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
