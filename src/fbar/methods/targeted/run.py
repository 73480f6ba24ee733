"""Simulations where they reduce the error of what is asked (section 2 of the paper, for p* that is not known).

Two phases. While the tolerance is above the wanted one, proposals follow ABC's posterior at falling tolerances: to
target f there would leave too few draws near the data to descend. At the wanted tolerance they follow the design of
least error, q ∝ p √E[a²|θ] g, g² = Σ_j c_j ψ_j² (the optimum for independent draws of section S5.1, for several
targets), which is learnt in rounds that double what was accepted, and then kept. See `fbar.methods.targeted.learning`
for the fit, and `fbar.estimation.crossfitted` for the groups that keep proposals from weighing their own draws.

The size of every round is planned before it begins: no acceptance ends one, so draws are independent given the past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fbar.checks import FloatArray, IntArray, non_negative_number
from fbar.designs.proposals import FromPrior, Learned
from fbar.designs.schemes import scrambled
from fbar.errors import InputError, NoPosterior
from fbar.estimation.crossfitted import Crossfitted
from fbar.estimation.posterior import Posterior
from fbar.estimation.store import Entry, failures, numbers
from fbar.methods.forecasts import Ahead
from fbar.methods.run import Run, Stage
from fbar.methods.start import Start
from fbar.methods.targeted import account
from fbar.methods.targeted.aim import Aim
from fbar.methods.targeted.learning import Lesson, learn
from fbar.methods.targeted.tolerance import low_enough
from fbar.question.acceptance import Acceptance, accepted
from fbar.question.outcomes import Batch, Outcomes, Tally, require_simulated
from fbar.question.points import Points
from fbar.question.space import Particles, Proposal, Space
from fbar.question.targets import Target
from fbar.seeds import Purpose

if TYPE_CHECKING:
    from fbar.methods.targeted.method import Targeted

BLOCK_SIZE = 4096
CLOSE = 200
"""How many simulations a falling tolerance keeps within it, or 20 for each dimension if that is more; fewer where the
budget is small."""

ENOUGH = 1000
"""Acceptances at the wanted tolerance after which proposals are kept."""

KNOWN = 30
"""Acceptances of every model that is accepted at all, before proposals are kept."""

WIDER = 4
"""Tolerances above its own that a curve shows, each √2 times the one below."""

DEFENCE = (0.1, 0.1, 0.2, 0.2, 0.3)
"""The share of draws from the prior in one, two, … five dimensions and more."""

LEAST_ROUND = 256
SCRAMBLES = 32
GAIN = 0.2
"""The least share of the variance that evenly spread points could remove for which they are used."""

MOST_ROUND = 2**30
"""Simulations of a round, whose blocks are planned together."""


class TargetedRun(Run):
    """A targeted run at work. ``store`` keeps every simulation, so its posterior takes any tolerance."""

    def __init__(self, method: Targeted, start: Start, aim: Aim) -> None:
        super().__init__(start)
        self.method = method
        self._event = not self.problem.has_summaries
        self._chooses = method.tolerance is None and not self._event and self._most < math.inf
        tolerance = 0.0 if method.tolerance is None else method.tolerance
        self.wanted = Acceptance(tolerance, method.kernel if tolerance > 0 else "uniform")
        self.problem.check_acceptance(self.wanted)
        self.problem.check_acceptance_probability(tolerance)
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        self.space = Space(self.problem.prior, "normal")
        self.store = Crossfitted(
            self.problem, self.space, method.groups, self._draw, needs_costs=method.per == "second"
        )
        self.aim = aim
        self.defence = method.defence or DEFENCE[min(max(self.space.dimension, 1), len(DEFENCE)) - 1]
        self.block_size = start.block_size or self._default_block(BLOCK_SIZE)
        self._ended = ""
        self._at_wanted = self._event
        self._kept: Sequence[Proposal] | None = None  # proposals that learn no more
        self._evenly = self._even = False
        self._passed = 0  # how many tolerances in a row were low enough
        self._latest: dict[bool, tuple[Acceptance, int, Posterior]] = {}  # its own, and another one
        self._reached: list[float] = []  # the tolerance of every round's proposals
        self._close = max(CLOSE, 20 * self.space.dimension)
        if self._chooses:  # the bias of a tolerance is weighed against the error of the whole budget
            self._close = int(max(self._close, self._most // 50))
        if self._most < math.inf:
            self._close = int(min(self._close, max(8, self._most // 16)))
        self._first()

    # ------------------------------------------------------------ state

    @property
    def finished(self) -> bool:
        return bool(self._ended)

    @property
    def ended(self) -> str:
        return self._ended

    @property
    def simulations(self) -> int:
        return self.store.simulations

    @property
    def settled(self) -> bool:
        return self._at_wanted

    @property
    def wanted_tolerance(self) -> float | None:
        return None if self._event or (self._chooses and not self._at_wanted) else self.wanted.tolerance

    @property
    def tolerance(self) -> float:
        """The wanted one, or while the run descends that of its proposals."""
        return self.wanted.tolerance if self._at_wanted else self._reached[-1]

    # ------------------------------------------------------------ rounds and blocks

    def _open(self, proposals: Sequence[Proposal], size: float, tolerance: float, *, even: bool = False) -> None:
        """Plan a round of about so many simulations, in equal parts for the groups."""
        left = self._most - self.simulations
        size = min(size, left, MOST_ROUND)
        if not even and left - size < LEAST_ROUND:
            size = left
        self._even = even
        self._sizes = self._shared_out(int(size))
        self._drawn: dict[int, Particles] = {}
        self._reached.append(tolerance)
        self.store.proposals.append(proposals)

    def _first(self) -> None:
        prior: list[Proposal] = [FromPrior(self.space)] * self.method.groups
        self._open(prior, 2 * self._close, math.inf)

    def _shared_out(self, size: int) -> list[int]:
        """The sizes of blocks; block b is of group b modulo their number."""
        groups = self.method.groups
        mine = [size // groups + (a < size % groups) for a in range(groups)]
        blocks = max(1, math.ceil(mine[0] / self.block_size))
        if self._even:  # two scrambles of a group at least, or nothing would tell their variance
            blocks = max(blocks, SCRAMBLES // groups, 2)
        sizes = [n // blocks + (b < n % blocks) for b in range(blocks) for n in mine]
        while len(sizes) > 1 and sizes[-1] == 0:  # fewer simulations than groups
            sizes.pop()
        return sizes

    def _blocks(self) -> int:
        return len(self._sizes)

    def _block(self, block: int) -> Batch:
        self._drawn[block] = particles = self._draw(self.round, block, self._sizes[block], self._even)
        points = self.space.points(particles).with_derived(self.problem.derived)
        return Batch(self.round, block, points, None, self.seeds)

    def _draw(self, round: int, block: int, size: int, even: bool) -> Particles:
        """A block's particles; the same whenever it is asked, once its round has begun."""
        rng = self.seeds.generator(Purpose.DESIGN, round, block)
        proposal = self.store.proposals[round][block % self.method.groups]
        if not even:
            return proposal.draw(rng, size)
        assert isinstance(proposal, Learned)
        return proposal.from_unit(scrambled(size, proposal.unit_dimension, rng))

    def _absorb(self, batch: Batch, outcomes: Outcomes) -> None:
        recorded: Mapping[str, npt.NDArray[Any]] = {}
        summaries = cost = failure = None
        if isinstance(outcomes, Tally):
            distance, seen = np.where(outcomes.weight > 0, 0.0, np.inf), outcomes.seen
        else:
            outcomes = require_simulated(outcomes)
            distance, seen = self.problem.distances(outcomes, self.wanted.tolerance)
            recorded = outcomes.columns
            summaries, cost, failure = numbers(outcomes.summaries), outcomes.cost, failures(outcomes, distance)
        if self.method.per == "second":
            cost = self.problem.costs(batch, outcomes)
            if cost is None:
                raise InputError("a run per second was told a block without costs; make outcomes by fbar.simulate")
        self.seen = self.seen + seen
        particles, group = self._drawn.pop(batch.block), batch.block % self.method.groups
        near = np.flatnonzero(accepted(self.wanted, distance))
        self.store.add(
            Entry(self.round, group, particles, distance, recorded, summaries, cost, failure, self._even, near)
        )

    def _all_failed(self) -> None:
        self.store.everything.all_failed()

    # ------------------------------------------------------------ learning

    def _end_round(self) -> None:
        if self.simulations >= self._most:
            self._ended = "budget spent"
            if self._chooses and not self._at_wanted:
                self._choose(self._closest())
                self.warnings.append(
                    f"the budget ended before a tolerance was found whose bias is small beside the error bar: at "
                    f"{self.wanted.tolerance:.4g} it may be larger; raise the budget, or compare by fewer summaries"
                )
            if self._chooses and self.seen.closest >= 0.999 * self.wanted.tolerance > 0:
                self.warnings.append(
                    f"no simulation came closer to the data than {self.seen.closest:.4g}, the tolerance that was "
                    "chosen; check that the simulator can give such data"
                )
            if not self._at_wanted:  # the last round may have come close enough
                self._at_wanted = all(self._closer(a) <= self.wanted.tolerance for a in range(self.method.groups))
            if not self._at_wanted:
                far = self._reached[-1]
                where = f"had reached the tolerance {far:.4g}" if far < math.inf else "were still those of the prior"
                self.warnings.append(
                    f"the budget ended while simulations were still coming closer to the data: proposals {where}, not "
                    f"the wanted {self.wanted.tolerance:g}; extend the run, or look at a larger tolerance"
                )
            return
        self._advance()

    def _advance(self) -> None:
        """Plan the next round."""
        groups = range(self.method.groups)
        if self._kept is not None:
            self._go_on()
            return
        if not self._at_wanted:
            closer = [self._closer(a) for a in groups]
            if self._chooses and self.round > 1:
                # Twice in a row, since the bias is known with an error.
                self._passed = self._passed + 1 if self._fine_enough(max(closer)) else 0
                if self._passed == 2:
                    self._choose(max(closer))
            self._at_wanted = self._at_wanted or all(t <= self.wanted.tolerance for t in closer)
        if not self._at_wanted and max(closer) == math.inf:  # nothing but failures among the others of some group
            self._repeat()
            return
        if not self._at_wanted:
            proposals = [self._lesson(a, Acceptance(closer[a]), None).proposal for a in groups]
            # Rounds grow, so that they are few where even the best proposal comes close rarely.
            self._open(proposals, max(2 * self._close, self.simulations // 2), max(closer))
            return
        hit = self.store.everything.accepted(self.wanted)[0]
        there = hit.size
        own = np.bincount(self.store.everything.group_of(hit), minlength=self.method.groups)
        if there < 2 * self.method.groups or there - own.max() < 2:  # nothing to learn from yet
            self._repeat()
            return
        lessons = [self._lesson(a, self.wanted, self.aim) for a in groups]
        if there >= ENOUGH and (self._models_known(hit) or 2 * self.simulations > self._most):
            self._kept = [lesson.proposal for lesson in lessons]
            self._evenly = float(np.mean([lesson.removable for lesson in lessons])) > GAIN
            self._go_on()
            return
        first, last = self.store.of_round(self.round - 1)
        rate = max((hit >= first).sum() / (last - first), there / self.simulations)
        size = min(max(LEAST_ROUND, there / rate), self.simulations)
        self._open([lesson.proposal for lesson in lessons], size, self.wanted.tolerance)

    def _models_known(self, hit: IntArray) -> bool:
        """Whether every model that was accepted at all was accepted often enough for a proposal of its own."""
        hits = np.bincount(self.store.take(hit).model)
        return bool((hits[hits > 0] >= KNOWN).all())

    def _repeat(self) -> None:
        """As many simulations again, from the same proposals."""
        self._open(list(self.store.proposals[-1]), self.simulations, self._reached[-1])

    def _go_on(self) -> None:
        """The rest of the budget with the proposals that are there; without one, rounds that grow."""
        assert self._kept is not None
        left, at = self._most - self.simulations, self.wanted.tolerance
        size = left if self.budget is not None else min(left, max(LEAST_ROUND, self.simulations // 4))
        # Points are best spread evenly in powers of two, one for each scramble; the rest is left for later rounds.
        each = 2 ** int(math.log2(max(size / SCRAMBLES, 1)))
        even = self._evenly and each >= 16
        self._open(self._kept, each * SCRAMBLES if even else size, at, even=even)

    def _closer(self, group: int) -> float:
        """The tolerance that enough of the other groups' simulations are within, not below the wanted one."""
        others = self.simulations - int(self.store.counts()[:, group].sum())
        return max(self.wanted.tolerance, self.store.everything.nearest(min(self._close, others // 4), without=group))

    def _closest(self) -> float:
        return self.store.everything.nearest(min(self._close, self.simulations // 4))

    def _lesson(self, group: int, acceptance: Acceptance, aim: Aim | None) -> Lesson:
        rng = self.seeds.generator(Purpose.DESIGN, self.round, 2**32 - 1 - group)
        return learn(self.store, group, acceptance, aim, self.defence, rng)

    # ------------------------------------------------------------ a tolerance from the budget

    def _choose(self, tolerance: float) -> None:
        self.wanted = Acceptance(tolerance, self.method.kernel if tolerance > 0 else "uniform")
        self._at_wanted = True

    def _fine_enough(self, tolerance: float) -> bool:
        """Whether the tolerance is low enough for the budget, by the rule of `fbar.methods.targeted.tolerance`."""
        if tolerance == 0:
            return True
        try:
            near, far = self.posterior_at(tolerance), self.posterior_at(2 * tolerance)
        except NoPosterior:
            return False
        first, last = self.store.of_round(self.round - 1)
        rate = self.store.everything.within(tolerance, first, last) / (last - first)
        return low_enough(near, far, self.targets, (self._most - self.simulations) * rate)

    # ------------------------------------------------------------ records and extensions

    def round_state(self) -> dict[str, npt.NDArray[Any]] | None:
        if self._ended or not all(isinstance(q, Learned) for q in self.store.proposals[-1]):
            return None
        plan = [len(self._sizes), sum(self._sizes), self._even, self._evenly, self._kept is not None, self._at_wanted]
        found = {"plan": np.array(plan, dtype=np.float64)}
        found["tolerances"] = np.array([self.wanted.tolerance, self._reached[-1]])
        for a, proposal in enumerate(self.store.proposals[-1]):
            assert isinstance(proposal, Learned)
            found |= {f"{a}/{name}": array for name, array in proposal.arrays().items()}
        return found

    def restore_round(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        _, size, even, evenly, kept, at_wanted = state["plan"]
        wanted, self._reached[-1] = (float(t) for t in state["tolerances"])
        self.wanted = Acceptance(wanted, self.method.kernel if wanted > 0 else "uniform")
        self._even, self._evenly, self._at_wanted = bool(even), bool(evenly), bool(at_wanted)
        self._sizes = self._shared_out(int(size))
        own = self.round_state()
        same = own is not None and set(own) == set(state)
        if own is None or not same or not all(np.array_equal(own[name], array) for name, array in state.items()):
            proposals: list[Proposal] = []
            for a in range(self.method.groups):
                mine = {n.partition("/")[2]: array for n, array in state.items() if n.startswith(f"{a}/")}
                proposals.append(Learned.of(mine, self.space, self.defence))
            self.store.proposals[-1] = proposals
        self._kept = list(self.store.proposals[-1]) if kept else None

    def _extend(self, tolerance: float | None) -> None:
        if not self.problem.records:
            self.problem.check_targets(self.targets)
        aim = Aim.of(self.targets, self.method.goal, self.method.importance)
        if tolerance is not None and tolerance != self.wanted.tolerance:
            if self._at_wanted and tolerance > self.wanted.tolerance:
                raise InputError(
                    f"the run is at the tolerance {self.wanted.tolerance:g} already; a larger one needs no simulation: "
                    f"result.at({tolerance:g})"
                )
            self.wanted = Acceptance(tolerance, self.method.kernel if tolerance > 0 else "uniform")
            self.problem.check_acceptance(self.wanted)
            self._at_wanted, self._kept, self._chooses = self._event, None, False
        if [t.name for t in aim.targets] != [t.name for t in self.aim.targets]:
            self._kept = None
        self.aim, self._ended = aim, ""
        self.warnings.clear()  # of the end that this goes beyond
        if len(self.store.proposals) > self.round:  # planned, and not asked for
            self.store.proposals.pop()
            self._reached.pop()
        if self.simulations:
            self._advance()
        else:
            self._first()

    # ------------------------------------------------------------ what comes out

    def posterior(self) -> Posterior:
        return self.posterior_at(self.wanted.tolerance)

    def posterior_at(self, tolerance: float) -> Posterior:
        if not self.simulations:
            raise NoPosterior("no simulations were told yet; ask the run for batches and tell it their outcomes")
        at = non_negative_number(tolerance, "tolerance")
        asked = Acceptance(at, self.method.kernel if 0 < at < math.inf else "uniform")
        if (found := self._known(asked)) is not None:
            return found
        own = asked == self.wanted
        self._latest.pop(own, None)  # before another one is made: each holds all that was accepted
        posterior = self._estimated(self.store, asked)
        self._latest[own] = asked, self.simulations, posterior
        return posterior

    def _known(self, asked: Acceptance) -> Posterior | None:
        """A posterior that was taken before, and from as many simulations."""
        return next((p for at, n, p in self._latest.values() if (at, n) == (asked, self.simulations)), None)

    def _estimated(self, store: Crossfitted, asked: Acceptance) -> Posterior:
        posterior = store.posterior(asked, self.seen)
        draws = posterior.draws
        assert draws is not None
        share = float(draws.weight @ np.exp(draws.log_w)) / draws.simulations
        return self._told_apart(posterior, asked.tolerance, share)

    def glance(self) -> Posterior:
        if (found := self._known(self.wanted)) is not None:
            return found
        if not self.simulations:
            return self.posterior()
        return self._estimated(self.store.copy(), self.wanted)

    @property
    def chooses_tolerance(self) -> bool:
        return self._chooses

    def _drawn_from(self) -> Crossfitted:
        return self.store

    def _own_tolerance(self) -> float:
        return self.wanted.tolerance

    def _curve_tolerances(self) -> list[float]:
        """Larger ones too, since every simulation is kept."""
        own = self._own_tolerance()
        far = max(
            (float(d[np.isfinite(d)].max(initial=0.0)) for _, d in self.store.everything.distances()), default=0.0
        )
        larger = [own * 2 ** (k / 2) for k in range(WIDER, 0, -1)]
        return [tolerance for tolerance in larger if own < tolerance < far] + super()._curve_tolerances()

    def _distances_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.store.everything.distance.take(rows))

    def _summaries_of(self, rows: IntArray, size: int) -> FloatArray:
        return self.store.everything.summaries.flat(rows, size)

    def stages(self) -> list[Stage]:
        return account.stages(self.store, self._reached, self.wanted, events=self._event)

    def places(self, most: int) -> Points | None:
        return account.simulated_points(self.store, most)

    @property
    def learning(self) -> bool:
        return self._kept is None and not self.finished

    def ahead(self, posterior: Posterior, target: Target) -> Ahead:
        found = account.learnt_ahead(self.store, posterior, target)
        return super().ahead(posterior, target) if found is None else found
