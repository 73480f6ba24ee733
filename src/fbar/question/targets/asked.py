"""Targets as users give them: made by fbar.mean and the others, or their names as on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from fbar.checks import listed_of, shown
from fbar.errors import InputError
from fbar.question.targets.base import Target
from fbar.question.targets.registry import parse

SeveralTargets = Sequence[Target] | list[str] | list[Target | str] | tuple[Target | str, ...]
"""Several targets; a text is one, though Python takes it for a sequence of texts."""

AnyTargets = Target | str | Sequence[Target | str]
"""One target or several, each a `Target` or its name, such as ``"mean:theta"``."""


def as_targets(targets: AnyTargets) -> tuple[Target, ...]:
    """One target or several, as a tuple with distinct names.

    >>> as_targets(["mean:beta", "quantile:beta,0.9"])
    (<target mean:beta>, <target quantile:beta,0.9>)
    """
    if not isinstance(targets, Target | Sequence) or isinstance(targets, bytes):
        raise _none(targets)
    several = not isinstance(targets, Target | str)
    listed = tuple(map(as_target, listed_of(targets, "targets") if several else [targets]))
    if not listed:
        raise InputError("give at least one target, such as fbar.mean('theta')")
    names = [target.name for target in listed]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InputError(
            f"target {shown(sorted(twice)[0])} is given twice; remove one, or give functions different names with name="
        )
    return listed


def as_target(target: Target | str) -> Target:
    """One target."""
    if isinstance(target, str):
        return parse(target)
    if not isinstance(target, Target):
        raise _none(target)
    return target


def _none(given: object) -> InputError:
    return InputError(
        "a target is made by fbar.mean('theta'), fbar.probability('theta > 2'), …, or is a name such as 'mean:theta'; "
        f"got {shown(given)}"
    )
