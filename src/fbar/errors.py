"""The errors that fbar raises. Each message says what was given, what is allowed and what to do."""

from __future__ import annotations

from fbar.system.terminal import clean


class FbarError(Exception):
    """Anything fbar refuses or cannot do; catch this to catch them all."""

    def __str__(self) -> str:
        return clean(super().__str__())  # a name in it, or what a simulator said, may hold anything


class InputError(FbarError, ValueError):
    """An argument that cannot be used; found before any simulation runs wherever it can be."""


class ZeroDensity(InputError):
    """A density that is zero everywhere and cannot be normalised."""


class NoPosterior(FbarError, RuntimeError):
    """Nothing was accepted, so there is no posterior to speak of."""


class SimulatorFailed(FbarError, RuntimeError):
    """Every simulation so far raised an exception: the simulator does not work."""


class EngineFailed(FbarError, RuntimeError):
    """The processes that simulations run in cannot be used any more."""


class LedgerError(FbarError):
    """A run's files cannot be read or written."""


class RunInUse(LedgerError):
    """Another driver holds the run."""


class UntrustedModel(InputError):
    """Looking at a run would execute a model file that this user never ran; ``trust=True`` says that it may be."""


class MissingExtra(FbarError, ImportError):
    """A feature was asked for whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'fbar[{extra}]'")
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return MissingExtra, (self.package, self.extra)
