"""Predicates and functions written as text, such as ``"R0 > 3"`` or ``"abs(theta) < 2 and model == 'sir'"``.

The text is parsed and only arithmetic, comparisons, ``and``/``or``/``not`` and a few functions are
evaluated, elementwise over the columns; nothing else of Python can be reached.

Numbers are 64-bit floats throughout, whatever the columns are: whole numbers would wrap around, and conditions that
are added would be joined. A comparison with what is not a number (NaN) is neither true nor false: it is unknown, and
so is what hangs on it (``a > 0 and log(a) > 1`` does not where a is negative). Unknown rows are refused, except where
a model lacks a parameter of the expression: there it does not hold.

An expression may come from somebody else's run. Its size is limited, and with it what it costs: every part of it is one
operation on 64-bit floats at each row, so that nothing in it can grow, neither whole numbers nor texts.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fbar.arrays import BoolArray
from fbar.checks import shown
from fbar.errors import InputError
from fbar.question.points import Points

MOST_CHARACTERS = 10_000
MOST_LEVELS = 200
MOST_PARTS = 2_000
"""How long and how deep an expression may be, and of how many names, numbers and operators."""
ROWS = 1 << 16
"""Rows that are evaluated at a time: what is held meanwhile does not grow with their number."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}
_JOIN: tuple[type[ast.AST], ...] = (ast.BitAnd, ast.BitOr)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_NOT: tuple[type[ast.AST], ...] = (ast.Not, ast.Invert)
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "abs": (np.abs, 1),
    "exp": (np.exp, 1),
    "log": (np.log, 1),
    "sqrt": (np.sqrt, 1),
    "minimum": (np.minimum, 2),
    "maximum": (np.maximum, 2),
}
"""The functions, and how many values each takes: numpy would write its result into a further one."""


@dataclass(frozen=True, eq=False)
class _Value:
    """Numbers, labels or truths at every row; of truths, where they are not known."""

    array: npt.NDArray[Any]
    unknown: BoolArray | None = None

    @property
    def kind(self) -> str:
        """``"condition"``, ``"number"`` or ``"label"``."""
        return {"b": "condition", "f": "number"}.get(self.array.dtype.kind, "label")

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """As numbers: 1 where a condition holds, NaN where that is not known."""
        if self.kind == "label":
            raise InputError("labels can only be compared by == and !=")
        values = np.asarray(self.array, dtype=np.float64)
        return values if self.unknown is None else np.where(self.unknown, np.nan, values)


def _word(node: ast.AST) -> str:
    """What a part of an expression is to its writer."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _FUNCTIONS:
        return f"the function {node.func.id:.40}"
    if isinstance(node, ast.Constant):
        return f"the constant {node.value!r:.40}"
    return type(node).__name__


class Expression:
    """A parsed expression; call it with a mapping of columns."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InputError(f"an expression is text such as 'beta > 3'; got {shown(text)}")
        if len(text) > MOST_CHARACTERS:
            raise InputError(
                f"an expression may have {MOST_CHARACTERS:,} characters; this has {len(text):,}: give a function of "
                "theta"
            )
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(f"cannot read the expression {text!r:.200}; write for example 'beta > 3'") from None
        self._check(self._tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that it depends on."""
        called = {node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        found = [node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node not in called]
        return tuple(dict.fromkeys(found))

    # ------------------------------------------------------------ what may stand in it

    def _check(self, tree: ast.AST) -> None:
        level: list[ast.AST] = [tree]
        parts = 0
        for _ in range(MOST_LEVELS):
            parts += len(level)
            if parts > MOST_PARTS:
                raise InputError(
                    f"the expression {self.text!r:.200} has more than {MOST_PARTS:,} names, numbers and operators; "
                    "give a function of theta"
                )
            for node in level:
                self._check_part(node)
            level = [child for node in level for child in ast.iter_child_nodes(node)]
            if not level:
                return
        raise InputError(
            f"the expression {self.text!r:.200} is nested more than {MOST_LEVELS} deep; give a function of theta"
        )

    def _check_part(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare):
            self._check_labels(node)
            return
        if isinstance(node, ast.operator | ast.boolop | ast.cmpop | ast.unaryop | ast.expr_context):
            known = (*_BINARY, *_JOIN, *_COMPARE, *_UNARY, *_NOT, ast.And, ast.Or, ast.Load)
            ok = isinstance(node, known)
        elif isinstance(node, ast.Call):
            ok = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
            if ok:
                self._check_arguments(node)
        elif isinstance(node, ast.Constant):
            ok = isinstance(node.value, bool | int | float | str)
            if ok and not isinstance(node.value, str) and not _finite(node.value):
                raise InputError(f"the expression {self.text!r:.200} has a number that is too large")
        else:
            ok = isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Name)
        if not ok:
            raise InputError(
                f"the expression {self.text!r:.200} uses {_word(node)}, which is not allowed; it may use + - * / ** %, "
                f"comparisons, and, or, not, and {', '.join(_FUNCTIONS)}; anything else takes a function of theta"
            )
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                raise self._cannot(f"labels such as {child.value!r:.40} can only be compared by == and !=")

    def _check_arguments(self, node: ast.Call) -> None:
        assert isinstance(node.func, ast.Name)
        _, takes = _FUNCTIONS[node.func.id]
        if len(node.args) != takes:
            raise InputError(
                f"{node.func.id} takes {takes} value{'s' if takes > 1 else ''}; in {self.text!r:.200} it is given "
                f"{len(node.args)}"
            )

    def _check_labels(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators[:-1]], node.ops, node.comparators, strict=True):
            texts = [c for c in (left, right) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
            if texts and not isinstance(op, ast.Eq | ast.NotEq):
                raise self._cannot("labels can only be compared by == and !=")

    def _cannot(self, why: object) -> InputError:
        return InputError(f"the expression {self.text!r:.200} cannot be evaluated: {why}")

    # ------------------------------------------------------------ what it gives

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        try:
            with np.errstate(all="ignore"):  # what is not finite is looked at where it matters
                found = self._found(columns)
            if found.kind == "label":
                raise self._cannot("it gives labels, neither numbers nor a condition")
            unknown = self._unknown(found, columns)
        except InputError as error:
            why = str(error)
            raise error if why.startswith("the expression ") or "parameter" in why else self._cannot(why) from None
        except Exception as error:
            raise self._cannot(error) from None
        if unknown is not None and unknown.any():
            row = int(np.argmax(unknown))
            where = f"at {columns.label(row)}" if isinstance(columns, Points) and unknown.ndim else f"in row {row}"
            raise InputError(
                f"the expression {self.text!r:.200} is not defined {where}: it compares something that is not a number "
                "(NaN); rule that out, as in 'a > 0 and log(a) > 1'"
            )
        return found.array

    def _unknown(self, found: _Value, columns: Mapping[str, Any]) -> BoolArray | None:
        """Where it is not known whether it holds, and all its parameters exist."""
        if found.unknown is None or not isinstance(columns, Points) or columns.complete:
            return found.unknown
        exist = np.logical_and.reduce([columns.present(name) for name in self.names])
        return np.asarray(found.unknown & exist)

    def _found(self, columns: Mapping[str, Any]) -> _Value:
        """Its value at all rows, some rows at a time."""
        used = {name: np.asarray(columns[name]) for name in self.names}
        shapes = {column.shape for column in used.values()}
        (rows,) = next(iter(shapes)) if len(shapes) == 1 and len(min(shapes)) == 1 else (0,)
        if rows <= ROWS:
            return self._evaluate(self._tree, used)
        parts = [
            self._evaluate(self._tree, {name: column[start : start + ROWS] for name, column in used.items()})
            for start in range(0, rows, ROWS)
        ]
        unknown = [np.broadcast_to(False if p.unknown is None else p.unknown, p.array.shape) for p in parts]
        known = all(part.unknown is None for part in parts)
        return _Value(np.concatenate([p.array for p in parts]), None if known else np.concatenate(unknown))

    def _evaluate(self, node: ast.AST, columns: Mapping[str, Any]) -> _Value:
        if isinstance(node, ast.Constant):
            value = node.value
            assert isinstance(value, bool | int | float | str)
            return _Value(np.asarray(value if isinstance(value, str | bool) else float(value)))
        if isinstance(node, ast.Name):
            return self._column(columns[node.id], node.id)
        if isinstance(node, ast.UnaryOp):
            inner = self._evaluate(node.operand, columns)
            if isinstance(node.op, _NOT):
                return _Value(~self._condition(inner, "not").array, inner.unknown)
            return _Value(np.asarray(_UNARY[type(node.op)](inner.numbers)))
        if isinstance(node, ast.BinOp):
            left, right = self._evaluate(node.left, columns), self._evaluate(node.right, columns)
            if isinstance(node.op, _JOIN):
                if (left.kind, right.kind) != ("condition", "condition"):
                    raise InputError(
                        f"the expression {self.text!r:.200} joins numbers by & or |, which bind tighter than "
                        "comparisons; write 'and' or 'or'"
                    )
                return _joined(isinstance(node.op, ast.BitAnd), left, right)
            return _Value(np.asarray(_BINARY[type(node.op)](left.numbers, right.numbers)))
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And)
            parts = (self._evaluate(part, columns) for part in node.values)  # one is held at a time
            return reduce(partial(_joined, both), (self._condition(part, "and" if both else "or") for part in parts))
        if isinstance(node, ast.Compare):
            operands = (self._evaluate(part, columns) for part in (node.left, *node.comparators))
            held = (self._compared(op, *pair) for op, pair in zip(node.ops, pairwise(operands), strict=True))
            return reduce(partial(_joined, True), held)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        arguments = [self._evaluate(argument, columns).numbers for argument in node.args]
        return _Value(np.asarray(_FUNCTIONS[node.func.id][0](*arguments)))

    def _column(self, given: Any, name: str) -> _Value:
        array = np.asarray(given)
        if array.dtype.kind in "iuf":
            return _Value(np.asarray(array, dtype=np.float64))
        if array.dtype.kind in "bUSO":
            return _Value(array)
        raise self._cannot(f"{shown(name)} holds {array.dtype} values, neither numbers nor labels")

    def _condition(self, value: _Value, word: str) -> _Value:
        if value.kind != "condition":
            raise self._cannot(f"{word!r} joins conditions such as 'a > 1', not {value.kind}s; write 'a != 0' for one")
        return value

    def _compared(self, op: ast.cmpop, left: _Value, right: _Value) -> _Value:
        compare = _COMPARE[type(op)]
        kinds = {left.kind, right.kind}
        if "label" not in kinds:
            if left.kind == right.kind == "condition" and isinstance(op, ast.Eq | ast.NotEq):
                unknown = _either(left.unknown, right.unknown)
                return _Value(np.asarray(compare(left.array, right.array)), unknown)
            a, b = left.numbers, right.numbers
            return _Value(np.asarray(compare(a, b)), np.asarray(np.isnan(a) | np.isnan(b)))
        if len(kinds) > 1:
            raise self._cannot("it compares labels with numbers; labels are written in quotes, as in model == 'sir'")
        if not isinstance(op, ast.Eq | ast.NotEq):
            raise self._cannot("labels can only be compared by == and !=")
        return _Value(np.asarray(compare(left.array, right.array), dtype=np.bool_))


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _either(first: BoolArray | None, second: BoolArray | None) -> BoolArray | None:
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(first | second)


def _joined(both: bool, left: _Value, right: _Value) -> _Value:
    """``and`` or ``or`` of truths that may be unknown (Kleene's logic): false, or true, on one side decides it."""
    unknown = _either(left.unknown, right.unknown)
    held = left.array & right.array if both else left.array | right.array
    if unknown is None:
        return _Value(np.asarray(held))
    decided: Any = False
    for side in (left, right):
        decided |= (side.array != both) if side.unknown is None else (side.array != both) & ~side.unknown
    return _Value(np.where(decided, not both, held), np.asarray(unknown & ~decided))
