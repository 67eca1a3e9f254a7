"""Selectors: expressions that choose devices, asked once per device."""

from collections import OrderedDict
from typing import Final, Protocol

from stowplan.cluster.devices import DeviceRef


class SelectorError(Exception):
    """Why an expression cannot be compiled, or what went wrong when it was evaluated."""


class CompiledSelector(Protocol):
    def matches(self, ref: DeviceRef) -> bool:
        """Whether a device is chosen. Raises SelectorError."""
        ...


class Compiler(Protocol):
    def __call__(self, expression: str) -> CompiledSelector:
        """Raises SelectorError."""
        ...


_MOST_COMPILED: Final = 256


class Selectors:
    """Compiled expressions, the latest kept, and what they say of devices.

    An answer is kept with the device: it holds as long as the slice does not change.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._compiled: OrderedDict[str, CompiledSelector | SelectorError] = OrderedDict()

    def matches(self, expression: str, ref: DeviceRef) -> bool:
        """Whether an expression chooses a device. Raises CompileError or EvaluationError."""
        kept = ref.matches.get(expression)
        if kept is None:
            kept = ref.matches[expression] = self._evaluated(expression, ref)
        if isinstance(kept, Exception):
            raise kept
        return kept

    def _evaluated(self, expression: str, ref: DeviceRef) -> bool | Exception:
        compiled = self._compile(expression)
        if isinstance(compiled, SelectorError):
            return CompileError(str(compiled))
        try:
            return compiled.matches(ref)
        except SelectorError as cause:
            return EvaluationError(str(cause))

    def _compile(self, expression: str) -> CompiledSelector | SelectorError:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = self._compiler(expression)
            except SelectorError as cause:
                found = cause
            self._compiled[expression] = found
            if len(self._compiled) > _MOST_COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return found


class CompileError(Exception):
    """An expression that cannot be compiled."""


class EvaluationError(Exception):
    """An expression that fails for a device."""
