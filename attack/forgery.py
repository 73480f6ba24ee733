"""One hostile directory, and who opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack.bases import Base
from attack.runs import remove

SECRET = "correct-horse-battery-staple"


class Victim:
    """Files of the one who opens the directory, which must stay as they are."""

    secret = SECRET

    def __init__(self, room: Path) -> None:
        self.room = room
        self.renew()

    @property
    def precious(self) -> Path:
        return self.room / "precious.txt"

    @property
    def canary(self) -> Path:
        """Made by whatever of the directory is executed."""
        return self.room / "executed"

    @property
    def folder(self) -> Path:
        return self.room / "folder"

    def renew(self) -> None:
        remove(self.room)
        self.folder.mkdir(parents=True)
        self.precious.write_text(f"years of work; {SECRET}\n")
        (self.folder / "notes.txt").write_text("more of it\n")

    def executed(self, harm: str) -> bool:
        return self.canary.name in harm

    def code(self, rest: str = "") -> str:
        """Python that leaves a trace when it is executed."""
        return f"open({str(self.canary)!r}, 'w').close()\n{rest}"


@dataclass(frozen=True)
class Forgery:
    """One hostile directory: how it is made of a sound run."""

    kind: str
    name: str
    make: Callable[[Base, Victim], None]
    trusted: bool = True
    """Whether the one who opens it has run this model himself: what is wrong is something else then."""
    base: str = "targeted"
    fresh: bool = False
    """Whether it takes a Python that has imported nothing yet."""


FORGERIES: list[Forgery] = []


def forged(kind: str, name: str, **more: Any) -> Callable[[Callable[[Base, Victim], None]], None]:
    def add(make: Callable[[Base, Victim], None]) -> None:
        FORGERIES.append(Forgery(kind, name, make, **more))

    return add


def forge(kind: str, name: str, make: Callable[[Base, Victim], None], **more: Any) -> None:
    FORGERIES.append(Forgery(kind, name, make, **more))
