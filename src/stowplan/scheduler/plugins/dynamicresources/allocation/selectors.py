"""Selectors: CEL expressions that choose devices. An answer is kept with the device it is about."""

from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from stowplan.api.devices import DeviceAttribute
from stowplan.runtime.lazy import lazy_module
from stowplan.scheduler.framework.advanced import Budget, Step, standing_still
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import DeviceRef

if TYPE_CHECKING:
    from stowplan.api.cel import devices as cel
    from stowplan.api.cel import program
else:
    cel = lazy_module("stowplan.api.cel.devices")
    program = lazy_module("stowplan.api.cel.program")

_MOST_COMPILED: Final = 256
_MOST_KEPT: Final = 256
"""Answers that are kept with one device; when there are more, all are worked out again."""
_MOST_COSTLY: Final = 4
"""An expression that ran into its cost limit for this number of devices is not tried on others for a
while."""
_PAUSE: Final = 60.0
"""Seconds for which they are not tried."""

QUICK: Final = 5_000
"""The cost of an evaluation that is run at once: some milliseconds. One that costs more is begun
again in a thread, up to the limit of the API (a million, which takes most of a second)."""
_QUICK_WORK: Final = 20_000
_SHORT: Final = 500
"""Characters of an expression that is compiled where everybody waits for it; the longest take 0.2 s."""


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
    """Compiled expressions, the latest kept, and their results for devices.

    A result holds as long as the slice of the device does not change. An expression that runs into its cost
    limit fails the attempt of its pod, regardless of its result for other devices. So that many devices do
    not delay the scheduler, it is tried for a few of them only, and the same result is used for the others.
    """

    def __init__(self, features: Features, timer: Callable[[], float] = standing_still) -> None:
        self._enabled = features
        self._timer = timer
        self._unlimited = Budget(timer, None)
        self._compiled: OrderedDict[str, cel.Compiled | CompileError] = OrderedDict()
        self._computing: OrderedDict[str, cel.Compiled] = OrderedDict()
        self._costly: OrderedDict[str, _Costly] = OrderedDict()
        self._slow: OrderedDict[str, None] = OrderedDict()
        """Expressions that cost more than QUICK for some device."""
        self.evaluations = 0
        """Number of evaluations so far."""

    @cached_property
    def _features(self) -> "cel.CelFeatures":
        """Features that expressions may use. Clusters without devices never compile one, nor load the
        compiler."""
        return cel.features_of(
            self._enabled.choices,
            consumable_capacity=self._enabled.consumable_capacity,
            list_attributes=self._enabled.list_attributes,
        )

    def matches(self, expression: str, ref: DeviceRef) -> bool:
        """True if an expression selects a device. Raises CompileError, EvaluationError."""
        kept = ref.matches.get(expression)
        if kept is True or kept is False:
            return kept
        return run_at_once(self.match(expression, ref, self._unlimited))

    def match(self, expression: str, ref: DeviceRef, budget: Budget) -> Generator[Step, None, bool]:
        """The same in steps. Raises BudgetExceededError, too."""
        kept = ref.matches.get(expression)
        if kept is None:
            costly = self._costly.get(expression)
            if costly is not None and costly.times >= _MOST_COSTLY and self._timer() < costly.until:
                raise costly.error
            compiled = yield from self._compile(expression)
            if isinstance(compiled, CompileError):
                raise compiled
            found = yield from self._matched(compiled, expression, ref)
            kept = self._keep(expression, ref, found)
            budget.spend(found.cost or 1)
        if isinstance(kept, Exception):
            raise kept
        return kept

    def _matched(
        self, compiled: "cel.Compiled", expression: str, ref: DeviceRef
    ) -> "Generator[Step, None, cel.Match]":
        """The result of an evaluation: at once if it is quick, else in a separate step."""
        self.evaluations += 1
        seen = self._seen(ref)
        if expression not in self._slow:
            found = compiled.match(seen, QUICK, _QUICK_WORK)
            if found.error is None or not _is_cut(found.error):
                return found
            _note(self._slow, expression, None)
        done: list[cel.Match] = []
        try:
            yield lambda: done.append(compiled.match(seen))
        except GeneratorExit:
            # The search is begun again, because something has changed; this need not be computed again.
            if done:
                self._keep(expression, ref, done[0])
            raise
        return done[0]

    def _keep(self, expression: str, ref: DeviceRef, found: "cel.Match") -> bool | EvaluationError:
        kept = found.matched if found.error is None else self._failure(expression, found.error)
        if len(ref.matches) >= _MOST_KEPT:
            ref.matches.clear()
        ref.matches[expression] = kept
        return kept

    def _failure(self, expression: str, text: str) -> EvaluationError:
        error = EvaluationError(text)
        if _is_cut(text):
            before = self._costly.pop(expression, None)
            now = self._timer()
            times = 1 if before is None or before.until <= now else before.times + 1
            _note(self._costly, expression, _Costly(times, error, now + _PAUSE))
        return error

    def attribute(
        self, expression: str, ref: DeviceRef, budget: Budget
    ) -> "Generator[Step, None, DeviceAttribute | CompileError | EvaluationError]":
        """The attribute that an expression computes of a device, in steps. Raises BudgetExceededError."""
        compiled = self._computing.get(expression)
        if compiled is None:
            try:
                compiled = cel.compile_attribute(expression, self._features)
            except cel.SelectorError as cause:
                return CompileError(cause.message)
            _note(self._computing, expression, compiled)
        seen = self._seen(ref)
        found = _computed(compiled, seen, QUICK)
        if isinstance(found, EvaluationError) and _is_cut(str(found)):
            done: list[DeviceAttribute | EvaluationError] = []
            yield lambda: done.append(_computed(compiled, seen, cel.COST_LIMIT))
            found = done[0]
            budget.spend(QUICK)
        return found

    def _seen(self, ref: DeviceRef) -> "cel.CelDevice":
        """A device as expressions see it, made when the first asks for it."""
        if not isinstance(ref.seen, cel.CelDevice):
            data = msgspec.to_builtins(ref.device)
            ref.seen = cel.device_of(ref.id[0], data, list_attributes=self._features.list_attributes)
        return ref.seen

    def _compile(self, expression: str) -> "Generator[Step, None, cel.Compiled | CompileError]":
        found = self._compiled.get(expression)
        if found is not None:
            self._compiled.move_to_end(expression)
            return found
        features = self._features
        done: list[cel.Compiled | CompileError] = []
        if len(expression) <= _SHORT:
            done.append(_compiled(expression, features))
        else:
            yield lambda: done.append(_compiled(expression, features))
        _note(self._compiled, expression, done[0])
        return done[0]


def _compiled(expression: str, features: "cel.CelFeatures") -> "cel.Compiled | CompileError":
    try:
        return cel.compile_selector(expression, features)
    except cel.SelectorError as cause:
        return CompileError(cause.message)


def _computed(
    compiled: "cel.Compiled", seen: "cel.CelDevice", limit: int
) -> "DeviceAttribute | EvaluationError":
    try:
        return msgspec.convert(compiled.attribute(seen, limit), DeviceAttribute)
    except cel.ComputeError as cause:
        return EvaluationError(str(cause))


def _is_cut(error: str) -> bool:
    """True if an evaluation was ended because it took too much."""
    return error.startswith((program.LIMIT_EXCEEDED, program.INTERRUPTED))


def _note(kept: OrderedDict[str, Any], expression: str, about: Any) -> None:
    """Keep something of an expression, and of others only the latest."""
    kept[expression] = about
    if len(kept) > _MOST_COMPILED:
        kept.popitem(last=False)
