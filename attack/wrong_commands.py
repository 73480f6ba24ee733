"""Wrong command lines: each works, or ends with exit status 2 (1 for what is damaged) and one line of explanation.

``python -m attack.wrong_commands --seed 2 --number 500`` makes so many, in this process; with ``--processes`` each is a
process of its own, as a user would start it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from unittest import mock

from attack.wrong_calls import Late, Outcome, clock, unfit, where, within

MODEL = """
import fbar
from scipy import stats

problem = fbar.Problem(fbar.Prior(a=stats.norm(0, 1)), lambda t, rng: t["a"] + rng.standard_normal(t.rows), 0.5)
targets = [fbar.mean("a"), fbar.probability("a > 0")]
"""

WRONG_MODELS = {
    "syntax.py": b"problem = (",
    "number.py": b"problem = 3\n",
    "nothing.py": b"",
    "raises.py": b"raise RuntimeError('this file fails\\non two lines')\n",
    "imports.py": b"import no_such_module\n",
    "exits.py": b"import sys\nsys.exit('it exits')\n",
    "targets.py": MODEL.encode() + b"targets = 3\n",
    "method.py": MODEL.encode() + b"method = fbar.SMC\n",
    "binary.py": bytes(range(256)),
    "endless-name.py": MODEL.encode() + b"targets = [fbar.mean('x' * 10**6)]\n",
    "fails.py": MODEL.replace('t["a"] +', 't["nothing"] +').encode(),
}

LINES = [
    "init new.py",
    "infer model.py --budget 60 --tolerance 1 --seed 1",
    "infer model.py --budget 60 --tolerance 1 --run new-run --json --quiet",
    "infer model.py -t mean:a -t quantile:a,0.5 --method rejection --budget 60 --tolerance 1 --block-size 20",
    "infer model.py --precision a=10% --budget 60 --tolerance 1",
    "infer model.py --summaries linear --budget 600",
    "show my-run",
    "show my-run --at 0.5 --json",
    "show my-run --adjusted",
    "explain my-run mean:a",
    "explain my-run a --extrapolated --json",
    "report my-run --out page.html --title Title --predictive 0",
    "predict my-run --number 5 --seed 1 --out predicted.csv --force",
    "resume my-run --quiet",
    "extend my-run --budget 120 --tolerance 0.9",
    "extend my-run --budget 120 --target variance:a --precision a=10%",
    "export my-run --format csv --out points.csv",
    "export my-run --all --out all.csv --force",
    "score --problem ramp --method rejection optimal --budget 60 90 --trials 3 --workers 1 --score mse ess",
    "score --problem ramp --method rejection --budget 60 --trials 2 --workers 1 --json --target mean:theta",
    "problems ramp",
    "problems two-moons --observation 2 --json",
    "methods",
    "scores --json",
    "paper fig2 --trials 3 --out figures",
]

WORDS = [
    *("", " ", "-", "--", "---", "-x", "--nothing", "--budget", "--help", "x", "a", "0", "-1", "2.5", "1e3", "1e300"),
    *(
        "nan",
        "inf",
        "-inf",
        "1e-400",
        "0x10",
        "1_000",
        "९",
        "10%",
        "inf%",
        "a=",
        "=1",
        "a=nan%",
        "mean:",
        ":",
        "mean:b",
    ),
    *(
        "quantile:a",
        "quantile:a,2",
        "density_at:a=x",
        "probability_between:1<a<0",
        "probability:a >",
        "probability:a > 1j",
    ),
    *("expectation:(((((", "expectation:__import__('os')", "kind:a", "{}", "[]", "*", "'", '"', "\\", "/", ".", ".."),
    *("/dev/null", "/proc/self/cmdline", "/no/such/place", "no-such-run", "model.py", "model.py:nothing", ":problem"),
    *("my-run", "my-run/ledger.sqlite", "\udcff", "mean:\udcff", "\x1b[2J", "a\nb", "\u202etxt", "💥", "x" * 5_000),
    *(
        "9" * 5_000,
        "(" * 3_000,
        "--budget=x",
        "--budget=",
        "--tolerance=-1",
        "--seed=-1",
        "--seed=1e99",
        "--json=maybe",
    ),
    *(
        "--run=",
        "--out=/",
        "--format=exe",
        "--no-json",
        "--workers=-1",
        "--workers=x",
        "--timeout=0",
        "--at=-1",
        "@file",
    ),
    *WRONG_MODELS,
]

MUCH = ("1e300",)


def wrong_commands(seed: int, number: int, *, processes: bool = False) -> Iterator[Outcome]:
    """So many wrong command lines; the same ones for the same seed."""
    rng = Random(seed)
    with tempfile.TemporaryDirectory(prefix="fbar-wrong-commands-") as kept:
        begun = Path(kept)
        (begun / "model.py").write_text(MODEL)
        for name, content in WRONG_MODELS.items():
            (begun / name).write_bytes(content)
        made = run(
            begun,
            ["infer", "model.py", "--budget", "60", "--tolerance", "1", "--run", "my-run", "--seed", "1", "--quiet"],
        )
        assert made.verdict == "fine", made
        for _ in range(number):
            yield attempt(begun, spoilt(rng), processes=processes)


def spoilt(rng: Random) -> list[str]:
    """A command line with one or two mistakes."""
    words = shlex.split(rng.choice(LINES))
    for _ in range(1 if rng.random() < 0.7 else 2):
        place, how = rng.randrange(0 if rng.random() < 0.1 else min(1, len(words) - 1), len(words)), rng.random()
        if how < 0.5:
            words[place] = rng.choice(WORDS)
        elif how < 0.7:
            words.insert(place + 1, rng.choice(WORDS))
        elif how < 0.8 and len(words) > 1:
            del words[place]
        elif how < 0.9:
            words.insert(place, words[place])
        else:
            other = rng.randrange(len(words))
            words[place], words[other] = words[other], words[place]
    return _harmless(words)


def _harmless(words: list[str]) -> list[str]:
    """Without what only takes long: processes, and all of the paper's figures."""
    if words[:1] == ["paper"] and not set(words) & {"fig2"}:
        words.insert(1, "fig2")
    if words[:1] == ["paper"] and "--trials" not in words:
        words += ["--trials", "3"]
    if words[:1] == ["score"] and "--workers" not in words:
        words += ["--workers", "1"]
    return words


def attempt(begun: Path, words: Sequence[str], *, processes: bool = False) -> Outcome:
    """One command line, in a copy of a directory."""
    with tempfile.TemporaryDirectory(prefix="fbar-wrong-command-") as place:
        here = Path(place) / "here"
        shutil.copytree(begun, here)
        return _started(here, words) if processes else run(here, words)


def run(place: Path, words: Sequence[str]) -> Outcome:
    """A command line in this process, with streams that take no more than a terminal's."""
    from fbar.cli.commands import main

    out, told = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=e) for e in ("strict", "backslashreplace"))
    status: object = 0
    said = "fbar " + " ".join(shlex.quote(word if len(word) < 50 else f"{word[:40]}…") for word in words)
    much = any(word in MUCH for word in words)
    with (
        within(str(place)),
        mock.patch.object(sys, "argv", ["fbar", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(told),
        warnings.catch_warnings(),
        clock(much),
    ):
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as ended:
            status = ended.code
        except Late as error:
            return Outcome(said, "fine" if much else "endless", "", where(error))
        except BaseException as error:
            return Outcome(said, "raw", f"{type(error).__name__}: {error}"[:300], where(error))
    out.flush()
    told.flush()
    return judged(said, status, told.buffer.getvalue().decode(errors="replace"), much)


def _started(place: Path, words: Sequence[str]) -> Outcome:
    said = "fbar " + " ".join(shlex.quote(word if len(word) < 50 else f"{word[:40]}…") for word in words)
    much = any(word in MUCH for word in words)
    root = Path(__file__).parent.parent
    paths = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "fbar", *words],
            cwd=place,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": ""},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=5 if much else 60,
        )
    except subprocess.TimeoutExpired:
        return Outcome(said, "fine" if much else "endless")
    return judged(said, ended.returncode, ended.stderr.decode(errors="replace"), much)


def judged(said: str, status: object, told: str, much: bool = False) -> Outcome:
    """What an exit status and standard error are to the user."""
    lines = [line for line in told.splitlines() if line.strip() and not line.startswith("fbar: warning:")]
    if status in (0, None):
        bad = "Traceback" in told or "RuntimeWarning" in told
        return Outcome(said, "raw" if bad else "fine", told[:300] if bad else "")
    if much and status == 130:  # it was interrupted, as by Ctrl-C
        return Outcome(said, "fine")
    if status == 130:
        return Outcome(said, "endless")
    errors = [line for line in lines if line.startswith("fbar: ")]
    if status not in (1, 2) or len(errors) != 1 or lines[-1] != errors[0]:
        return Outcome(said, "raw", f"status {status}, {len(lines)} lines: {told[:300]!r}")
    if "internal error in fbar" in errors[0]:
        return Outcome(said, "raw", errors[0][:300])
    if fault := unfit(errors[0]):
        return Outcome(said, "raw", f"a message {fault}: {errors[0][:300]!r}")
    return Outcome(said, "refused", errors[0])


def main() -> None:
    """Make the command lines, and print those that were answered badly, or with ``--messages`` all messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--processes", action="store_true", help="each in a process of its own")
    parser.add_argument("--messages", action="store_true", help="print every distinct message, with a line of it")
    chosen = parser.parse_args()
    begun, counts, messages = time.monotonic(), Counter[str](), dict[str, str]()
    for outcome in wrong_commands(chosen.seed, chosen.number, processes=chosen.processes):
        counts[outcome.verdict] += 1
        if outcome.verdict in ("raw", "endless"):
            print(f"{outcome.verdict}  {outcome.call}\n        {outcome.text}  {outcome.where}")
        elif outcome.verdict == "refused":
            messages.setdefault(outcome.text, outcome.call)
    if chosen.messages:
        for text, call in sorted(messages.items()):
            print(f"{text}\n        {call}")
    print(f"{sum(counts.values()):,} wrong command lines in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    sys.exit(1 if counts["raw"] or counts["endless"] else 0)


if __name__ == "__main__":
    main()
