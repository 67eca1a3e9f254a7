"""Selectors: CEL expressions that choose devices. An answer is kept with the device it is about."""

from collections import OrderedDict
from typing import Final

import msgspec

from stowplan.cel import devices as cel
from stowplan.cluster.devices import DeviceRef
from stowplan.plugins.dynamicresources.features import Features

_MOST_COMPILED: Final = 256


class CompileError(Exception):
    """An expression that cannot be compiled."""


class EvaluationError(Exception):
    """An expression that fails for a device."""


class Selectors:
    """Compiled expressions, the latest kept, and what they say of devices.

    What they said holds as long as the slice of the device does not change.
    """

    def __init__(self, features: Features) -> None:
        self._features = cel.Features(
            consumable_capacity=features.consumable_capacity, list_attributes=features.list_attributes
        )
        self._compiled: OrderedDict[str, cel.Compiled | CompileError] = OrderedDict()

    def matches(self, expression: str, ref: DeviceRef) -> bool:
        """Whether an expression chooses a device. Raises CompileError, EvaluationError."""
        kept = ref.matches.get(expression)
        if kept is None:
            kept = ref.matches[expression] = self._evaluated(expression, ref)
        if isinstance(kept, Exception):
            raise kept
        return kept

    def _evaluated(self, expression: str, ref: DeviceRef) -> bool | Exception:
        compiled = self._compile(expression)
        if isinstance(compiled, CompileError):
            return compiled
        found = compiled.match(self._seen(ref))
        return found.matched if found.error is None else EvaluationError(found.error)

    def _seen(self, ref: DeviceRef) -> cel.Device:
        """A device as expressions see it, made when the first asks for it."""
        if not isinstance(ref.seen, cel.Device):
            data = msgspec.to_builtins(ref.device)
            ref.seen = cel.device_of(ref.id[0], data, list_attributes=self._features.list_attributes)
        return ref.seen

    def _compile(self, expression: str) -> cel.Compiled | CompileError:
        found = self._compiled.get(expression)
        if found is not None:
            self._compiled.move_to_end(expression)
            return found
        try:
            found = cel.compile_selector(expression, self._features)
        except cel.SelectorError as cause:
            found = CompileError(cause.message)
        self._compiled[expression] = found
        if len(self._compiled) > _MOST_COMPILED:
            self._compiled.popitem(last=False)
        return found
