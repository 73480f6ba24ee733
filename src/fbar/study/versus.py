"""Score against score: where one that is easy to have misleads about the one that matters (figure S5 g–l)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fbar.checks import share
from fbar.study.ranking import Ranking, Verdict

if TYPE_CHECKING:
    from fbar.study.results import StudyResult


@dataclass(frozen=True)
class Versus:
    """Two scores of the same trials.

    ``points`` has the two means of each problem, budget and method. ``misled`` are the pairs of methods that both
    scores rank significantly but in opposite ways; ``agreed`` those ranked in the same way.
    """

    x: str
    y: str
    points: tuple[dict[str, Any], ...]
    misled: tuple[tuple[Verdict, Verdict], ...]
    agreed: tuple[tuple[Verdict, Verdict], ...]
    open: int

    def __str__(self) -> str:
        lines = [
            f"{self.x} against {self.y}: of the pairs that both rank significantly, {len(self.agreed)} in the same "
            f"way, {len(self.misled)} in opposite ways; {self.open} are undecided"
        ]
        lines += [
            f"  {v.problem}, {v.budget:,}: {self.x} prefers {u.better}, {self.y} {v.better} "
            f"(ratio of {self.y} {v.comparison.ratio:.3g}, {v.first} over {v.second})"
            for u, v in self.misled
        ]
        return "\n".join(lines)


def versus(result: StudyResult, x: str, y: str, level: float) -> Versus:
    """Both rankings at half the level each, so that any wrong verdict in either has at most the level's chance."""
    level = share(level, "level")
    by_x, by_y = result.ranking(x, level=level / 2), result.ranking(y, level=level / 2)
    misled, agreed, still_open = [], [], 0
    for u, v in zip(by_x.verdicts, by_y.verdicts, strict=True):
        if u.better is None or v.better is None:
            still_open += 1
        elif u.better == v.better:
            agreed.append((u, v))
        else:
            misled.append((u, v))
    return Versus(by_x.score, by_y.score, _points(by_x, by_y), tuple(misled), tuple(agreed), still_open)


def _points(x: Ranking, y: Ranking) -> tuple[dict[str, Any], ...]:
    other = {(s.problem, s.budget, s.method): s for s in y.standings}
    rows = []
    for s in x.standings:
        t = other[s.problem, s.budget, s.method]
        row = {"problem": s.problem, "budget": s.budget, "method": s.method, "x": s.mean, "x_error": s.error}
        rows.append({**row, "y": t.mean, "y_error": t.error})
    return tuple(rows)
