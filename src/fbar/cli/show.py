"""Recorded runs from the command line, read only: show and explain."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fbar.checks import counted
from fbar.cli.asked import end_in_words, method_in_words
from fbar.cli.common import JsonFlag, TrustFlag, keep_trust, lacking, say, warn
from fbar.cli.output import json_only, print_json, print_recorded, print_result
from fbar.cli.views import OWN, ViewOf
from fbar.ledger import LedgerReader, Leg
from fbar.question.outcomes import Failure
from fbar.results.again import going_on
from fbar.running import load
from fbar.system.json_values import json_seed
from fbar.system.schema import check_legs
from fbar.system.terminal import waiting

MOST_DETAIL = 3
"""Lines of a failure's traceback that are shown."""


def show(run: Path, /, *, view: ViewOf = OWN, trust: TrustFlag = False, json_: JsonFlag = False) -> None:
    """Show a recorded run: its settings, its progress, failures and estimates.

    It changes nothing, and works while the run is in progress. With --at, --at-data, --adjusted or --extrapolated it
    shows other estimates from the same simulations, when the run is not in progress.

    Examples: "fbar show my-run --json", "fbar show my-run --adjusted".

    Parameters
    ----------
    run
        The run's directory.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted; only --at, --at-data,
        --adjusted and --extrapolated need it.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if view:
        with json_only(json_):
            result = view.of(load(run, trust=keep_trust(run, trust)))
        print_result(result, json_)
        return
    with LedgerReader(run) as ledger:
        check_legs(ledger.legs, run)
        with waiting(f"reading {run}"):
            simulations = ledger.simulations()
        failures, lacks = ledger.failures(), lacking(ledger, simulations)
    if json_:
        print_json(_as_dict(ledger, simulations, failures), run)
    elif not ledger.legs:
        say(f"{run}: nothing has been started yet")
    else:
        _print(ledger, simulations, failures, lacks)


def _as_dict(
    ledger: LedgerReader, simulations: int, failures: Sequence[tuple[Failure, int, str, str]]
) -> dict[str, Any]:
    return {
        "legs": [
            {"settings": {**leg.settings, "seed": json_seed(int(leg.settings["seed"]))}, "result": leg.result}
            for leg in ledger.legs
        ],
        "simulations": simulations,
        "used": _used(ledger.legs),
        "blocks": len(ledger),
        "failures": [
            {"kind": kind.name.lower(), "count": count, "example": text, "detail": detail}
            for kind, count, text, detail in failures
        ],
        "damaged": ledger.damaged,
    }


def _print(
    ledger: LedgerReader, simulations: int, failures: Sequence[tuple[Failure, int, str, str]], lacks: str
) -> None:
    run, legs = ledger.directory, ledger.legs
    for number, leg in enumerate(legs):
        title = f"leg {number + 1}: " if len(legs) > 1 else ""
        asked = f"{method_in_words(leg.settings)}, {', '.join(leg.settings['targets'])}"
        say(f"{title}{asked}; {end_in_words(leg.settings)}")
        if leg.result is not None:
            print_recorded(leg.result, run, last=number + 1 == len(legs))
    used = _used(legs)
    spare = "" if used is None or used >= simulations else f", {used:,} of them used: the others ran in advance"
    say(f"{counted(simulations, 'simulation')} recorded in {counted(len(ledger), 'block')}{spare}")
    others = ", ".join(text for text in ledger.damaged if not text.startswith("block "))
    if lacks or others:
        what = "; ".join(text for text in (lacks, others and f"damaged: {others}") if text)
        say(f"warning: {what}; repair it with: fbar resume {run}")
    for kind, count, text, detail in failures:
        say(f"{count:,} {kind.words}: {text}")
        for line in detail.strip().splitlines()[-MOST_DETAIL:]:
            say(f"    {line}")
    if legs[-1].result is None:
        settings = [leg.settings for leg in legs]
        if settings[0].get("model"):
            say(f"not finished; resume it with: fbar resume {shlex.quote(str(run))}")
        else:
            say(f"not finished; it was made from Python, resume it there with: {going_on(run, settings)}")


def _used(legs: Sequence[Leg]) -> int | None:
    """The simulations that a finished run's result is made of; None for one that is not finished."""
    last = legs[-1].result if legs else None
    return None if last is None else int(last["simulations"])


def explain(
    run: Path, target: str | None = None, /, *, view: ViewOf = OWN, trust: TrustFlag = False, json_: JsonFlag = False
) -> None:
    """Explain an estimate of a recorded run: where its simulations went and why, and what halving its error costs.

    It changes nothing. Example: "fbar explain my-run mean:rate".

    Parameters
    ----------
    run
        The run's directory.
    target
        The target's name, or the part after its kind if that is unambiguous: rate for mean:rate. It can be left
        out if there is only one. Any other target can be explained too, from the same simulations: variance:rate,
        'probability:rate > 12'.
    trust
        Execute the model file of a run that is not yours, and remember that it is trusted.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    with json_only(json_):
        result = view.of(load(run, trust=keep_trust(run, trust)))
        with waiting("explaining the estimate"):
            explanation = result.explain(target)
    warn(result.damage)
    print(json.dumps(explanation.as_dict()) if json_ else explanation)
