"""How much carrying trials as an array axis saves, and what the loop costs beside the random numbers it draws.

Ratios of times measured in this run; no absolute speed is claimed.
"""

import time

import numpy as np

import fbar
from fbar.problems import ten_values


def seconds(work, repeats=3):
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    problem, target, budget, trials = ten_values(), fbar.mean("theta"), 4096, 1000
    p = problem.p_star

    def together(method):
        run = method.start(problem, target, 1, budget, trials=trials)
        fbar.drive(run)
        run.posterior().expect(target)

    def one_by_one(method, number=50):
        for seed in range(number):
            run = method.start(problem, target, seed, budget)
            fbar.drive(run)
            run.posterior().expect(target)

    def bare_draws(rounds=16):
        rng = np.random.default_rng(1)
        for _ in range(rounds):
            rng.binomial(budget // rounds // 10, p[:, None], size=(10, trials))

    draws = seconds(bare_draws)
    for method in (fbar.Allocation("prior"), fbar.AdaptiveAllocation(), fbar.Rejection()):
        axis = seconds(lambda m=method: together(m))
        loop = seconds(lambda m=method: one_by_one(m)) * trials / 50
        name = type(method).__name__
        print(f"{name:>20}: one by one / together {loop / axis:6.1f}; together / bare binomials {axis / draws:5.1f}")


if __name__ == "__main__":
    main()
