"""External programs as simulators."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fbar.checks import function as check_function
from fbar.checks import known_names, mapping, path, shown, text, time_limit
from fbar.errors import InputError
from fbar.question.outcomes import Failure
from fbar.question.simulators import SimulationError, each
from fbar.system.keeping import Done, KeeperLost, run_program

PLACE = re.compile(r"\{(\w+)\}")
SEED = "seed"
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals by which others end a program, the system for one when memory runs out; not those of its errors."""


class ProgramFailed(SimulationError):
    """A call of an external program that gave no result; ``detail`` is its standard error."""


class program(each):
    """Make a simulator from an external program: it is called once for every simulation, without a shell.

    A call that ends with a non-zero exit status, takes too long or prints something unreadable is a failed simulation;
    the report has its exit status and standard error. If it is killed from outside, for example by the system when
    memory runs out, it is called once more with the same arguments.

    A call is over when the program ends; processes that it leaves behind are then killed. They are also killed, with
    the program, if this process ends first, even by ``kill -9``. On Linux that includes daemons in their own sessions,
    elsewhere the processes of the program's group.

    Parameters
    ----------
    command
        The program and its arguments. ``{name}`` stands for the value of a parameter (or derived parameter) with all
        its digits, and ``{seed}`` for an integer below 2**64 that differs from call to call.
    parse
        A function from the standard output, a string, to the simulation's result. By default the numbers in it: an
        array, or one number.
    timeout
        Seconds that one call may take. The program is then killed with everything that it started, and called once more
        with the same arguments; if it is too slow again, the simulation has failed.
    cwd, env
        The directory to run in, and the environment instead of this process's.

    Examples
    --------
    >>> simulate = program(["echo", "{rate}"])
    >>> simulate.function({"rate": 0.1}, np.random.default_rng(1))
    0.1
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        parse: Callable[[str], Any] | None = None,
        *,
        timeout: float | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(command, str | bytes) or not isinstance(command, Sequence) or not command:
            raise InputError(
                f"command must be a list such as ['./model', '{{beta}}', '{{seed}}']; got {shown(command)}"
            )
        if parse is not None:
            check_function(parse, "parse")
        if cwd is not None and not path(cwd, "cwd").is_dir():
            raise InputError(f"cwd must be a directory; there is no directory at {shown(str(cwd))}")
        if env is not None:
            for name, value in mapping(env, "env", "{'PATH': '/usr/bin'}").items():
                text(name, "a name in env")
                text(value, f"env[{shown(name)}]")
        words = [_word(word) for word in command]
        call = _Call(
            (_found(words[0], cwd, env), *words[1:]),
            parse or numbers,
            None if timeout is None else time_limit(timeout, "timeout"),
            None if cwd is None else os.path.abspath(cwd),
            None if env is None else dict(env),
        )
        super().__init__(call)
        self.__doc__, self.__name__ = f"The program {words[0]}.", words[0]
        self.needs = frozenset(name for word in words for name in PLACE.findall(word)) - {SEED}


def _word(given: Any) -> str:
    """One word of a command."""
    if not isinstance(given, str | int | float | os.PathLike):
        raise InputError(f"the words of a command must be text, numbers or paths; got {shown(given)}")
    word = str(path(given, "a word of the command")) if isinstance(given, os.PathLike) else str(given)
    if "\0" in word or (not word.isascii() and not _encodes(word)):
        raise InputError(f"the words of a command must be text that the operating system accepts; got {shown(given)}")
    return word


def _encodes(word: str) -> bool:
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def numbers(text: str) -> Any:
    """Numbers between white space: an array, or a float if there is but one."""
    values = [float(word) for word in text.split()]
    if not values:
        raise ValueError("it printed nothing")
    return values[0] if len(values) == 1 else np.array(values)


def _found(name: str, cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None) -> str:
    """The program's path; in full unless the search path has it."""
    if PLACE.search(name):
        raise InputError(f"the program itself cannot depend on a parameter; got {shown(name)}")
    if os.path.dirname(name):
        path = os.path.abspath(os.path.join(cwd or ".", name))
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise InputError(f"there is no executable program at {shown(path)}; check the path, and chmod +x it")
        return path
    if not name or shutil.which(name, path=(os.environ if env is None else env).get("PATH")) is None:
        if "\\" in name:  # it would have been a path on Windows
            raise InputError(
                f"there is no program {shown(name)}; on this system a path is written with /, as in './model'"
            )
        raise InputError(
            f"there is no program {shown(name)} on the search path; give its path, such as {shown('./' + name)}"
        )
    return name


@dataclass(frozen=True)
class _Call:
    """One call of the program."""

    command: tuple[str, ...]
    parse: Callable[[str], Any]
    timeout: float | None
    cwd: str | None
    env: dict[str, str] | None

    def __call__(self, theta: dict[str, Any], rng: np.random.Generator) -> Any:
        arguments = self._arguments(theta, rng)
        try:
            done = self._run(arguments)
            again = -done.status in FROM_OUTSIDE
        except ProgramFailed:
            again = True
        if again:  # out of time, or killed: once may be the machine's fault
            done = self._run(arguments)
        if done.status:
            what = f"exit status {done.status}" if done.status > 0 else f"killed by {_signal(-done.status)}"
            raise ProgramFailed(_with_last_line(what, done.err), done.err)
        try:
            return self.parse(done.out)
        except Exception as error:
            what = f"exit status 0, but its output could not be read: {type(error).__name__}: {error}"
            raise ProgramFailed(_with_last_line(what, done.err), done.err or done.out) from error

    def _arguments(self, theta: dict[str, Any], rng: np.random.Generator) -> list[str]:
        seed = {SEED: int(rng.integers(2**64, dtype=np.uint64))}

        def value(place: re.Match[str]) -> str:
            name = place[1]
            if name not in theta and name != SEED:
                raise InputError(f"the program needs the parameter {shown(name)}; {known_names(name, [*theta, SEED])}")
            return _written({**theta, **seed}[name])

        return [PLACE.sub(value, word) for word in self.command]

    def _run(self, arguments: list[str]) -> Done:
        """One call; whatever ends it, the program and all that it started have ended."""
        try:
            done = run_program(arguments, self.cwd, self.env, self.timeout)
        except KeeperLost as error:
            raise ProgramFailed(str(error), "", Failure.KILLED) from None
        if done.late:
            what = f"it took longer than {self.timeout:g} s and was killed"
            raise ProgramFailed(_with_last_line(what, done.err), done.err, Failure.TIMED_OUT)
        return done


def _written(value: Any) -> str:
    """A value as an argument, with all its digits."""
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def _with_last_line(what: str, err: str) -> str:
    lines = err.strip().splitlines()
    return f"{what}: {lines[-1]}" if lines else what


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
