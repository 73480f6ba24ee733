"""The commands, and one line for every error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from cyclopts import App, CycloptsError

import fbar
from fbar.checks import choice, in_words, shown
from fbar.cli.catalogue import methods, problems, scores
from fbar.cli.common import complain, fail
from fbar.cli.export import export
from fbar.cli.infer import infer, init
from fbar.cli.paper import paper
from fbar.cli.predict import predict
from fbar.cli.report import report
from fbar.cli.resume import extend, resume
from fbar.cli.score import score
from fbar.cli.show import explain, show
from fbar.cli.targets import targets
from fbar.cli.watch import watch
from fbar.errors import FbarError, InputError
from fbar.system.signals import ending_as_by_ctrl_c, exit_status

app = App(
    name="fbar",
    version=fbar.__version__,
    suppress_keyboard_interrupt=False,
    help=(
        "Likelihood-free inference that says how wrong it is.\n\n"
        "Start with `fbar init`, which writes a model file to fill in, then `fbar infer model.py --budget 100000`. "
        "Everything is also a Python library: `import fbar; help(fbar.infer)`."
    ),
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(init, infer, watch, show, explain, predict, report, resume, extend, export),
    *(score, problems, methods, scores, targets, paper),
)
for command in COMMANDS:
    app.command(command)


def _wrong(error: CycloptsError) -> str:
    """What is wrong with a command line."""
    words, kind = error.unused_tokens or [""], type(error).__name__  # its names differ between versions of cyclopts
    if kind in ("UnknownCommandError", "InvalidCommandError"):
        known = [command for command in app if not command.startswith("-")]
        try:
            return choice(words[0], known, "command")
        except InputError as unknown:
            return str(unknown)
    if kind == "UnusedCliTokensError":
        chain = " ".join(("fbar", *(error.command_chain or ())))
        return f"{chain} does not take the argument {shown(words[0])}; see {chain} --help"
    return str(error)


def main() -> None:
    """Run the command line; every error is one line on standard error.

    A name that cannot be written in the terminal's encoding, or is not valid Unicode, is printed with escapes.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with ending_as_by_ctrl_c():
            app(sys.argv[1:], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(_wrong(error))
        raise SystemExit(2) from None
    except FbarError as error:
        fail(error)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads the pipe any more
        raise SystemExit(1) from None
    except KeyboardInterrupt as error:
        complain(str(error) or "interrupted")
        raise SystemExit(exit_status(error)) from None
    except OSError as error:
        fail(FbarError(f"{error.filename or 'the system'}: {error.strerror or error}"))
    except Exception as error:
        if os.environ.get("FBAR_DEBUG"):
            raise
        what = in_words(error)
        fail(FbarError(f"internal error in fbar or in your model: {what}; set FBAR_DEBUG=1 for the traceback"))
