"""Hooks about plugins: number and duration of their calls.

These are the part of an instrument (scheduler/cycle/instrument.py) that the framework calls. All of them are
on the path of every pod. So each is resolved once to a function or counter, and that is called instead.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Hook = Callable[..., Any] | None
"""Callable of a hook point; None if no instrument implements it."""


def hook_of(prototype: type, name: str, instruments: Sequence[object]) -> Hook:
    """The hook `name` of instruments that have it: the method, one after the other if there are several.

    A method that is inherited from the prototype does not count.
    """
    found = hooks_of(prototype, name, instruments)
    return found[0] if len(found) == 1 else _one_by_one(found) if found else None


def hooks_of(prototype: type, name: str, instruments: Sequence[object]) -> list[Callable[..., Any]]:
    """The hook `name` of each instrument that has it."""
    inherited = getattr(prototype, name)
    methods = [getattr(one, name) for one in instruments if isinstance(one, prototype)]
    return [one for one in methods if getattr(one, "__func__", one) is not inherited]


def _one_by_one(hooks: Sequence[Callable[..., Any]]) -> Callable[..., bool]:
    """Calls every hook; true if one of them says so."""
    called = tuple(hooks)
    if len(called) == 2:
        # The usual number, as metrics and decisions follow every pod, and worth its own function.
        first, second = called

        def call_both(*args: Any) -> bool:
            answer = first(*args) is True
            return second(*args) is True or answer

        return call_both

    def call(*args: Any) -> bool:
        answer = False
        for hook in called:
            if hook(*args) is True:
                answer = True
        return answer

    return call


def _never() -> bool:
    return False


def _ignore(*_: object) -> None:
    """Nobody wants to know."""


class CallCounter(Protocol):
    """Counts how often a bundle of plugins was called; `times` is to be added to."""

    times: int


class PluginInstrument:
    """Hooks about plugins. Leave out what you do not need: only methods you override are called."""

    def evaluation_begins(self) -> bool:
        """A pod is about to be evaluated. Returns whether every single plugin is to be timed for it."""
        return False

    def plugin_called(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was called at an extension point, for a pod where every single one is timed."""

    def point_timer(self, profile: str, point: str, status: str) -> Callable[[float], None] | None:
        """The function that takes the seconds of an extension point. Asked once for each.

        Point and status are named as in metrics: `PreFilter`, `Success`.
        """

    def call_counter(self, profile: str, point: str, plugins: tuple[str, ...]) -> CallCounter | None:
        """Where to count how often these plugins are called at a point. Only one instrument can count.

        At Filter and Score every node is a call.
        """


class Probe:
    """The hooks about the plugins of one profile, resolved. `timer` gives seconds that pass."""

    def __init__(self, instruments: Sequence[object], profile: str, timer: Callable[[], float]) -> None:
        self.timer = timer
        self.took = _PointTimers(hooks_of(PluginInstrument, "point_timer", instruments), profile)
        """The functions that take the seconds of extension points, by point and status."""
        self.begins = hook_of(PluginInstrument, "evaluation_begins", instruments) or _never
        self.plugin = hook_of(PluginInstrument, "plugin_called", instruments) or _ignore
        counters = hooks_of(PluginInstrument, "call_counter", instruments)
        if len(counters) > 1:
            raise ValueError("two instruments count the calls of plugins")
        self._counter = counters[0] if counters else None
        self._profile = profile

    def call_counter(self, point: str, plugins: tuple[str, ...]) -> CallCounter:
        """Where to count how often these plugins are called at a point."""
        made = None if self._counter is None else self._counter(self._profile, point, plugins)
        return _Uncounted() if made is None else made


class _Uncounted:
    """A counter for calls that are not counted."""

    times = 0


class _PointTimers(dict[tuple[str, str], Callable[[float], None]]):
    """Functions that record the seconds of a profile's extension points, created on first use."""

    def __init__(self, makers: Sequence[Callable[..., Any]], profile: str) -> None:
        super().__init__()
        self._makers = makers
        self._profile = profile

    def __missing__(self, ended: tuple[str, str]) -> Callable[[float], None]:
        timers = [make(self._profile, *ended) for make in self._makers]
        wanted = [timer for timer in timers if timer is not None]
        made: Callable[..., Any] = wanted[0] if len(wanted) == 1 else _one_by_one(wanted)
        self[ended] = made
        return made
