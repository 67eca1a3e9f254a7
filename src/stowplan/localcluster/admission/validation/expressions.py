"""CEL expressions that are stored: their syntax, and whether one can be a condition. Nothing is evaluated.

Names and the types of fields are not checked, so an expression that is refused is refused by a real API
server too, but not the other way round.
"""

from collections.abc import Iterator
from typing import Final

from stowplan.api.cel.parser import parse
from stowplan.api.cel.recursion import EXPRESSION, DeepStack
from stowplan.api.cel.syntax import Call, ListNode, Literal, MapNode, Node, render
from stowplan.api.cel.values import type_name
from stowplan.api.fielderrors import FieldError, invalid, required
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.table import Check

_SAME_TYPE: Final = {"_?_:_": 1, "_+_": 0, "_-_": 0, "_*_": 0, "_/_": 0, "_%_": 0, "-_": 0}
"""Operators whose result has the type of their operands, from this one on."""


def expression(field: str, *, boolean: bool = False) -> Check:
    """Checks of an expression that must be there."""
    missing = f"{field} is not specified" if boolean else ""

    def check(holder: Json, path: str) -> Iterator[FieldError]:
        text = (holder.get(field) or "").strip()
        problem = expression_problem(text, boolean=boolean) if text else ""
        if not text:
            yield required(f"{path}.{field}", missing)
        elif problem:
            yield invalid(f"{path}.{field}", text, problem)

    return check


def expression_problem(text: str, *, boolean: bool = True) -> str:
    """Error of an expression, which may have to be a condition; empty if there is none."""
    with DeepStack(EXPRESSION):
        root, issues = parse(text)
        if root is None:
            return f"compilation failed: {render(text, issues)}"
        found = _type_of(root) if boolean else "dyn"
    return "" if found in ("bool", "dyn") else f"must evaluate to bool or the unknown type, not {found}"


def _type_of(node: Node) -> str:
    """The type of a constant expression; `dyn` of all others."""
    match node:
        case Literal():
            return type_name(node.value)
        case ListNode():
            return "list"
        case MapNode():
            return "map"
        case Call() if node.function in _SAME_TYPE:
            found = {_type_of(operand) for operand in node.args[_SAME_TYPE[node.function] :]}
            return found.pop() if len(found) == 1 else "dyn"
    return "dyn"
