"""Tables on pages that are written from the code, between two marks, so that they cannot drift.

``python docs/_ext/page_tables.py`` writes those of the scores, of the problems and of the studies against the true
posterior, and draws the picture of the study of systems (``make tables``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fbar.system.files import write_text

DOCS = Path(__file__).parent.parent


def marks(name: str) -> tuple[str, str]:
    """The lines between which a page holds a table."""
    return f"<!-- begin: {name} -->", f"<!-- end: {name} -->"


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what a page holds between the marks of a name."""
    begin, end = marks(name)
    before = page.read_text(encoding="utf-8")
    write_text(page, f"{before.partition(begin)[0]}{begin}\n{text}\n{end}{before.partition(end)[2]}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines)


def scores_table() -> str:
    """Every score of fbar's own."""
    from fbar.scores import all_scores

    columns = ["score", "what it is", "formula", "range", "better", "needs of the truth", "blind spot"]
    rows = []
    for name, score in all_scores().items():
        better = f"near {score.nominal:g}" if score.better == "nominal" else score.better
        rows.append((f"`{name}`", score.title, score.formula, score.range, better, score.needs, score.blind_spot))
    return table(columns, rows)


def problems_table() -> str:
    """Every problem of the catalogue."""
    from fbar.problems import Benchmark, entries, load

    columns = [
        *("problem", "what it is", "parameters", "data", "seed"),
        *("the first observation's truth", "at a tolerance", "source"),
    ]
    rows = []
    for entry in entries():
        problem = load(entry.name)
        seed, at, source = "–", "no tolerance", "the paper"
        if isinstance(problem, Benchmark):
            known = all(problem.truth_at(tolerance) is not None for tolerance in problem.tolerances.values())
            seed, source = str(problem.recipe.seed), problem.recipe.source
            at = ("known" if problem.recipe.truth_at is not None else "brute force") if known else "not known"
        data = "an event" if entry.data is None else str(entry.data)
        names = ", ".join(problem.prior.names) if len(problem.prior.names) < 6 else f"theta1 … theta{entry.parameters}"
        rows.append((f"`{entry.name}`", entry.title, names, data, seed, problem.truth().how, at, source))
    return table(columns, rows)


if __name__ == "__main__":
    import systems_picture
    import systems_table
    import truth_study

    write_between(DOCS / "scores.md", "scores", scores_table())
    write_between(DOCS / "problems.md", "problems", problems_table())
    write_between(DOCS / "truth-study.md", "truth-study", truth_study.found(table))
    write_between(DOCS / "methods" / "index.md", "systems", systems_table.found(table))
    systems_picture.write()
