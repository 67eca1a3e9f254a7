"""Selectors as CEL expressions over a device."""

from stowplan.plugins.dynamicresources.selectors import CompiledSelector, SelectorError


def compile_selector(expression: str) -> CompiledSelector:
    """Raises SelectorError."""
    raise SelectorError("expressions are not supported yet")
