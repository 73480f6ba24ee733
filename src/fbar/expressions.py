"""Predicates written as text, such as ``"R0 > 3"`` or ``"abs(theta) < 2 and model == 'sir'"``.

The text is parsed and only arithmetic, comparisons, ``and``/``or``/``not`` and a few functions are
evaluated, elementwise over the columns; nothing else of Python can be reached.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fbar.errors import InputError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: np.logical_not,
    ast.Invert: np.logical_not,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


def _boolean(*values: Any) -> bool:
    return all(np.asarray(value).dtype == np.bool_ for value in values)


def _word(node: ast.AST) -> str:
    """What a part of an expression is to its writer."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _FUNCTIONS:
        return f"the function {node.func.id}"
    return type(node).__name__


class Expression:
    """A parsed expression; call it with a mapping of columns."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InputError(f"an expression is text such as 'beta > 3'; got {text!r}")
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise InputError(f"cannot read the expression {text!r}; write for example 'beta > 3'") from None
        self._check(self._tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that it speaks of."""
        found = [node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS]
        return tuple(dict.fromkeys(found))

    def _check(self, tree: ast.AST) -> None:
        allowed = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)
        parts: list[ast.AST] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.operator | ast.boolop | ast.cmpop | ast.unaryop | ast.expr_context):
                known = (*_BINARY, *_COMPARE, *_UNARY, ast.And, ast.Or, ast.Load)
                ok = isinstance(node, known)
            elif isinstance(node, ast.Call):
                ok = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
            else:
                ok = isinstance(node, allowed)
            if not ok:
                parts.append(node)
        if parts:
            raise InputError(
                f"the expression {self.text!r} uses {_word(parts[0])}, which is not allowed; it may use + - * / ** %, "
                f"comparisons, and, or, not, and {', '.join(_FUNCTIONS)}; anything else takes a function of theta"
            )

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        try:
            return self._evaluate(self._tree, columns)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the expression {self.text!r} cannot be evaluated: {error}") from None

    def _evaluate(self, node: ast.AST, columns: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            # Numbers as floats: whole ones could grow without bound.
            if isinstance(node.value, int) and not isinstance(node.value, bool):
                return float(node.value)
            return node.value
        if isinstance(node, ast.Name):
            return columns[node.id]
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self._evaluate(node.operand, columns))
        if isinstance(node, ast.BinOp):
            left, right = self._evaluate(node.left, columns), self._evaluate(node.right, columns)
            if isinstance(node.op, ast.BitAnd | ast.BitOr) and not _boolean(left, right):
                raise InputError(
                    f"the expression {self.text!r} joins numbers by & or |, which bind tighter than comparisons; "
                    "write 'and' or 'or'"
                )
            return _BINARY[type(node.op)](left, right)
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            values = [self._evaluate(value, columns) for value in node.values]
            result = values[0]
            for value in values[1:]:
                result = join(result, value)
            return result
        if isinstance(node, ast.Compare):
            result = None
            left = self._evaluate(node.left, columns)
            for op, right_node in zip(node.ops, node.comparators, strict=True):
                right = self._evaluate(right_node, columns)
                held = _COMPARE[type(op)](left, right)
                result = held if result is None else np.logical_and(result, held)
                left = right
            return result
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return _FUNCTIONS[node.func.id](*(self._evaluate(argument, columns) for argument in node.args))
