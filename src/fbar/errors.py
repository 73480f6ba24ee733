"""The errors that fbar raises. Each message says what was given, what is allowed and what to do."""

from __future__ import annotations

from fbar.system.terminal import clean


class FbarError(Exception):
    """Base class of all fbar errors: anything that fbar refuses or cannot do."""

    def __str__(self) -> str:
        return clean(super().__str__())  # a name in it, or what a simulator said, may hold anything


class InputError(FbarError, ValueError):
    """An argument that cannot be used; found before any simulation runs where possible."""


class ZeroDensity(InputError):
    """A density that is zero everywhere and cannot be normalised."""


class NoPosterior(FbarError, RuntimeError):
    """Nothing was accepted, so there is no posterior."""


class SimulatorFailed(FbarError, RuntimeError):
    """Every simulation so far raised an exception: the simulator does not work."""


class EngineFailed(FbarError, RuntimeError):
    """The processes that run simulations cannot be used any more."""


class LedgerError(FbarError):
    """A run's files cannot be read or written."""


class RunInUse(LedgerError):
    """Another process is working on the run."""


class UntrustedModel(InputError):
    """Opening a run would execute a model file that this user never ran; ``trust=True`` allows it."""


class MissingExtra(FbarError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'fbar[{extra}]'")
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return MissingExtra, (self.package, self.extra)
