"""Recomputes the formulas of derived values.

Knows arithmetic and names of cited fields; no functions, no physics.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from hw_profiles.cited import CitedValue
from hw_profiles.errors import ProfileError

Value = float | tuple["Value", ...]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(formula: str, names: Mapping[str, Any]) -> Value:
    """Compute a formula made of numbers, ``+ - * /``, brackets, lists and dotted names.

    Parameters
    ----------
    formula : str
        Such as ``"dram.clock_hz * dram.bytes_per_cycle"``.
    names : mapping of str to object
        What the first part of a dotted name may be; further parts are fields of profiles or keys of tables.

    Returns
    -------
    float or nested tuple of float
        The value, in the units of its parts.

    Raises
    ------
    ProfileError
        If the text is no such formula, or a name leads nowhere.
    """
    try:
        tree = ast.parse(formula, mode="eval")
    except SyntaxError as error:
        raise ProfileError(f"formula {formula!r}: is not arithmetic ({error.msg}).") from error
    return _compute(tree.body, formula, names)


def _compute(node: ast.expr, formula: str, names: Mapping[str, Any]) -> Value:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        return float(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_compute(item, formula, names) for item in node.elts)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _compute(node.left, formula, names), _compute(node.right, formula, names)
        if isinstance(left, float) and isinstance(right, float):
            if isinstance(node.op, ast.Div) and right == 0:
                raise ProfileError(f"formula {formula!r}: divides by zero.")
            return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Name | ast.Attribute):
        return _look_up(ast.unparse(node), formula, names)
    raise ProfileError(
        f"formula {formula!r}: {ast.unparse(node)!r} is not allowed; allowed: numbers, + - * /, lists, names."
    )


def _look_up(dotted: str, formula: str, names: Mapping[str, Any]) -> float:
    here: Any = names
    for part in dotted.split("."):
        if isinstance(here, CitedValue):
            here = here.value
        if isinstance(here, Mapping) and part in here:
            here = here[part]
        elif isinstance(here, BaseModel) and part in type(here).model_fields:
            here = getattr(here, part)
        else:
            raise ProfileError(
                f"formula {formula!r}: {dotted!r} leads nowhere at {part!r}; needed: a cited field or row."
            )
    if isinstance(here, CitedValue):
        here = here.value
    if isinstance(here, (int, float)) and not isinstance(here, bool):
        return float(here)
    raise ProfileError(f"formula {formula!r}: {dotted!r} is not one number.")
