"""A run's report from the command line."""

from __future__ import annotations

from pathlib import Path

from fbar.cli.common import MaybeWhole, TrustFlag, keep_trust, say, warn
from fbar.cli.views import OWN, ViewOf
from fbar.diagnostics.predictive import PATIENCE
from fbar.engine import Apart, InProcess
from fbar.errors import InputError
from fbar.running import load
from fbar.system.terminal import waiting


def report(
    run: Path,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    predictive: MaybeWhole = None,
    workers: MaybeWhole = None,
    timeout: float | None = None,
    view: ViewOf = OWN,
    trust: TrustFlag = False,
) -> None:
    """Write a recorded run's report: one HTML file that opens from disk and loads nothing else.

    The first screen has the question, the data, the answer and how reliable it is. Then come the model and the prior,
    the posterior, the model against the data, how the errors fell and what more precision costs, where the simulations
    went, and failures. The rest is folded. The inference is not repeated.

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
        New simulations from the posterior to compare with the data; by default up to 200, as many as 20 seconds
        allow; 0 for none. They run in separate processes, where one that crashes or hangs only counts as failed.
    workers
        Local processes for these; by default as many as the run was started with, at least one. 0 to simulate in this
        process.
    timeout
        Seconds that one of them may take; by default as in the run. inf for no limit.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    """
    if (run / "trials.jsonl").is_file():
        raise InputError(f"{run} is a study, which writes its own report: {run / 'report.html'}")
    from fbar.results.report import report_run

    result = view.of(load(run, trust=keep_trust(run, trust)))
    warn(result.damage)
    engine = result.engine(workers, timeout)
    if workers is None and isinstance(engine, InProcess):
        engine = Apart(PATIENCE if predictive is None and timeout is None else None)
    path = out or run / "report.html"
    with waiting("writing the report") as line:

        def shown(done: int, of: int) -> None:
            line.say(f"{done} of {of} new simulations" if done < of else "")

        made = report_run(result, path, title=title, predictive=predictive, shown=shown, engine=engine)
    say(f"wrote {made}")
