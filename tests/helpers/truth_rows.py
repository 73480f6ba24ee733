"""Rows of the preset "truth" that no run has made."""

from __future__ import annotations

from dataclasses import replace

from fbar.study.presets.truth.rows import Row
from fbar.study.presets.truth.studies import DEFAULT

ROW = Row(
    observation="a/1",
    method=DEFAULT,
    budget=10_000,
    trial=0,
    target="mean:x",
    status="ok",
    simulations=10_000,
    seconds=0.5,
    value=0.1,
    standard_error=0.1,
    df=50.0,
    low=-0.1,
    high=0.3,
    trusted=True,
    truth=0.0,
    truth_error=0.0,
    deviation=1.0,
)


def made_up(
    rng, *, scale=0.1, claimed=1.0, method=DEFAULT, budget=10_000, problems=("a", "b"), observations=10, runs=20
):
    """Normal errors of one size, with error bars that are ``claimed`` times as large; one in twenty is flagged."""
    rows = []
    for problem in problems:
        targets = (
            ["mean:x", "quantile:x,0.1"]
            if problem == "a"
            else ["mean:x", "mean:y", "second_moment:x", "second_moment:y"]
        )
        for i in range(1, observations + 1):
            for trial in range(runs):
                for target in targets:
                    deviation = 1 + i
                    value = 3.0 + deviation * scale * rng.standard_normal()
                    half = 1.959964 * claimed * deviation * scale
                    rows.append(
                        replace(
                            ROW,
                            observation=f"{problem}/{i}",
                            method=method,
                            budget=budget,
                            trial=trial,
                            target=target,
                            value=value,
                            low=value - half,
                            high=value + half,
                            truth=3.0,
                            deviation=deviation,
                            trusted=bool(rng.random() < 0.95),
                        )
                    )
    return rows
