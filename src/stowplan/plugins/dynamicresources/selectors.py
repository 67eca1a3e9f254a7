"""Selectors: CEL expressions that choose devices. An answer is kept with the device it is about."""

import time
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stowplan.api.devices import DeviceAttribute
from stowplan.cluster.devices import DeviceRef
from stowplan.lazy import lazy_module
from stowplan.plugins.dynamicresources.features import Features

if TYPE_CHECKING:
    from stowplan.cel import devices as cel
    from stowplan.cel import program
else:
    cel = lazy_module("stowplan.cel.devices")
    program = lazy_module("stowplan.cel.program")

_MOST_COMPILED: Final = 256
_MOST_COSTLY: Final = 4
"""After so many devices for which an expression ran into its cost limit, others are not tried for a while."""
_PAUSE: Final = 60.0
"""Seconds for which they are not tried."""


class CompileError(Exception):
    """An expression that cannot be compiled."""


class EvaluationError(Exception):
    """An expression that fails for a device."""


class _Costly(NamedTuple):
    """How often an expression ran into its cost limit, how that ended last, and until when it rests."""

    times: int
    error: EvaluationError
    until: float


class Selectors:
    """Compiled expressions, the latest kept, and what they say of devices.

    What they said holds as long as the slice of the device does not change. An expression that runs into its
    cost limit fails the attempt of its pod, whatever it would say of other devices. So that many devices do
    not hold up the scheduler, it is tried for a few of them only, and of the others the same is said.
    """

    def __init__(self, features: Features) -> None:
        self._enabled = features
        self._compiled: OrderedDict[str, cel.Compiled | CompileError] = OrderedDict()
        self._computing: OrderedDict[str, cel.Compiled] = OrderedDict()
        self._costly: OrderedDict[str, _Costly] = OrderedDict()

    @cached_property
    def _features(self) -> "cel.Features":
        """What expressions may use. Clusters without devices never compile one, nor load the compiler."""
        return cel.features_of(
            self._enabled.choices,
            consumable_capacity=self._enabled.consumable_capacity,
            list_attributes=self._enabled.list_attributes,
        )

    def matches(self, expression: str, ref: DeviceRef) -> bool:
        """Whether an expression chooses a device. Raises CompileError, EvaluationError."""
        kept = ref.matches.get(expression)
        if kept is None:
            costly = self._costly.get(expression)
            if costly is not None and costly.times >= _MOST_COSTLY and time.monotonic() < costly.until:
                raise costly.error
            kept = ref.matches[expression] = self._evaluated(expression, ref)
        if isinstance(kept, Exception):
            raise kept
        return kept

    def _evaluated(self, expression: str, ref: DeviceRef) -> bool | Exception:
        compiled = self._compile(expression)
        if isinstance(compiled, CompileError):
            return compiled
        found = compiled.match(self._seen(ref))
        if found.error is None:
            return found.matched
        error = EvaluationError(found.error)
        if found.error.startswith((program.LIMIT_EXCEEDED, program.INTERRUPTED)):
            self._note_costly(expression, error)
        return error

    def attribute(self, expression: str, ref: DeviceRef) -> DeviceAttribute:
        """The attribute that an expression computes of a device. Raises CompileError, EvaluationError."""
        compiled = self._computing.get(expression)
        if compiled is None:
            try:
                compiled = cel.compile_attribute(expression, self._features)
            except cel.SelectorError as cause:
                raise CompileError(cause.message) from None
            self._computing[expression] = compiled
            if len(self._computing) > _MOST_COMPILED:
                self._computing.popitem(last=False)
        try:
            return msgspec.convert(compiled.attribute(self._seen(ref)), DeviceAttribute)
        except cel.ComputeError as cause:
            raise EvaluationError(str(cause)) from None

    def _note_costly(self, expression: str, error: EvaluationError) -> None:
        before = self._costly.pop(expression, None)
        now = time.monotonic()
        times = 1 if before is None or before.until <= now else before.times + 1
        self._costly[expression] = _Costly(times, error, now + _PAUSE)
        if len(self._costly) > _MOST_COMPILED:
            self._costly.popitem(last=False)

    def _seen(self, ref: DeviceRef) -> "cel.Device":
        """A device as expressions see it, made when the first asks for it."""
        if not isinstance(ref.seen, cel.Device):
            data = msgspec.to_builtins(ref.device)
            ref.seen = cel.device_of(ref.id[0], data, list_attributes=self._features.list_attributes)
        return ref.seen

    def _compile(self, expression: str) -> "cel.Compiled | CompileError":
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
