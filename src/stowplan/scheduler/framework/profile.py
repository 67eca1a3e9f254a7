"""Profiles: the plugins of each extension point, their order and weight.

A configuration gives them per extension point, and for all points at once (`multiPoint`). This module merges
the two. It knows plugins by name only and is given the points each implements, so out-of-tree plugins take
part like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.status import ProfileError

ALL_PLUGINS = "*"
"""Disabling this name disables everything that was not enabled on the spot."""

_MAX_TOTAL = 2**63 - 1
_MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plugin and its weight; the weight counts at score points only, where 0 stands for 1."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSelection:
    """Configuration of one extension point."""

    enabled: tuple[PluginUse, ...] = ()
    disabled: frozenset[str] = frozenset()


_NOTHING_SAID = PluginSelection()


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """A resolved profile, ready to be built.

    `percentage_of_nodes_to_score` is None where nothing is configured. `plugins` has an entry for every
    point, in running order; weights are final. `args` holds the arguments of the plugins in use that have
    any: typed for in-tree plugins, as written (plain data) for others.

    `old_names` has the priorities that score plugins stand for, in a profile made of predicates and
    priorities. With `all_reasons` every reason against a node is reported, not only that of the first filter.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None
    plugins: Mapping[ExtensionPoint, tuple[PluginUse, ...]] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    old_names: Mapping[str, str] = field(default_factory=dict)
    all_reasons: bool = False

    def names(self, point: ExtensionPoint) -> tuple[str, ...]:
        """The plugins that run at a point, in order."""
        return tuple(use.name for use in self.plugins.get(point, ()))


def resolve_plugins(
    scheduler_name: str,
    points: Mapping[ExtensionPoint, PluginSelection],
    multi_point: Sequence[PluginUse],
    implements: Mapping[str, frozenset[ExtensionPoint]],
) -> dict[ExtensionPoint, tuple[PluginUse, ...]]:
    """The plugins of a profile per extension point, in running order, with their final weights.

    `implements` names every plugin that exists and the points it implements. Raises ProfileError.
    """
    for point in ExtensionPoint:
        _check_enabled(point, points.get(point, _NOTHING_SAID).enabled, implements)
    resolved = {
        point: _resolve_point(point, points.get(point, _NOTHING_SAID), multi_point, implements)
        for point in ExtensionPoint
    }
    _check_counts(scheduler_name, resolved)
    for point in (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE):
        weights = _weights(point, [*points.get(point, _NOTHING_SAID).enabled, *multi_point], implements)
        resolved[point] = tuple(PluginUse(use.name, weights[use.name]) for use in resolved[point])
    return resolved


def _check_enabled(
    point: ExtensionPoint, enabled: Iterable[PluginUse], implements: Mapping[str, frozenset[ExtensionPoint]]
) -> None:
    """Plugins enabled at a point must exist, implement it, and stand there once."""
    seen: set[str] = set()
    for use in enabled:
        if point not in _points_of(use.name, point, implements):
            raise ProfileError(f"plugin {quote(use.name)} does not extend {point.type_name} plugin")
        if use.name in seen:
            raise _registered_twice(use.name, point)
        seen.add(use.name)


def _resolve_point(
    point: ExtensionPoint,
    selection: PluginSelection,
    multi_point: Sequence[PluginUse],
    implements: Mapping[str, frozenset[ExtensionPoint]],
) -> tuple[PluginUse, ...]:
    """The plugins of one point: those enabled here that `multiPoint` has too, then the rest of `multiPoint`,
    then the rest of those enabled here."""
    if ALL_PLUGINS in selection.disabled:
        return selection.enabled
    here = {use.name for use in selection.enabled}
    overriding: set[str] = set()
    expanded: dict[str, PluginUse] = {}
    for use in multi_point:
        if point not in _points_of(use.name, point, implements) or use.name in selection.disabled:
            continue
        if use.name in here:
            overriding.add(use.name)
        elif use.name in expanded:
            raise _registered_twice(use.name, point)
        else:
            expanded[use.name] = use
    first = tuple(use for use in selection.enabled if use.name in overriding)
    last = tuple(use for use in selection.enabled if use.name not in overriding)
    return (*first, *expanded.values(), *last)


def _points_of(
    name: str, point: ExtensionPoint, implements: Mapping[str, frozenset[ExtensionPoint]]
) -> frozenset[ExtensionPoint]:
    if name not in implements:
        hint = f"pass --plugin file.py:{name} if it is one of your own"
        raise ProfileError(f"{point.type_name} {quote(name)} does not exist", hint)
    return implements[name]


def _registered_twice(name: str, point: ExtensionPoint) -> ProfileError:
    return ProfileError(f"plugin {quote(name)} already registered as {quote(point.type_name)}")


def _check_counts(scheduler_name: str, resolved: Mapping[ExtensionPoint, Sequence[PluginUse]]) -> None:
    profile = f"profile with scheduler name {quote(scheduler_name)}"
    sorters = len(resolved[ExtensionPoint.QUEUE_SORT])
    if sorters != 1:
        raise ProfileError(f"only one queue sort plugin required for {profile}, but got {sorters}")
    if not resolved[ExtensionPoint.BIND]:
        raise ProfileError(f"at least one bind plugin is needed for {profile}")
    if len(resolved[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
        raise ProfileError(f"at most one placement generate plugin is allowed for {profile}")


def _weights(
    point: ExtensionPoint, uses: Iterable[PluginUse], implements: Mapping[str, frozenset[ExtensionPoint]]
) -> dict[str, int]:
    """The weight of each plugin of a score point: its first mention counts.

    The sum of the highest possible scores has to fit a 64-bit integer. The check wraps around exactly as
    64-bit arithmetic does, which is why a negative weight is reported as an overflow too.
    """
    weights: dict[str, int] = {}
    total = 0
    for use in uses:
        if point not in implements[use.name] or use.name in weights:
            continue
        weight = use.weight or 1
        if weight * _MAX_SCORE > _wrapped(_MAX_TOTAL - total):
            kind = "score plugins" if point is ExtensionPoint.SCORE else "placement score plugins"
            raise ProfileError(f"{kind}: total score of Score plugins could overflow")
        total += weight * _MAX_SCORE
        weights[use.name] = weight
    return weights


def _wrapped(value: int) -> int:
    """A number as a 64-bit integer holds it."""
    return (value + 2**63) % 2**64 - 2**63
