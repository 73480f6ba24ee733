"""A neural posterior (NPE of sbi 0.27.0) on the questions of the preset "truth", in the preset's own rows.

    python examples/peers/sbi_npe.py benchmarks/truth --budget 10000 --trainings 2 sir two-moons

One round, a neural spline flow, sbi's settings: `budget` simulations from the prior train one network, which answers at
all observations of the problem, named and fresh, by 10,000 draws each. Its values are the draws' moments, shares and
quantiles; there is no error bar, so that only b² is compared. Networks are kept (``--networks``), and answer again
when more observations have a truth; rows go to ``npe.csv.gz``. As in the other adapters the network sees the problem's
own summary statistics, and parameters in coordinates with the prior N(0, I).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from sbi.inference import NPE
from torch.utils.tensorboard import SummaryWriter
from working_space import to_theta

from fbar.problems import load
from fbar.problems.catalogue import recipes
from fbar.question.targets import parse
from fbar.study.presets.truth.kept import Kept
from fbar.study.presets.truth.rows import Row
from fbar.study.presets.truth.studies import NPE as NAME
from fbar.study.presets.truth.studies import fresh, named

DRAWS = 10_000


def summaries(problem, theta, x):
    """The summary statistics of a batch, one row each; not a number where a simulation failed."""
    found = problem.outcomes(x, theta.rows)
    rows = np.asarray(found.summaries, dtype=np.float64).reshape(theta.rows, -1)
    return rows if found.failure is None else np.where(found.failure[:, None] == 0, rows, np.nan)


def trained(name, budget, training, directory):
    """The network, from its file or trained; and the seconds that took."""
    path = directory / f"{name}-{budget}-{training}.pt"
    if path.exists():
        kept = torch.load(path, weights_only=False)
        return kept["posterior"], kept["seconds"]
    start = time.perf_counter()
    problem, rng = load(name), np.random.default_rng([budget, training])
    torch.manual_seed(1000 * training + 1)
    size = problem.prior.dimension
    z = rng.standard_normal((budget, size))
    theta = to_theta(problem, z)
    x = summaries(problem, theta, problem.simulate(theta, rng))
    good = np.isfinite(x).all(axis=1)
    prior = torch.distributions.MultivariateNormal(torch.zeros(size), torch.eye(size))
    with TemporaryDirectory() as logs, SummaryWriter(logs) as writer:  # sbi would write its logs to where it runs
        inference = NPE(prior, density_estimator="nsf", summary_writer=writer, show_progress_bars=False)
        inference.append_simulations(
            torch.as_tensor(z[good], dtype=torch.float32), torch.as_tensor(x[good], dtype=torch.float32)
        ).train()
        posterior = inference.build_posterior()
    seconds = time.perf_counter() - start
    directory.mkdir(parents=True, exist_ok=True)
    torch.save({"posterior": posterior, "seconds": seconds}, path)
    return posterior, seconds


def answers(posterior, question, seconds, budget, training):
    """A row for each target of a question."""
    problem = question.problem
    observed = torch.as_tensor(np.array(problem.observed, dtype=np.float64).reshape(1, -1), dtype=torch.float32)
    torch.manual_seed(training)
    with torch.no_grad():
        z = posterior.sample((DRAWS,), x=observed, show_progress_bars=False).numpy()
    points, weights = to_theta(problem, z), np.full(DRAWS, 1 / DRAWS)
    nan = float("nan")
    for item in question.known:
        value = float(parse(item.name).value(points, weights)[0])
        status = "ok" if np.isfinite(value) else "failed"
        errors = (nan, nan, nan, nan)
        truth = (item.value, item.standard_error, item.deviation)
        name = question.name
        yield Row(name, NAME, budget, training, item.name, status, budget, seconds, value, *errors, False, *truth)


def main():
    read = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    read.add_argument("out", type=Path)
    read.add_argument("problems", nargs="*")
    read.add_argument("--budget", type=int, default=10_000)
    read.add_argument("--trainings", type=int, default=2)
    read.add_argument("--networks", type=Path, default=Path("results/npe"))
    given = read.parse_intermixed_args()  # options may come before the problems
    torch.set_num_threads(1)
    kept = Kept(given.out)
    truths = kept.truths
    for name in given.problems or recipes():
        asked = [item for item in (*named([name]), *fresh([name])) if truths.known(item)]
        for training in range(given.trainings):
            done = {(row.observation, row.budget, row.trial) for row in kept.rows([NAME])}
            left = [item for item in asked if (item.name, given.budget, training) not in done]
            if not left:
                continue
            posterior, seconds = trained(name, given.budget, training, given.networks)
            questions = truths.questions(left)
            kept.add(row for item in questions for row in answers(posterior, item, seconds, given.budget, training))
            print(f"{name}, {given.budget:,} simulations, training {training}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
