"""The kinds of targets, from the command line."""

from __future__ import annotations

import json

from fbar.cli.common import JsonFlag, open_console, plain_table
from fbar.question.targets import registered
from fbar.running import model_file


def targets(model: str | None = None, /, *, json_: JsonFlag = False) -> None:
    """List the kinds of targets: how each is written, and what it is.

    Examples: "fbar targets", "fbar targets model.py".

    Parameters
    ----------
    model
        A model file that registers its own kinds of targets, which are listed too. The file is executed.
    json_
        Print one JSON object, and nothing else, to standard output.
    """
    if model is not None:
        model_file.read(model)
    kinds = registered().values()
    if json_:
        rows = [{"name": k.name, "form": k.text, "example": k.example, "title": k.title} for k in kinds]
        print(json.dumps({"targets": rows}))
        return
    table = plain_table("target", "example", "")
    for kind in kinds:
        table.add_row(kind.text, kind.example, kind.title)
    console = open_console()
    console.print(table)
    console.print("Estimate one with: fbar infer MODEL.py --target TEXT. In Python: fbar.mean('beta') and so on.")
