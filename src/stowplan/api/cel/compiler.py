"""Text to program, in any environment."""

from typing import NamedTuple

from stowplan.api.cel.checker import Checked, Environment, check
from stowplan.api.cel.cost import CostRelease
from stowplan.api.cel.parser import parse
from stowplan.api.cel.program import Program, plan
from stowplan.api.cel.recursion import EXPRESSION, DeepStack
from stowplan.api.cel.syntax import CelError, render
from stowplan.api.cel.types import Type


class PlanError(CelError):
    """An expression that is well formed, but of which a constant part fails. `output` is its type."""

    def __init__(self, message: str, output: Type) -> None:
        super().__init__(message)
        self.output = output


class Expression(NamedTuple):
    """A checked expression with its program."""

    checked: Checked
    program: Program


def compile_expression(text: str, environment: Environment, release: CostRelease) -> Expression:
    """The expression, ready to be evaluated. Raises CelError with the words of cel-go."""
    try:
        with DeepStack(EXPRESSION):
            return _compiled(text, environment, release)
    except RecursionError:
        raise CelError("compilation failed: expression nests too deeply") from None


def _compiled(text: str, environment: Environment, release: CostRelease) -> Expression:
    root, issues = parse(text)
    if root is None:
        raise CelError(f"compilation failed: {render(text, issues)}")
    checked, issues = check(root, environment)
    if issues:
        raise CelError(f"compilation failed: {render(text, issues)}")
    try:
        return Expression(checked, plan(checked, tuple(environment.variables), release))
    except CelError as error:
        raise PlanError(f"program instantiation failed: {error}", checked.type(root)) from None
