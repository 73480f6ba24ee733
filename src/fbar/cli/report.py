"""A run's report from the command line."""

from __future__ import annotations

from pathlib import Path

from fbar.cli.common import MaybeWhole, warn
from fbar.cli.views import OWN, ViewOf
from fbar.errors import InputError
from fbar.inference import load
from fbar.terminal import waiting


def report(
    run: Path,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    predictive: MaybeWhole = None,
    view: ViewOf = OWN,
) -> None:
    """Write a recorded run's report: one HTML file that opens from disk and loads nothing.

    The answer first, then how its error fell, where simulations went and which of them carry it, estimate against
    tolerance, rounds, posterior, the model against the data, failures, settings. Nothing is inferred anew.

    Example: "fbar report my-run --out my-run.html".

    Parameters
    ----------
    run
        The run's directory.
    out
        The file to write; report.html in the run's directory by default.
    title
        The report's title; the model file's name by default.
    predictive
        New simulations from the posterior to put beside the data; by default up to 200, as many as 20 seconds allow;
        0 for none.
    """
    if (run / "trials.jsonl").is_file():
        raise InputError(f"{run} is a study, which writes its report itself: {run / 'report.html'}")
    from fbar.report import report_run

    result = view.of(load(run))
    warn(result.damage)
    with waiting("writing the report") as line:

        def shown(done: int, of: int) -> None:
            line.say(f"{done} of {of} new simulations" if done < of else "")

        path = report_run(result, out or run / "report.html", title=title, predictive=predictive, shown=shown)
    print(f"wrote {path}")
