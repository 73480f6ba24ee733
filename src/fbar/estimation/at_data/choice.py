"""Which region, order and bandwidth have the smallest total error, and how much of it is bias.

A *ladder* is a region with its regression (``Moved``) and weights at the data for bandwidths that are halved in share
from step to step (``Local``). The bias of a step is proportional to its curvature c, the mean squared distance of its
simulations. So the difference of the estimates at two steps, over the difference of their c, estimates β, the bias per
unit of c:

    b̂ = (f̂_h − f̂_g)/(c_h − c_g),    f̂_h has the bias β c_h.

For one number b̂ is mostly noise in more than a few dimensions, and a bias that cannot be measured is not zero. So β² is
pooled, in units of posterior deviations, over the companions of all questions (`fbar.estimation.at_data.moments`): the
mean of b̂² less the variance of b̂, which the influence values give; if that is negative, 0; plus some of its own
standard errors. For a regression of order 1, the local linear estimate is compared with the local quadratic one over
the same simulations instead, whose difference is β c itself: with less noise where dimensions are many. With many given
summaries there is a third order (`fbar.estimation.at_data.regressors`). What it changes in a lower one is another
estimate of β c at a wide step, with little noise between orders two and three; the smaller estimate is taken, unless
finer steps say that the bias may be as large as the posterior's spread. To this come

- what is significant at a finer step: two estimates may agree by accident, and a wider step has no less bias. Where up
  to three summaries are given, what two steps differ by is also looked at for all pairs of steps;
- what is significant between the regressions of one order and the next of a region: what the next order changed was
  wrong, and one after the last may change half as much again; and between a region and half of it;
- in more than a few dimensions, where the local regression sees little of it, the variance of the log scales that
  residuals are multiplied by: where the posterior's spread changes from simulation to simulation, draws that were moved
  are least to be trusted. Its factor is fitted, see docs/truth-study.md;
- what learned summaries may have lost.

The *assumption*: over problems and questions the bias of a number is like a draw of this size, and the curvature at s*
is not much larger than between the steps. The total error is V + β² c² d², d the posterior deviation of the number.

Order, region and step are chosen by the mean of V/d² + β² c² over the companions: once for all questions, so that
answers agree with one another, and one later question does not change another's. Where the draws of a region have parts
with a gap between them (`fbar.estimation.at_data.modes`), draws are not moved in larger regions without the gap: they
would be smeared, which the companions, in units of the deviation of all parts together, hardly show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, islice

from fbar.estimation.at_data.local import Local, local
from fbar.estimation.at_data.moments import Companions, Difference, Moments
from fbar.estimation.at_data.moving import Moved, move
from fbar.estimation.at_data.prepared import Prepared

SHARES = (0.8, 0.4, 0.2, 0.1, 0.05)
"""Regions: the nearest shares of the simulations."""

ORDERS = (0, 1, 2, 3)
"""Of the regression that moves draws; 0 leaves them where they are. There is a third one where summaries are many."""

STEPS, STEPS_UNMOVED = 6, 8
"""Bandwidths of a region, each of half the share of the one before; where draws are not moved more are tried."""

MOST_UNMOVED = 3
"""Dimensions in which draws may be left where they are."""

ENOUGH, UNSOUND = 20, 4.0
"""With fewer effective simulations than this the estimated error is itself unreliable: the squared error of such a step
must be smaller by this factor."""

APART = 2
"""A step's bias is estimated from its difference to the one this many steps below, or the last."""

NEXT_ORDER = 0.5
"""What the next order may change, in units of what the last one did."""

WIDE, TOO_UNSURE = 0.5, 1.0
"""Steps of at least this share of a region: what a higher order would change is most of their bias. Not where nearer
simulations do not even show that the bias is smaller than the posterior's spread: there all orders may be wrong."""

EVEN, UNEVEN = 0.005, 2.5
"""A variance of the log scales that chance gives, and what the rest of it is multiplied by."""


@dataclass(frozen=True, eq=False)
class Step:
    """A bandwidth of a region. ``bias`` is the pooled β² c², and ``error`` the mean total error, both in units of
    posterior variances; ``finer`` the step that it was compared with. ``unusual`` is a small p-value of the data among
    simulations of the same learned summaries (`fbar.estimation.at_data.loss_at_unusual_data`).
    """

    moved: Moved
    weights: Local
    share: float
    variance: float
    bias: float
    finer: Local | None
    unusual: float | None = None

    @property
    def error(self) -> float:
        return self.variance + self.bias


class _Ladders:
    """The ladders of what was prepared, by order and region: each is made when it is first asked for.

    ``last`` is the highest order there is.
    """

    def __init__(self, prepared: Prepared, steps: Sequence[float], unmoved: Sequence[float], last: int = 0) -> None:
        self.prepared = prepared
        self.last = max(last, ORDERS[-1] if prepared.bending else ORDERS[-2])
        self._steps, self._unmoved = steps, unmoved
        self._made: dict[tuple[int, float], _Ladder | None] = {}

    def of(self, order: int, share: float) -> _Ladder | None:
        """The ladder of a region; None where that has too few simulations for the order."""
        key = order, share
        if key not in self._made:
            moved = move(self.prepared, share, order) if order <= self.last else None
            self._made[key] = None if moved is None else self.from_moved(moved)
        return self._made[key]

    def from_moved(self, moved: Moved) -> _Ladder:
        return _Ladder(moved, self._steps if moved.order else self._unmoved, self)


class _Ladder:
    """The weights of a region for several bandwidths, and their moments once they are asked for."""

    def __init__(self, moved: Moved, shares: Sequence[float], others: _Ladders) -> None:
        self.moved, self.shares, self.others = moved, shares, others
        self.weights: list[Local] = []
        for share in shares:
            weights = local(moved, share)
            if weights is None:
                break
            self.weights.append(weights)
        self.seen = moved.seen
        self._known: dict[int, Moments] = {}
        self._surely: dict[int, float] = {}
        self._errors: dict[int, tuple[list[float], Iterator[float]]] = {}

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def companions(self) -> Companions:
        return Companions.around(self.seen, self.weights[-1])

    def moments(self, j: int) -> Moments:
        if j not in self._known:
            self._known[j] = self.companions.moments(self.seen, self.weights[j])
        return self._known[j]

    def step(self, j: int, error: float) -> Step:
        """A step with its error."""
        last = len(self) - 1
        finer = self.weights[min(j + APART, last)] if j < last else None
        variance = self.moments(j).mean_variance
        return Step(self.moved, self.weights[j], self.shares[j], variance, error - variance, finer)

    def errors(self, j: int) -> Iterator[float]:
        """Numbers that the total error of a step is not below; the last one is the error. Each costs more to know.

        The error is infinite where there is nothing to compare a step with.
        """
        known, further = self._errors.setdefault(j, ([], self._found_errors(j)))
        for k in count():
            if k == len(known):
                known.extend(islice(further, 1))
            if k == len(known):
                return
            yield known[k]

    def _found_errors(self, j: int) -> Iterator[float]:
        known = self.moments(j).mean_variance + self.moved.prepared.loss
        if not self.weights[j].curvature > 0:  # at the data themselves
            yield known
            return
        known += self._unevenness(j)
        yield known
        sure = self._sure_from(j)
        yield known + sure
        near = self._curved(j) or self._narrowed(j)
        if near is None:
            yield math.inf
            return
        raised = self._raised(j) if near.bound < TOO_UNSURE else None
        ways = [way for way in (near, raised) if way is not None]
        bias = max(min(way.bound for way in ways), *(way.sure for way in ways), sure)
        yield known + bias
        again = 1.0 if self.moved.order < self._last else NEXT_ORDER**2
        for other, times in ((self._reordered(j), again), (self._nearer(j), 1.0)):
            bias = bias if other is None else max(bias, times * other.sure)
        yield known + bias

    def _sure_from(self, j: int) -> float:
        """What of the differences to finer steps is there beyond doubt, of this step or of one below it."""
        return max(self._sure(k) for k in range(j, len(self)))

    def _sure(self, j: int) -> float:
        """What of the difference to a finer step is there beyond doubt; where summaries are few, to any finer one."""
        if j not in self._surely:
            found = [self._narrowed(j)]
            if self.moved.prepared.simple:
                finer = (k for k in range(j + 1, len(self)) if self.weights[k].ess >= ENOUGH)
                found += [Difference.between(self.moments(j), self.moments(k)) for k in finer]
            self._surely[j] = max((one.sure for one in found if one is not None), default=0.0)
        return self._surely[j]

    def _curved(self, j: int) -> Difference | None:
        """The local linear estimate against the local quadratic one."""
        if self.moved.order != 1:
            return None
        curved = local(self.moved, self.shares[j], 2)
        if curved is None:
            return None
        return Difference.between(self.moments(j), self.companions.moments(self.seen, curved))

    def _narrowed(self, j: int) -> Difference | None:
        """A step against a finer one."""
        wide = min(j, len(self) - 2)
        if wide < 0:
            return None
        near = min(wide + APART, len(self) - 1)
        apart = self.weights[wide].curvature - self.weights[near].curvature
        if not apart > 0:
            return None
        return Difference.between(self.moments(wide), self.moments(near), (self.weights[j].curvature / apart) ** 2)

    @property
    def _third(self) -> _Ladder | None:
        """The third order in the same region; None where there is none, or too few simulations for it."""
        return self.others.of(3, self.moved.share)

    @property
    def _last(self) -> int:
        return 2 if self._third is None else 3

    def _raised(self, j: int) -> Difference | None:
        """A wide step of the first or second order against that of the third, which has few coefficients more.

        Discrete parameters and models are not moved: of these all orders say the same, with the same bias.
        """
        prepared = self.moved.prepared
        if prepared.fixed.size or prepared.model.any() or not self.moved.v.size:
            return None
        if self.moved.order not in (1, 2) or self.shares[j] < WIDE:
            return None
        return self._against(self._third, j, j)

    def _reordered(self, j: int) -> Difference | None:
        """The regression against that of the next order in the same region; of the last, against the one before."""
        order = self.moved.order
        other = order + 1 if order < self._last else order - 1
        return self._against(self.others.of(other, self.moved.share), j, j) if order else None

    def _nearer(self, j: int) -> Difference | None:
        """The regression against the same in half of the region, with the same simulations at the data if they do."""
        share = self.moved.share / 2
        if not self.moved.order or share < SHARES[-1]:
            return None
        return self._against(self.others.of(self.moved.order, share), j, max(j - 1, 0))

    def _against(self, other: _Ladder | None, j: int, k: int) -> Difference | None:
        if other is None or k >= len(other):
            return None
        return Difference.between(self.moments(j), self.companions.moments(other.seen, other.weights[k]))

    def _unevenness(self, j: int) -> float:
        """The variance of the log scales among the simulations of a step, times a factor."""
        if not (self.moved.prepared.many and self.moved.folds and self.moved.v.size):
            return 0.0
        omega, scale = self.weights[j].omega, self.moved.scales[self.weights[j].at]
        return UNEVEN * max(float((omega @ (scale - omega @ scale) ** 2).mean()) - EVEN, 0.0)


def ladder(moved: Moved, shares: Sequence[float]) -> list[Step]:
    """The steps of a region, with their errors."""
    steps = _Ladders(moved.prepared, shares, shares, moved.order).from_moved(moved)
    return [steps.step(j, max(steps.errors(j))) for j in range(len(steps))]


def choose(
    prepared: Prepared,
    shares: Sequence[float],
    orders: Sequence[int],
    steps: Sequence[float],
    *,
    first: bool = False,
    below: float = math.inf,
) -> Step | None:
    """The step of least total error, or of ``first`` steps only; None where there is none that is below a number.

    There is none where simulations are too few for any. Candidates wait with what their errors are not below, and only
    the first in the queue is looked at more closely.
    """
    ladders = _ladders(prepared, steps, first, max(orders) if len(orders) == 1 else 0)
    moved = [(order, share) for order in orders if order for share in shares]
    unmoved = 0 in orders and (len(orders) == 1 or prepared.z.shape[1] <= MOST_UNMOVED)
    return _least(ladders, [*([(0, shares[0])] if unmoved else []), *moved], first, below)


def choose_from(
    prepared: Prepared, order: int, share: float, steps: Sequence[float], *, first: bool = False
) -> Step | None:
    """The step of least total error, searched from an order and a region that fewer simulations chose.

    More simulations may be worth a smaller region or another order. So the next orders and half of the region are
    compared with the best so far, as long as one of them is better; most were fitted to estimate its bias.
    """
    ladders = _ladders(prepared, steps, first, order)
    best = _least(ladders, [(order, share)], first, math.inf)
    seen = {(order, share)}
    while best is not None:
        order, share = best.moved.order, best.moved.share
        near = (order - 1, order + 1) if order else (1, 2)
        others = [(other, share) for other in near if 0 < other <= ladders.last]
        others += [(order, share / 2)] if order else []
        new = [cell for cell in others if cell not in seen and cell[1] >= SHARES[-1]]
        seen.update(new)
        before, best = best, _least(ladders, [(order, share), *new], first, math.inf)
        if best is None or best.moved is before.moved:
            return before
    return best


def _ladders(prepared: Prepared, steps: Sequence[float], first: bool, last: int) -> _Ladders:
    return _Ladders(prepared, steps, steps if first else [0.5**k for k in range(STEPS_UNMOVED)], last)


def _least(ladders: _Ladders, cells: Sequence[tuple[int, float]], first: bool, below: float) -> Step | None:
    """The step of least total error in the ladders of some orders and regions; None where none is below a number.

    Regions whose modes have merged are left out, if others are left. Where summaries are few, a step of enough
    effective simulations is preferred to one of fewer, unless its error is much larger.
    """
    found = [made for made in (ladders.of(*cell) for cell in cells) if made is not None and len(made)]
    most = 1 if first else None
    steps = [(made, j) for made in found for j in range(len(made))[:most]]
    apart = [(made, j) for made, j in steps if not _merged(made, found)]
    best = _best(apart, below)
    if best is None and len(apart) < len(steps):
        best = _best(steps, below)
    if best is None or best.weights.ess >= ENOUGH or not ladders.prepared.simple:
        return best
    sound = [(made, j) for made, j in apart if made.weights[j].ess >= ENOUGH]
    return _best(sound, min(below, UNSOUND * best.error)) or best


def _merged(one: _Ladder, others: Sequence[_Ladder]) -> bool:
    """Whether draws are moved in a region that has fewer parts than a smaller one."""
    moved = one.moved
    return moved.order > 0 and any(
        other.moved.share < moved.share and other.moved.parts > moved.parts for other in others
    )


def _best(steps: Sequence[tuple[_Ladder, int]], below: float) -> Step | None:
    """The step of least total error among some; None where none is below a number."""
    queue: list[tuple[float, int, _Ladder, int, Iterator[float]]] = []
    for made, j in steps:
        errors = made.errors(j)
        heappush(queue, (next(errors), len(queue), made, j, errors))
    while queue and queue[0][0] < below:
        error, place, made, j, errors = heappop(queue)
        further = next(errors, None)
        if further is None:
            return made.step(j, error)
        heappush(queue, (further, place, made, j, errors))
    return None
