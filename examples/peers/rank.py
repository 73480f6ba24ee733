"""Rank another package's algorithms beside fbar's: run it in the environment of either package.

make test-peers                                                     # makes the environments
.venv-peers/bin/python examples/peers/rank.py                       # pyABC
.venv-peers-sbi/bin/python examples/peers/rank.py                   # sbi
.venv-peers/bin/python examples/peers/rank.py --problems gaussian-linear/3 --budget 10000 --trials 100 --out kept
"""

from __future__ import annotations

import argparse
import importlib.util

from fbar.study import Study


def peers():
    if importlib.util.find_spec("pyabc"):
        from pyabc_adapter import pyabc_rejection, pyabc_smc

        return {
            "pyabc-rejection": pyabc_rejection(),
            "pyabc-smc-normal": pyabc_smc("normal"),
            "pyabc-smc-local": pyabc_smc("local"),
        }
    from sbi_adapter import sbi_mcabc, sbi_smcabc

    return {
        "sbi-mcabc": sbi_mcabc(),
        "sbi-mcabc-adjusted": sbi_mcabc(adjusted=True),
        "sbi-smcabc": sbi_smcabc(),
        "sbi-smcabc-last": sbi_smcabc(pooled=False),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["gaussian-linear"])
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--out", help="a directory that keeps finished trials; run again to go on")
    given = parser.parse_args()
    methods = {"rejection": "rejection", "smc": "smc", "smc-last": "smc-last", **peers()}
    study = Study(given.problems, methods, given.budget, given.trials, scores=["mse"])
    print(study.run(given.out).ranking())


if __name__ == "__main__":
    main()
